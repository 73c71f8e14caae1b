// SPDX-License-Identifier: MIT
pragma solidity 0.8.28;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {ReentrancyGuard} from "@openzeppelin/contracts/utils/ReentrancyGuard.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {Cid} from "./base/Cid.sol";
import {ExactTransfer} from "./base/ExactTransfer.sol";
import {Sortition} from "./base/Sortition.sol";
import {IDisputable} from "./interfaces/IDisputable.sol";
import {DisputeState, IDisputeManager} from "./interfaces/IDisputeManager.sol";
import {IJobEscrow, Kind} from "./interfaces/IJobEscrow.sol";
import {IRewardsDistributor} from "./interfaces/IRewardsDistributor.sol";
import {IStakeManager, Role} from "./interfaces/IStakeManager.sol";

// slither-disable-start timestamp,calls-loop
// Windows are minutes to days long: the seconds that a block producer may choose change nothing.
// Every loop has a bound, and calls only contracts of this system.

/// @title Disputes about published roots, decided by a jury of validators
/// @notice The jury holds none of those who decided before and is drawn by stake, twice as large; where there are not
/// enough others, it is all validators. Nobody owns this contract; its only money is the bonds of open disputes.
contract DisputeManager is IDisputeManager, ReentrancyGuard {
    using SafeCast for uint256;
    using SafeERC20 for IERC20;

    /// @notice A silent juror loses its stake divided by this.
    uint256 public constant SILENCE_DIVISOR = 10;

    /// @notice HYDRA, in which bonds are put down.
    IERC20 public immutable token;
    /// @notice Whose stakes judge, and are slashed for silence.
    IStakeManager public immutable stakes;
    /// @notice Says whether a job is a campaign or training.
    IJobEscrow public immutable escrow;
    /// @notice Holds the roots that are disputed.
    IRewardsDistributor public immutable rewards;
    /// @notice Where campaigns' results come from.
    IDisputable public immutable quality;
    /// @notice Where training results come from.
    IDisputable public immutable training;
    /// @notice What a challenge costs its loser, and a defence, wei.
    uint256 public immutable bond;
    /// @notice Length of the time to answer, and of each vote, seconds.
    uint40 public immutable windowSeconds;

    /// @dev The stake at the drawing, wei, and whether the juror has voted.
    struct Juror {
        uint96 weight;
        bool voted;
    }

    /// @notice Number of the newest dispute; numbers start at one.
    uint256 public disputeCount;
    mapping(uint256 => Dispute) private _disputes;
    mapping(uint256 => address[]) private _juries;
    /// @dev By dispute and whether the jury is everyone: votes of a jury that gave way do not count in the next.
    mapping(uint256 => mapping(bool => mapping(address => Juror))) private _jurors;

    /// @param bond_ wei.
    /// @param windowSeconds_ seconds.
    constructor(
        IERC20 token_,
        IStakeManager stakes_,
        IJobEscrow escrow_,
        IRewardsDistributor rewards_,
        IDisputable quality_,
        IDisputable training_,
        uint256 bond_,
        uint40 windowSeconds_
    ) {
        (token, stakes, escrow, rewards) = (token_, stakes_, escrow_, rewards_);
        (quality, training) = (quality_, training_);
        (bond, windowSeconds) = (bond_, windowSeconds_);
    }

    /// @inheritdoc IDisputeManager
    function challenge(uint256 jobId, bytes32 root, string calldata evidenceCid)
        external
        nonReentrant
        returns (uint256 disputeId)
    {
        Cid.check(evidenceCid);
        disputeId = ++disputeCount;
        uint40 answerEnd = uint40(block.timestamp) + windowSeconds;
        Dispute storage d = _disputes[disputeId];
        (d.jobId, d.root, d.challenger) = (jobId, root, msg.sender);
        (d.state, d.answerEnd) = (DisputeState.Drawing, answerEnd);
        emit Challenged(disputeId, jobId, msg.sender, root, evidenceCid, bond, answerEnd);
        rewards.suspend(jobId, root);
        // Long enough for an answer and two votes: whoever is found wrong still has its stake here.
        _lock(_source(jobId).judges(jobId), answerEnd + 3 * windowSeconds);
        ExactTransfer.pull(token, msg.sender, bond);
    }

    /// @inheritdoc IDisputeManager
    /// @dev Only before a jury is known: nobody bets on votes that were cast already.
    function defend(uint256 disputeId, string calldata evidenceCid) external nonReentrant {
        Dispute storage d = _in(disputeId, DisputeState.Drawing);
        if (d.defender != address(0)) revert AlreadyDefended(disputeId, d.defender);
        if (block.timestamp >= d.answerEnd) revert AnswersClosed(disputeId, d.answerEnd);
        Cid.check(evidenceCid);
        d.defender = msg.sender;
        emit Defended(disputeId, msg.sender, evidenceCid, bond);
        ExactTransfer.pull(token, msg.sender, bond);
    }

    /// @inheritdoc IDisputeManager
    /// @dev A drawing that nobody finished within 256 blocks is fixed to a later block, never drawn from a hash of zero.
    // Only contracts of this system are called, and none of them calls back.
    // slither-disable-next-line reentrancy-events
    function seat(uint256 disputeId) external returns (bool seated) {
        Dispute storage d = _in(disputeId, DisputeState.Drawing);
        if (d.defender == address(0) && block.timestamp < d.answerEnd) revert AnswersOpen(disputeId, d.answerEnd);
        if (d.anchor != 0 && block.number <= d.anchor) revert DrawPending(disputeId, d.anchor);
        bytes32 drawn = d.anchor == 0 ? bytes32(0) : blockhash(d.anchor);
        if (drawn == 0) {
            d.anchor = Sortition.fixBlock();
            emit DrawFixed(disputeId, d.anchor);
            return false;
        }
        (address[] memory jurors, uint256[] memory weights, uint256 count) = _draw(d, keccak256(abi.encode(drawn, disputeId)));
        d.state = DisputeState.Voting;
        d.voteEnd = uint40(block.timestamp) + windowSeconds;
        _seat(disputeId, d, jurors, weights, count);
        emit JurySeated(disputeId, _juries[disputeId], d.weight, d.everyone, d.voteEnd);
        return true;
    }

    /// @inheritdoc IDisputeManager
    function vote(uint256 disputeId, bool uphold) external {
        Dispute storage d = _in(disputeId, DisputeState.Voting);
        Juror storage juror = _jurors[disputeId][d.everyone][msg.sender];
        uint96 weight = juror.weight;
        if (weight == 0) revert NotJuror(disputeId, msg.sender);
        if (juror.voted) revert AlreadyVoted(disputeId, msg.sender);
        if (block.timestamp >= d.voteEnd) revert VotesClosed(disputeId, d.voteEnd);
        juror.voted = true;
        d.voted += 1;
        if (uphold) d.upholding += weight;
        else d.overturning += weight;
        emit Voted(disputeId, msg.sender, uphold, weight);
    }

    /// @inheritdoc IDisputeManager
    function resolve(uint256 disputeId) external nonReentrant {
        Dispute storage d = _in(disputeId, DisputeState.Voting);
        if (block.timestamp < d.voteEnd && d.voted < d.jurors) revert VotesOpen(disputeId, d.voteEnd);
        DisputeState verdict = _verdict(d);
        if (verdict == DisputeState.Undecided && !d.everyone) return _escalate(disputeId, d);
        d.state = verdict;
        emit Resolved(disputeId, d.jobId, verdict, d.upholding, d.overturning, d.weight);
        if (verdict == DisputeState.Upheld) rewards.resume(d.jobId);
        else _source(d.jobId).overturn(d.jobId, verdict == DisputeState.Overturned);
        if (verdict == DisputeState.Undecided) {
            _pay(disputeId, d.challenger, bond);
            if (d.defender != address(0)) _pay(disputeId, d.defender, bond);
        } else {
            _settle(disputeId, d, verdict);
        }
    }

    /// @inheritdoc IDisputeManager
    function dispute(uint256 disputeId) external view returns (Dispute memory) {
        return _disputes[disputeId];
    }

    /// @inheritdoc IDisputeManager
    function jury(uint256 disputeId) external view returns (address[] memory) {
        return _juries[disputeId];
    }

    /// @dev The jurors are the first `count` of the arrays. Two nested bounded loops: 64 validators, 16 judges.
    // As many are drawn as are asked for: so many others have stake.
    // slither-disable-next-line unused-return
    function _draw(Dispute storage d, bytes32 seed)
        private
        returns (address[] memory jurors, uint256[] memory weights, uint256 count)
    {
        jurors = stakes.operators(Role.Validator);
        weights = new uint256[](jurors.length);
        for (uint256 i = 0; i < jurors.length; ++i) {
            weights[i] = stakes.stakeOf(Role.Validator, jurors[i]);
        }
        if (d.everyone) return (jurors, weights, jurors.length);
        address[] memory judges = _source(d.jobId).judges(d.jobId);
        (uint256[] memory others, uint256 available) = _without(judges, jurors, weights);
        count = 2 * judges.length;
        if (count == 0 || available < count) {
            d.everyone = true;
            return (jurors, weights, jurors.length);
        }
        Sortition.draw(jurors, others, count, seed);
        weights = others;
    }

    /// @dev The weights with those of the judges set to zero, and how many others there are.
    function _without(address[] memory judges, address[] memory all, uint256[] memory weights)
        private
        pure
        returns (uint256[] memory others, uint256 available)
    {
        others = new uint256[](all.length);
        for (uint256 i = 0; i < all.length; ++i) {
            bool judged = false;
            for (uint256 k = 0; k < judges.length; ++k) {
                if (judges[k] == all[i]) judged = true;
            }
            if (judged) continue;
            others[i] = weights[i];
            ++available;
        }
    }

    /// @dev The lock outlasts the vote by a window, in which anyone can resolve and slash.
    // Only contracts of this system are called, and none of them calls back.
    // slither-disable-next-line reentrancy-no-eth
    function _seat(
        uint256 disputeId,
        Dispute storage d,
        address[] memory jurors,
        uint256[] memory weights,
        uint256 count
    ) private {
        uint256 sum = 0;
        for (uint256 i = 0; i < count; ++i) {
            _juries[disputeId].push(jurors[i]);
            _jurors[disputeId][d.everyone][jurors[i]].weight = weights[i].toUint96();
            sum += weights[i];
            stakes.lock(Role.Validator, jurors[i], d.voteEnd + windowSeconds);
        }
        (d.jurors, d.weight) = (uint8(count), sum.toUint96());
    }

    function _escalate(uint256 disputeId, Dispute storage d) private {
        (d.state, d.everyone) = (DisputeState.Drawing, true);
        // Nobody may answer any more, so whoever wants to may seat the next jury.
        (d.answerEnd, d.anchor, d.voted, d.upholding, d.overturning) = (uint40(block.timestamp), 0, 0, 0, 0);
        delete _juries[disputeId];
        emit Escalated(disputeId);
    }

    /// @dev The winner has its own bond back and half of the loser's; the jurors who voted share the rest, all of it when
    /// nobody answered for the root. What does not divide is the winner's, or else the last juror's.
    // What the division leaves is what `rest` is for; how much a slash burned is in its event.
    // slither-disable-next-line divide-before-multiply,unused-return
    function _settle(uint256 disputeId, Dispute storage d, DisputeState verdict) private {
        bool upheld = verdict == DisputeState.Upheld;
        address winner = upheld ? d.defender : d.challenger;
        bool bonded = upheld || d.defender != address(0);
        uint256 lost = bonded ? bond : 0;
        uint256 shared = winner == address(0) ? lost : lost / 2;
        uint256 share = shared / d.voted;
        uint256 rest = lost - share * d.voted;
        address[] memory jurors = _juries[disputeId];
        address last = address(0);
        for (uint256 i = 0; i < jurors.length; ++i) {
            Juror storage juror = _jurors[disputeId][d.everyone][jurors[i]];
            if (juror.voted) {
                last = jurors[i];
                _pay(disputeId, last, share);
            } else {
                stakes.slash(Role.Validator, jurors[i], juror.weight / SILENCE_DIVISOR);
            }
        }
        if (winner == address(0)) _pay(disputeId, last, rest);
        else _pay(disputeId, winner, bond + rest);
    }

    function _pay(uint256 disputeId, address to, uint256 amount) private {
        if (amount == 0) return;
        emit BondPaid(disputeId, to, amount);
        token.safeTransfer(to, amount);
    }

    function _lock(address[] memory people, uint40 until) private {
        for (uint256 i = 0; i < people.length; ++i) {
            stakes.lock(Role.Validator, people[i], until);
        }
    }

    function _source(uint256 jobId) private view returns (IDisputable) {
        return escrow.job(jobId).kind == Kind.Campaign ? quality : training;
    }

    function _in(uint256 disputeId, DisputeState state) private view returns (Dispute storage d) {
        d = _disputes[disputeId];
        if (d.state != state) revert WrongDisputeState(disputeId, d.state);
    }

    function _verdict(Dispute storage d) private view returns (DisputeState) {
        if (d.weight == 0) return DisputeState.Undecided;
        if (uint256(d.upholding) * 3 >= uint256(d.weight) * 2) return DisputeState.Upheld;
        if (uint256(d.overturning) * 3 >= uint256(d.weight) * 2) return DisputeState.Overturned;
        return DisputeState.Undecided;
    }
}
// slither-disable-end timestamp,calls-loop
