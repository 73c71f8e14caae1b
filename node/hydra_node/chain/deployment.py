"""Where the contracts of one chain live: a small JSON file that the deployment writes and everybody reads."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from hydra_node.chain.files import private_directory, write_private
from hydra_node.errors import HydraError

if TYPE_CHECKING:
    from hydra_node.chain.rpc import Rpc

MAX_FILE = 64 * 1024


class BadDeployment(HydraError):
    """The deployment file is missing, damaged, or does not fit the chain."""


def chain_name(rpc: Rpc) -> str:
    """The name of a chain in files: its id and the beginning of its genesis hash, new for one started anew."""
    genesis = str(rpc.request("eth_getBlockByNumber", "0x0", False)["hash"])[2:10]
    return f"{rpc.chain_id}-{genesis}"


def _checksummed(address: str) -> str:
    from eth_utils.address import to_checksum_address

    try:
        return to_checksum_address(address)
    except ValueError:
        raise ValueError(f"{address[:80]!r} is not an address") from None


Address = Annotated[str, AfterValidator(_checksummed)]


class Deployment(BaseModel):
    """The contracts of one chain. `block` is the first block of the deployment: no event is older."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    chain_id: int = Field(ge=1)
    block: int = Field(ge=0)
    addresses: dict[str, Address] = Field(min_length=1, max_length=64)

    @classmethod
    def load(cls, path: Path) -> Deployment:
        """Read a deployment file. Raises `BadDeployment`."""
        try:
            with path.open("rb") as file:
                raw = file.read(MAX_FILE)
        except OSError as error:
            raise BadDeployment(
                f"the deployment file {path} cannot be read ({error.strerror})", remedy="deploy first, or name the file"
            ) from None
        try:
            return cls.model_validate_json(raw)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"]) or "the file"
            raise BadDeployment(f"the deployment file {path} is damaged ({place}: {first['msg']})") from None

    def save(self, path: Path) -> None:
        """Write the file; a reader sees the old or the new content, whole."""
        private_directory(path.parent)
        write_private(path, (self.model_dump_json(indent=2) + "\n").encode())

    def address(self, name: str) -> str:
        """The address of a contract. Raises `BadDeployment` when it is not part of the deployment."""
        if name not in self.addresses:
            raise BadDeployment(f"the deployment has no contract {name!r}", expected=", ".join(sorted(self.addresses)))
        return self.addresses[name]

    @property
    def fingerprint(self) -> str:
        """Eight hex digits that tell this deployment from others of the chain."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:8]

    def check(self, rpc: Rpc) -> None:
        """That the endpoint serves this chain and every address holds code. Raises `WrongChain`, `BadDeployment`."""
        rpc.check_chain(self.chain_id)
        for name, address in self.addresses.items():
            if rpc.request("eth_getCode", address, "latest") in {None, "", "0x", "0x0"}:
                raise BadDeployment(
                    f"there is no {name} at {address} on chain {self.chain_id}",
                    remedy="the chain may have been started anew: deploy again",
                )
