"""Campaign documents: what is read is what was named on chain, and nothing malformed gets through."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from hydra_node.campaigns.policy import MAX_POLICY_BYTES, BadPolicy, CampaignPolicy, ItemSchema
from hydra_node.campaigns.scored import BadScores, read_scores
from hydra_node.campaigns.sponsor import read_reference
from hydra_node.campaigns.submit import NotAcceptedHere, prepare
from hydra_node.storage import items
from hydra_node.storage.errors import UnreadableFile

POLICY = CampaignPolicy(
    title="digits",
    item_schema=ItemSchema(dtype="u1", shape=(2, 2), scale=16, classes=10),
    reference="bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy",
    licences=("CC0-1.0", "MIT"),
    consent="it is mine",
    max_items=5,
)


def test_equal_policies_have_equal_bytes_and_survive_the_store() -> None:
    again = CampaignPolicy.from_bytes(POLICY.to_bytes(), digest=POLICY.digest())
    assert again == POLICY
    assert again.to_bytes() == POLICY.to_bytes()


def test_a_policy_other_than_the_one_on_chain_is_refused() -> None:
    other = POLICY.model_copy(update={"max_items": 6})
    with pytest.raises(BadPolicy, match="hash on chain"):
        CampaignPolicy.from_bytes(other.to_bytes(), digest=POLICY.digest())


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"max_items": 0}, "max_items"),
        ({"licences": []}, "licences"),
        ({"title": ""}, "title"),
        ({"surprise": 1}, "surprise"),
        ({"item_schema": {"dtype": "f8", "shape": [2], "scale": 1, "classes": 2}}, "item_schema.dtype"),
    ],
)
def test_a_malformed_policy_names_the_field(change: dict[str, object], named: str) -> None:
    document = {**json.loads(POLICY.to_bytes()), **change}
    with pytest.raises(BadPolicy, match=named):
        CampaignPolicy.from_bytes(json.dumps(document).encode())


def test_a_giant_policy_is_not_parsed() -> None:
    with pytest.raises(BadPolicy, match="bytes"):
        CampaignPolicy.from_bytes(b" " * (MAX_POLICY_BYTES + 1))


def save(path: Path, count: int = 3, side: int = 2, label: int = 1) -> Path:
    np.savez(path, X=np.ones((count, side, side), np.uint8), y=np.full(count, label, np.int64))
    return path


def test_a_submission_commits_to_its_items_licence_and_consent(tmp_path: Path) -> None:
    prepared = prepare(POLICY, save(tmp_path / "d.npz"), "MIT")
    payload = items.unpack(prepared.payload)
    assert prepared.item_count == len(payload.items) == 3
    assert prepared.items_root == items.root([items.item_hash(item) for item in payload.items])
    assert prepared.licence_hash != prepare(POLICY, tmp_path / "d.npz", "CC0-1.0").licence_hash


def test_a_submission_that_the_campaign_does_not_take_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotAcceptedHere, match="under"):
        prepare(POLICY, save(tmp_path / "d.npz"), "proprietary")
    with pytest.raises(NotAcceptedHere, match="6 items"):
        prepare(POLICY, save(tmp_path / "many.npz", count=6), "MIT")
    with pytest.raises(UnreadableFile):
        prepare(POLICY, save(tmp_path / "large.npz", side=3), "MIT")
    with pytest.raises(UnreadableFile):
        prepare(POLICY, save(tmp_path / "label.npz", label=10), "MIT")
    with pytest.raises(UnreadableFile):
        prepare(POLICY, tmp_path / "absent.npz", "MIT")


def test_a_reference_is_packed_like_a_submission(tmp_path: Path) -> None:
    packed = read_reference(save(tmp_path / "r.npz", count=2), POLICY.item_schema)
    assert len(items.unpack(packed).items) == 2


ENTRY = {"id": 3, "contributor": "0x" + "ab" * 20, "fault": "", "buckets": b"\x00\x40\x01", "amount": "12"}


def test_a_report_tells_what_was_accepted() -> None:
    scores = read_scores({"rule": "r", "submissions": [ENTRY], "more": 1})
    assert scores.of(3).accepted == (1, 2)
    assert scores.of(3).amount == 12
    with pytest.raises(BadScores, match="submission 4"):
        scores.of(4)


@pytest.mark.parametrize("change", [{"amount": "-1"}, {"contributor": "me"}, {"buckets": 5}, {"id": None}])
def test_a_malformed_report_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(BadScores, match=next(iter(change))):
        read_scores({"rule": "r", "submissions": [{**ENTRY, **change}]})


@pytest.mark.parametrize("document", [None, [], {}, {"submissions": "x", "rule": "r"}, b"bytes"])
def test_what_is_no_report_is_refused(document: object) -> None:
    with pytest.raises(BadScores):
        read_scores(document)
