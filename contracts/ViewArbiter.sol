// SPDX-License-Identifier: MIT
pragma solidity 0.8.28;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {ERC20Burnable} from "@openzeppelin/contracts/token/ERC20/extensions/ERC20Burnable.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {SignatureChecker} from "@openzeppelin/contracts/utils/cryptography/SignatureChecker.sol";
import {ExactTransfer} from "./base/ExactTransfer.sol";
import {IJobEscrow, Kind, State} from "./interfaces/IJobEscrow.sol";
import {ITrainingRegistry} from "./interfaces/ITrainingRegistry.sol";
import {IViewArbiter} from "./interfaces/IViewArbiter.sol";

// slither-disable-start timestamp,calls-loop,incorrect-equality
// Windows are minutes to days long: the seconds that a block producer may choose change nothing.
// Every loop has a bound, and calls only contracts of this system.
// What is compared with zero is whether something is there, never a balance.

/// @title The last word on who goes on with a training job
/// @notice Nobody owns this contract; its only money is the bonds of takeovers that wait. Every statement is signed for one
/// job, epoch and view on this chain and contract, so that no signature counts twice or elsewhere.
contract ViewArbiter is IViewArbiter, EIP712 {
    using SafeERC20 for IERC20;

    /// @notice Members of one view. Bounds every loop over members.
    uint256 public constant MAX_MEMBERS = 256;

    bytes32 private constant VIEW_TYPEHASH =
        keccak256("View(uint256 jobId,uint64 epoch,uint64 number,address[] members)");
    bytes32 private constant TAKEOVER_TYPEHASH =
        keccak256("Takeover(uint256 jobId,uint64 epoch,uint64 number,uint256 cancelled,address[] members)");
    bytes32 private constant OBJECTION_TYPEHASH =
        keccak256("Objection(uint256 jobId,uint64 epoch,uint64 number,uint256 cancelled,bytes32 membersHash)");

    /// @notice HYDRA, in which bonds are put down.
    ERC20Burnable public immutable token;
    /// @notice Says which jobs run.
    IJobEscrow public immutable escrow;
    /// @notice Says who joined, and who is banned.
    ITrainingRegistry public immutable training;
    /// @notice What a takeover puts down, wei.
    uint256 public immutable bond;
    /// @notice How long a takeover waits, seconds. Half of it must exceed the chain's finality and the members' clock skew:
    /// a member goes on only if it has read, within that half, that nobody has taken over.
    uint40 public immutable takeoverSeconds;

    mapping(uint256 => View) private _views;
    mapping(uint256 => Takeover) private _takeovers;
    /// @inheritdoc IViewArbiter
    mapping(uint256 => uint256) public cancelled;

    /// @param bond_ wei.
    /// @param takeoverSeconds_ seconds.
    constructor(
        ERC20Burnable token_,
        IJobEscrow escrow_,
        ITrainingRegistry training_,
        uint256 bond_,
        uint40 takeoverSeconds_
    ) EIP712("Hydra views", "1") {
        (token, escrow, training) = (token_, escrow_, training_);
        (bond, takeoverSeconds) = (bond_, takeoverSeconds_);
    }

    /// @inheritdoc IViewArbiter
    function recordView(
        uint256 jobId,
        uint64 number,
        address[] calldata members,
        address[] calldata current,
        bytes[] calldata signatures
    ) external {
        View memory recorded = _enter(jobId);
        if (members.length == 0 || members.length > MAX_MEMBERS) revert BadSize(members.length, MAX_MEMBERS);
        if (number <= recorded.number) revert OldView(jobId, number, recorded.number);
        _views[jobId] = View(recorded.epoch, number, keccak256(abi.encodePacked(members)));
        bytes32 statement = _viewStatement(jobId);
        _requireMajority(_membersOf(jobId, recorded, current), signatures, statement);
        emit ViewRecorded(jobId, recorded.epoch, number, members);
        if (_takeovers[jobId].effectiveAt != 0) _cancel(jobId);
    }

    /// @inheritdoc IViewArbiter
    function proposeTakeover(
        uint256 jobId,
        address[] calldata current,
        uint16[] calldata going,
        bytes[] calldata signatures
    ) external {
        View memory recorded = _enter(jobId);
        if (going.length == 0 || going.length > MAX_MEMBERS) revert BadSize(going.length, MAX_MEMBERS);
        address[] memory members = _pick(jobId, _membersOf(jobId, recorded, current), going);
        bytes32 hash = _requireAll(jobId, members, signatures);
        uint40 effectiveAt = uint40(block.timestamp) + takeoverSeconds;
        emit TakeoverProposed(jobId, recorded.epoch, recorded.number, msg.sender, members, effectiveAt);
        _replace(jobId, Takeover(msg.sender, effectiveAt, uint16(going.length), hash));
    }

    /// @inheritdoc IViewArbiter
    function cancelTakeover(uint256 jobId, address[] calldata current, bytes[] calldata signatures) external {
        _completeIfDue(jobId);
        bytes32 hash = _takeovers[jobId].membersHash;
        if (hash == 0) revert NoTakeover(jobId);
        View memory recorded = _views[jobId];
        bytes32 statement = _statementAbout(OBJECTION_TYPEHASH, jobId, hash);
        _requireMajority(_membersOf(jobId, recorded, current), signatures, statement);
        _cancel(jobId);
    }

    /// @inheritdoc IViewArbiter
    function completeTakeover(uint256 jobId) external {
        uint40 effectiveAt = _takeovers[jobId].effectiveAt;
        if (effectiveAt == 0) revert NoTakeover(jobId);
        if (block.timestamp < effectiveAt) revert TakeoverWaits(jobId, effectiveAt);
        _completeIfDue(jobId);
    }

    /// @inheritdoc IViewArbiter
    function newestView(uint256 jobId) external view returns (View memory) {
        return _due(jobId) ? _after(jobId) : _views[jobId];
    }

    /// @inheritdoc IViewArbiter
    function takeover(uint256 jobId) external view returns (Takeover memory) {
        return _takeovers[jobId];
    }

    /// @dev What is due is written down first: nobody cancels or replaces what has taken effect.
    function _enter(uint256 jobId) private returns (View memory) {
        IJobEscrow.Job memory job = escrow.job(jobId);
        if (job.kind != Kind.Training || job.state != State.Collecting) revert NotRunning(jobId);
        _completeIfDue(jobId);
        return _views[jobId];
    }

    function _replace(uint256 jobId, Takeover memory next) private {
        Takeover memory earlier = _takeovers[jobId];
        if (next.size <= earlier.size) revert TakeoverPending(jobId, earlier.size, earlier.effectiveAt);
        _takeovers[jobId] = next;
        ExactTransfer.pull(token, next.proposer, bond);
        if (earlier.size == 0) return;
        emit TakeoverReplaced(jobId, earlier.proposer);
        IERC20(token).safeTransfer(earlier.proposer, bond);
    }

    function _completeIfDue(uint256 jobId) private {
        if (!_due(jobId)) return;
        View memory next = _after(jobId);
        address proposer = _takeovers[jobId].proposer;
        _views[jobId] = next;
        delete _takeovers[jobId];
        emit TakeoverCompleted(jobId, next.epoch, next.number, next.membersHash);
        IERC20(token).safeTransfer(proposer, bond);
    }

    /// @dev Burned: nobody earns by having somebody's takeover cancelled.
    function _cancel(uint256 jobId) private {
        cancelled[jobId] += 1;
        emit TakeoverCancelled(jobId, _takeovers[jobId].proposer);
        delete _takeovers[jobId];
        token.burn(bond);
    }

    function _due(uint256 jobId) private view returns (bool) {
        uint40 effectiveAt = _takeovers[jobId].effectiveAt;
        return effectiveAt != 0 && block.timestamp >= effectiveAt;
    }

    /// @dev The view that the takeover makes. Its epoch is what voids later views that the chain never saw.
    function _after(uint256 jobId) private view returns (View memory) {
        View storage recorded = _views[jobId];
        return View(recorded.epoch + 1, recorded.number + 1, _takeovers[jobId].membersHash);
    }

    function _membersOf(uint256 jobId, View memory recorded, address[] calldata current)
        private
        view
        returns (address[] memory)
    {
        if (recorded.membersHash == 0) return training.trainers(jobId);
        bytes32 given = keccak256(abi.encodePacked(current));
        if (given != recorded.membersHash) revert WrongMembers(jobId, given, recorded.membersHash);
        return current;
    }

    function _viewStatement(uint256 jobId) private view returns (bytes32) {
        View memory next = _views[jobId];
        return keccak256(abi.encode(VIEW_TYPEHASH, jobId, next.epoch, next.number, next.membersHash));
    }

    /// @dev Names how many takeovers were cancelled, so that what a majority objected to cannot be sent again.
    function _statementAbout(bytes32 kind, uint256 jobId, bytes32 membersHash) private view returns (bytes32) {
        View memory recorded = _views[jobId];
        return keccak256(abi.encode(kind, jobId, recorded.epoch, recorded.number, cancelled[jobId], membersHash));
    }

    function _pick(uint256 jobId, address[] memory from, uint16[] calldata places)
        private
        view
        returns (address[] memory picked)
    {
        picked = new address[](places.length);
        for (uint256 i = 0; i < places.length; ++i) {
            uint16 place = places[i];
            if (place >= from.length || (i != 0 && place <= places[i - 1])) revert BadPlaces(place);
            picked[i] = from[place];
            if (training.isBanned(jobId, picked[i])) revert Banned(jobId, picked[i]);
        }
    }

    function _requireMajority(address[] memory members, bytes[] calldata signatures, bytes32 statement) private view {
        uint256 signed = _count(members, signatures, statement);
        if (signed * 2 <= members.length) revert NoMajority(signed, members.length);
    }

    function _requireAll(uint256 jobId, address[] memory members, bytes[] calldata signatures)
        private
        view
        returns (bytes32 hash)
    {
        hash = keccak256(abi.encodePacked(members));
        uint256 signed = _count(members, signatures, _statementAbout(TAKEOVER_TYPEHASH, jobId, hash));
        if (signed != members.length) revert NotUnanimous(signed, members.length);
    }

    function _count(address[] memory members, bytes[] calldata signatures, bytes32 statement)
        private
        view
        returns (uint256 signed)
    {
        if (signatures.length != members.length) revert WrongSignatureCount(signatures.length, members.length);
        bytes32 digest = _hashTypedDataV4(statement);
        for (uint256 i = 0; i < members.length; ++i) {
            if (signatures[i].length == 0) continue;
            if (!SignatureChecker.isValidSignatureNow(members[i], digest, signatures[i])) revert BadSignature(members[i]);
            ++signed;
        }
    }
}
// slither-disable-end timestamp,calls-loop,incorrect-equality
