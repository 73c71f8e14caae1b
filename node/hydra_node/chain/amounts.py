"""Amounts of the token, between what people write and the integers that the chain counts.

An amount is an `int` of wei everywhere in Hydra; 10^18 wei are 1 HYDRA. No floating point is involved.
"""

from __future__ import annotations

import re

from hydra_node.errors import HydraError

DECIMALS = 18
WEI_PER_HYDRA = 10**DECIMALS
MAX_AMOUNT = 2**256 - 1

_HYDRA = re.compile(r"([0-9]{1,78})(?:\.([0-9]{1,18}))?(?:\s*HYDRA)?", re.IGNORECASE | re.ASCII)
_WEI = re.compile(r"([0-9]{1,78})\s*wei", re.IGNORECASE | re.ASCII)


_GAS_PRICE = re.compile(r"([0-9]{1,18})(?:\.([0-9]{1,9}))?\s*gwei", re.IGNORECASE | re.ASCII)
WEI_PER_GWEI = 10**9


class BadGasPrice(HydraError):
    """A text that is no price of gas."""

    def __init__(self, text: str) -> None:
        super().__init__(f"{text[:80]!r} is not a price of gas", expected='a number such as "30 gwei", or "250 wei"')


class BadAmount(HydraError):
    """A text that is no amount of HYDRA."""

    def __init__(self, text: str) -> None:
        super().__init__(
            f"{text[:80]!r} is not an amount",
            expected='a number such as "1.5 HYDRA" with at most 18 decimals, or "250 wei"',
        )


def parse_hydra(text: str) -> int:
    """The wei meant by "1.5 HYDRA", "1.5" or "250 wei".

    Raises `BadAmount` for anything else: signs, exponents, separators, more than 18 decimals, more than
    a uint256 holds.
    """
    text = text.strip()
    if wei := _WEI.fullmatch(text):
        amount = int(wei[1])
    elif hydra := _HYDRA.fullmatch(text):
        amount = int(hydra[1]) * WEI_PER_HYDRA + int((hydra[2] or "").ljust(DECIMALS, "0"))
    else:
        raise BadAmount(text)
    if amount > MAX_AMOUNT:
        raise BadAmount(text)
    return amount


def parse_gas_price(text: str) -> int:
    """The wei per unit of gas meant by "30 gwei", "1.5 gwei" or "250 wei". Raises `BadGasPrice`."""
    text = text.strip()
    if wei := _WEI.fullmatch(text):
        return int(wei[1])
    if gwei := _GAS_PRICE.fullmatch(text):
        return int(gwei[1]) * WEI_PER_GWEI + int((gwei[2] or "").ljust(9, "0"))
    raise BadGasPrice(text)


def format_gas_price(wei: int) -> str:
    """ "1.5 gwei" for 1.5 x 10^9 wei per unit of gas; exact."""
    whole, fraction = divmod(wei, WEI_PER_GWEI)
    return f"{whole}{f'.{fraction:09d}'.rstrip('0').rstrip('.')} gwei"


def format_hydra(wei: int) -> str:
    """ "1.5 HYDRA" for 1.5 x 10^18 wei: exact, without trailing zeros; a negative difference keeps its sign."""
    return f"{_decimal(wei)} HYDRA"


def format_coin(wei: int) -> str:
    """ "0.98 ETH" for an amount of the chain's own coin, which pays for gas; exact."""
    return f"{_decimal(wei)} ETH"


def _decimal(wei: int) -> str:
    whole, fraction = divmod(abs(wei), WEI_PER_HYDRA)
    decimals = f".{fraction:0{DECIMALS}d}".rstrip("0").rstrip(".")
    return f"{'-' if wei < 0 else ''}{whole}{decimals}"
