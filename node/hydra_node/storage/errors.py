"""What can go wrong with stored content, by name."""

from hydra_node.errors import HydraError


class StorageError(HydraError):
    """Base of every error of `hydra_node.storage`."""


class InvalidCid(StorageError):
    """A text or byte string is not a content identifier this system reads."""


class CorruptBlock(StorageError):
    """Bytes do not hash to the CID they were stored or sent under."""


class BlockNotFound(StorageError):
    """A block is not in this store."""


class MalformedNode(StorageError):
    """A block is intact but its contents break the rules of its codec or of UnixFS."""


class TooLarge(StorageError):
    """Content is larger than the caller allows."""


class QuotaExceeded(StorageError):
    """Writing would take the store past its quota."""


class StoreBusy(StorageError):
    """Another process held the store's lock for too long."""


class NotPinned(StorageError):
    """A pin that should be removed or shown does not exist."""


class StorageUnavailable(StorageError):
    """The storage node cannot be reached or did not answer in time."""


class ContentNotFound(StorageError):
    """The storage node could not find the content, in its store or among its peers."""


class UnreadableFile(StorageError):
    """A file the user named is missing, empty, corrupt or of an unknown kind."""


class MalformedSubmission(StorageError):
    """A submission payload breaks its format; `items` lists the offending items where that is known."""

    def __init__(self, what: str, *, expected: str = "", remedy: str = "", items: tuple[int, ...] = ()) -> None:
        super().__init__(what, expected=expected, remedy=remedy)
        self.items = items


class MalformedManifest(StorageError):
    """A dataset manifest breaks its format, or does not fit the payloads it names."""
