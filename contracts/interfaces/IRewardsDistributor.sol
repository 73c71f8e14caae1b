// SPDX-License-Identifier: MIT
pragma solidity 0.8.28;

/// @title Rewards by cumulative Merkle roots
/// @notice Leaf: keccak256(bytes.concat(keccak256(abi.encode(jobId, account, cumulative, evidence)))), sorted pairs
/// (OpenZeppelin's StandardMerkleTree). One claim covers any number of rounds.
interface IRewardsDistributor {
    /// @notice A new root, of rewards of `total` wei; claims use it from `activeAt` (seconds) on.
    event RootPublished(uint256 indexed jobId, bytes32 root, uint256 total, uint40 activeAt);
    /// @notice The root is disputed: it stays inactive until the dispute ends.
    event RootSuspended(uint256 indexed jobId, bytes32 root);
    /// @notice The dispute was lost: the root is active from now on.
    event RootResumed(uint256 indexed jobId, bytes32 root);
    /// @notice The dispute took the root back: the one before it is the newest again.
    event RootRevoked(uint256 indexed jobId, bytes32 root);
    /// @notice The account had `amount` wei paid, and `cumulative` wei since the job's beginning.
    event Claimed(uint256 indexed jobId, address indexed account, uint256 amount, uint256 cumulative);

    /// @notice A later root may not promise less than an earlier one.
    error TotalFell(uint256 jobId, uint256 published, uint256 total);
    /// @notice The job has reserved less than its root promises.
    error NotCovered(uint256 jobId, uint256 owed, uint256 reserved);
    /// @notice No newer root while the newest one is disputed.
    error RootDisputed(uint256 jobId, bytes32 root);
    /// @notice Not the newest root, disputed already, or active: only a root that waits for its activation can be disputed.
    error NotDisputable(uint256 jobId, bytes32 root, uint40 activeAt);
    /// @notice The newest root is not disputed.
    error NotDisputed(uint256 jobId);
    /// @notice No root of the job is active yet.
    error NoActiveRoot(uint256 jobId, uint40 activeAt);
    /// @notice The proof does not lead to the active root.
    error InvalidProof(uint256 jobId, bytes32 leaf);
    /// @notice The account has had everything this leaf promises.
    error NothingToClaim(uint256 jobId, address account, uint256 claimed, uint256 cumulative);
    /// @notice The leaves add up to more than the root's total.
    error ExceedsTotal(uint256 jobId, uint256 claimed, uint256 total);

    /// @notice Publish a root; it becomes active after `activationSeconds`.
    /// @param total sum of all its cumulative amounts, wei.
    function publish(uint256 jobId, bytes32 root, uint256 total) external;

    /// @notice Keep the newest root from becoming active; the DisputeManager only.
    function suspend(uint256 jobId, bytes32 root) external;

    /// @notice Let the disputed root stand, active at once; the DisputeManager only.
    function resume(uint256 jobId) external;

    /// @notice Take the disputed root back; only the contracts that publish.
    /// @return unpromised wei that it promised beyond the root before it.
    function revoke(uint256 jobId) external returns (uint256 unpromised);

    /// @notice Pay `account` what it is owed beyond what it has had; anyone may send.
    /// @param cumulative everything ever earned on the job, wei.
    /// @param evidence Merkle root of what the amount was counted from.
    /// @return amount wei paid.
    function claim(
        uint256 jobId,
        address account,
        uint256 cumulative,
        bytes32 evidence,
        bytes32[] calldata proof
    ) external returns (uint256 amount);

    /// @notice Wei the account has had of the job.
    function claimed(uint256 jobId, address account) external view returns (uint256);

    /// @notice Wei all accounts together have had of the job.
    function claimedTotal(uint256 jobId) external view returns (uint256);

    /// @notice Seconds from publication until a root can be claimed from: the time to dispute it.
    function activationSeconds() external view returns (uint40);

    /// @notice The newest root; claims use it from `activeAt` on (the largest time there is while it is disputed), and the
    /// one before until then.
    function current(uint256 jobId) external view returns (bytes32 root, uint256 total, uint40 activeAt);
}
