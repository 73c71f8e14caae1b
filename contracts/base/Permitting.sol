// SPDX-License-Identifier: MIT
pragma solidity 0.8.28;

import {IERC20Permit} from "@openzeppelin/contracts/token/ERC20/extensions/IERC20Permit.sol";
import {Permit} from "../interfaces/Permit.sol";

/// @title Using an allowance by signature
library Permitting {
    /// @notice Hand the caller's signature to the token. A failure is not one: anybody who sees the transaction in the pool
    /// can use the signature first, and the allowance is there all the same. Without it, the pull that follows reverts.
    function use(address token, Permit calldata permit) internal {
        try IERC20Permit(token).permit(
            msg.sender, address(this), permit.value, permit.deadline, permit.v, permit.r, permit.s
        ) {} catch {}
    }
}
