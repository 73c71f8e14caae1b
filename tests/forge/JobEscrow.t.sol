// SPDX-License-Identifier: MIT
pragma solidity 0.8.28;

import {IAccessControl} from "@openzeppelin/contracts/access/IAccessControl.sol";
import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {Pausable} from "@openzeppelin/contracts/utils/Pausable.sol";
import {ReentrancyGuard} from "@openzeppelin/contracts/utils/ReentrancyGuard.sol";
import {Cid} from "../../contracts/base/Cid.sol";
import {ExactTransfer} from "../../contracts/base/ExactTransfer.sol";
import {IJobEscrow, Kind, State} from "../../contracts/interfaces/IJobEscrow.sol";
import {Permit} from "../../contracts/interfaces/Permit.sol";
import {JobEscrow} from "../../contracts/JobEscrow.sol";
import {CallbackToken, FeeToken, Reenterer} from "../../contracts/mocks/HostileTokens.sol";
import {World} from "./World.sol";
import {vm} from "./Vm.sol";

contract JobEscrowTest is World {
    uint40 private constant EXIT = uint40(START + 10_000);

    function test_open() public {
        vm.assertEq(address(escrow.token()), address(token));
        vm.expectEmit(address(escrow));
        emit IJobEscrow.JobOpened(1, Kind.Training, SPONSOR, SPEC, CID, REWARD, EXIT);
        uint256 jobId = openJob(Kind.Training);
        vm.assertEq(jobId, 1);
        vm.assertEq(openJob(Kind.Campaign), 2);
        vm.assertEq(escrow.jobCount(), 2);
        IJobEscrow.Job memory job = escrow.job(1);
        vm.assertEq(job.sponsor, SPONSOR);
        vm.assertTrue(job.kind == Kind.Training && job.state == State.Open);
        vm.assertEq(job.exitTime, EXIT);
        vm.assertEq(job.specHash, SPEC);
        _books(1, REWARD, 0, 0, 0);
        vm.assertEq(balance(address(escrow)), 2 * REWARD);
        vm.assertTrue(escrow.job(2).kind == Kind.Campaign);
    }

    function test_open_is_refused() public {
        vm.startPrank(SPONSOR);
        vm.expectRevert(abi.encodeWithSelector(IJobEscrow.ZeroAmount.selector));
        escrow.open(Kind.Campaign, SPEC, CID, 0, EXIT);
        uint256 latest = START + 730 days;
        vm.expectRevert(abi.encodeWithSelector(IJobEscrow.BadExitTime.selector, uint40(START), latest));
        escrow.open(Kind.Campaign, SPEC, CID, 1, uint40(START));
        vm.expectRevert(abi.encodeWithSelector(IJobEscrow.BadExitTime.selector, uint40(latest + 1), latest));
        escrow.open(Kind.Campaign, SPEC, CID, 1, uint40(latest + 1));
        escrow.open(Kind.Campaign, SPEC, CID, 1, uint40(START + 1));
        escrow.open(Kind.Campaign, SPEC, CID, 1, uint40(latest));
        vm.expectRevert(abi.encodeWithSelector(Cid.BadCidLength.selector, 0, 96));
        escrow.open(Kind.Campaign, SPEC, "", 1, EXIT);
        vm.expectRevert(abi.encodeWithSelector(Cid.BadCidLength.selector, 97, 96));
        escrow.open(Kind.Campaign, SPEC, string(new bytes(97)), 1, EXIT);
        escrow.open(Kind.Campaign, SPEC, string(new bytes(96)), 1, EXIT);
        escrow.open(Kind.Campaign, SPEC, string(new bytes(1)), 1, EXIT);
        vm.stopPrank();
        vm.prank(GUARDIAN);
        escrow.pause();
        vm.prank(SPONSOR);
        vm.expectRevert(abi.encodeWithSelector(Pausable.EnforcedPause.selector));
        escrow.open(Kind.Campaign, SPEC, CID, 1, EXIT);
    }

    function test_open_with_permit() public {
        vm.startPrank(person(0));
        token.approve(address(escrow), 0);
        Permit memory signed = permit(0, address(escrow), 2 ether);
        escrow.openWithPermit(Kind.Training, SPEC, CID, 2 ether, EXIT, signed);
        vm.stopPrank();
        _books(1, 2 ether, 0, 0, 0);
    }

    function test_a_token_that_keeps_a_fee_is_refused() public {
        FeeToken hostile = new FeeToken(address(this), 100 ether);
        JobEscrow other = new JobEscrow(IERC20(address(hostile)), address(this), GUARDIAN);
        hostile.approve(address(other), type(uint256).max);
        vm.expectRevert(abi.encodeWithSelector(ExactTransfer.InexactTransfer.selector, 100, 99));
        other.open(Kind.Campaign, SPEC, CID, 100, EXIT);
    }

    function test_nobody_comes_in_twice() public {
        CallbackToken calling = new CallbackToken(address(this), 100 ether);
        JobEscrow other = new JobEscrow(IERC20(address(calling)), address(this), GUARDIAN);
        Reenterer person = new Reenterer();
        calling.transfer(address(person), 10 ether);
        person.run(address(calling), abi.encodeCall(IERC20.approve, (address(other), type(uint256).max)));
        other.grantRole(other.CONTROLLER_ROLE(), address(this));
        calling.observe(person);
        Permit memory useless;
        bytes[4] memory moves = [
            abi.encodeCall(IJobEscrow.open, (Kind.Campaign, SPEC, CID, 2, EXIT)),
            abi.encodeCall(IJobEscrow.openWithPermit, (Kind.Campaign, SPEC, CID, 2, EXIT, useless)),
            abi.encodeCall(IJobEscrow.topUp, (1, 2)),
            abi.encodeCall(IJobEscrow.refund, (1))
        ];
        for (uint256 i = 0; i < 4; ++i) {
            // Paid back by a second job's money, the second refund would be theft.
            if (i == 3) other.advance(1, State.Settled);
            person.arm(address(other), i == 3 ? moves[3] : moves[2]);
            person.run(address(other), moves[i]);
            vm.assertTrue(person.attempted() && !person.succeeded());
            vm.assertEq(bytes32(person.result()), bytes32(ReentrancyGuard.ReentrancyGuardReentrantCall.selector));
        }
        vm.assertEq(calling.balanceOf(address(other)), 2);
    }

    function test_top_up() public {
        uint256 jobId = openJob(Kind.Campaign);
        vm.startPrank(STRANGER);
        vm.expectRevert(abi.encodeWithSelector(IJobEscrow.ZeroAmount.selector));
        escrow.topUp(jobId, 0);
        vm.expectRevert(abi.encodeWithSelector(IJobEscrow.UnknownJob.selector, 9));
        escrow.topUp(9, 1);
        vm.expectEmit(address(escrow));
        emit IJobEscrow.ToppedUp(jobId, STRANGER, 7);
        escrow.topUp(jobId, 7);
        vm.stopPrank();
        _books(jobId, REWARD + 7, 0, 0, 0);
        vm.assertEq(balance(address(escrow)), REWARD + 7);
    }

    function test_an_ended_job_takes_money_from_controllers_alone() public {
        _control();
        State[2] memory ends = [State.Settled, State.Refunded];
        for (uint256 i = 0; i < 2; ++i) {
            uint256 jobId = openJob(Kind.Campaign);
            escrow.advance(jobId, ends[i]);
            vm.prank(STRANGER);
            vm.expectRevert(abi.encodeWithSelector(IJobEscrow.JobEnded.selector, jobId, ends[i]));
            escrow.topUp(jobId, 1);
            vm.prank(TREASURY);
            token.transfer(address(this), 1);
            token.approve(address(escrow), 1);
            escrow.topUp(jobId, 1);
            _books(jobId, REWARD + 1, 0, 0, 0);
        }
    }

    function test_reserve_and_release() public {
        uint256 jobId = openJob(Kind.Campaign);
        _refused(escrow.CONTROLLER_ROLE());
        escrow.reserve(jobId, 1);
        _refused(escrow.CONTROLLER_ROLE());
        escrow.release(jobId, 1);
        _control();
        vm.expectRevert(abi.encodeWithSelector(IJobEscrow.UnknownJob.selector, 9));
        escrow.reserve(9, 0);
        vm.expectRevert(abi.encodeWithSelector(IJobEscrow.UnknownJob.selector, 9));
        escrow.release(9, 0);
        vm.expectEmit(address(escrow));
        emit IJobEscrow.Reserved(jobId, 400 ether);
        escrow.reserve(jobId, 400 ether);
        vm.expectRevert(
            abi.encodeWithSelector(IJobEscrow.InsufficientAvailable.selector, jobId, 600 ether, 600 ether + 1)
        );
        escrow.reserve(jobId, 600 ether + 1);
        escrow.reserve(jobId, 600 ether);
        _books(jobId, REWARD, REWARD, 0, 0);
        vm.expectRevert(
            abi.encodeWithSelector(IJobEscrow.InsufficientReserved.selector, jobId, REWARD, REWARD + 1)
        );
        escrow.release(jobId, REWARD + 1);
        vm.expectEmit(address(escrow));
        emit IJobEscrow.Released(jobId, 300 ether);
        escrow.release(jobId, 300 ether);
        _books(jobId, REWARD, 700 ether, 0, 0);
        escrow.release(jobId, 700 ether);
        _books(jobId, REWARD, 0, 0, 0);
    }

    function test_advance() public {
        uint256 jobId = openJob(Kind.Campaign);
        _refused(escrow.CONTROLLER_ROLE());
        escrow.advance(jobId, State.Collecting);
        _control();
        vm.expectRevert(abi.encodeWithSelector(IJobEscrow.UnknownJob.selector, 9));
        escrow.advance(9, State.Collecting);
        vm.expectEmit(address(escrow));
        emit IJobEscrow.StateChanged(jobId, State.Scoring);
        escrow.advance(jobId, State.Scoring);
        State[2] memory back = [State.Scoring, State.Collecting];
        for (uint256 i = 0; i < 2; ++i) {
            vm.expectRevert(
                abi.encodeWithSelector(IJobEscrow.IllegalTransition.selector, jobId, State.Scoring, back[i])
            );
            escrow.advance(jobId, back[i]);
        }
        escrow.advance(jobId, State.Settled);
        vm.expectRevert(
            abi.encodeWithSelector(IJobEscrow.IllegalTransition.selector, jobId, State.Settled, State.Refunded)
        );
        escrow.advance(jobId, State.Refunded);
        vm.assertTrue(escrow.job(jobId).state == State.Settled);
    }

    function test_pay() public {
        uint256 jobId = openJob(Kind.Campaign);
        _refused(escrow.PAYER_ROLE());
        escrow.pay(jobId, STRANGER, 0);
        _control();
        grant(address(escrow), escrow.PAYER_ROLE());
        escrow.reserve(jobId, 10 ether);
        vm.expectRevert(
            abi.encodeWithSelector(IJobEscrow.InsufficientReserved.selector, jobId, 10 ether, 10 ether + 1)
        );
        escrow.pay(jobId, STRANGER, 10 ether + 1);
        vm.expectEmit(address(escrow));
        emit IJobEscrow.Paid(jobId, STRANGER, 4 ether);
        escrow.pay(jobId, STRANGER, 4 ether);
        escrow.pay(jobId, STRANGER, 6 ether);
        _books(jobId, REWARD, 0, 10 ether, 0);
        vm.assertEq(balance(STRANGER), 10_010 ether);
        vm.assertEq(balance(address(escrow)), REWARD - 10 ether);
    }

    function test_refund_after_the_exit_time() public {
        uint256 jobId = openJob(Kind.Campaign);
        _control();
        vm.expectRevert(abi.encodeWithSelector(IJobEscrow.UnknownJob.selector, 9));
        escrow.refund(9);
        escrow.reserve(jobId, 100 ether);
        vm.warp(EXIT - 1);
        vm.expectRevert(abi.encodeWithSelector(IJobEscrow.NotRefundable.selector, jobId, State.Open, EXIT));
        escrow.refund(jobId);
        vm.warp(EXIT);
        vm.expectEmit(address(escrow));
        emit IJobEscrow.StateChanged(jobId, State.Refunded);
        vm.expectEmit(address(escrow));
        emit IJobEscrow.Refunded(jobId, SPONSOR, 900 ether);
        vm.prank(STRANGER);
        vm.assertEq(escrow.refund(jobId), 900 ether);
        vm.assertTrue(escrow.job(jobId).state == State.Refunded);
        _books(jobId, REWARD, 100 ether, 0, 900 ether);
        vm.assertEq(balance(SPONSOR), 9_900 ether);
        vm.expectRevert(abi.encodeWithSelector(IJobEscrow.NothingToRefund.selector, jobId));
        escrow.refund(jobId);
        // What is released late is refunded too.
        escrow.release(jobId, 100 ether);
        vm.assertEq(escrow.refund(jobId), 100 ether);
        vm.assertEq(balance(SPONSOR), 10_000 ether);
    }

    function test_refund_by_state() public {
        _control();
        uint256 jobId = openJob(Kind.Campaign);
        escrow.advance(jobId, State.Settled);
        vm.recordLogs();
        escrow.refund(jobId);
        vm.assertEq(emitted(address(escrow), IJobEscrow.StateChanged.selector), 0);
        vm.assertTrue(escrow.job(jobId).state == State.Settled);
        jobId = openJob(Kind.Campaign);
        escrow.advance(jobId, State.Refunded);
        escrow.refund(jobId);
        // Beyond the exit time a collecting job ends with its refund, a scored one goes on to its own end.
        State[3] memory states = [State.Collecting, State.Scoring, State.Challenge];
        uint256[3] memory ids;
        for (uint256 i = 0; i < 3; ++i) {
            ids[i] = openJob(Kind.Campaign);
            escrow.advance(ids[i], states[i]);
        }
        vm.expectRevert(abi.encodeWithSelector(IJobEscrow.NotRefundable.selector, ids[2], State.Challenge, EXIT));
        escrow.refund(ids[2]);
        vm.warp(EXIT);
        for (uint256 i = 0; i < 3; ++i) {
            escrow.refund(ids[i]);
        }
        vm.assertTrue(escrow.job(ids[0]).state == State.Refunded);
        vm.assertTrue(escrow.job(ids[1]).state == State.Scoring);
        vm.assertTrue(escrow.job(ids[2]).state == State.Challenge);
    }

    function test_views_know_no_unknown_job() public {
        vm.expectRevert(abi.encodeWithSelector(IJobEscrow.UnknownJob.selector, 9));
        escrow.job(9);
        vm.expectRevert(abi.encodeWithSelector(IJobEscrow.UnknownJob.selector, 9));
        escrow.available(9);
    }

    function _control() private {
        grant(address(escrow), escrow.CONTROLLER_ROLE());
    }

    function _refused(bytes32 role) private {
        vm.expectRevert(
            abi.encodeWithSelector(IAccessControl.AccessControlUnauthorizedAccount.selector, STRANGER, role)
        );
        vm.prank(STRANGER);
    }

    function _books(uint256 jobId, uint256 deposited, uint256 reserved, uint256 paid, uint256 refunded) private view {
        IJobEscrow.Job memory job = escrow.job(jobId);
        vm.assertEq(job.deposited, deposited, "deposited");
        vm.assertEq(job.reserved, reserved, "reserved");
        vm.assertEq(job.paid, paid, "paid");
        vm.assertEq(job.refunded, refunded, "refunded");
        vm.assertEq(escrow.available(jobId), deposited - reserved - paid - refunded, "available");
    }
}
