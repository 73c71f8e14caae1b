"""The part of a voter that safety rests on, alone so that it can be read at once."""

from dataclasses import dataclass

from hydra_node.collective import record as records
from hydra_node.collective.record import Record

NOTHING = -1


@dataclass(slots=True)
class Acceptor:
    """One member's promises and votes at one height (Lamport, "Paxos Made Simple", 2001).

    It never takes part in an attempt below `promised`, and in one attempt it votes for one record only. What it voted
    for last it tells every later proposer.
    """

    promised: int = NOTHING
    voted_attempt: int = NOTHING
    voted: Record | None = None

    def promise(self, attempt: int) -> bool:
        """Joins `attempt` and refuses all below from now on; False if it is itself below."""
        if attempt < self.promised:
            return False
        self.promised = attempt
        return True

    def vote(self, attempt: int, record: Record) -> bool:
        """Whether this member may vote for `record` in `attempt`; if so it now has."""
        if attempt < self.promised:
            return False
        if self.voted_attempt == attempt and self.voted is not None:
            return records.digest(self.voted) == records.digest(record)
        self.promised, self.voted_attempt, self.voted = attempt, attempt, record
        return True
