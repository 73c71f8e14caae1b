import pytest
from eth_hash.auto import keccak
from hypothesis import given
from hypothesis import strategies as st

from hydra_node.chain.merkle import BadLeaf, MerkleTree, hash_pair, leaf, verify

REWARDS = [
    (1, "0x1111111111111111111111111111111111111111", 1_500_000_000_000_000_000, 1),
    (1, "0x2222222222222222222222222222222222222222", 2, 2),
    (1, "0x3333333333333333333333333333333333333333", 2**128, 3),
    (7, "0xabcdefabcdefabcdefabcdefabcdefabcdefabcd", 0, 255),
    (1, "0x5555555555555555555555555555555555555555", 5, 5),
]

# Made by @openzeppelin/merkle-tree 1.0.8:
# StandardMerkleTree.of(rewards[:n], ["uint256", "address", "uint256", "bytes32"])
LEAVES = [
    "e4db64bbe01b8e66f3f1449385e0f8d4df967326abf151a23c1e1aaa7346a51d",
    "dbb3e861efbc623088e191b5766d8e61fc85aaae47b2cb242f22f5c9bb983a58",
    "9141ba35671b23775c61ee72858f6e3145b034f305ef33483ce056734db62ca7",
    "39ad91cde57ba54cf84ec659af78da7230e47787ed3f5b5002e91610061da373",
    "66cf78e92b0c14b79631ca583fada359b0281e1accec2dc7467bf54259b66542",
]
ROOTS = {
    1: "e4db64bbe01b8e66f3f1449385e0f8d4df967326abf151a23c1e1aaa7346a51d",
    2: "3e7f5faa264b8f58ecb3849efdc9aa7ad01bdfebdcdbceea18ebead0326cfbab",
    3: "4f96c62e8739616ce29d096a48ca256acef440471a22ed6f45eefaa28a57d35f",
    4: "ae7f0e05d29b00c4319b62881ce1a08b1dc87200afef9a5f72aac00756fa16c6",
    5: "2b58fa95d2d4520c4b620877703dfb535a0a85c249ec92ad231a8ff9d835f232",
}
PROOFS_OF_FIVE = [
    (
        "ad40af3f5b07538017a155dd13e8e19299147995086f38e5d7aec3a54cdb79b7",
        "6c5491bc1bde910a9aaa36719a3a05fcb537d535f055dfad14bd87f81dd14645",
    ),
    (
        "9141ba35671b23775c61ee72858f6e3145b034f305ef33483ce056734db62ca7",
        "48a860b26fb95a3e0dedb94a5c63bf6b9acd570a23a2325191d4cc9352aec925",
    ),
    (
        "dbb3e861efbc623088e191b5766d8e61fc85aaae47b2cb242f22f5c9bb983a58",
        "48a860b26fb95a3e0dedb94a5c63bf6b9acd570a23a2325191d4cc9352aec925",
    ),
    (
        "66cf78e92b0c14b79631ca583fada359b0281e1accec2dc7467bf54259b66542",
        "e4db64bbe01b8e66f3f1449385e0f8d4df967326abf151a23c1e1aaa7346a51d",
        "6c5491bc1bde910a9aaa36719a3a05fcb537d535f055dfad14bd87f81dd14645",
    ),
    (
        "39ad91cde57ba54cf84ec659af78da7230e47787ed3f5b5002e91610061da373",
        "e4db64bbe01b8e66f3f1449385e0f8d4df967326abf151a23c1e1aaa7346a51d",
        "6c5491bc1bde910a9aaa36719a3a05fcb537d535f055dfad14bd87f81dd14645",
    ),
]


def leaves(count: int = len(REWARDS)) -> list[bytes]:
    return [
        leaf(job, account, amount, evidence.to_bytes(32, "big")) for job, account, amount, evidence in REWARDS[:count]
    ]


def test_leaves_are_those_of_the_library_that_wallets_and_auditors_use() -> None:
    assert [each.hex() for each in leaves()] == LEAVES


@pytest.mark.parametrize("count", ROOTS)
def test_roots_are_those_of_that_library(count: int) -> None:
    assert MerkleTree(leaves(count)).root.hex() == ROOTS[count]


def test_proofs_are_those_of_that_library() -> None:
    tree = MerkleTree(leaves())
    assert [tuple(node.hex() for node in tree.proof(i)) for i in range(5)] == PROOFS_OF_FIVE


def test_a_tree_of_two_and_of_three_by_hand() -> None:
    a, b, c = sorted(leaves(3))
    assert MerkleTree([b, a]).root == keccak(a + b)
    pair = keccak(b + a) if b < a else keccak(a + b)
    assert MerkleTree([c, a, b]).root == hash_pair(pair, c)


hashes = st.lists(st.binary(min_size=32, max_size=32), min_size=1, max_size=40)


@given(hashes)
def test_every_leaf_has_a_proof(given_leaves: list[bytes]) -> None:
    tree = MerkleTree(given_leaves)
    assert all(verify(tree.root, each, tree.proof(i)) for i, each in enumerate(given_leaves))


@given(hashes, st.data())
def test_nothing_tampered_is_proven(given_leaves: list[bytes], data: st.DataObject) -> None:
    tree = MerkleTree(given_leaves)
    index = data.draw(st.integers(0, len(given_leaves) - 1))
    chain = [given_leaves[index], *tree.proof(index)]
    position = data.draw(st.integers(0, len(chain) - 1))
    byte, bit = data.draw(st.integers(0, 31)), data.draw(st.integers(0, 7))
    tampered = bytearray(chain[position])
    tampered[byte] ^= 1 << bit
    chain[position] = bytes(tampered)
    assert not verify(tree.root, chain[0], chain[1:])


@given(st.lists(st.binary(min_size=32, max_size=32), min_size=1, max_size=12, unique=True), st.randoms())
def test_the_root_does_not_depend_on_the_order_of_the_leaves(given_leaves: list[bytes], random) -> None:
    shuffled = random.sample(given_leaves, len(given_leaves))
    assert MerkleTree(given_leaves).root == MerkleTree(shuffled).root


def test_proofs_of_the_wrong_shape_are_false_not_errors() -> None:
    tree = MerkleTree(leaves())
    assert not verify(tree.root, leaves()[0], [b"short"])
    assert not verify(tree.root, b"short", [])
    assert not verify(tree.root, leaves()[0], [bytes(32)] * 65)


def test_what_solidity_could_not_hold_is_refused() -> None:
    good = "0x" + "11" * 20
    for job, account, amount, evidence in [
        (-1, good, 1, bytes(32)),
        (1, good, 2**256, bytes(32)),
        (1, "0x11", 1, bytes(32)),
        (1, "somebody", 1, bytes(32)),
        (1, good, 1, bytes(31)),
    ]:
        with pytest.raises(BadLeaf):
            leaf(job, account, amount, evidence)
    with pytest.raises(BadLeaf, match="at least one leaf"):
        MerkleTree([])
    with pytest.raises(BadLeaf, match="not a hash"):
        MerkleTree([b"short"])
