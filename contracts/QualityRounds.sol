// SPDX-License-Identifier: MIT
pragma solidity 0.8.28;

import {ReentrancyGuard} from "@openzeppelin/contracts/utils/ReentrancyGuard.sol";
import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {Cid} from "./base/Cid.sol";
import {Sortition} from "./base/Sortition.sol";
import {Wired} from "./base/Wired.sol";
import {IDisputable} from "./interfaces/IDisputable.sol";
import {IJobEscrow, State} from "./interfaces/IJobEscrow.sol";
import {IQualityRounds, RoundState} from "./interfaces/IQualityRounds.sol";
import {IRewardsDistributor} from "./interfaces/IRewardsDistributor.sol";
import {IStakeManager, Role} from "./interfaces/IStakeManager.sol";
import {CampaignTerms, ISubmissionRegistry} from "./interfaces/ISubmissionRegistry.sol";

// slither-disable-start timestamp,calls-loop
// Windows are minutes to days long: the seconds that a block producer may choose change nothing.
// Every loop has a bound, and calls only contracts of this system.

/// @title Scoring rounds: each validator commits to one Merkle root of rewards, then reveals it
/// @notice A committee drawn by stake decides. A commitment is bound to its sender, so a validator that copies another's
/// cannot reveal it and is slashed for its silence. Weights are the stakes at the drawing; stake cannot leave before the
/// round can be tallied, nor a backer's before the result can no longer be disputed.
contract QualityRounds is IQualityRounds, IDisputable, Wired, ReentrancyGuard {
    using SafeCast for uint256;

    /// @notice Members of one committee. Bounds every loop over members.
    uint256 public constant MAX_COMMITTEE = 16;

    /// @notice May overturn a result: the contract that decides disputes.
    bytes32 public constant DISPUTES_ROLE = keccak256("DISPUTES_ROLE");

    /// @dev Stands in a member's ballot until it commits: marks the seat, and pays for the slot at opening.
    bytes32 private constant SEATED = bytes32(uint256(1));

    /// @notice Whose validators are drawn, paid and slashed.
    IStakeManager public immutable stakes;
    /// @notice Holds the campaigns' money.
    IJobEscrow public immutable escrow;
    /// @notice Holds the campaigns' terms and submissions.
    ISubmissionRegistry public immutable registry;
    /// @notice Takes the roots that pass.
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
        bool redrawn;
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

    /// @dev A drawing under way: `anchor` is the block whose hash draws, zero when there is none. `salts` is what earlier
    /// rounds' reveals had added up to when it was fixed.
    struct Draw {
        uint64 anchor;
        bytes32 salts;
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
    /// @inheritdoc IQualityRounds
    mapping(uint256 => uint256) public roundOf;
    mapping(uint256 => Record) private _rounds;
    mapping(uint256 => address[]) private _committees;
    mapping(uint256 => mapping(address => Vote)) private _votes;
    mapping(uint256 => Draw) private _draws;
    /// @dev Hash over the salts of all reveals: chosen by many, each before it could know what it would draw.
    bytes32 private _salts;

    /// @param admin wires the contracts together and renounces.
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
    /// @dev Only the last 256 blocks' hashes are known: a drawing that nobody finished in time is fixed to a later block,
    /// never drawn from a hash of zero, which anyone could compute beforehand.
    function openRound(uint256 jobId) external nonReentrant returns (uint256 roundId) {
        uint256 anchor = _draws[jobId].anchor;
        if (anchor == 0) {
            _admit(jobId);
            _fixDraw(jobId);
            return 0;
        }
        if (block.number <= anchor) revert DrawPending(jobId, anchor);
        bytes32 drawn = blockhash(anchor);
        if (drawn == 0) {
            _fixDraw(jobId);
            return 0;
        }
        return _open(jobId, keccak256(abi.encode(drawn, _draws[jobId].salts, jobId)));
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
        _salts = keccak256(abi.encode(_salts, salt));
        emit Revealed(roundId, msg.sender, root, total, evidenceCid);
    }

    /// @inheritdoc IQualityRounds
    /// @dev Silence is slashed whether the round passes or fails, so that holding back the last reveal never pays.
    // Only contracts of this system are called, and none of them calls back.
    // slither-disable-next-line reentrancy-no-eth,reentrancy-benign
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
        } else if (record.redrawn) {
            _giveUp(roundId);
        } else {
            emit Redrawing(roundId, record.jobId);
            _fixDraw(record.jobId);
        }
    }

    /// @inheritdoc IQualityRounds
    // Of the root only the time matters here.
    // slither-disable-next-line unused-return
    function finish(uint256 jobId) external {
        uint256 roundId = roundOf[jobId];
        if (_rounds[roundId].state != RoundState.Tallied) revert NotTallied(jobId, roundId);
        (,, uint40 activeAt) = distributor.current(jobId);
        if (block.timestamp < activeAt) revert Disputable(jobId, activeAt);
        escrow.advance(jobId, State.Settled);
    }

    /// @inheritdoc IDisputable
    function judges(uint256 jobId) external view returns (address[] memory) {
        return _committees[roundOf[jobId]];
    }

    /// @inheritdoc IDisputable
    /// @dev Those who backed a wrong result lose what a wrong vote costs; their stake was locked until it could be.
    function overturn(uint256 jobId, bool wrong) external onlyRole(DISPUTES_ROLE) {
        uint256 roundId = roundOf[jobId];
        Record storage record = _rounds[roundId];
        record.state = RoundState.Failed;
        emit Overturned(roundId, jobId, wrong);
        if (wrong) {
            Leader memory leader = Leader({root: record.root, total: record.total, backing: 0, weight: 0});
            uint256 penalty = registry.campaign(jobId).terms.validatorPenalty;
            address[] memory members = _committees[roundId];
            for (uint256 i = 0; i < members.length; ++i) {
                Vote storage vote = _votes[roundId][members[i]];
                if (_backs(vote, leader)) _penalise(members[i], penalty, vote.weight);
            }
        }
        escrow.release(jobId, distributor.revoke(jobId));
        escrow.advance(jobId, State.Refunded);
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

    function _admit(uint256 jobId) private view {
        if (roundOf[jobId] != 0) revert AlreadyOpened(jobId, roundOf[jobId]);
        uint40 revealEnd = registry.campaign(jobId).revealEnd;
        if (revealEnd == 0 || block.timestamp < revealEnd) revert CampaignRunning(jobId, revealEnd);
        if (registry.revealedCount(jobId) == 0) revert NothingRevealed(jobId);
        if (stakes.totalStaked(Role.Validator) == 0) revert NoValidators();
    }

    function _fixDraw(uint256 jobId) private {
        uint64 anchor = Sortition.fixBlock();
        _draws[jobId] = Draw({anchor: anchor, salts: _salts});
        emit DrawFixed(jobId, anchor);
    }

    // Only contracts of this system are called, and none of them calls back.
    // slither-disable-next-line reentrancy-no-eth
    function _open(uint256 jobId, bytes32 seed) private returns (uint256 roundId) {
        delete _draws[jobId];
        uint256 earlier = roundOf[jobId];
        if (earlier != 0 && stakes.totalStaked(Role.Validator) == 0) {
            _giveUp(earlier);
            return 0;
        }
        CampaignTerms memory terms = registry.campaign(jobId).terms;
        roundId = ++roundCount;
        roundOf[jobId] = roundId;
        Record storage record = _rounds[roundId];
        record.jobId = jobId.toUint64();
        record.state = RoundState.Commit;
        record.redrawn = earlier != 0;
        record.commitEnd = uint40(block.timestamp) + terms.scoreCommitSeconds;
        record.revealEnd = record.commitEnd + terms.scoreRevealSeconds;
        record.reserved = earlier == 0 ? _reserve(jobId) : _rounds[earlier].reserved;
        uint256 seats = _affordable(jobId, record.reserved, terms.validatorFee);
        // The lock outlasts the reveals by a window, in which anyone can tally and slash.
        _seatCommittee(roundId, record, seats, seed, record.revealEnd + terms.scoreRevealSeconds);
        emit RoundOpened(roundId, jobId, _committees[roundId], record.commitEnd, record.revealEnd, record.reserved);
    }

    function _reserve(uint256 jobId) private returns (uint128) {
        uint256 available = escrow.available(jobId);
        escrow.advance(jobId, State.Scoring);
        escrow.reserve(jobId, available);
        return available.toUint128();
    }

    /// @dev As many members as the money pays for, something being left over: a dearer committee would never open.
    function _affordable(uint256 jobId, uint256 money, uint256 fee) private pure returns (uint256 seats) {
        if (money <= fee) revert FeesNotCovered(jobId, money, fee);
        return fee == 0 ? MAX_COMMITTEE : Math.min(MAX_COMMITTEE, (money - 1) / fee);
    }

    /// @dev Locks every member's stake: answers unbonding before the slash.
    // Only contracts of this system are called, and none of them calls back.
    // slither-disable-next-line reentrancy-no-eth,reentrancy-benign
    function _seatCommittee(uint256 roundId, Record storage record, uint256 seats, bytes32 seed, uint40 lockUntil)
        private
    {
        address[] memory candidates = stakes.operators(Role.Validator);
        uint256[] memory weights = new uint256[](candidates.length);
        for (uint256 i = 0; i < weights.length; ++i) {
            weights[i] = stakes.stakeOf(Role.Validator, candidates[i]);
        }
        uint256 members = Sortition.draw(candidates, weights, seats, seed);
        for (uint256 i = 0; i < members; ++i) {
            _committees[roundId].push(candidates[i]);
            Vote storage vote = _votes[roundId][candidates[i]];
            vote.content = SEATED;
            vote.weight = weights[i].toUint96();
            stakes.lock(Role.Validator, candidates[i], lockUntil);
        }
        record.members = uint8(members);
    }

    function _giveUp(uint256 roundId) private {
        Record storage record = _rounds[roundId];
        emit Failed(roundId, record.jobId);
        escrow.release(record.jobId, record.reserved);
        escrow.advance(record.jobId, State.Refunded);
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

    /// @dev Pays those who backed the passed result, slashes those who were silent, or wrong when one passed. Silence costs
    /// what a wrong vote does, and also when nothing passed: holding a vote back is never the cheaper choice.
    function _reckon(uint256 roundId, Leader memory leader, CampaignTerms memory terms, bool passed)
        private
        returns (uint256 paid)
    {
        uint256 jobId = _rounds[roundId].jobId;
        uint40 disputable = uint40(block.timestamp) + distributor.activationSeconds();
        address[] memory members = _committees[roundId];
        for (uint256 i = 0; i < members.length; ++i) {
            Vote storage vote = _votes[roundId][members[i]];
            if (passed && _backs(vote, leader)) {
                paid += terms.validatorFee;
                stakes.lock(Role.Validator, members[i], disputable);
                escrow.pay(jobId, members[i], terms.validatorFee);
            } else if (passed || !vote.revealed) {
                _penalise(members[i], terms.validatorPenalty, vote.weight);
            }
        }
    }

    /// @dev Never more than half of what the member had at stake: a sponsor's terms cannot ruin a committee that had no say
    /// in them.
    // How much was burned is in the slash's event.
    // slither-disable-next-line unused-return
    function _penalise(address member, uint256 penalty, uint256 weight) private {
        stakes.slash(Role.Validator, member, Math.min(penalty, weight / 2));
    }

    function _publish(uint256 roundId, Leader memory leader, uint256 remaining) private {
        Record storage record = _rounds[roundId];
        uint256 jobId = record.jobId;
        record.root = leader.root;
        record.total = uint128(leader.total);
        emit Tallied(roundId, jobId, leader.root, leader.total, leader.backing);
        escrow.release(jobId, remaining - leader.total);
        distributor.publish(jobId, leader.root, leader.total);
        escrow.advance(jobId, State.Challenge);
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
}
// slither-disable-end timestamp,calls-loop
