// SPDX-License-Identifier: MIT
pragma solidity 0.8.28;

import {Wired} from "./Wired.sol";

/// @title A contract whose entry a guardian can close
/// @notice While it is closed nobody new comes in: no stake, job, submission or trainer. Whatever lets people out or ends
/// something (withdrawals, reveals, tallies, claims, refunds) never looks at the pause, so that a guardian can stop a
/// contract with a fault from filling, and take nobody's money hostage.
abstract contract Guarded is Wired {
    /// @notice May close and open the entry.
    bytes32 public constant GUARDIAN_ROLE = keccak256("GUARDIAN_ROLE");

    /// @param guardian may pause and unpause for good: the admin's powers end with the deployment, so nobody replaces it.
    constructor(address admin, address guardian) Wired(admin) {
        _grantRole(GUARDIAN_ROLE, guardian);
    }
}
