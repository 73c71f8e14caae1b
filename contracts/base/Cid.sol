// SPDX-License-Identifier: MIT
pragma solidity 0.8.28;

/// @title Content identifiers in events
/// @notice The chain never parses a CID; whoever fetches it checks the content against the hash beside it. Only its
/// length is bounded, so that nobody makes others pay for reading or storing it.
library Cid {
    uint256 internal constant MAX_BYTES = 96;

    /// @notice A CID has between 1 and `MAX_BYTES` bytes.
    error BadCidLength(uint256 length, uint256 limit);

    function check(string calldata cid) internal pure {
        uint256 length = bytes(cid).length;
        if (length == 0 || length > MAX_BYTES) revert BadCidLength(length, MAX_BYTES);
    }
}
