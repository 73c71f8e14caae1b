// SPDX-License-Identifier: MIT
pragma solidity 0.8.28;

import {ERC20} from "@openzeppelin/contracts/token/ERC20/ERC20.sol";
import {ERC20Burnable} from "@openzeppelin/contracts/token/ERC20/extensions/ERC20Burnable.sol";
import {ERC20Capped} from "@openzeppelin/contracts/token/ERC20/extensions/ERC20Capped.sol";
import {ERC20Permit} from "@openzeppelin/contracts/token/ERC20/extensions/ERC20Permit.sol";

/// @title HYDRA
/// @notice Fixed supply, 18 decimals, minted once to the treasury. Nobody can mint later; slashing burns.
contract HydraToken is ERC20, ERC20Permit, ERC20Burnable, ERC20Capped {
    /// @notice The other contracts book amounts in 96 bits.
    error SupplyTooLarge(uint256 supply, uint256 limit);

    /// @param treasury receives the whole supply.
    /// @param supply wei.
    constructor(address treasury, uint256 supply) ERC20("Hydra", "HYDRA") ERC20Permit("Hydra") ERC20Capped(supply) {
        if (supply > type(uint96).max) revert SupplyTooLarge(supply, type(uint96).max);
        _mint(treasury, supply);
    }

    function _update(address from, address to, uint256 value) internal override(ERC20, ERC20Capped) {
        super._update(from, to, value);
    }
}
