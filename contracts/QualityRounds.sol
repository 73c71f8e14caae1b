// SPDX-License-Identifier: MIT
pragma solidity 0.8.28;

import {ReentrancyGuard} from "@openzeppelin/contracts/utils/ReentrancyGuard.sol";
import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {Cid} from "./base/Cid.sol";
import {Wired} from "./base/Wired.sol";
import {IJobEscrow, State} from "./interfaces/IJobEscrow.sol";
import {IQualityRounds, RoundState} from "./interfaces/IQualityRounds.sol";
import {IRewardsDistributor} from "./interfaces/IRewardsDistributor.sol";
import {IStakeManager, Role} from "./interfaces/IStakeManager.sol";
import {CampaignTerms, ISubmissionRegistry} from "./interfaces/ISubmissionRegistry.sol";

/// @title Scoring rounds: each validator commits to one Merkle root of rewards, then reveals it
/// @notice A commitment is bound to its sender, so a validator that copies another's cannot reveal it and is slashed for
/// its silence. Weights are the stakes at opening; stake cannot leave before the round can be tallied.
contract QualityRounds is IQualityRounds, Wired, ReentrancyGuard {
    using SafeCast for uint256;

    /// @notice Members of one committee. Bounds every loop over members.
    uint256 public constant MAX_COMMITTEE = 32;

    /// @dev Stands in a member's ballot until it commits: marks the seat, and pays for the slot at opening.
    bytes32 private constant SEATED = bytes32(uint256(1));

    IStakeManager public immutable stakes;
    IJobEscrow public immutable escrow;
    ISubmissionRegistry public immutable registry;
    IRewardsDistributor public immutable distributor;

    /// @dev The first slot is all that a commit or reveal touches of the round. `state` is Commit until the round ends.
    struct Record {
        uint64 jobId;
        uint40 commitEnd;
        uint40 revealEnd;
        uint8 members;
        uint8 committed;
        uint8 revealed;
        RoundState state;
        uint128 reserved;
        uint128 total;
        bytes32 root;
    }

    /// @dev `content` is SEATED, then the commitment, then the root.
    struct Vote {
        bytes32 content;
        uint96 weight;
        uint96 total;
        bool revealed;
    }

    /// @dev The result with the most stake behind it, and the committee's whole stake.
    struct Leader {
        bytes32 root;
        uint256 total;
        uint256 backing;
        uint256 weight;
    }

    /// @notice Number of the newest round; numbers start at one.
    uint256 public roundCount;
    mapping(uint256 => uint256) public roundOf;
    mapping(uint256 => Record) private _rounds;
    mapping(uint256 => address[]) private _committees;
    mapping(uint256 => mapping(address => Vote)) private _votes;
    /// @dev Evidence of the first member that revealed a result, by round and hash of the result.
    mapping(uint256 => mapping(bytes32 => string)) private _evidence;

    constructor(
        IStakeManager stakes_,
        IJobEscrow escrow_,
        ISubmissionRegistry registry_,
        IRewardsDistributor distributor_,
        address admin
    ) Wired(admin) {
        stakes = stakes_;
        escrow = escrow_;
        registry = registry_;
        distributor = distributor_;
    }

    /// @inheritdoc IQualityRounds
    function openRound(uint256 jobId) external nonReentrant returns (uint256 roundId) {
        if (roundOf[jobId] != 0) revert AlreadyOpened(jobId, roundOf[jobId]);
        ISubmissionRegistry.Campaign memory campaign = registry.campaign(jobId);
        if (campaign.revealEnd == 0 || block.timestamp < campaign.revealEnd) {
            revert CampaignRunning(jobId, campaign.revealEnd);
        }
        if (registry.revealedCount(jobId) == 0) revert NothingRevealed(jobId);
        roundId = ++roundCount;
        roundOf[jobId] = roundId;
        Record storage record = _rounds[roundId];
        record.jobId = jobId.toUint64();
        record.state = RoundState.Commit;
        record.commitEnd = uint40(block.timestamp) + campaign.terms.scoreCommitSeconds;
        record.revealEnd = record.commitEnd + campaign.terms.scoreRevealSeconds;
        // The lock outlasts the reveals by a window, in which anyone can tally and slash.
        _seatCommittee(roundId, record, record.revealEnd + campaign.terms.scoreRevealSeconds);
        _reserve(jobId, record, campaign.terms.validatorFee);
        emit RoundOpened(
            roundId, jobId, _committees[roundId], record.commitEnd, record.revealEnd, record.reserved
        );
    }

    /// @inheritdoc IQualityRounds
    function commit(uint256 roundId, bytes32 commitment) external {
        Record storage record = _openRecord(roundId);
        if (uint256(commitment) <= 1) revert EmptyCommitment();
        Vote storage vote = _voteOf(roundId);
        if (vote.content != SEATED) revert AlreadyCommitted(roundId, msg.sender);
        if (block.timestamp >= record.commitEnd) revert CommitClosed(roundId, record.commitEnd);
        vote.content = commitment;
        record.committed += 1;
        emit Committed(roundId, msg.sender, commitment);
        if (record.committed == record.members) _closeCommits(roundId, record);
    }

    /// @inheritdoc IQualityRounds
    /// @dev Only once no further commitment can come: a revealed result can no longer be copied.
    function reveal(uint256 roundId, bytes32 root, uint256 total, string calldata evidenceCid, bytes32 salt) external {
        Record storage record = _openRecord(roundId);
        Vote storage vote = _voteOf(roundId);
        if (vote.revealed) revert AlreadyRevealed(roundId, msg.sender);
        if (!_commitsClosed(record) || block.timestamp >= record.revealEnd) {
            revert OutsideRevealWindow(roundId, record.commitEnd, record.revealEnd);
        }
        Cid.check(evidenceCid);
        bytes32 shown = commitmentOf(roundId, msg.sender, root, total, evidenceCid, salt);
        if (shown != vote.content) revert CommitmentMismatch(roundId, vote.content, shown);
        vote.content = root;
        vote.total = total.toUint96();
        vote.revealed = true;
        record.revealed += 1;
        bytes32 result = _resultHash(root, total);
        if (bytes(_evidence[roundId][result]).length == 0) _evidence[roundId][result] = evidenceCid;
        emit Revealed(roundId, msg.sender, root, total, evidenceCid);
    }

    /// @inheritdoc IQualityRounds
    /// @dev Silence is slashed whether the round passes or fails, so that holding back the last reveal never pays.
    function tally(uint256 roundId) external nonReentrant {
        Record storage record = _openRecord(roundId);
        if (block.timestamp < record.revealEnd && !(_commitsClosed(record) && record.revealed == record.committed)) {
            revert RevealsOpen(roundId, record.revealEnd);
        }
        Leader memory leader = _leader(roundId);
        CampaignTerms memory terms = registry.campaign(record.jobId).terms;
        uint256 fees = terms.validatorFee * record.members;
        bool passed = leader.backing != 0 && leader.backing * 3 >= leader.weight * 2
            && leader.total + fees <= record.reserved;
        record.state = passed ? RoundState.Tallied : RoundState.Failed;
        uint256 paid = _reckon(roundId, leader, terms, passed);
        if (passed) {
            _publish(roundId, leader, record.reserved - paid);
        } else {
            emit Failed(roundId, record.jobId);
            escrow.release(record.jobId, record.reserved);
            escrow.advance(record.jobId, State.Refunded);
        }
    }

    /// @inheritdoc IQualityRounds
    function commitmentOf(
        uint256 roundId,
        address validator,
        bytes32 root,
        uint256 total,
        string calldata evidenceCid,
        bytes32 salt
    ) public view returns (bytes32) {
        return keccak256(
            abi.encode(
                block.chainid, address(this), roundId, validator, root, total, keccak256(bytes(evidenceCid)), salt
            )
        );
    }

    /// @inheritdoc IQualityRounds
    function round(uint256 roundId) external view returns (Round memory) {
        Record storage record = _rounds[roundId];
        bool revealing = record.state == RoundState.Commit && _commitsClosed(record);
        return Round({
            jobId: record.jobId,
            state: revealing ? RoundState.Reveal : record.state,
            commitEnd: record.commitEnd,
            revealEnd: record.revealEnd,
            reserved: record.reserved,
            root: record.root,
            total: record.total
        });
    }

    /// @inheritdoc IQualityRounds
    function committee(uint256 roundId) external view returns (address[] memory) {
        return _committees[roundId];
    }

    /// @inheritdoc IQualityRounds
    function ballot(uint256 roundId, address validator) external view returns (Ballot memory) {
        Vote storage vote = _votes[roundId][validator];
        bool committed = !vote.revealed && vote.content != SEATED;
        return Ballot({
            commitment: committed ? vote.content : bytes32(0),
            root: vote.revealed ? vote.content : bytes32(0),
            total: vote.total,
            revealed: vote.revealed,
            weight: vote.weight
        });
    }

    /// @inheritdoc IQualityRounds
    function budget(uint256 roundId) external view returns (uint256) {
        Record storage record = _rounds[roundId];
        if (record.state == RoundState.None) return 0;
        return record.reserved - registry.campaign(record.jobId).terms.validatorFee * record.members;
    }

    /// @dev Locks every member's stake: answers unbonding before the slash.
    function _seatCommittee(uint256 roundId, Record storage record, uint40 lockUntil) private {
        address[] memory candidates = stakes.operators(Role.Validator);
        uint256 members = Math.min(candidates.length, MAX_COMMITTEE);
        if (members == 0) revert NoValidators();
        for (uint256 i = 0; i < members; ++i) {
            address member = candidates[i];
            _committees[roundId].push(member);
            Vote storage vote = _votes[roundId][member];
            vote.content = SEATED;
            vote.weight = stakes.stakeOf(Role.Validator, member).toUint96();
            stakes.lock(Role.Validator, member, lockUntil);
        }
        record.members = uint8(members);
    }

    function _reserve(uint256 jobId, Record storage record, uint256 fee) private {
        uint256 available = escrow.available(jobId);
        uint256 fees = fee * record.members;
        if (available <= fees) revert FeesNotCovered(jobId, available, fees);
        record.reserved = available.toUint128();
        escrow.advance(jobId, State.Scoring);
        escrow.reserve(jobId, available);
    }

    /// @dev Weighted majority vote after Boyer and Moore (1981): a result with more than half of the stake survives the
    /// first pass; the second counts what it really has. Two passes, no nested loop.
    function _leader(uint256 roundId) private view returns (Leader memory leader) {
        address[] memory members = _committees[roundId];
        uint256 lead = 0;
        for (uint256 i = 0; i < members.length; ++i) {
            Vote memory vote = _votes[roundId][members[i]];
            leader.weight += vote.weight;
            if (!vote.revealed) continue;
            if (vote.content == leader.root && vote.total == leader.total) {
                lead += vote.weight;
            } else if (lead > vote.weight) {
                lead -= vote.weight;
            } else {
                (leader.root, leader.total, lead) = (vote.content, vote.total, vote.weight - lead);
            }
        }
        for (uint256 i = 0; i < members.length; ++i) {
            Vote storage vote = _votes[roundId][members[i]];
            if (_backs(vote, leader)) leader.backing += vote.weight;
        }
    }

    /// @dev Pays those who backed the passed result, slashes those who were silent, or wrong when one passed. A penalty
    /// never takes more than half of what the member had at stake: a sponsor's terms cannot ruin a committee that had
    /// no say in them.
    function _reckon(uint256 roundId, Leader memory leader, CampaignTerms memory terms, bool passed)
        private
        returns (uint256 paid)
    {
        uint256 jobId = _rounds[roundId].jobId;
        address[] memory members = _committees[roundId];
        for (uint256 i = 0; i < members.length; ++i) {
            Vote storage vote = _votes[roundId][members[i]];
            if (passed && _backs(vote, leader)) {
                paid += terms.validatorFee;
                escrow.pay(jobId, members[i], terms.validatorFee);
            } else if (passed || !vote.revealed) {
                stakes.slash(Role.Validator, members[i], Math.min(terms.validatorPenalty, vote.weight / 2));
            }
        }
    }

    function _publish(uint256 roundId, Leader memory leader, uint256 remaining) private {
        Record storage record = _rounds[roundId];
        uint256 jobId = record.jobId;
        record.root = leader.root;
        record.total = uint128(leader.total);
        string memory evidence = _evidence[roundId][_resultHash(leader.root, leader.total)];
        emit Tallied(roundId, jobId, leader.root, leader.total, leader.backing, evidence);
        escrow.release(jobId, remaining - leader.total);
        distributor.publish(jobId, leader.root, leader.total);
        escrow.advance(jobId, State.Settled);
    }

    function _openRecord(uint256 roundId) private view returns (Record storage record) {
        record = _rounds[roundId];
        if (record.state != RoundState.Commit) revert RoundNotOpen(roundId);
    }

    /// @dev The reveal window keeps its length and begins now: nobody has to wait for a window that nobody needs. A silent
    ///      member gains nothing by it, since its own commitment is what closes the window.
    function _closeCommits(uint256 roundId, Record storage record) private {
        uint40 closed = uint40(block.timestamp);
        record.revealEnd -= record.commitEnd - closed;
        record.commitEnd = closed;
        emit CommitsClosed(roundId, closed, record.revealEnd);
    }

    function _voteOf(uint256 roundId) private view returns (Vote storage vote) {
        vote = _votes[roundId][msg.sender];
        if (vote.weight == 0) revert NotOnCommittee(roundId, msg.sender);
    }

    function _commitsClosed(Record storage record) private view returns (bool) {
        return record.committed == record.members || block.timestamp >= record.commitEnd;
    }

    function _backs(Vote storage vote, Leader memory leader) private view returns (bool) {
        return vote.revealed && vote.content == leader.root && vote.total == leader.total;
    }

    function _resultHash(bytes32 root, uint256 total) private pure returns (bytes32) {
        return keccak256(abi.encode(root, total));
    }
}
