"""What can go wrong in a swarm, by name."""

from hydra_node.errors import HydraError


class CollectiveError(HydraError):
    """The base of the errors of a swarm."""


class MalformedMessage(CollectiveError):
    """A peer sent bytes that are no message of this protocol."""


class BadRecord(CollectiveError):
    """A record does not follow from the ones before it."""


class BadCertificate(CollectiveError):
    """A certificate does not prove that a majority of the view voted for the record."""


class BadContribution(CollectiveError):
    """The workload returned something that cannot be contributed."""


class Ejected(CollectiveError):
    """This peer is banned from the job, so the others go on without it."""


class SwarmUnreachable(CollectiveError):
    """The swarm could not be formed or joined in the time given."""
