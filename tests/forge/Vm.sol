// SPDX-License-Identifier: MIT
pragma solidity 0.8.28;

/// @notice The few of Forge's cheat codes that these tests use.
interface Vm {
    function prank(address sender) external;
    function warp(uint256 timestamp) external;
    function roll(uint256 number) external;
}

Vm constant vm = Vm(address(uint160(uint256(keccak256("hevm cheat code")))));
