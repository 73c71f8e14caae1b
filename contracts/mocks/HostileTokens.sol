// SPDX-License-Identifier: MIT
pragma solidity 0.8.28;

import {ERC20} from "@openzeppelin/contracts/token/ERC20/ERC20.sol";
import {ERC20Burnable} from "@openzeppelin/contracts/token/ERC20/extensions/ERC20Burnable.sol";

/// @notice For tests: keeps a hundredth of every transfer.
contract FeeToken is ERC20Burnable {
    constructor(address treasury, uint256 supply) ERC20("Fee", "FEE") {
        _mint(treasury, supply);
    }

    function _update(address from, address to, uint256 value) internal override {
        if (from == address(0) || to == address(0)) return super._update(from, to, value);
        super._update(from, to, value - value / 100);
        super._update(from, address(0), value / 100);
    }
}

/// @notice For tests: calls its observer in the middle of every transfer, as an ERC-777 token would.
contract CallbackToken is ERC20Burnable {
    Reenterer public observer;

    constructor(address treasury, uint256 supply) ERC20("Callback", "CALL") {
        _mint(treasury, supply);
    }

    function observe(Reenterer observer_) external {
        observer = observer_;
    }

    function _update(address from, address to, uint256 value) internal override {
        super._update(from, to, value);
        if (address(observer) != address(0)) observer.tokensMoved();
    }
}

/// @notice For tests: an account that calls back in once when its token moves.
contract Reenterer {
    address private _target;
    bytes private _data;
    bool public attempted;
    bool public succeeded;
    bytes public result;

    /// @notice Make a call as this account; reverts with the callee's error.
    function run(address target, bytes calldata data) external {
        (bool ok, bytes memory returned) = target.call(data);
        if (!ok) {
            assembly {
                revert(add(returned, 32), mload(returned))
            }
        }
    }

    /// @notice Remember the call to make when tokens move next.
    function arm(address target, bytes calldata data) external {
        (_target, _data, attempted, succeeded) = (target, data, false, false);
    }

    function tokensMoved() external {
        if (attempted || _target == address(0)) return;
        attempted = true;
        (succeeded, result) = _target.call(_data);
    }
}
