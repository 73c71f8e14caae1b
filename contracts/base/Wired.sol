// SPDX-License-Identifier: MIT
pragma solidity 0.8.28;

import {AccessControl} from "@openzeppelin/contracts/access/AccessControl.sol";

/// @title A contract whose roles are granted during deployment
/// @notice The admin wires the contracts together and renounces at the end of the deployment; from then on nobody can
/// grant or take a role, so every power is a rule written in one of the contracts.
abstract contract Wired is AccessControl {
    /// @notice Without an admin the contract could never be wired.
    error ZeroAdmin();

    /// @param admin grants the roles, and renounces in the end.
    constructor(address admin) {
        if (admin == address(0)) revert ZeroAdmin();
        _grantRole(DEFAULT_ADMIN_ROLE, admin);
    }
}
