// SPDX-License-Identifier: MIT
pragma solidity 0.8.28;

import {IAccessControl} from "@openzeppelin/contracts/access/IAccessControl.sol";
import {Pausable} from "@openzeppelin/contracts/utils/Pausable.sol";
import {Cid} from "../../contracts/base/Cid.sol";
import {Kind, State} from "../../contracts/interfaces/IJobEscrow.sol";
import {Role} from "../../contracts/interfaces/IStakeManager.sol";
import {ITrainingRegistry, TrainingTerms} from "../../contracts/interfaces/ITrainingRegistry.sol";
import {World} from "./World.sol";
import {vm} from "./Vm.sol";

contract TrainingRegistryTest is World {
    bytes32 private constant DIGEST = "digest";

    function test_bind_peer() public {
        vm.assertEq(address(training.stakes()), address(stakes));
        vm.assertEq(address(training.escrow()), address(escrow));
        vm.assertEq(address(training.distributor()), address(rewards));
        vm.expectRevert(abi.encodeWithSelector(ITrainingRegistry.BadPeerBinding.selector, bytes32(0), 64));
        training.bindPeer(0, new bytes(64));
        vm.expectRevert(abi.encodeWithSelector(ITrainingRegistry.BadPeerBinding.selector, SPEC, 63));
        training.bindPeer(SPEC, new bytes(63));
        vm.expectRevert(abi.encodeWithSelector(ITrainingRegistry.BadPeerBinding.selector, SPEC, 65));
        training.bindPeer(SPEC, new bytes(65));
        vm.expectEmit(address(training));
        emit ITrainingRegistry.PeerBound(address(this), SPEC, new bytes(64));
        training.bindPeer(SPEC, new bytes(64));
        vm.assertEq(training.peerOf(address(this)), SPEC);
        vm.assertEq(training.walletOf(SPEC), address(this));
        // A squatter keeps nobody out.
        vm.prank(STRANGER);
        training.bindPeer(SPEC, new bytes(64));
        vm.assertEq(training.walletOf(SPEC), STRANGER);
    }

    function test_open_training() public {
        uint256 jobId = openJob(Kind.Training);
        vm.expectRevert(abi.encodeWithSelector(ITrainingRegistry.NotSponsor.selector, jobId, STRANGER));
        vm.prank(STRANGER);
        training.openTraining(jobId, trainingTerms());
        TrainingTerms[3] memory bad = [trainingTerms(), trainingTerms(), trainingTerms()];
        bad[0].steps = 0;
        bad[1].roundSteps = 0;
        bad[2].penalty = bad[2].minStake + 1;
        vm.startPrank(SPONSOR);
        for (uint256 i = 0; i < 3; ++i) {
            vm.expectRevert(abi.encodeWithSelector(ITrainingRegistry.BadTerms.selector));
            training.openTraining(jobId, bad[i]);
        }
        bad[2].penalty -= 1;
        vm.expectEmit(address(training));
        emit ITrainingRegistry.TrainingOpened(jobId, bad[2]);
        training.openTraining(jobId, bad[2]);
        vm.assertTrue(escrow.job(jobId).state == State.Collecting);
        vm.assertEq(keccak256(abi.encode(training.terms(jobId))), keccak256(abi.encode(bad[2])));
        vm.expectRevert(abi.encodeWithSelector(ITrainingRegistry.NotOpenTraining.selector, jobId));
        training.openTraining(jobId, trainingTerms());
        vm.stopPrank();
        uint256 collects = openJob(Kind.Campaign);
        vm.expectRevert(abi.encodeWithSelector(ITrainingRegistry.NotOpenTraining.selector, collects));
        vm.prank(SPONSOR);
        training.openTraining(collects, trainingTerms());
    }

    function test_join() public {
        address who = trainer(0);
        uint256 jobId = openJob(Kind.Training);
        vm.expectRevert(abi.encodeWithSelector(ITrainingRegistry.NotRunning.selector, jobId));
        training.join(jobId);
        vm.prank(SPONSOR);
        training.openTraining(jobId, trainingTerms());
        vm.startPrank(who);
        vm.expectRevert(abi.encodeWithSelector(ITrainingRegistry.NoPeerBound.selector, who));
        training.join(jobId);
        training.bindPeer(DIGEST, new bytes(64));
        stakes.stake(Role.Trainer, 50 ether - 1);
        vm.expectRevert(
            abi.encodeWithSelector(ITrainingRegistry.StakeTooSmall.selector, who, 50 ether - 1, 50 ether)
        );
        training.join(jobId);
        stakes.stake(Role.Trainer, 1);
        vm.expectEmit(address(training));
        emit ITrainingRegistry.TrainerJoined(jobId, who, DIGEST);
        training.join(jobId);
        vm.assertEq(training.trainerPeer(jobId, who), DIGEST);
        vm.assertEq(training.trainers(jobId).length, 1);
        vm.assertEq(stakes.lockedUntil(Role.Trainer, who), escrow.job(jobId).exitTime);
        vm.expectRevert(abi.encodeWithSelector(ITrainingRegistry.AlreadyJoined.selector, jobId, who));
        training.join(jobId);
        vm.stopPrank();
        vm.prank(GUARDIAN);
        training.pause();
        vm.expectRevert(abi.encodeWithSelector(Pausable.EnforcedPause.selector));
        training.join(jobId);
    }

    function test_without_any_stake_nobody_joins() public {
        uint256 jobId = openJob(Kind.Training);
        TrainingTerms memory open = trainingTerms();
        (open.minStake, open.penalty) = (0, 0);
        vm.prank(SPONSOR);
        training.openTraining(jobId, open);
        training.bindPeer(DIGEST, new bytes(64));
        vm.expectRevert(abi.encodeWithSelector(ITrainingRegistry.StakeTooSmall.selector, address(this), 0, 0));
        training.join(jobId);
    }

    function test_a_job_that_ended_takes_nobody() public {
        uint256 jobId = openTraining();
        vm.warp(escrow.job(jobId).exitTime);
        escrow.refund(jobId);
        vm.expectRevert(abi.encodeWithSelector(ITrainingRegistry.NotRunning.selector, jobId));
        training.join(jobId);
    }

    function test_a_job_is_full_when_every_seat_of_256_is_taken() public {
        uint256 jobId = openTraining();
        // One seat of stake serves again and again: only the number of trainers is in question here.
        for (uint256 i = 0; i < 257; ++i) {
            address who = address(uint160(0x9000 + i));
            vm.prank(TREASURY);
            token.transfer(who, 50 ether);
            vm.startPrank(who);
            token.approve(address(stakes), 50 ether);
            stakes.stake(Role.Trainer, 50 ether);
            training.bindPeer(peerKey(who), new bytes(64));
            if (i == 256) {
                vm.expectRevert(abi.encodeWithSelector(ITrainingRegistry.JobFull.selector, jobId, 256));
            }
            training.join(jobId);
            if (i != 256) stakes.requestWithdraw(Role.Trainer, 50 ether);
            vm.stopPrank();
        }
    }

    function test_post_record() public {
        uint256 jobId = openTraining();
        vm.expectRevert(abi.encodeWithSelector(ITrainingRegistry.NotTrainer.selector, jobId, address(this)));
        training.postRecord(jobId, 0, 1, DIGEST, CID);
        join(jobId, trainer(0));
        vm.startPrank(trainer(0));
        vm.expectRevert(abi.encodeWithSelector(ITrainingRegistry.BadSteps.selector, uint32(2), uint32(1), uint32(100)));
        training.postRecord(jobId, 2, 1, DIGEST, CID);
        vm.expectRevert(
            abi.encodeWithSelector(ITrainingRegistry.BadSteps.selector, uint32(2), uint32(100), uint32(100))
        );
        training.postRecord(jobId, 2, 100, DIGEST, CID);
        vm.expectRevert(abi.encodeWithSelector(Cid.BadCidLength.selector, 0, 96));
        training.postRecord(jobId, 2, 99, DIGEST, "");
        vm.expectEmit(address(training));
        emit ITrainingRegistry.RecordPosted(jobId, trainer(0), 2, 99, DIGEST, CID);
        training.postRecord(jobId, 2, 99, DIGEST, CID);
        training.postRecord(jobId, 2, 2, SPEC, CID);
        vm.expectRevert(abi.encodeWithSelector(ITrainingRegistry.DuplicateRecord.selector, jobId, trainer(0), DIGEST));
        training.postRecord(jobId, 2, 3, DIGEST, CID);
        vm.stopPrank();
        join(jobId, trainer(1));
        vm.prank(trainer(1));
        training.postRecord(jobId, 2, 3, DIGEST, CID);
        vm.expectRevert(abi.encodeWithSelector(ITrainingRegistry.NotRunning.selector, 9));
        training.postRecord(9, 0, 1, DIGEST, CID);
    }

    function test_attest() public {
        uint256 jobId = _attestable(3);
        bytes32 root = leaf(jobId, trainer(0), 10 ether);
        bytes32 outcome = keccak256(abi.encode(jobId, 0, uint64(0), root, 10 ether, none(), false));
        vm.expectEmit(address(training));
        emit ITrainingRegistry.Attested(jobId, 0, validator(0), outcome, CID);
        attest(validator(0), jobId, 0, 10 ether, none(), false);
        vm.assertEq(training.attestationOf(jobId, 0, validator(0)), outcome);
        vm.assertEq(training.settledRounds(jobId), 0);
        vm.expectEmit(address(training));
        emit ITrainingRegistry.RoundSettled(jobId, 0, root, 10 ether, false, CID);
        attest(validator(1), jobId, 0, 10 ether, none(), false);
        vm.assertEq(training.settledRounds(jobId), 1);
        (bytes32 found, uint256 total,) = rewards.current(jobId);
        vm.assertEq(found, root);
        vm.assertEq(total, 10 ether);
        vm.assertEq(escrow.job(jobId).reserved, 10 ether);
        vm.assertTrue(escrow.job(jobId).state == State.Collecting);
        attest(validator(1), jobId, 1, 10 ether, none(), false);
        attest(validator(2), jobId, 1, 10 ether, none(), false);
        vm.assertEq(escrow.job(jobId).reserved, 10 ether);
        attest(validator(0), jobId, 2, 30 ether, none(), false);
        attest(validator(1), jobId, 2, 30 ether, none(), false);
        vm.assertEq(escrow.job(jobId).reserved, 30 ether);
    }

    function test_attest_is_refused() public {
        uint256 jobId = openJob(Kind.Training);
        vm.expectRevert(abi.encodeWithSelector(ITrainingRegistry.NotValidator.selector, address(this)));
        training.attest(jobId, 0, SPEC, 0, none(), false, CID);
        stakeValidators(1);
        vm.startPrank(validator(0));
        vm.expectRevert(abi.encodeWithSelector(ITrainingRegistry.NotRunning.selector, jobId));
        training.attest(jobId, 0, SPEC, 0, none(), false, CID);
        vm.stopPrank();
        vm.prank(SPONSOR);
        training.openTraining(jobId, trainingTerms());
        vm.startPrank(validator(0));
        vm.expectRevert(abi.encodeWithSelector(ITrainingRegistry.WrongRound.selector, jobId, 1, 0));
        training.attest(jobId, 1, SPEC, 0, none(), false, CID);
        vm.expectRevert(abi.encodeWithSelector(ITrainingRegistry.TooManyCheats.selector, 33, 32));
        training.attest(jobId, 0, SPEC, 0, new address[](33), false, CID);
        vm.expectRevert(abi.encodeWithSelector(Cid.BadCidLength.selector, 0, 96));
        training.attest(jobId, 0, SPEC, 0, none(), false, "");
        training.attest(jobId, 0, SPEC, 0, new address[](32), false, CID);
        vm.stopPrank();
        vm.warp(escrow.job(jobId).exitTime);
        escrow.refund(jobId);
        vm.expectRevert(abi.encodeWithSelector(ITrainingRegistry.NotRunning.selector, jobId));
        vm.prank(validator(0));
        training.attest(jobId, 1, SPEC, 0, none(), false, CID);
    }

    function test_less_than_two_thirds_settle_nothing() public {
        stake(Role.Validator, validator(0), 200 ether - 1);
        stake(Role.Validator, validator(1), 100 ether);
        uint256 jobId = openTraining();
        attest(validator(0), jobId, 0, 10 ether, none(), false);
        vm.assertEq(training.settledRounds(jobId), 0);
        stake(Role.Validator, validator(0), 1 ether);
        attest(validator(0), jobId, 0, 10 ether, none(), false);
        vm.assertEq(training.settledRounds(jobId), 1);
    }

    function test_cheats_are_slashed_and_banned_once() public {
        uint256 jobId = _attestable(2);
        join(jobId, trainer(0));
        join(jobId, trainer(1));
        address[] memory cheats = new address[](3);
        (cheats[0], cheats[1], cheats[2]) = (STRANGER, trainer(1), trainer(1));
        attest(validator(0), jobId, 0, 0, cheats, false);
        vm.expectEmit(address(training));
        emit ITrainingRegistry.TrainerBanned(jobId, trainer(1), 30 ether);
        attest(validator(1), jobId, 0, 0, cheats, false);
        vm.assertTrue(training.isBanned(jobId, trainer(1)));
        vm.assertFalse(training.isBanned(jobId, trainer(0)));
        vm.assertFalse(training.isBanned(jobId, STRANGER));
        vm.assertEq(stakes.stakeOf(Role.Trainer, trainer(1)), 70 ether);
        vm.assertEq(stakes.stakeOf(Role.Trainer, trainer(0)), 100 ether);
        vm.expectRevert(abi.encodeWithSelector(ITrainingRegistry.NotTrainer.selector, jobId, trainer(1)));
        vm.prank(trainer(1));
        training.postRecord(jobId, 0, 1, DIGEST, CID);
    }

    function test_finish() public {
        uint256 jobId = _attestable(1);
        vm.expectRevert(abi.encodeWithSelector(ITrainingRegistry.NotClosed.selector, jobId));
        training.finish(jobId);
        attest(validator(0), jobId, 0, 10 ether, none(), true);
        vm.assertTrue(escrow.job(jobId).state == State.Challenge);
        vm.expectRevert(abi.encodeWithSelector(ITrainingRegistry.NotRunning.selector, jobId));
        vm.prank(validator(0));
        training.attest(jobId, 1, SPEC, 10 ether, none(), false, CID);
        vm.warp(START + 59);
        vm.expectRevert(abi.encodeWithSelector(ITrainingRegistry.Disputable.selector, jobId, uint40(START + 60)));
        training.finish(jobId);
        vm.warp(START + 60);
        training.finish(jobId);
        vm.assertTrue(escrow.job(jobId).state == State.Settled);
    }

    function test_overturn_and_attest_anew() public {
        uint256 jobId = _attestable(1);
        attest(validator(0), jobId, 0, 10 ether, none(), true);
        vm.expectRevert(
            abi.encodeWithSelector(
                IAccessControl.AccessControlUnauthorizedAccount.selector, address(this), training.DISPUTES_ROLE()
            )
        );
        training.overturn(jobId, true);
        grant(address(training), training.DISPUTES_ROLE());
        grant(address(rewards), rewards.DISPUTES_ROLE());
        rewards.suspend(jobId, leaf(jobId, trainer(0), 10 ether));
        vm.expectEmit(address(training));
        emit ITrainingRegistry.RoundReopened(jobId, 0, true);
        training.overturn(jobId, true);
        vm.assertEq(training.settledRounds(jobId), 0);
        vm.assertEq(escrow.job(jobId).reserved, 0);
        vm.expectRevert(abi.encodeWithSelector(ITrainingRegistry.NotClosed.selector, jobId));
        training.finish(jobId);
        // The old attestation counts for nothing: another validator's would find it, were it the same outcome.
        bytes32 root = leaf(jobId, trainer(0), 10 ether);
        bytes32 outcome = keccak256(abi.encode(jobId, 0, uint64(1), root, 10 ether, none(), true));
        attest(validator(0), jobId, 0, 10 ether, none(), true);
        vm.assertEq(training.attestationOf(jobId, 0, validator(0)), outcome);
        vm.assertTrue(escrow.job(jobId).state == State.Challenge);
        vm.assertEq(training.settledRounds(jobId), 1);
        vm.assertEq(training.judges(jobId).length, 0);
    }

    function _attestable(uint256 number) private returns (uint256 jobId) {
        stakeValidators(number);
        jobId = openTraining();
    }
}
