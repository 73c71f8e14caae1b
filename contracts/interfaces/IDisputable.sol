// SPDX-License-Identifier: MIT
pragma solidity 0.8.28;

/// @title Where roots come from, as a dispute sees it
interface IDisputable {
    /// @notice Those who decided the job's newest root, whom no jury over it may hold; empty when all validators did.
    function judges(uint256 jobId) external view returns (address[] memory);

    /// @notice Take the job's disputed root back; only the DisputeManager may.
    /// @param wrong whether a jury found it wrong, rather than not agreeing about it.
    function overturn(uint256 jobId, bool wrong) external;
}
