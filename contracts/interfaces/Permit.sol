// SPDX-License-Identifier: MIT
pragma solidity 0.8.28;

/// @notice An allowance of the token by signature (ERC-2612): the caller's, for the contract that takes it.
/// @param value wei that the contract may pull.
/// @param deadline seconds of chain time until when the signature counts.
struct Permit {
    uint256 value;
    uint256 deadline;
    uint8 v;
    bytes32 r;
    bytes32 s;
}
