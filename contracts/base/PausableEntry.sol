// SPDX-License-Identifier: MIT
pragma solidity 0.8.28;

import {Pausable} from "@openzeppelin/contracts/utils/Pausable.sol";
import {Guarded} from "./Guarded.sol";

/// @title An entry that the guardian closes with one call
abstract contract PausableEntry is Guarded, Pausable {
    /// @notice Close the entry; the guardian only.
    function pause() external onlyRole(GUARDIAN_ROLE) {
        _pause();
    }

    /// @notice Open the entry again; the guardian only.
    function unpause() external onlyRole(GUARDIAN_ROLE) {
        _unpause();
    }
}
