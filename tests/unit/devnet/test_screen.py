"""What the live table says of an event."""

from __future__ import annotations

import pytest

from hydra_node.devnet.screen import sentence

SAID = [
    ({"event": "step", "step": 63, "loss": 0.41234, "share": 128}, "step 63, loss 0.412, share 128"),
    ({"event": "step", "step": 0, "loss": None, "share": 5}, "step 0, share 5"),
    ({"event": "job_settled", "job": 2, "state": "SETTLED"}, "job settled, job 2"),
    ({"event": "sent SIGKILL"}, "sent SIGKILL"),
    ({}, ""),
]


@pytest.mark.parametrize(("event", "words"), SAID)
def test_an_event_is_told_in_a_few_words(event: dict[str, object], words: str) -> None:
    assert sentence(event) == words
