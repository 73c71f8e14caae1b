// SPDX-License-Identifier: MIT
pragma solidity 0.8.28;

import {IAccessControl} from "@openzeppelin/contracts/access/IAccessControl.sol";
import {Kind, State} from "../../contracts/interfaces/IJobEscrow.sol";
import {IRewardsDistributor} from "../../contracts/interfaces/IRewardsDistributor.sol";
import {World} from "./World.sol";
import {vm} from "./Vm.sol";

contract RewardsDistributorTest is World {
    uint40 private constant NEVER = type(uint40).max;
    address private _one = person(0);
    address private _two = person(1);
    uint256 private _job;

    function setUp() public override {
        super.setUp();
        _job = openJob(Kind.Training);
        grant(address(escrow), escrow.CONTROLLER_ROLE());
        grant(address(rewards), rewards.PUBLISHER_ROLE());
        grant(address(rewards), rewards.DISPUTES_ROLE());
        escrow.reserve(_job, 100 ether);
    }

    function test_roles() public {
        bytes32 publisher = rewards.PUBLISHER_ROLE();
        bytes32 judge = rewards.DISPUTES_ROLE();
        vm.assertEq(address(rewards.escrow()), address(escrow));
        vm.assertEq(rewards.activationSeconds(), 60);
        vm.startPrank(STRANGER);
        _refused(publisher);
        rewards.publish(_job, SPEC, 1);
        _refused(publisher);
        rewards.revoke(_job);
        _refused(judge);
        rewards.suspend(_job, SPEC);
        _refused(judge);
        rewards.resume(_job);
        vm.stopPrank();
    }

    function test_publish() public {
        vm.expectRevert(abi.encodeWithSelector(IRewardsDistributor.NotCovered.selector, _job, 100 ether + 1, 100 ether));
        rewards.publish(_job, SPEC, 100 ether + 1);
        vm.expectEmit(address(rewards));
        emit IRewardsDistributor.RootPublished(_job, SPEC, 60 ether, uint40(START + 60));
        rewards.publish(_job, SPEC, 60 ether);
        _current(SPEC, 60 ether, uint40(START + 60));
        vm.expectRevert(abi.encodeWithSelector(IRewardsDistributor.TotalFell.selector, _job, 60 ether, 60 ether - 1));
        rewards.publish(_job, ITEMS, 60 ether - 1);
        rewards.publish(_job, ITEMS, 60 ether);
        rewards.publish(_job, ITEMS, 100 ether);
    }

    function test_claim() public {
        rewards.publish(_job, leaf(_job, _one, 60 ether), 60 ether);
        vm.warp(START + 59);
        vm.expectRevert(abi.encodeWithSelector(IRewardsDistributor.NoActiveRoot.selector, _job, uint40(START + 60)));
        claim(_job, _one, 60 ether);
        vm.warp(START + 60);
        vm.expectRevert(
            abi.encodeWithSelector(IRewardsDistributor.InvalidProof.selector, _job, leaf(_job, _one, 60 ether - 1))
        );
        claim(_job, _one, 60 ether - 1);
        vm.expectEmit(address(rewards));
        emit IRewardsDistributor.Claimed(_job, _one, 60 ether, 60 ether);
        vm.assertEq(claim(_job, _one, 60 ether), 60 ether);
        vm.assertEq(balance(_one), 10_060 ether);
        vm.assertEq(rewards.claimed(_job, _one), 60 ether);
        vm.assertEq(rewards.claimedTotal(_job), 60 ether);
        vm.expectRevert(
            abi.encodeWithSelector(IRewardsDistributor.NothingToClaim.selector, _job, _one, 60 ether, 60 ether)
        );
        claim(_job, _one, 60 ether);
    }

    function test_claims_are_cumulative() public {
        _settle(_one, 20 ether);
        claim(_job, _one, 20 ether);
        // 20 are paid of 110: the other 90 must be covered by the 80 still reserved, and are not.
        vm.expectRevert(abi.encodeWithSelector(IRewardsDistributor.NotCovered.selector, _job, 90 ether, 80 ether));
        rewards.publish(_job, SPEC, 110 ether);
        _settle(_one, 100 ether);
        vm.assertEq(claim(_job, _one, 100 ether), 80 ether);
        vm.assertEq(rewards.claimed(_job, _one), 100 ether);
        vm.assertEq(rewards.claimedTotal(_job), 100 ether);
        // The published total is all that can be claimed, whatever the leaves of a root add up to.
        rewards.publish(_job, leaf(_job, _two, 1), 100 ether);
        vm.warp(block.timestamp + 60);
        vm.expectRevert(
            abi.encodeWithSelector(IRewardsDistributor.ExceedsTotal.selector, _job, 100 ether + 1, 100 ether)
        );
        claim(_job, _two, 1);
    }

    function test_an_older_root_pays_until_the_newest_is_active() public {
        _settle(_one, 20 ether);
        rewards.publish(_job, leaf(_job, _two, 50 ether), 50 ether);
        vm.warp(block.timestamp + 10);
        // One root replaces another that never was active: the oldest still pays.
        rewards.publish(_job, leaf(_job, _two, 60 ether), 60 ether);
        vm.assertEq(claim(_job, _one, 20 ether), 20 ether);
        vm.warp(block.timestamp + 59);
        vm.expectRevert(
            abi.encodeWithSelector(IRewardsDistributor.InvalidProof.selector, _job, leaf(_job, _two, 60 ether))
        );
        claim(_job, _two, 60 ether);
        vm.warp(block.timestamp + 1);
        vm.expectRevert(
            abi.encodeWithSelector(IRewardsDistributor.ExceedsTotal.selector, _job, 80 ether, 60 ether)
        );
        claim(_job, _two, 60 ether);
    }

    function test_the_total_of_the_older_root_bounds_its_claims() public {
        rewards.publish(_job, leaf(_job, _one, 20 ether), 10 ether);
        vm.warp(block.timestamp + 60);
        rewards.publish(_job, SPEC, 60 ether);
        vm.expectRevert(
            abi.encodeWithSelector(IRewardsDistributor.ExceedsTotal.selector, _job, 20 ether, 10 ether)
        );
        claim(_job, _one, 20 ether);
    }

    function test_suspend() public {
        vm.expectRevert(abi.encodeWithSelector(IRewardsDistributor.NotDisputable.selector, _job, bytes32(0), 0));
        rewards.suspend(_job, 0);
        rewards.publish(_job, SPEC, 60 ether);
        uint40 activeAt = uint40(START + 60);
        vm.expectRevert(abi.encodeWithSelector(IRewardsDistributor.NotDisputable.selector, _job, bytes32(0), activeAt));
        rewards.suspend(_job, 0);
        vm.expectRevert(abi.encodeWithSelector(IRewardsDistributor.NotDisputable.selector, _job, ITEMS, activeAt));
        rewards.suspend(_job, ITEMS);
        vm.expectRevert(abi.encodeWithSelector(IRewardsDistributor.NotDisputed.selector, _job));
        rewards.resume(_job);
        vm.expectRevert(abi.encodeWithSelector(IRewardsDistributor.NotDisputed.selector, _job));
        rewards.revoke(_job);
        vm.warp(activeAt);
        vm.expectRevert(abi.encodeWithSelector(IRewardsDistributor.NotDisputable.selector, _job, SPEC, activeAt));
        rewards.suspend(_job, SPEC);
        vm.warp(activeAt - 1);
        vm.expectEmit(address(rewards));
        emit IRewardsDistributor.RootSuspended(_job, SPEC);
        rewards.suspend(_job, SPEC);
        _current(SPEC, 60 ether, NEVER);
        vm.expectRevert(abi.encodeWithSelector(IRewardsDistributor.NotDisputable.selector, _job, SPEC, NEVER));
        rewards.suspend(_job, SPEC);
        vm.expectRevert(abi.encodeWithSelector(IRewardsDistributor.RootDisputed.selector, _job, SPEC));
        rewards.publish(_job, ITEMS, 60 ether);
    }

    function test_resume() public {
        rewards.publish(_job, leaf(_job, _one, 60 ether), 60 ether);
        bytes32 root = leaf(_job, _one, 60 ether);
        rewards.suspend(_job, root);
        vm.warp(START + 1_000);
        vm.expectRevert(abi.encodeWithSelector(IRewardsDistributor.NoActiveRoot.selector, _job, NEVER));
        claim(_job, _one, 60 ether);
        vm.expectEmit(address(rewards));
        emit IRewardsDistributor.RootResumed(_job, root);
        rewards.resume(_job);
        _current(root, 60 ether, uint40(START + 1_000));
        claim(_job, _one, 60 ether);
    }

    function test_revoke() public {
        _settle(_one, 20 ether);
        rewards.publish(_job, SPEC, 70 ether);
        rewards.suspend(_job, SPEC);
        vm.assertEq(claim(_job, _one, 20 ether), 20 ether);
        vm.expectEmit(address(rewards));
        emit IRewardsDistributor.RootRevoked(_job, SPEC);
        vm.assertEq(rewards.revoke(_job), 50 ether);
        _current(leaf(_job, _one, 20 ether), 20 ether, 0);
    }

    /// @dev Publish a root that gives everything to one account, and let it become active.
    function _settle(address account, uint256 total) private {
        rewards.publish(_job, leaf(_job, account, total), total);
        vm.warp(block.timestamp + 60);
    }

    function _refused(bytes32 role) private {
        vm.expectRevert(
            abi.encodeWithSelector(IAccessControl.AccessControlUnauthorizedAccount.selector, STRANGER, role)
        );
    }

    function _current(bytes32 root, uint256 total, uint40 activeAt) private view {
        (bytes32 root_, uint256 total_, uint40 activeAt_) = rewards.current(_job);
        vm.assertEq(root_, root);
        vm.assertEq(total_, total, "total");
        vm.assertEq(activeAt_, activeAt, "activeAt");
    }
}
