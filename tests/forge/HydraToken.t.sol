// SPDX-License-Identifier: MIT
pragma solidity 0.8.28;

import {HydraToken} from "../../contracts/HydraToken.sol";
import {World} from "./World.sol";
import {vm} from "./Vm.sol";

contract HydraTokenTest is World {
    function test_the_supply_is_minted_once() public {
        vm.assertEq(token.totalSupply(), system.SUPPLY());
        vm.assertEq(token.cap(), system.SUPPLY());
        vm.assertEq(keccak256(bytes(token.symbol())), keccak256("HYDRA"));
        vm.assertEq(token.decimals(), 18);
        uint256 limit = type(uint96).max;
        new HydraToken(TREASURY, limit);
        vm.expectRevert(abi.encodeWithSelector(HydraToken.SupplyTooLarge.selector, limit + 1, limit));
        new HydraToken(TREASURY, limit + 1);
    }

    function test_what_is_burned_is_gone() public {
        vm.prank(SPONSOR);
        token.burn(1 ether);
        vm.assertEq(token.totalSupply(), system.SUPPLY() - 1 ether);
        vm.assertEq(balance(SPONSOR), 9_999 ether);
    }
}
