"""What the validators' published report says of each submission, as far as contributors and sponsors need it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hydra_node.errors import HydraError

MAX_SUBMISSIONS = 4096
MAX_ITEMS = 100_000


class BadScores(HydraError):
    """The document behind a scoring root is no scoring report."""


class ScoredSubmission(BaseModel):
    """One submission: a bucket 0..64 an item, 0 for a rejected one; its reward in wei; a fault of the whole."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: int = Field(ge=0)
    contributor: str = Field(pattern="^0x[0-9a-fA-F]{40}$")
    fault: str = Field(max_length=200)
    buckets: bytes = Field(max_length=MAX_ITEMS)
    amount: int = Field(ge=0)

    @property
    def accepted(self) -> tuple[int, ...]:
        """The indices of the accepted items, rising."""
        return tuple(index for index, bucket in enumerate(self.buckets) if bucket)


class Scores(BaseModel):
    """All submissions of a round; `rule` names the rule that accepted them."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    rule: str = Field(max_length=64)
    submissions: tuple[ScoredSubmission, ...] = Field(max_length=MAX_SUBMISSIONS)

    def of(self, submission: int) -> ScoredSubmission:
        """The entry of one submission. Raises BadScores when there is none."""
        for entry in self.submissions:
            if entry.id == submission:
                return entry
        raise BadScores(f"the scoring report does not speak of submission {submission}")


def read_scores(document: object) -> Scores:
    """Check a document's form. Raises BadScores."""
    try:
        return Scores.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "its start"
        raise BadScores(f"the scoring report is malformed at {where}: {first['msg']}") from None
