// SPDX-License-Identifier: MIT
pragma solidity 0.8.28;

import {IAccessControl} from "@openzeppelin/contracts/access/IAccessControl.sol";
import {Pausable} from "@openzeppelin/contracts/utils/Pausable.sol";
import {IStakeManager, Role} from "../../contracts/interfaces/IStakeManager.sol";
import {Permit} from "../../contracts/interfaces/Permit.sol";
import {StakeManager} from "../../contracts/StakeManager.sol";
import {Wired} from "../../contracts/base/Wired.sol";
import {World} from "./World.sol";
import {vm} from "./Vm.sol";

contract StakeManagerTest is World {
    address private _one = person(0);
    address private _two = person(1);

    function test_deployment() public {
        vm.assertEq(address(stakes.token()), address(token));
        vm.assertEq(stakes.thawSeconds(), system.THAW());
        vm.assertTrue(stakes.hasRole(stakes.DEFAULT_ADMIN_ROLE(), address(system)));
        vm.assertTrue(stakes.hasRole(stakes.GUARDIAN_ROLE(), GUARDIAN));
        vm.expectRevert(abi.encodeWithSelector(Wired.ZeroAdmin.selector));
        new StakeManager(token, 1, address(0), GUARDIAN);
    }

    function test_stake() public {
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.ZeroAmount.selector));
        stake(Role.Validator, _one, 0);
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.BelowMinimumStake.selector, 1 ether - 1, 1 ether));
        stake(Role.Validator, _one, 1 ether - 1);
        vm.expectEmit(address(stakes));
        emit IStakeManager.Staked(Role.Validator, _one, 1 ether);
        stake(Role.Validator, _one, 1 ether);
        stake(Role.Validator, _one, 1);
        stake(Role.Trainer, _two, 3 ether);
        vm.assertEq(stakes.stakeOf(Role.Validator, _one), 1 ether + 1);
        vm.assertEq(stakes.stakeOf(Role.Trainer, _one), 0);
        vm.assertEq(stakes.totalStaked(Role.Validator), 1 ether + 1);
        vm.assertEq(stakes.totalStaked(Role.Trainer), 3 ether);
        vm.assertEq(balance(address(stakes)), 4 ether + 1);
        _operatorsAre(Role.Validator, _one, address(0));
        _operatorsAre(Role.Trainer, _two, address(0));
    }

    function test_stake_with_permit() public {
        vm.startPrank(_one);
        token.approve(address(stakes), 0);
        Permit memory signed = permit(0, address(stakes), 2 ether);
        stakes.stakeWithPermit(Role.Validator, 2 ether, signed);
        vm.assertEq(stakes.stakeOf(Role.Validator, _one), 2 ether);
        // Somebody else used the signature first: the allowance is there all the same.
        signed = permit(0, address(stakes), 3 ether);
        token.permit(_one, address(stakes), signed.value, signed.deadline, signed.v, signed.r, signed.s);
        stakes.stakeWithPermit(Role.Validator, 3 ether, signed);
        vm.assertEq(stakes.stakeOf(Role.Validator, _one), 5 ether);
        vm.stopPrank();
    }

    function test_seats() public {
        for (uint256 i = 0; i < 64; ++i) {
            address who = address(uint160(0x9000 + i));
            supply(who);
            stake(Role.Validator, who, 1 ether);
        }
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.SeatsTaken.selector, Role.Validator, 64));
        stake(Role.Validator, _one, 1 ether);
        stake(Role.Validator, address(0x9000), 1 ether);
        stake(Role.Trainer, _one, 1 ether);
    }

    function test_request_withdraw() public {
        stake(Role.Trainer, _one, 10 ether);
        vm.startPrank(_one);
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.ZeroAmount.selector));
        stakes.requestWithdraw(Role.Trainer, 0);
        vm.expectRevert(
            abi.encodeWithSelector(IStakeManager.InsufficientStake.selector, Role.Trainer, _one, 10 ether, 10 ether + 1)
        );
        stakes.requestWithdraw(Role.Trainer, 10 ether + 1);
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.BelowMinimumStake.selector, 1 ether - 1, 1 ether));
        stakes.requestWithdraw(Role.Trainer, 9 ether + 1);
        vm.expectEmit(address(stakes));
        emit IStakeManager.WithdrawRequested(Role.Trainer, _one, 6 ether, uint40(START + 300));
        stakes.requestWithdraw(Role.Trainer, 6 ether);
        vm.warp(START + 10);
        stakes.requestWithdraw(Role.Trainer, 3 ether);
        (uint256 thawing, uint40 readyAt) = stakes.thawingOf(Role.Trainer, _one);
        vm.assertEq(thawing, 9 ether);
        vm.assertEq(readyAt, START + 310);
        vm.assertEq(stakes.stakeOf(Role.Trainer, _one), 1 ether);
        vm.assertEq(stakes.totalStaked(Role.Trainer), 1 ether);
        _operatorsAre(Role.Trainer, _one, address(0));
        stakes.requestWithdraw(Role.Trainer, 1 ether);
        _operatorsAre(Role.Trainer, address(0), address(0));
        vm.stopPrank();
    }

    function test_the_last_operator_moves_into_a_freed_seat() public {
        address three = person(2);
        stake(Role.Validator, _one, 2 ether);
        stake(Role.Validator, _two, 2 ether);
        stake(Role.Validator, three, 2 ether);
        vm.prank(_one);
        stakes.requestWithdraw(Role.Validator, 2 ether);
        _operatorsAre(Role.Validator, three, _two);
        vm.prank(three);
        stakes.requestWithdraw(Role.Validator, 2 ether);
        _operatorsAre(Role.Validator, _two, address(0));
        stake(Role.Validator, _one, 2 ether);
        _operatorsAre(Role.Validator, _two, _one);
    }

    function test_withdraw() public {
        stake(Role.Trainer, _one, 10 ether);
        vm.startPrank(_one);
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.NothingThawing.selector, Role.Trainer, _one));
        stakes.withdraw(Role.Trainer);
        stakes.requestWithdraw(Role.Trainer, 4 ether);
        vm.warp(START + 299);
        vm.expectRevert(
            abi.encodeWithSelector(IStakeManager.StillThawing.selector, Role.Trainer, _one, uint40(START + 300))
        );
        stakes.withdraw(Role.Trainer);
        vm.warp(START + 300);
        vm.expectEmit(address(stakes));
        emit IStakeManager.Withdrawn(Role.Trainer, _one, 4 ether);
        vm.assertEq(stakes.withdraw(Role.Trainer), 4 ether);
        vm.assertEq(balance(_one), 9_994 ether);
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.NothingThawing.selector, Role.Trainer, _one));
        stakes.withdraw(Role.Trainer);
        vm.stopPrank();
    }

    function test_lock() public {
        stake(Role.Trainer, _one, 10 ether);
        vm.prank(_one);
        stakes.requestWithdraw(Role.Trainer, 4 ether);
        _refused(address(this), stakes.LOCKER_ROLE());
        stakes.lock(Role.Trainer, _one, 1);
        grant(address(stakes), stakes.LOCKER_ROLE());
        vm.expectEmit(address(stakes));
        emit IStakeManager.Locked(Role.Trainer, _one, uint40(START + 1_000));
        stakes.lock(Role.Trainer, _one, uint40(START + 1_000));
        vm.recordLogs();
        stakes.lock(Role.Trainer, _one, uint40(START + 1_000));
        stakes.lock(Role.Trainer, _one, uint40(START + 10));
        vm.assertEq(emitted(address(stakes), IStakeManager.Locked.selector), 0);
        vm.assertEq(stakes.lockedUntil(Role.Trainer, _one), START + 1_000);
        vm.warp(START + 999);
        vm.expectRevert(
            abi.encodeWithSelector(IStakeManager.StakeLocked.selector, Role.Trainer, _one, uint40(START + 1_000))
        );
        vm.prank(_one);
        stakes.withdraw(Role.Trainer);
        vm.warp(START + 1_000);
        vm.prank(_one);
        stakes.withdraw(Role.Trainer);
    }

    function test_slash() public {
        stake(Role.Validator, _one, 10 ether);
        stake(Role.Validator, _two, 10 ether);
        vm.prank(_one);
        stakes.requestWithdraw(Role.Validator, 4 ether);
        _refused(address(this), stakes.SLASHER_ROLE());
        stakes.slash(Role.Validator, _one, 1);
        grant(address(stakes), stakes.SLASHER_ROLE());
        uint256 supplied = token.totalSupply();
        vm.expectEmit(address(stakes));
        emit IStakeManager.Slashed(Role.Validator, _one, 5 ether);
        vm.assertEq(stakes.slash(Role.Validator, _one, 5 ether), 5 ether);
        vm.assertEq(stakes.stakeOf(Role.Validator, _one), 1 ether);
        vm.assertEq(stakes.totalStaked(Role.Validator), 11 ether);
        vm.assertEq(token.totalSupply(), supplied - 5 ether);
        _operatorsAre(Role.Validator, _one, _two);
        vm.assertEq(stakes.slash(Role.Validator, _one, 3 ether), 3 ether);
        (uint256 thawing,) = stakes.thawingOf(Role.Validator, _one);
        vm.assertEq(thawing, 2 ether);
        vm.assertEq(stakes.totalStaked(Role.Validator), 10 ether);
        _operatorsAre(Role.Validator, _two, address(0));
        vm.assertEq(stakes.slash(Role.Validator, _one, 100 ether), 2 ether);
        vm.recordLogs();
        vm.assertEq(stakes.slash(Role.Validator, _one, 1), 0);
        vm.assertEq(emitted(address(stakes), IStakeManager.Slashed.selector), 0);
        vm.assertEq(balance(address(stakes)), 10 ether);
        // Nothing is left thawing, and the seat of somebody who never had one is not given up.
        (thawing,) = stakes.thawingOf(Role.Validator, _one);
        vm.assertEq(thawing, 0);
    }

    function test_what_thaws_is_slashed_without_a_seat() public {
        stake(Role.Validator, _one, 10 ether);
        stake(Role.Validator, _two, 10 ether);
        vm.prank(_one);
        stakes.requestWithdraw(Role.Validator, 10 ether);
        grant(address(stakes), stakes.SLASHER_ROLE());
        vm.assertEq(stakes.slash(Role.Validator, _one, 3 ether), 3 ether);
        _operatorsAre(Role.Validator, _two, address(0));
        vm.assertEq(stakes.totalStaked(Role.Validator), 10 ether);
    }

    function test_pause_closes_the_entry_alone() public {
        stake(Role.Trainer, _one, 10 ether);
        _refused(STRANGER, stakes.GUARDIAN_ROLE());
        stakes.pause();
        vm.prank(GUARDIAN);
        stakes.pause();
        vm.expectRevert(abi.encodeWithSelector(Pausable.EnforcedPause.selector));
        stake(Role.Trainer, _one, 10 ether);
        vm.startPrank(_one);
        stakes.requestWithdraw(Role.Trainer, 10 ether);
        vm.warp(START + 300);
        stakes.withdraw(Role.Trainer);
        vm.stopPrank();
        _refused(STRANGER, stakes.GUARDIAN_ROLE());
        stakes.unpause();
        vm.prank(GUARDIAN);
        stakes.unpause();
        stake(Role.Trainer, _one, 10 ether);
    }

    function _refused(address who, bytes32 role) private {
        vm.expectRevert(abi.encodeWithSelector(IAccessControl.AccessControlUnauthorizedAccount.selector, who, role));
        vm.prank(who);
    }

    function _operatorsAre(Role role, address one, address two) private view {
        address[] memory found = stakes.operators(role);
        vm.assertEq(found.length, two != address(0) ? 2 : one != address(0) ? 1 : 0);
        if (one != address(0)) vm.assertEq(found[0], one);
        if (two != address(0)) vm.assertEq(found[1], two);
    }
}
