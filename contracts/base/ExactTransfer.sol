// SPDX-License-Identifier: MIT
pragma solidity 0.8.28;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";

/// @title Pulling exactly what is booked
/// @notice Answers tokens that keep a fee on transfer, or call back into the caller: what arrives must be what the books
/// say, whatever happened during the transfer.
library ExactTransfer {
    using SafeERC20 for IERC20;

    /// @notice The transfer changed the balance by `received` instead of `expected` wei.
    error InexactTransfer(uint256 expected, uint256 received);

    // Always the caller, or the contributor whose signature the caller brought.
    // slither-disable-next-line arbitrary-send-erc20
    function pull(IERC20 token, address from, uint256 amount) internal {
        uint256 held = token.balanceOf(address(this));
        token.safeTransferFrom(from, address(this), amount);
        uint256 received = token.balanceOf(address(this)) - held;
        if (received != amount) revert InexactTransfer(amount, received);
    }
}
