"""Where a peer listens, as multiaddr text: `/ip4/127.0.0.1/tcp/4001/p2p/12D3KooW...`.

The DHT listens on the UDP port of the same number.
"""

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Self

from hydra_node.p2p.errors import BadAddress, BadPeerId
from hydra_node.p2p.identity import PeerId, parse_peer_id

MAX_ADDRESS_TEXT = 256
_FORM = "/ip4/ADDRESS/tcp/PORT/p2p/PEER (or ip6)"


@dataclass(frozen=True, slots=True)
class PeerAddress:
    """A peer and one place where it can be dialled. `host` is an IP literal, `port` 1..65535."""

    host: str
    port: int
    peer_id: PeerId

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read multiaddr text; raises BadAddress."""
        if len(text) > MAX_ADDRESS_TEXT:
            raise BadAddress(f"an address of {len(text)} characters", expected=_FORM)
        parts = text.split("/")
        if len(parts) != 7 or parts[0] or parts[1] not in {"ip4", "ip6"} or parts[3::2] != ["tcp", "p2p"]:
            raise BadAddress(f"{text!r} is not a peer address", expected=_FORM)
        host = _parse_host(parts[1], parts[2])
        try:
            return cls(host, parse_port(parts[4]), parse_peer_id(parts[6]))
        except BadPeerId as error:
            raise BadAddress(f"{text!r} names no peer: {error.what}", expected=_FORM) from error

    def __str__(self) -> str:
        family = "ip6" if ":" in self.host else "ip4"
        return f"/{family}/{self.host}/tcp/{self.port}/p2p/{self.peer_id}"


def parse_port(text: str) -> int:
    """A port number as decimal text; raises BadAddress."""
    if not (text.isascii() and text.isdecimal() and len(text) <= 5 and 0 < int(text) < 65536):
        raise BadAddress(f"{text!r} is not a port", expected="a number from 1 to 65535")
    return int(text)


def _parse_host(family: str, text: str) -> str:
    kind = IPv4Address if family == "ip4" else IPv6Address
    try:
        host = ip_address(text)
    except ValueError as error:
        raise BadAddress(f"{text!r} is not an IP address", expected=f"an {family} literal") from error
    if not isinstance(host, kind):
        raise BadAddress(f"{text!r} is not of the family {family}", expected=f"an {family} literal")
    return str(host)
