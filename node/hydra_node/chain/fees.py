"""What a transaction offers for its gas: EIP-1559 where blocks have a base fee, a gas price elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

from hydra_node.chain.rpc import Rpc, RpcError

DEFAULT_TIP = 10**9
_BUMP = (5, 4)  # nodes ask for a tenth more at least; a quarter more passes everywhere


@dataclass(frozen=True, slots=True)
class Fees:
    """Wei per unit of gas. `tip` is None on a chain without base fee, where `limit` is the gas price."""

    limit: int
    tip: int | None

    def fields(self) -> dict[str, int]:
        """As fields of a transaction."""
        if self.tip is None:
            return {"gasPrice": self.limit}
        return {"type": 2, "maxFeePerGas": self.limit, "maxPriorityFeePerGas": self.tip}

    def raised(self, market: Fees) -> Fees:
        """An offer that replaces this one: a quarter more, or the market's if that is higher."""
        times, over = _BUMP
        limit = max(self.limit * times // over + 1, market.limit)
        if self.tip is None or market.tip is None:
            return Fees(limit, self.tip)
        return Fees(limit, max(self.tip * times // over + 1, market.tip))

    def at_most(self, limit: int) -> Fees:
        """The same offer, no higher than `limit`."""
        return Fees(min(self.limit, limit), None if self.tip is None else min(self.tip, limit))


def market_fees(rpc: Rpc) -> Fees:
    """An offer that is taken at once even if the base fee doubles."""
    base = rpc.request("eth_getBlockByNumber", "latest", False).get("baseFeePerGas")
    if base is None:
        return Fees(limit=int(rpc.request("eth_gasPrice"), 16), tip=None)
    try:
        tip = int(rpc.request("eth_maxPriorityFeePerGas"), 16)
    except RpcError:
        tip = DEFAULT_TIP
    return Fees(limit=2 * int(base, 16) + tip, tip=tip)
