// SPDX-License-Identifier: MIT
pragma solidity 0.8.28;

import {MerkleProof} from "@openzeppelin/contracts/utils/cryptography/MerkleProof.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {Wired} from "./base/Wired.sol";
import {IJobEscrow} from "./interfaces/IJobEscrow.sol";
import {IRewardsDistributor} from "./interfaces/IRewardsDistributor.sol";

// slither-disable-start timestamp
// Windows are minutes to days long: the seconds that a block producer may choose change nothing.

/// @title Rewards by cumulative Merkle roots
/// @notice Invariant: what a job's accounts have had never exceeds the total of the root they claimed from, and the
/// escrow's reserve covers the rest of the newest total, whatever root was attested.
contract RewardsDistributor is IRewardsDistributor, Wired {
    using SafeCast for uint256;

    /// @notice May publish roots, and revoke disputed ones: the contracts that results come from.
    bytes32 public constant PUBLISHER_ROLE = keccak256("PUBLISHER_ROLE");
    /// @notice May suspend and resume a root: the contract that decides disputes.
    bytes32 public constant DISPUTES_ROLE = keccak256("DISPUTES_ROLE");

    /// @dev Stands in `activeAt` while the newest root is disputed.
    uint40 private constant NEVER = type(uint40).max;

    /// @notice Pays the claims.
    IJobEscrow public immutable escrow;
    /// @notice Seconds from publication until a root can be claimed from: the time to dispute it.
    uint40 public immutable activationSeconds;

    /// @dev `total`, `claimed` and `activeAt` share a slot, which a claim reads and writes once.
    struct Rewards {
        bytes32 root;
        uint96 total;
        uint96 claimed;
        uint40 activeAt;
        bytes32 previousRoot;
        uint96 previousTotal;
    }

    mapping(uint256 => Rewards) private _rewards;
    /// @inheritdoc IRewardsDistributor
    mapping(uint256 => mapping(address => uint256)) public claimed;

    /// @param admin wires the contracts together and renounces.
    constructor(IJobEscrow escrow_, address admin, uint40 activationSeconds_) Wired(admin) {
        escrow = escrow_;
        activationSeconds = activationSeconds_;
    }

    /// @inheritdoc IRewardsDistributor
    function publish(uint256 jobId, bytes32 root, uint256 total) external onlyRole(PUBLISHER_ROLE) {
        Rewards storage rewards = _rewards[jobId];
        if (rewards.activeAt == NEVER) revert RootDisputed(jobId, rewards.root);
        if (total < rewards.total) revert TotalFell(jobId, rewards.total, total);
        uint256 owed = total - rewards.claimed;
        uint256 reserved = escrow.job(jobId).reserved;
        if (owed > reserved) revert NotCovered(jobId, owed, reserved);
        if (block.timestamp >= rewards.activeAt) {
            rewards.previousRoot = rewards.root;
            rewards.previousTotal = rewards.total;
        }
        rewards.root = root;
        rewards.total = total.toUint96();
        rewards.activeAt = uint40(block.timestamp) + activationSeconds;
        emit RootPublished(jobId, root, total, rewards.activeAt);
    }

    /// @inheritdoc IRewardsDistributor
    /// @dev The root is named, so that a dispute never hits another one that was published meanwhile.
    function suspend(uint256 jobId, bytes32 root) external onlyRole(DISPUTES_ROLE) {
        Rewards storage rewards = _rewards[jobId];
        uint40 activeAt = rewards.activeAt;
        if (root == 0 || root != rewards.root || activeAt == NEVER || block.timestamp >= activeAt) {
            revert NotDisputable(jobId, root, activeAt);
        }
        rewards.activeAt = NEVER;
        emit RootSuspended(jobId, root);
    }

    /// @inheritdoc IRewardsDistributor
    function resume(uint256 jobId) external onlyRole(DISPUTES_ROLE) {
        Rewards storage rewards = _disputed(jobId);
        rewards.activeAt = uint40(block.timestamp);
        emit RootResumed(jobId, rewards.root);
    }

    /// @inheritdoc IRewardsDistributor
    /// @dev Nothing was claimed from a root that never was active, so the older total still covers all claims.
    function revoke(uint256 jobId) external onlyRole(PUBLISHER_ROLE) returns (uint256 unpromised) {
        Rewards storage rewards = _disputed(jobId);
        emit RootRevoked(jobId, rewards.root);
        unpromised = rewards.total - rewards.previousTotal;
        (rewards.root, rewards.total, rewards.activeAt) = (rewards.previousRoot, rewards.previousTotal, 0);
    }

    /// @inheritdoc IRewardsDistributor
    /// @dev Amounts are cumulative, so a repeated claim or a leaf of an older round pays nothing twice. Until the newest
    /// root is active the one before it still pays: a settlement never delays older claims. Books before it pays.
    function claim(
        uint256 jobId,
        address account,
        uint256 cumulative,
        bytes32 evidence,
        bytes32[] calldata proof
    ) external returns (uint256 amount) {
        Rewards storage rewards = _rewards[jobId];
        uint256 total = rewards.total;
        {
            bytes32 root = rewards.root;
            if (block.timestamp < rewards.activeAt) (root, total) = (rewards.previousRoot, rewards.previousTotal);
            if (root == 0) revert NoActiveRoot(jobId, rewards.activeAt);
            bytes32 leaf = keccak256(bytes.concat(keccak256(abi.encode(jobId, account, cumulative, evidence))));
            if (!MerkleProof.verifyCalldata(proof, root, leaf)) revert InvalidProof(jobId, leaf);
        }
        uint256 had = claimed[jobId][account];
        if (cumulative <= had) revert NothingToClaim(jobId, account, had, cumulative);
        amount = cumulative - had;
        uint256 sum = rewards.claimed + amount;
        if (sum > total) revert ExceedsTotal(jobId, sum, total);
        rewards.claimed = uint96(sum);
        claimed[jobId][account] = cumulative;
        emit Claimed(jobId, account, amount, cumulative);
        escrow.pay(jobId, account, amount);
    }

    /// @inheritdoc IRewardsDistributor
    function claimedTotal(uint256 jobId) external view returns (uint256) {
        return _rewards[jobId].claimed;
    }

    /// @inheritdoc IRewardsDistributor
    function current(uint256 jobId) external view returns (bytes32 root, uint256 total, uint40 activeAt) {
        Rewards storage rewards = _rewards[jobId];
        return (rewards.root, rewards.total, rewards.activeAt);
    }

    function _disputed(uint256 jobId) private view returns (Rewards storage rewards) {
        rewards = _rewards[jobId];
        if (rewards.activeAt != NEVER) revert NotDisputed(jobId);
    }
}
// slither-disable-end timestamp
