"""What the generated contract classes share: encode, call or send, decode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from hydra_node.chain.abi import ContractAbi, load
from hydra_node.chain.codec import decode_values, encode_call
from hydra_node.chain.reverts import revert_data, reverted
from hydra_node.chain.rpc import Rpc, RpcError
from hydra_node.errors import HydraError

if TYPE_CHECKING:
    from hydra_node.chain.sender import Sender
    from hydra_node.chain.transactions import ContractCall, Receipt


class NoWallet(HydraError):
    """A transaction was asked of a client that only reads."""


class NotAContract(HydraError):
    """The address answers nothing: no contract lives there on this chain."""


class Contract:
    """A deployed contract. Subclasses, one a contract, are generated: see `hydra_node.chain.generate`."""

    NAME: ClassVar[str]

    def __init__(self, rpc: Rpc, address: str, sender: Sender | None = None) -> None:
        self.address = address
        self._rpc = rpc
        self._sender = sender

    def __repr__(self) -> str:
        return f"{self.NAME}({self.address})"

    @property
    def abi(self) -> ContractAbi:
        return load(self.NAME)

    def call(self, function: str, *args: Any, gas: int | None = None) -> ContractCall:
        """A call by the function's name or signature, for `Sender.simulate` and `Sender.submit`."""
        from hydra_node.chain.transactions import ContractCall

        found = self.abi.function(function)
        return ContractCall(f"{self.NAME}.{found.name}", self.address, encode_call(found, args), gas=gas)

    def _view(self, signature: str, *args: Any, at: int | None = None) -> Any:
        function = self.abi.function(signature)
        title = f"{self.NAME}.{function.name}"
        fields = {"to": self.address, "data": f"0x{encode_call(function, args).hex()}"}
        if self._sender is not None:
            fields["from"] = self._sender.address
        try:
            answer = self._rpc.request("eth_call", fields, "latest" if at is None else hex(at))
        except RpcError as error:
            data = revert_data(error)
            if data is None:
                raise
            raise reverted(title, data, error.message) from None
        raw = bytes.fromhex(str(answer)[2:])
        if not raw and function.outputs:
            raise NotAContract(
                f"there is no {self.NAME} at {self.address}",
                remedy="check that the deployment file belongs to this chain",
            )
        values = decode_values(function.outputs, raw, title)
        return values[0] if len(values) == 1 else tuple(values)

    def _send(self, signature: str, *args: Any, key: str | None, timeout: float) -> Receipt:
        if self._sender is None:
            raise NoWallet(f"{self.NAME}.{signature.partition('(')[0]} needs a wallet", remedy="name one with --wallet")
        # Numbers begin anew in every deployment, and accounts are used in several.
        whole = None if key is None else f"{self.address}/{key}"
        return self._sender.send(self.call(signature, *args), key=whole, timeout=timeout)
