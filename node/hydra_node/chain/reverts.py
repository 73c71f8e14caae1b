"""Why the chain refused a call: custom errors decoded to their names and arguments, with a sentence for people."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import IntEnum
from typing import Any

from hydra_node.chain.abi import ErrorAbi, Param, all_errors
from hydra_node.chain.amounts import format_hydra
from hydra_node.chain.codec import BadAnswer, decode_values
from hydra_node.chain.rpc import RpcError
from hydra_node.errors import HydraError

_STRING = Param("message", "string")
_CODE = Param("code", "uint256")
_ERROR_STRING = ErrorAbi("Error", bytes.fromhex("08c379a0"), (_STRING,))
_PANIC = ErrorAbi("Panic", bytes.fromhex("4e487b71"), (_CODE,))
_LAST_DATE = 253402300799  # the end of the year 9999
_PANICS = {
    0x01: "an assertion failed",
    0x11: "an amount overflows",
    0x12: "a division by zero",
    0x32: "an index is out of range",
}

_SENTENCES = {
    "ERC20InsufficientBalance": "{sender} has {balance:hydra} and {needed:hydra} are needed",
    "ERC20InsufficientAllowance": "{spender} may spend {allowance:hydra} and {needed:hydra} are needed: approve first",
    "ERC20InvalidReceiver": "{receiver} cannot receive tokens",
    "ERC20ExceededCap": "the supply cannot grow to {increasedSupply:hydra}, over its cap of {cap:hydra}",
    "ERC2612ExpiredSignature": "the permit expired at {deadline}",
    "ERC2612InvalidSigner": "the permit is signed by {signer}, not by {owner}",
    "AccessControlUnauthorizedAccount": "{account} may not do this",
    "AlreadyCommitted": "{validator} has committed already",
    "AlreadyRevealed": "{validator} has revealed already",
    "BadExitTime": "the exit time {exitTime:time} is not acceptable; the latest is {latest:time}",
    "BadItemCount": "a submission of {itemCount} items is not taken; the campaign allows {maxItems}",
    "BadSignature": "the signature is not {contributor}'s over these values and nonce {nonce}",
    "BelowMinimumStake": "{remaining:hydra} would be left, under the minimum of {minimum:hydra}: withdraw everything",
    "CampaignFull": "the campaign has its {limit} submissions",
    "CampaignRunning": "the campaign takes reveals until {revealEnd:time}",
    "CampaignPaused": "the guardian has closed the campaign to new submissions",
    "CommitClosed": "commitments were taken until {commitEnd:time}",
    "CommitmentMismatch": "the reveal is not what was committed",
    "Disputable": "the result can be disputed until {activeAt:time}",
    "EnforcedPause": "the guardian has closed the entry",
    "FeeTooHigh": "a relay of the campaign may cost {limit:hydra} now and {fee:hydra} are asked for",
    "FeesNotCovered": "the job has {available:hydra} left and a validator's fee is {fee:hydra}",
    "InsufficientAvailable": "the job has {available:hydra} left and {requested:hydra} are asked for",
    "InsufficientReserved": "the job has {reserved:hydra} reserved and {requested:hydra} are asked for",
    "InsufficientStake": "the active {role} stake is {active:hydra} and {requested:hydra} are asked for",
    "InvalidProof": "the proof does not lead to the published rewards",
    "JobFull": "the job has its {limit} trainers",
    "NoActiveRoot": "no rewards of the job can be claimed yet",
    "NoPeerBound": "{wallet} has bound no peer identity yet",
    "NoValidators": "nobody has a validator's stake",
    "NotCovered": "{owed:hydra} are owed and {reserved:hydra} are reserved",
    "NotDisputable": "only the newest root of a job can be disputed, once, before it is active",
    "NotJuror": "{caller} is not on the dispute's jury",
    "NotOnCommittee": "{caller} is not on the round's committee",
    "NotSponsor": "{caller} is not the job's sponsor",
    "NotTrainer": "{caller} has not joined the job",
    "NotValidator": "{caller} has no validator's stake",
    "NothingToClaim": "{account} has nothing to claim: {claimed:hydra} of {cumulative:hydra} are paid",
    "OutsideRevealWindow": "reveals are taken from {commitEnd:time} to {revealEnd:time}",
    "RevealsOpen": "reveals are taken until {revealEnd:time}",
    "RootDisputed": "the job's newest root is disputed",
    "SignatureExpired": "the signature counted until {deadline:time}",
    "StakeLocked": "the {role} stake is locked until {until:time}",
    "StakeTooSmall": "the stake of {trainer} is {active:hydra}; the job asks for {minStake:hydra}",
    "StillThawing": "the {role} stake can be withdrawn from {readyAt:time}",
}


class Reverted(HydraError):
    """A contract refused a call. `error_name` and `error_args` are its custom error's; `transaction` the hash of the
    mined transaction that failed, empty when the refusal came from the simulation and nothing was sent."""

    def __init__(
        self, call: str, error_name: str, error_args: Mapping[str, Any], sentence: str, *, transaction: str = ""
    ) -> None:
        self.call = call
        self.error_name = error_name
        self.error_args = dict(error_args)
        self.transaction = transaction
        self.sentence = sentence
        super().__init__(f"{call} was refused: {sentence}" + (f" (transaction {transaction})" if transaction else ""))


def reverted(call: str, data: bytes, message: str = "", *, transaction: str = "") -> Reverted:
    """The named error for revert data; `message` is the node's own text, used when the data says nothing."""
    error = {_ERROR_STRING.selector: _ERROR_STRING, _PANIC.selector: _PANIC}.get(data[:4]) or all_errors().get(data[:4])
    if error is None:
        name = f"0x{data[:4].hex()}" if data else ""
        reason = f"unknown error 0x{data.hex()[:200]}" if data else message or "no reason was given"
        return Reverted(call, name, {}, " ".join(reason.split())[:300], transaction=transaction)
    try:
        values = decode_values(error.params, data[4:], error.name)
    except BadAnswer:
        return Reverted(call, error.name, {}, f"{words(error.name)}, with unreadable details", transaction=transaction)
    names = [param.name or f"value{i}" for i, param in enumerate(error.params)]
    args = dict(zip(names, values, strict=True))
    return Reverted(call, error.name, args, sentence(error.name, args), transaction=transaction)


def sentence(name: str, args: Mapping[str, Any]) -> str:
    """What a custom error says, for people."""
    if name == "Error":
        return str(args["message"])[:300]
    if name == "Panic":
        return _PANICS.get(args["code"], f"the contract panicked (code {args['code']:#x})")
    try:
        return _SENTENCES[name].format_map({key: _Shown(value) for key, value in args.items()})
    except KeyError:
        # No sentence for the error, or one for other arguments: a later contract's, or two contracts' of one name.
        pass
    details = ", ".join(f"{words(key)} {_plain(value)}" for key, value in args.items())
    return f"{words(name)} ({details})" if details else words(name)


def words(name: str) -> str:
    """BondTooSmall -> bond too small."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|_", " ", name)
    return " ".join(word if word.isupper() and len(word) > 1 else word.lower() for word in spaced.split())


def revert_data(error: RpcError) -> bytes | None:
    """The revert data in a node's error, or None when the error is no revert.

    geth and Anvil put it into `data`, Ganache into `data` or `data.result`.
    """
    data = _find_hex(error.data)
    if data is not None:
        return data
    return b"" if error.code == 3 or "revert" in error.message.lower() else None


def _find_hex(data: Any) -> bytes | None:
    if isinstance(data, str) and re.fullmatch(r"0x([0-9a-fA-F]{2})*", data):
        return bytes.fromhex(data[2:])
    if isinstance(data, dict):
        for key in ("data", "result", "output", "return"):
            if (found := _find_hex(data.get(key))) is not None:
                return found
    return None


class _Shown:
    """A value inside a sentence; the formats `hydra` and `time` show wei as an amount and seconds as a date."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __format__(self, spec: str) -> str:
        if spec == "hydra":
            return format_hydra(self._value)
        return _date(self._value) if spec == "time" else _plain(self._value)


def _date(seconds: int) -> str:
    if seconds > _LAST_DATE:
        return f"second {seconds}"
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _plain(value: Any) -> str:
    if isinstance(value, IntEnum):
        return value.name.lower()
    return f"0x{value.hex()}" if isinstance(value, bytes) else str(value)
