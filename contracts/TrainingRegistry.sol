// SPDX-License-Identifier: MIT
pragma solidity 0.8.28;

import {ReentrancyGuard} from "@openzeppelin/contracts/utils/ReentrancyGuard.sol";
import {Cid} from "./base/Cid.sol";
import {Guarded} from "./base/Guarded.sol";
import {PausableEntry} from "./base/PausableEntry.sol";
import {IDisputable} from "./interfaces/IDisputable.sol";
import {IJobEscrow, Kind, State} from "./interfaces/IJobEscrow.sol";
import {IRewardsDistributor} from "./interfaces/IRewardsDistributor.sol";
import {IStakeManager, Role} from "./interfaces/IStakeManager.sol";
import {ITrainingRegistry, TrainingTerms} from "./interfaces/ITrainingRegistry.sol";

// slither-disable-start timestamp,calls-loop
// Windows are minutes to days long: the seconds that a block producer may choose change nothing.
// Every loop has a bound, and calls only contracts of this system.

/// @title Who trains, what was contributed, and what the validators attest
contract TrainingRegistry is ITrainingRegistry, IDisputable, PausableEntry, ReentrancyGuard {
    /// @notice Trainers of one job. Bounds `trainers`; the stake answers filling it.
    uint256 public constant MAX_TRAINERS = 256;

    /// @notice Cheats that one attestation may name. Bounds the loop that slashes them.
    uint256 public constant MAX_CHEATS = 32;

    /// @notice May reopen a round: the contract that decides disputes.
    bytes32 public constant DISPUTES_ROLE = keccak256("DISPUTES_ROLE");

    /// @notice Whose trainers join and are slashed, and whose validators attest.
    IStakeManager public immutable stakes;
    /// @notice Holds the jobs' money.
    IJobEscrow public immutable escrow;
    /// @notice Takes the roots that are attested.
    IRewardsDistributor public immutable distributor;

    /// @inheritdoc ITrainingRegistry
    mapping(address => bytes32) public peerOf;
    /// @inheritdoc ITrainingRegistry
    mapping(bytes32 => address) public walletOf;
    mapping(uint256 => TrainingTerms) private _terms;
    mapping(uint256 => address[]) private _trainers;
    /// @inheritdoc ITrainingRegistry
    mapping(uint256 => mapping(address => bytes32)) public trainerPeer;
    /// @inheritdoc ITrainingRegistry
    mapping(uint256 => mapping(address => bool)) public isBanned;
    mapping(uint256 => mapping(address => mapping(bytes32 => bool))) private _posted;
    /// @dev How far the settlement has come. `reopened` counts overturned rounds and is part of every outcome: attestations
    /// of an overturned one never count again.
    struct Progress {
        uint64 settled;
        uint64 reopened;
        bool closed;
    }

    mapping(uint256 => Progress) private _progress;
    /// @inheritdoc ITrainingRegistry
    mapping(uint256 => mapping(uint256 => mapping(address => bytes32))) public attestationOf;

    /// @param admin wires the contracts together and renounces.
    /// @param guardian may close and open the entry.
    constructor(
        IStakeManager stakes_,
        IJobEscrow escrow_,
        IRewardsDistributor distributor_,
        address admin,
        address guardian
    ) Guarded(admin, guardian) {
        stakes = stakes_;
        escrow = escrow_;
        distributor = distributor_;
    }

    /// @inheritdoc ITrainingRegistry
    /// @dev Never refused because somebody else claims the same key: a squatter, whose signature is false and ignored,
    /// cannot keep the key's owner out.
    function bindPeer(bytes32 peerKey, bytes calldata signature) external {
        if (peerKey == 0 || signature.length != 64) revert BadPeerBinding(peerKey, signature.length);
        peerOf[msg.sender] = peerKey;
        walletOf[peerKey] = msg.sender;
        emit PeerBound(msg.sender, peerKey, signature);
    }

    /// @inheritdoc ITrainingRegistry
    /// @dev The rates are fixed here and nowhere else: answers a sponsor that changes them after the work was done.
    function openTraining(uint256 jobId, TrainingTerms calldata terms_) external {
        IJobEscrow.Job memory job = escrow.job(jobId);
        if (job.sponsor != msg.sender) revert NotSponsor(jobId, msg.sender);
        if (job.kind != Kind.Training || job.state != State.Open) revert NotOpenTraining(jobId);
        if (terms_.steps == 0 || terms_.roundSteps == 0 || terms_.penalty > terms_.minStake) revert BadTerms();
        _terms[jobId] = terms_;
        emit TrainingOpened(jobId, terms_);
        escrow.advance(jobId, State.Collecting);
    }

    /// @inheritdoc ITrainingRegistry
    /// @dev The lock lasts until the exit time: answers leaving with the stake before the cheat is found.
    function join(uint256 jobId) external whenNotPaused {
        uint40 exitTime = _running(jobId);
        bytes32 peerKey = peerOf[msg.sender];
        if (peerKey == 0) revert NoPeerBound(msg.sender);
        if (trainerPeer[jobId][msg.sender] != 0) revert AlreadyJoined(jobId, msg.sender);
        uint256 active = stakes.stakeOf(Role.Trainer, msg.sender);
        uint256 minStake = _terms[jobId].minStake;
        if (active < minStake || active == 0) revert StakeTooSmall(msg.sender, active, minStake);
        if (_trainers[jobId].length >= MAX_TRAINERS) revert JobFull(jobId, MAX_TRAINERS);
        _trainers[jobId].push(msg.sender);
        trainerPeer[jobId][msg.sender] = peerKey;
        emit TrainerJoined(jobId, msg.sender, peerKey);
        stakes.lock(Role.Trainer, msg.sender, exitTime);
    }

    /// @inheritdoc ITrainingRegistry
    /// @dev A digest counts once for its trainer. Not once for all: whoever copied a pending one would shut its author
    /// out, while a copy earns nothing, since the segment names its author.
    function postRecord(uint256 jobId, uint32 firstStep, uint32 lastStep, bytes32 digest, string calldata cid)
        external
    {
        _running(jobId);
        if (trainerPeer[jobId][msg.sender] == 0 || isBanned[jobId][msg.sender]) revert NotTrainer(jobId, msg.sender);
        uint32 steps = _terms[jobId].steps;
        if (firstStep > lastStep || lastStep >= steps) revert BadSteps(firstStep, lastStep, steps);
        if (_posted[jobId][msg.sender][digest]) revert DuplicateRecord(jobId, msg.sender, digest);
        Cid.check(cid);
        _posted[jobId][msg.sender][digest] = true;
        emit RecordPosted(jobId, msg.sender, firstStep, lastStep, digest, cid);
    }

    /// @inheritdoc ITrainingRegistry
    function attest(
        uint256 jobId,
        uint256 round,
        bytes32 root,
        uint256 total,
        address[] calldata cheats,
        bool last,
        string calldata evidenceCid
    ) external nonReentrant {
        if (stakes.stakeOf(Role.Validator, msg.sender) == 0) revert NotValidator(msg.sender);
        Progress storage progress = _attestable(jobId);
        if (round != progress.settled) revert WrongRound(jobId, round, progress.settled);
        if (cheats.length > MAX_CHEATS) revert TooManyCheats(cheats.length, MAX_CHEATS);
        Cid.check(evidenceCid);
        bytes32 outcome = keccak256(abi.encode(jobId, round, progress.reopened, root, total, cheats, last));
        attestationOf[jobId][round][msg.sender] = outcome;
        emit Attested(jobId, round, msg.sender, outcome, evidenceCid);
        if (!_backed(jobId, round, outcome)) return;
        (progress.settled, progress.closed) = (uint64(round + 1), last);
        emit RoundSettled(jobId, round, root, total, last, evidenceCid);
        _settle(jobId, root, total, last);
        _ban(jobId, cheats);
    }

    /// @inheritdoc ITrainingRegistry
    // Of the root only the time matters here.
    // slither-disable-next-line unused-return
    function finish(uint256 jobId) external {
        if (!_progress[jobId].closed) revert NotClosed(jobId);
        (,, uint40 activeAt) = distributor.current(jobId);
        if (block.timestamp < activeAt) revert Disputable(jobId, activeAt);
        escrow.advance(jobId, State.Settled);
    }

    /// @inheritdoc IDisputable
    function judges(uint256) external pure returns (address[] memory) {
        return new address[](0);
    }

    /// @inheritdoc IDisputable
    /// @dev The round is attested anew, also when it was the last. Bans stay: two thirds of all stake named the cheats.
    function overturn(uint256 jobId, bool wrong) external onlyRole(DISPUTES_ROLE) {
        Progress storage progress = _progress[jobId];
        progress.settled -= 1;
        progress.reopened += 1;
        progress.closed = false;
        emit RoundReopened(jobId, progress.settled, wrong);
        escrow.release(jobId, distributor.revoke(jobId));
    }

    /// @inheritdoc ITrainingRegistry
    function trainers(uint256 jobId) external view returns (address[] memory) {
        return _trainers[jobId];
    }

    /// @inheritdoc ITrainingRegistry
    function terms(uint256 jobId) external view returns (TrainingTerms memory) {
        return _terms[jobId];
    }

    /// @inheritdoc ITrainingRegistry
    function settledRounds(uint256 jobId) external view returns (uint256) {
        return _progress[jobId].settled;
    }

    /// @dev Counts the stake that attesters have now, not what they had: stake that attested, left and came back under
    /// another name does not count twice. The list of operators is bounded.
    function _backed(uint256 jobId, uint256 round, bytes32 outcome) private view returns (bool) {
        address[] memory validators = stakes.operators(Role.Validator);
        uint256 backing = 0;
        for (uint256 i = 0; i < validators.length; ++i) {
            if (attestationOf[jobId][round][validators[i]] == outcome) {
                backing += stakes.stakeOf(Role.Validator, validators[i]);
            }
        }
        return backing * 3 >= stakes.totalStaked(Role.Validator) * 2;
    }

    /// @dev Reserves what the new root adds. So at the end reserved = total - paid, and the rest is the sponsor's.
    // Of the root only the total matters here.
    // slither-disable-next-line unused-return
    function _settle(uint256 jobId, bytes32 root, uint256 total, bool last) private {
        (, uint256 before,) = distributor.current(jobId);
        if (total > before) escrow.reserve(jobId, total - before);
        distributor.publish(jobId, root, total);
        if (last && escrow.job(jobId).state == State.Collecting) escrow.advance(jobId, State.Challenge);
    }

    /// @dev Passes over strangers and over those banned before, so that one wrong name never blocks a settlement.
    // Only contracts of this system are called, and none of them calls back.
    // slither-disable-next-line reentrancy-no-eth
    function _ban(uint256 jobId, address[] calldata cheats) private {
        uint256 penalty = _terms[jobId].penalty;
        for (uint256 i = 0; i < cheats.length; ++i) {
            address cheat = cheats[i];
            if (trainerPeer[jobId][cheat] == 0 || isBanned[jobId][cheat]) continue;
            isBanned[jobId][cheat] = true;
            emit TrainerBanned(jobId, cheat, stakes.slash(Role.Trainer, cheat, penalty));
        }
    }

    function _running(uint256 jobId) private view returns (uint40 exitTime) {
        if (_terms[jobId].steps == 0) revert NotRunning(jobId);
        IJobEscrow.Job memory job = escrow.job(jobId);
        if (job.state != State.Collecting) revert NotRunning(jobId);
        return job.exitTime;
    }

    /// @dev A last round that was overturned is attested anew in the state Challenge.
    function _attestable(uint256 jobId) private view returns (Progress storage progress) {
        progress = _progress[jobId];
        if (_terms[jobId].steps == 0 || progress.closed) revert NotRunning(jobId);
        State state = escrow.job(jobId).state;
        if (state != State.Collecting && state != State.Challenge) revert NotRunning(jobId);
    }
}
// slither-disable-end timestamp,calls-loop
