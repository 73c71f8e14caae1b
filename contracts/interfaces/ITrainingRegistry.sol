// SPDX-License-Identifier: MIT
pragma solidity 0.8.28;

/// @notice The rules of a training job, fixed when it opens.
/// @param ratePerSample wei for a verified sample.
/// @param minStake wei of stake a trainer needs to join.
/// @param penalty wei cut from a cheat, at most `minStake`.
/// @param auditFee wei for each auditor and round, counted in the root.
/// @param steps optimiser steps of the job.
/// @param roundSteps steps between two settlements.
/// @param postSeconds after a round's first record, how long other records still count in that round.
struct TrainingTerms {
    uint256 ratePerSample;
    uint256 minStake;
    uint256 penalty;
    uint256 auditFee;
    uint32 steps;
    uint32 roundSteps;
    uint32 postSeconds;
}

/// @title Who trains, what was contributed, and what the validators attest
interface ITrainingRegistry {
    /// @dev The chain cannot check an Ed25519 signature at a sane price: whoever uses a binding checks `signature`
    /// over "hydra-peer:" chainId ":" registry ":" wallet (lower-case hex addresses) and ignores a false one.
    event PeerBound(address indexed wallet, bytes32 indexed peerKey, bytes signature);
    /// @notice The job takes trainers; its terms never change.
    event TrainingOpened(uint256 indexed jobId, TrainingTerms terms);
    /// @notice The trainer joined with the peer key that it had bound; later bindings change nothing here.
    event TrainerJoined(uint256 indexed jobId, address indexed trainer, bytes32 indexed peerKey);
    /// @notice A trainer's account of the steps from first to last, both included.
    event RecordPosted(
        uint256 indexed jobId,
        address indexed trainer,
        uint32 firstStep,
        uint32 lastStep,
        bytes32 digest,
        string cid
    );
    /// @notice A validator attests an outcome of a round; the evidence holds the leaves and the audits behind it.
    event Attested(
        uint256 indexed jobId,
        uint256 indexed round,
        address indexed validator,
        bytes32 outcome,
        string evidenceCid
    );
    /// @notice Two thirds of the validators' stake attest the same: rewards of `total` wei so far.
    event RoundSettled(
        uint256 indexed jobId, uint256 indexed round, bytes32 root, uint256 total, bool last, string evidenceCid
    );
    /// @notice A dispute took the round's result back, as wrong or because no jury agreed; it is attested anew.
    event RoundReopened(uint256 indexed jobId, uint256 indexed round, bool wrong);
    /// @notice The trainer cheated: it lost `slashed` wei of stake and takes no further part in the job.
    event TrainerBanned(uint256 indexed jobId, address indexed trainer, uint256 slashed);

    /// @notice A peer key of zero, or a signature that is not 64 bytes.
    error BadPeerBinding(bytes32 peerKey, uint256 signatureLength);
    /// @notice Only the job's sponsor may open it.
    error NotSponsor(uint256 jobId, address caller);
    /// @notice The job is no training job, or is not Open.
    error NotOpenTraining(uint256 jobId);
    /// @notice Zero steps or round steps, or a penalty above the stake.
    error BadTerms();
    /// @notice The job does not run: it was not opened, or has ended.
    error NotRunning(uint256 jobId);
    /// @notice The caller has bound no peer key.
    error NoPeerBound(address wallet);
    /// @notice A trainer joins a job once: its peer key there never changes.
    error AlreadyJoined(uint256 jobId, address trainer);
    /// @notice The job has as many trainers as it may.
    error JobFull(uint256 jobId, uint256 limit);
    /// @notice Less trainer stake than the job asks for.
    error StakeTooSmall(address trainer, uint256 active, uint256 minStake);
    /// @notice The caller has not joined, or was banned.
    error NotTrainer(uint256 jobId, address caller);
    /// @notice Steps must satisfy first <= last < steps.
    error BadSteps(uint32 firstStep, uint32 lastStep, uint32 steps);
    /// @notice The trainer has posted this digest before.
    error DuplicateRecord(uint256 jobId, address trainer, bytes32 digest);
    /// @notice The caller has no validator stake.
    error NotValidator(address caller);
    /// @notice Rounds settle in order; `expected` is next.
    error WrongRound(uint256 jobId, uint256 round, uint256 expected);
    /// @notice The last round is not settled.
    error NotClosed(uint256 jobId);
    /// @notice The last result can be disputed until `activeAt`, or is disputed (the largest time there is).
    error Disputable(uint256 jobId, uint40 activeAt);
    /// @notice More cheats than one attestation may name.
    error TooManyCheats(uint256 count, uint256 limit);

    /// @notice Say which Ed25519 peer key the calling wallet uses.
    function bindPeer(bytes32 peerKey, bytes calldata signature) external;

    /// @notice Fix the rules of the sponsor's own job and let trainers join.
    function openTraining(uint256 jobId, TrainingTerms calldata terms_) external;

    /// @notice Join a job with a bound peer and stake; the stake is locked until the job's exit time.
    function join(uint256 jobId) external;

    /// @notice Post the digest of a journal segment.
    /// @param cid where the segment is found, at most 96 bytes.
    function postRecord(uint256 jobId, uint32 firstStep, uint32 lastStep, bytes32 digest, string calldata cid) external;

    /// @notice Attest a round's result; a validator's later attestation replaces its earlier one. With 2/3 of the
    /// validators' stake behind it the round settles.
    /// @param root cumulative Merkle root of the rewards of all rounds so far.
    /// @param total its sum, wei.
    /// @param cheats trainers to slash and ban.
    /// @param last whether the job ends with this round.
    function attest(
        uint256 jobId,
        uint256 round,
        bytes32 root,
        uint256 total,
        address[] calldata cheats,
        bool last,
        string calldata evidenceCid
    ) external;

    /// @notice Settle a job whose last result can no longer be disputed, so that its rest can be refunded; anyone may.
    function finish(uint256 jobId) external;

    /// @notice The peer key that the wallet bound last; zero when none.
    function peerOf(address wallet) external view returns (bytes32 peerKey);

    /// @notice The wallet that claimed the key last: a hint, to be checked against the signature.
    function walletOf(bytes32 peerKey) external view returns (address wallet);

    /// @notice Trainers in order of joining, banned ones included.
    function trainers(uint256 jobId) external view returns (address[] memory);

    /// @notice The peer key a trainer had bound when it joined; zero when it did not.
    function trainerPeer(uint256 jobId, address trainer) external view returns (bytes32 peerKey);

    /// @notice Whether the trainer was found to cheat in the job.
    function isBanned(uint256 jobId, address trainer) external view returns (bool);

    /// @notice The job's terms; all zero for a job that was not opened for training.
    function terms(uint256 jobId) external view returns (TrainingTerms memory);

    /// @notice How many rounds have settled, which is also the number of the next one.
    function settledRounds(uint256 jobId) external view returns (uint256);

    /// @notice What the validator attests for a round; zero when nothing.
    function attestationOf(uint256 jobId, uint256 round, address validator) external view returns (bytes32 outcome);
}
