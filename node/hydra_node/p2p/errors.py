"""What can go wrong between two peers, by name."""

from hydra_node.errors import HydraError


class PeerError(HydraError):
    """Something went wrong between this node and another peer."""


class BadPeerId(PeerError):
    """A text is not a peer id."""


class BadAddress(PeerError):
    """A text is not a peer address."""


class IdentityFileUnusable(PeerError):
    """The key file is damaged, of another kind, or readable by others."""


class FrameError(PeerError):
    """The other side broke the framing rules; its connection is closed."""


class UnsupportedVersion(FrameError):
    """The other side speaks another version of the protocol."""


class FrameTooLarge(FrameError):
    """A header or payload is larger than its bound."""


class MalformedFrame(FrameError):
    """Bytes that are no frame of this protocol."""


class FrameOutOfPlace(FrameError):
    """A well-formed frame that may not come here, such as data of a stream that was never opened."""


class TooManyStreams(FrameError):
    """The other side began more messages at once than agreed."""


class HandshakeFailed(PeerError):
    """A connection was closed before both sides knew each other."""


class WrongPeer(HandshakeFailed):
    """The peer that answered holds another key than the one expected."""


class NotAdmitted(HandshakeFailed):
    """The other side refuses this peer."""


class PeerUnreachable(PeerError):
    """No connection to the peer could be made."""


class PeerDisconnected(PeerError):
    """The connection closed while an answer was awaited."""


class RequestTimeout(PeerError):
    """The peer did not answer within the deadline."""


class RemoteError(PeerError):
    """The peer answered that it could not do what was asked; `name` is the error's name over there."""

    def __init__(self, peer: str, protocol: str, name: str, text: str) -> None:
        super().__init__(f"peer {peer} refused a {protocol} request with {name}: {text}")
        self.peer = peer
        self.protocol = protocol
        self.name = name
        self.text = text


class UnknownProtocol(PeerError):
    """No handler is registered for the protocol of a request."""


class PeerBusy(PeerError):
    """More requests of one peer are being handled than allowed."""


class DirectoryBusy(PeerError):
    """Another process runs a node from the same directory, and so with the same key."""


class PortUnavailable(PeerError):
    """The address cannot be bound."""


class BadRecord(PeerError):
    """A DHT record breaks a rule: size, key, lifetime or signature."""


class BlockUnavailable(PeerError):
    """No provider gave a block whose bytes match its CID before the deadline."""
