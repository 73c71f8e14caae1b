"""Peer addresses as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hydra_node.p2p.address import PeerAddress
from hydra_node.p2p.errors import BadAddress
from hydra_node.p2p.host import parse_listen
from hydra_node.p2p.identity import Identity

PEER = Identity.from_seed(bytes(32)).peer_id


@pytest.mark.parametrize("text", [f"/ip4/127.0.0.1/tcp/4001/p2p/{PEER}", f"/ip6/::1/tcp/65535/p2p/{PEER}"])
def test_text_round_trip(text: str) -> None:
    assert str(PeerAddress.parse(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "127.0.0.1:4001",
        f"/ip4/127.0.0.1/tcp/0/p2p/{PEER}",
        f"/ip4/127.0.0.1/tcp/65536/p2p/{PEER}",
        f"/ip4/127.0.0.1/tcp/-1/p2p/{PEER}",
        f"/ip4/127.0.0.1/tcp/٤٠/p2p/{PEER}",
        f"/ip4/::1/tcp/4001/p2p/{PEER}",
        f"/ip4/localhost/tcp/4001/p2p/{PEER}",
        f"/ip4/127.0.0.1/udp/4001/p2p/{PEER}",
        f"/ip4/127.0.0.1/tcp/4001/p2p/{PEER}/",
        "/ip4/127.0.0.1/tcp/4001/p2p/12D3KooWnobody",
        "/" * 10_000,
    ],
)
def test_what_is_no_address_is_refused_by_name(text: str) -> None:
    with pytest.raises(BadAddress, match="expected"):
        PeerAddress.parse(text)


@given(st.text(max_size=300))
def test_any_text_is_an_address_or_a_named_error(text: str) -> None:
    try:
        address = PeerAddress.parse(text)
    except BadAddress:
        return
    assert PeerAddress.parse(str(address)) == address


def test_listen() -> None:
    assert parse_listen("127.0.0.1:0") == ("127.0.0.1", 0)
    assert parse_listen("[::1]:4001") == ("::1", 4001)
    for text in ("4001", "localhost:4001", "127.0.0.1:", "127.0.0.1:99999", ":4001"):
        with pytest.raises(BadAddress):
            parse_listen(text)
