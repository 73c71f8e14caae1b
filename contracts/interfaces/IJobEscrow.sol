// SPDX-License-Identifier: MIT
pragma solidity 0.8.28;

import {Permit} from "./Permit.sol";

/// @notice What a job pays for.
enum Kind {
    Campaign,
    Training
}

/// @notice Where a job stands. States only advance; Settled and Refunded are final.
enum State {
    None,
    Open,
    Collecting,
    Scoring,
    Challenge,
    Settled,
    Refunded
}

/// @title Money of campaigns and training jobs
/// @notice For every job, always: deposited = available + reserved + paid + refunded (wei of HYDRA).
interface IJobEscrow {
    /// @notice The books of a job, wei: what is neither reserved, paid nor refunded is available.
    /// @param exitTime from when its sponsor may have back what is available, seconds.
    /// @param specHash keccak-256 of what the job is about; the CID is in JobOpened alone.
    struct Job {
        address sponsor;
        Kind kind;
        State state;
        uint40 exitTime;
        bytes32 specHash;
        uint256 deposited;
        uint256 reserved;
        uint256 paid;
        uint256 refunded;
    }

    /// @dev The specification's CID lives in this event only; its hash is kept.
    event JobOpened(
        uint256 indexed jobId,
        Kind kind,
        address indexed sponsor,
        bytes32 specHash,
        string specCid,
        uint256 amount,
        uint40 exitTime
    );
    /// @notice `amount` wei were added to what is available.
    event ToppedUp(uint256 indexed jobId, address indexed from, uint256 amount);
    /// @notice `amount` wei are promised to those who work on the job.
    event Reserved(uint256 indexed jobId, uint256 amount);
    /// @notice `amount` wei are promised no more, and available.
    event Released(uint256 indexed jobId, uint256 amount);
    /// @notice `amount` wei of what was reserved were paid.
    event Paid(uint256 indexed jobId, address indexed to, uint256 amount);
    /// @notice `amount` wei of what was available went back to the sponsor.
    event Refunded(uint256 indexed jobId, address indexed sponsor, uint256 amount);
    /// @notice The job entered a later state.
    event StateChanged(uint256 indexed jobId, State state);

    /// @notice The amount is zero.
    error ZeroAmount();
    /// @notice No job has this number.
    error UnknownJob(uint256 jobId);
    /// @notice The exit time must lie within (now, `latest`].
    error BadExitTime(uint40 exitTime, uint256 latest);
    /// @notice The job has ended; it takes no more money.
    error JobEnded(uint256 jobId, State state);
    /// @notice The job has less available than the call needs.
    error InsufficientAvailable(uint256 jobId, uint256 available, uint256 requested);
    /// @notice The job has less reserved than the call needs.
    error InsufficientReserved(uint256 jobId, uint256 reserved, uint256 requested);
    /// @notice States only advance, and never from a final one.
    error IllegalTransition(uint256 jobId, State from, State to);
    /// @notice The job still runs and its exit time has not passed.
    error NotRefundable(uint256 jobId, State state, uint40 exitTime);
    /// @notice Nothing is available.
    error NothingToRefund(uint256 jobId);

    /// @notice Open a job and deposit `amount`; needs an allowance of the token.
    /// @param specHash hash of the job's specification.
    /// @param specCid where the specification is found, at most 96 bytes.
    /// @param exitTime from when on the sponsor's available money is free whatever happens.
    function open(Kind kind, bytes32 specHash, string calldata specCid, uint256 amount, uint40 exitTime)
        external
        returns (uint256 jobId);

    /// @notice Like `open`, with the allowance given by the caller's signature instead of a transaction before.
    function openWithPermit(
        Kind kind,
        bytes32 specHash,
        string calldata specCid,
        uint256 amount,
        uint40 exitTime,
        Permit calldata permit
    ) external returns (uint256 jobId);

    /// @notice Add money to a job; anyone may.
    function topUp(uint256 jobId, uint256 amount) external;

    /// @notice Set `amount` of the available money aside.
    function reserve(uint256 jobId, uint256 amount) external;

    /// @notice Make `amount` of the reserved money available again.
    function release(uint256 jobId, uint256 amount) external;

    /// @notice Move the job to a later state.
    function advance(uint256 jobId, State next) external;

    /// @notice Pay `amount` of the reserved money to `to`.
    function pay(uint256 jobId, address to, uint256 amount) external;

    /// @notice Return everything available to the sponsor once the job has ended or its exit time has passed; anyone may.
    /// @return amount wei returned.
    function refund(uint256 jobId) external returns (uint256 amount);

    /// @notice The job's books. Reverts with UnknownJob.
    function job(uint256 jobId) external view returns (Job memory);

    /// @notice deposited - reserved - paid - refunded.
    function available(uint256 jobId) external view returns (uint256);
}
