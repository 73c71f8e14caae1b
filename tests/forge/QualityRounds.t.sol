// SPDX-License-Identifier: MIT
pragma solidity 0.8.28;

import {IAccessControl} from "@openzeppelin/contracts/access/IAccessControl.sol";
import {Cid} from "../../contracts/base/Cid.sol";
import {Sortition} from "../../contracts/base/Sortition.sol";
import {IJobEscrow, State} from "../../contracts/interfaces/IJobEscrow.sol";
import {IQualityRounds, RoundState} from "../../contracts/interfaces/IQualityRounds.sol";
import {IRewardsDistributor} from "../../contracts/interfaces/IRewardsDistributor.sol";
import {IStakeManager, Role} from "../../contracts/interfaces/IStakeManager.sol";
import {CampaignTerms} from "../../contracts/interfaces/ISubmissionRegistry.sol";
import {World} from "./World.sol";
import {vm} from "./Vm.sol";

contract QualityRoundsTest is World {
    bytes32 private constant ROOT = "root";
    bytes32 private constant OTHER = "other root";
    uint256 private constant TOTAL = 100 ether;

    // --- the draw ----------------------------------------------------------------------------------------------------

    function test_deployment() public view {
        vm.assertEq(address(quality.stakes()), address(stakes));
        vm.assertEq(address(quality.escrow()), address(escrow));
        vm.assertEq(address(quality.registry()), address(submissions));
        vm.assertEq(address(quality.distributor()), address(rewards));
    }

    function test_a_campaign_must_be_ready() public {
        vm.expectRevert(abi.encodeWithSelector(IQualityRounds.CampaignRunning.selector, 9, uint40(0)));
        quality.openRound(9);
        uint256 jobId = openCampaign(terms());
        uint256 id = commit(jobId, 0);
        vm.warp(START + 209);
        vm.expectRevert(abi.encodeWithSelector(IQualityRounds.CampaignRunning.selector, jobId, uint40(START + 210)));
        quality.openRound(jobId);
        vm.warp(START + 210);
        vm.expectRevert(abi.encodeWithSelector(IQualityRounds.NothingRevealed.selector, jobId));
        quality.openRound(jobId);
        vm.warp(START + 200);
        reveal(id);
        vm.warp(START + 210);
        vm.expectRevert(abi.encodeWithSelector(IQualityRounds.NoValidators.selector));
        quality.openRound(jobId);
        stakeValidators(1);
        vm.expectEmit(address(quality));
        emit IQualityRounds.DrawFixed(jobId, 1_002);
        vm.assertEq(quality.openRound(jobId), 0);
    }

    function test_drawing() public {
        uint256 jobId = submitted(terms());
        stakeValidators(3);
        quality.openRound(jobId);
        vm.expectRevert(abi.encodeWithSelector(IQualityRounds.DrawPending.selector, jobId, 1_002));
        quality.openRound(jobId);
        vm.roll(1_002);
        vm.expectRevert(abi.encodeWithSelector(IQualityRounds.DrawPending.selector, jobId, 1_002));
        quality.openRound(jobId);
        vm.roll(1_003);
        vm.assertEq(quality.openRound(jobId), 1);
        vm.expectRevert(abi.encodeWithSelector(IQualityRounds.AlreadyOpened.selector, jobId, 1));
        quality.openRound(jobId);
        IQualityRounds.Round memory round = quality.round(1);
        vm.assertEq(round.jobId, jobId);
        vm.assertTrue(round.state == RoundState.Commit);
        vm.assertEq(round.commitEnd, START + 210 + 120);
        vm.assertEq(round.revealEnd, START + 210 + 250);
        vm.assertEq(round.reserved, REWARD);
        vm.assertEq(quality.budget(1), REWARD - 3 * FEE);
        vm.assertEq(quality.budget(2), 0);
        vm.assertEq(quality.roundOf(jobId), 1);
        vm.assertEq(quality.roundCount(), 1);
        vm.assertTrue(escrow.job(jobId).state == State.Scoring);
        vm.assertEq(escrow.job(jobId).reserved, REWARD);
        vm.assertEq(quality.committee(1).length, 3);
        vm.assertEq(quality.judges(jobId), quality.committee(1));
        for (uint256 i = 0; i < 3; ++i) {
            vm.assertEq(quality.ballot(1, validator(i)).weight, 100 ether);
            vm.assertEq(stakes.lockedUntil(Role.Validator, validator(i)), START + 210 + 250 + 130);
        }
    }

    function test_a_forgotten_block_never_draws() public {
        uint256 jobId = submitted(terms());
        stakeValidators(3);
        quality.openRound(jobId);
        vm.roll(1_002 + 257);
        vm.expectEmit(address(quality));
        emit IQualityRounds.DrawFixed(jobId, 1_261);
        vm.assertEq(quality.openRound(jobId), 0);
        vm.roll(1_262);
        vm.assertEq(quality.openRound(jobId), 1);
    }

    function test_a_committee_has_sixteen_seats_at_most_and_no_more_than_the_money_pays_for() public {
        for (uint256 i = 0; i < 20; ++i) {
            address who = address(uint160(0x9000 + i));
            supply(who);
            stake(Role.Validator, who, 1 ether + i);
        }
        vm.assertEq(quality.committee(openRound(submitted(terms()))).length, 16);
        CampaignTerms memory dear = terms();
        dear.validatorFee = REWARD / 4;
        vm.assertEq(quality.committee(openRound(submitted(dear))).length, 3);
        dear.validatorFee = REWARD / 4 - 1;
        vm.assertEq(quality.committee(openRound(submitted(dear))).length, 4);
        CampaignTerms memory free = terms();
        free.validatorFee = 0;
        vm.assertEq(quality.committee(openRound(submitted(free))).length, 16);
        dear.validatorFee = REWARD;
        uint256 jobId = submitted(dear);
        quality.openRound(jobId);
        vm.roll(block.number + 3);
        vm.expectRevert(abi.encodeWithSelector(IQualityRounds.FeesNotCovered.selector, jobId, REWARD, REWARD));
        quality.openRound(jobId);
    }

    // --- votes -------------------------------------------------------------------------------------------------------

    function test_commit() public {
        (, uint256 id) = _round();
        vm.expectRevert(abi.encodeWithSelector(IQualityRounds.RoundNotOpen.selector, id + 1));
        quality.commit(id + 1, ROOT);
        for (uint256 i = 0; i < 2; ++i) {
            vm.expectRevert(abi.encodeWithSelector(IQualityRounds.EmptyCommitment.selector));
            quality.commit(id, bytes32(i));
        }
        vm.expectRevert(abi.encodeWithSelector(IQualityRounds.NotOnCommittee.selector, id, STRANGER));
        vm.prank(STRANGER);
        quality.commit(id, ROOT);
        IQualityRounds.Ballot memory ballot = quality.ballot(id, validator(0));
        vm.assertEq(ballot.commitment, 0);
        uint256 commitEnd = quality.round(id).commitEnd;
        vm.warp(commitEnd - 1);
        bytes32 commitment = quality.commitmentOf(id, validator(0), ROOT, TOTAL, CID, SALT);
        vm.expectEmit(address(quality));
        emit IQualityRounds.Committed(id, validator(0), commitment);
        voteFor(id, validator(0), ROOT, TOTAL);
        vm.assertEq(quality.ballot(id, validator(0)).commitment, commitment);
        vm.assertEq(quality.ballot(id, validator(0)).root, 0);
        vm.expectRevert(abi.encodeWithSelector(IQualityRounds.AlreadyCommitted.selector, id, validator(0)));
        vm.prank(validator(0));
        quality.commit(id, ROOT);
        vm.warp(commitEnd);
        vm.expectRevert(abi.encodeWithSelector(IQualityRounds.CommitClosed.selector, id, uint40(commitEnd)));
        vm.prank(validator(1));
        quality.commit(id, ROOT);
        vm.assertTrue(quality.round(id).state == RoundState.Reveal);
    }

    function test_what_a_commitment_binds() public view {
        vm.assertEq(
            quality.commitmentOf(3, person(1), ROOT, TOTAL, CID, SALT),
            keccak256(
                abi.encode(block.chainid, quality, 3, person(1), ROOT, TOTAL, keccak256(bytes(CID)), SALT)
            )
        );
    }

    function test_the_reveals_begin_when_everybody_has_committed() public {
        (, uint256 id) = _round();
        vm.warp(block.timestamp + 10);
        voteFor(id, validator(0), ROOT, TOTAL);
        voteFor(id, validator(1), ROOT, TOTAL);
        uint40 commitEnd = quality.round(id).commitEnd;
        uint40 revealEnd = quality.round(id).revealEnd;
        vm.expectRevert(
            abi.encodeWithSelector(IQualityRounds.OutsideRevealWindow.selector, id, commitEnd, revealEnd)
        );
        show(id, validator(0), ROOT, TOTAL);
        uint40 closed = uint40(block.timestamp);
        vm.expectEmit(address(quality));
        emit IQualityRounds.CommitsClosed(id, closed, closed + 130);
        voteFor(id, validator(2), ROOT, TOTAL);
        IQualityRounds.Round memory round = quality.round(id);
        vm.assertEq(round.commitEnd, closed);
        vm.assertEq(round.revealEnd, closed + 130);
        vm.assertTrue(round.state == RoundState.Reveal);
        show(id, validator(0), ROOT, TOTAL);
    }

    function test_reveal() public {
        (, uint256 id) = _round();
        voteFor(id, validator(0), ROOT, TOTAL);
        voteFor(id, validator(1), ROOT, TOTAL);
        (uint40 commitEnd, uint40 revealEnd) = (quality.round(id).commitEnd, quality.round(id).revealEnd);
        vm.warp(commitEnd - 1);
        vm.expectRevert(
            abi.encodeWithSelector(IQualityRounds.OutsideRevealWindow.selector, id, commitEnd, revealEnd)
        );
        show(id, validator(0), ROOT, TOTAL);
        vm.warp(commitEnd);
        vm.expectRevert(abi.encodeWithSelector(IQualityRounds.NotOnCommittee.selector, id, STRANGER));
        show(id, STRANGER, ROOT, TOTAL);
        vm.expectRevert(
            abi.encodeWithSelector(
                IQualityRounds.CommitmentMismatch.selector,
                id,
                quality.commitmentOf(id, validator(0), ROOT, TOTAL, CID, SALT),
                quality.commitmentOf(id, validator(0), ROOT, TOTAL + 1, CID, SALT)
            )
        );
        show(id, validator(0), ROOT, TOTAL + 1);
        vm.expectRevert(abi.encodeWithSelector(Cid.BadCidLength.selector, 0, 96));
        vm.prank(validator(0));
        quality.reveal(id, ROOT, TOTAL, "", SALT);
        vm.expectEmit(address(quality));
        emit IQualityRounds.Revealed(id, validator(0), ROOT, TOTAL, CID);
        show(id, validator(0), ROOT, TOTAL);
        IQualityRounds.Ballot memory ballot = quality.ballot(id, validator(0));
        vm.assertTrue(ballot.revealed);
        vm.assertEq(ballot.root, ROOT);
        vm.assertEq(ballot.commitment, 0);
        vm.assertEq(ballot.total, TOTAL);
        vm.expectRevert(abi.encodeWithSelector(IQualityRounds.AlreadyRevealed.selector, id, validator(0)));
        show(id, validator(0), ROOT, TOTAL);
        vm.warp(revealEnd - 1);
        show(id, validator(1), ROOT, TOTAL);
        vm.warp(revealEnd);
        vm.expectRevert(
            abi.encodeWithSelector(IQualityRounds.OutsideRevealWindow.selector, id, commitEnd, revealEnd)
        );
        show(id, validator(2), ROOT, TOTAL);
    }

    // --- the tally ---------------------------------------------------------------------------------------------------

    function test_a_result_that_passes() public {
        (uint256 jobId, uint256 id) = _round();
        bytes32 root = leaf(jobId, person(0), TOTAL);
        agree(jobId, id, TOTAL);
        vm.expectEmit(address(escrow));
        emit IJobEscrow.Released(jobId, REWARD - 3 * FEE - TOTAL);
        vm.expectEmit(address(rewards));
        emit IRewardsDistributor.RootPublished(jobId, root, TOTAL, uint40(block.timestamp + 60));
        vm.recordLogs();
        quality.tally(id);
        IQualityRounds.Round memory round = quality.round(id);
        vm.assertTrue(round.state == RoundState.Tallied);
        vm.assertEq(round.root, root);
        vm.assertEq(round.total, TOTAL);
        vm.assertTrue(escrow.job(jobId).state == State.Challenge);
        vm.assertEq(escrow.job(jobId).reserved, TOTAL);
        for (uint256 i = 0; i < 3; ++i) {
            vm.assertEq(balance(validator(i)), 9_900 ether + FEE);
        }
        vm.expectRevert(abi.encodeWithSelector(IQualityRounds.RoundNotOpen.selector, id));
        quality.tally(id);
    }

    function test_backers_stay_locked_while_the_result_can_be_disputed() public {
        (uint256 jobId, uint256 id) = _round();
        agree(jobId, id, TOTAL);
        vm.warp(quality.round(id).revealEnd + 1_000);
        quality.tally(id);
        vm.assertEq(stakes.lockedUntil(Role.Validator, validator(0)), block.timestamp + 60);
    }

    function test_the_tally_says_how_much_backs_it() public {
        (uint256 jobId, uint256 id) = _round();
        bytes32 root = leaf(jobId, person(0), TOTAL);
        agree(jobId, id, TOTAL);
        vm.expectEmit(address(quality));
        emit IQualityRounds.Tallied(id, jobId, root, TOTAL, 300 ether);
        quality.tally(id);
    }

    function test_when_a_round_may_be_tallied() public {
        (, uint256 id) = _round();
        voteFor(id, validator(0), ROOT, TOTAL);
        voteFor(id, validator(1), ROOT, TOTAL);
        (uint40 commitEnd, uint40 revealEnd) = (quality.round(id).commitEnd, quality.round(id).revealEnd);
        vm.warp(commitEnd - 1);
        vm.expectRevert(abi.encodeWithSelector(IQualityRounds.RevealsOpen.selector, id, revealEnd));
        quality.tally(id);
        vm.warp(commitEnd);
        show(id, validator(0), ROOT, TOTAL);
        vm.warp(revealEnd - 1);
        vm.expectRevert(abi.encodeWithSelector(IQualityRounds.RevealsOpen.selector, id, revealEnd));
        quality.tally(id);
        show(id, validator(1), ROOT, TOTAL);
        quality.tally(id);
        vm.assertTrue(quality.round(id).state == RoundState.Tallied);
    }

    function test_nobody_waits_for_the_last_revealer_beyond_its_window() public {
        (, uint256 id) = _round();
        for (uint256 i = 0; i < 3; ++i) {
            voteFor(id, validator(i), ROOT, TOTAL);
        }
        show(id, validator(0), ROOT, TOTAL);
        show(id, validator(1), ROOT, TOTAL);
        vm.warp(quality.round(id).revealEnd);
        quality.tally(id);
        vm.assertTrue(quality.round(id).state == RoundState.Tallied);
        vm.assertEq(stakes.stakeOf(Role.Validator, validator(2)), 100 ether - PENALTY);
    }

    function test_two_thirds_are_enough_and_the_silent_pay() public {
        (uint256 jobId, uint256 id) = _round();
        voteFor(id, validator(0), ROOT, TOTAL);
        voteFor(id, validator(1), ROOT, TOTAL);
        vm.warp(quality.round(id).commitEnd);
        show(id, validator(0), ROOT, TOTAL);
        show(id, validator(1), ROOT, TOTAL);
        quality.tally(id);
        vm.assertTrue(quality.round(id).state == RoundState.Tallied);
        vm.assertEq(stakes.stakeOf(Role.Validator, validator(2)), 100 ether - PENALTY);
        vm.assertEq(stakes.stakeOf(Role.Validator, validator(0)), 100 ether);
        // The silent one's fee is not spent: it goes back with the rest.
        vm.assertEq(escrow.job(jobId).reserved, TOTAL);
        vm.assertEq(escrow.available(jobId), REWARD - TOTAL - 2 * FEE);
    }

    function test_less_than_two_thirds_are_not() public {
        stake(Role.Validator, validator(0), 100 ether - 1);
        stake(Role.Validator, validator(1), 100 ether);
        stake(Role.Validator, validator(2), 100 ether);
        uint256 jobId = submitted(terms());
        uint256 id = openRound(jobId);
        for (uint256 i = 0; i < 3; ++i) {
            voteFor(id, validator(i), i == 2 ? OTHER : ROOT, TOTAL);
        }
        for (uint256 i = 0; i < 3; ++i) {
            show(id, validator(i), i == 2 ? OTHER : ROOT, TOTAL);
        }
        vm.expectEmit(address(quality));
        emit IQualityRounds.Redrawing(id, jobId);
        vm.expectEmit(address(quality));
        emit IQualityRounds.DrawFixed(jobId, block.number + 2);
        quality.tally(id);
        vm.assertTrue(quality.round(id).state == RoundState.Failed);
        // Everybody spoke, nothing passed: nobody can tell a lie from an honest difference.
        for (uint256 i = 0; i < 3; ++i) {
            vm.assertEq(balance(validator(i)) + stakes.stakeOf(Role.Validator, validator(i)), 10_000 ether);
        }
    }

    function test_the_wrong_pay_when_a_result_passes() public {
        stakeValidators(4);
        uint256 jobId = submitted(terms());
        uint256 id = openRound(jobId);
        // One names another root, though the same total, and one the same root with another total.
        bytes32[4] memory roots = [OTHER, ROOT, ROOT, ROOT];
        for (uint256 i = 0; i < 4; ++i) {
            voteFor(id, validator(i), roots[i], TOTAL);
        }
        for (uint256 i = 0; i < 4; ++i) {
            show(id, validator(i), roots[i], TOTAL);
        }
        quality.tally(id);
        vm.assertTrue(quality.round(id).state == RoundState.Tallied);
        vm.assertEq(quality.round(id).root, ROOT);
        vm.assertEq(stakes.stakeOf(Role.Validator, validator(0)), 100 ether - PENALTY);
        vm.assertEq(stakes.stakeOf(Role.Validator, validator(1)), 100 ether);
        vm.assertEq(balance(validator(0)), 9_900 ether);
    }

    function test_a_result_is_a_root_and_a_total() public {
        (, uint256 id) = _round();
        for (uint256 i = 0; i < 3; ++i) {
            voteFor(id, validator(i), ROOT, TOTAL + i);
        }
        for (uint256 i = 0; i < 3; ++i) {
            show(id, validator(i), ROOT, TOTAL + i);
        }
        quality.tally(id);
        vm.assertTrue(quality.round(id).state == RoundState.Failed);
    }

    function test_the_majority_is_found_in_any_order() public {
        for (uint256 odd = 0; odd < 5; ++odd) {
            _majority(odd);
        }
    }

    /// @dev Five members of the weights 1 to 5: the one whose place is `odd` and the next vote otherwise.
    function _majority(uint256 odd) private {
        super.setUp();
        for (uint256 i = 0; i < 5; ++i) {
            stake(Role.Validator, person(i), (i + 1) * 10 ether);
        }
        uint256 jobId = submitted(terms());
        uint256 id = openRound(jobId);
        for (uint256 i = 0; i < 5; ++i) {
            voteFor(id, person(i), _choice(i, odd), TOTAL);
        }
        for (uint256 i = 0; i < 5; ++i) {
            show(id, person(i), _choice(i, odd), TOTAL);
        }
        quality.tally(id);
        uint256 backing = 150 ether - (odd + 1) * 10 ether;
        vm.assertTrue(quality.round(id).state == (backing >= 100 ether ? RoundState.Tallied : RoundState.Failed));
        if (backing >= 100 ether) vm.assertEq(quality.round(id).root, ROOT);
    }

    function _choice(uint256 i, uint256 odd) private pure returns (bytes32) {
        return i == odd ? OTHER : ROOT;
    }

    function test_a_total_above_the_budget_never_passes() public {
        (uint256 jobId, uint256 id) = _round();
        agree(jobId, id, REWARD - 3 * FEE + 1);
        quality.tally(id);
        vm.assertTrue(quality.round(id).state == RoundState.Failed);
        id = _drawAgain(jobId);
        agree(jobId, id, REWARD - 3 * FEE);
        quality.tally(id);
        vm.assertTrue(quality.round(id).state == RoundState.Tallied);
        vm.assertEq(escrow.available(jobId), 0);
    }

    function test_silence_is_slashed_and_the_second_failure_refunds() public {
        (uint256 jobId, uint256 id) = _round();
        vm.warp(quality.round(id).revealEnd);
        quality.tally(id);
        vm.assertTrue(quality.round(id).state == RoundState.Failed);
        for (uint256 i = 0; i < 3; ++i) {
            vm.assertEq(stakes.stakeOf(Role.Validator, validator(i)), 100 ether - PENALTY);
        }
        vm.assertEq(escrow.job(jobId).reserved, REWARD);
        id = _drawAgain(jobId);
        vm.assertEq(id, 2);
        vm.assertEq(quality.round(id).reserved, REWARD);
        vm.warp(quality.round(id).revealEnd);
        vm.expectEmit(address(quality));
        emit IQualityRounds.Failed(id, jobId);
        quality.tally(id);
        // Half of what is at stake, when the penalty would be more.
        vm.assertEq(stakes.stakeOf(Role.Validator, validator(0)), 30 ether);
        vm.assertTrue(escrow.job(jobId).state == State.Refunded);
        vm.assertEq(escrow.available(jobId), REWARD);
        vm.expectRevert(abi.encodeWithSelector(IQualityRounds.AlreadyOpened.selector, jobId, id));
        quality.openRound(jobId);
    }

    function test_without_anybody_to_draw_again_the_job_is_refunded() public {
        (uint256 jobId, uint256 id) = _round();
        vm.warp(quality.round(id).revealEnd);
        quality.tally(id);
        for (uint256 i = 0; i < 3; ++i) {
            vm.prank(validator(i));
            stakes.requestWithdraw(Role.Validator, 60 ether);
        }
        vm.roll(block.number + 3);
        vm.expectEmit(address(quality));
        emit IQualityRounds.Failed(id, jobId);
        vm.assertEq(quality.openRound(jobId), 0);
        vm.assertTrue(escrow.job(jobId).state == State.Refunded);
        vm.assertEq(quality.roundCount(), 1);
    }

    function test_reveals_stir_the_next_draw() public {
        // The same block draws for two worlds that differ in one revealed salt alone.
        bytes32 first = _drawnAfter("one salt");
        bytes32 second = _drawnAfter("another");
        vm.assertTrue(first != second);
    }

    function _drawnAfter(bytes32 salt) private returns (bytes32) {
        super.setUp();
        for (uint256 i = 0; i < 40; ++i) {
            address who = address(uint160(0x9000 + i));
            supply(who);
            stake(Role.Validator, who, 1 ether);
        }
        uint256 id = openRound(submitted(terms()));
        address one = quality.committee(id)[0];
        bytes32 commitment = quality.commitmentOf(id, one, ROOT, TOTAL, CID, salt);
        vm.prank(one);
        quality.commit(id, commitment);
        vm.warp(quality.round(id).commitEnd);
        vm.prank(one);
        quality.reveal(id, ROOT, TOTAL, CID, salt);
        return keccak256(abi.encode(quality.committee(openRound(submitted(terms())))));
    }

    // --- the end -----------------------------------------------------------------------------------------------------

    function test_finish() public {
        (uint256 jobId, uint256 id) = _round();
        vm.expectRevert(abi.encodeWithSelector(IQualityRounds.NotTallied.selector, jobId, id));
        quality.finish(jobId);
        agree(jobId, id, TOTAL);
        quality.tally(id);
        uint40 activeAt = uint40(block.timestamp + 60);
        vm.warp(activeAt - 1);
        vm.expectRevert(abi.encodeWithSelector(IQualityRounds.Disputable.selector, jobId, activeAt));
        quality.finish(jobId);
        vm.warp(activeAt);
        quality.finish(jobId);
        vm.assertTrue(escrow.job(jobId).state == State.Settled);
    }

    function test_overturn() public {
        (uint256 jobId, uint256 id) = _round();
        voteFor(id, validator(0), ROOT, TOTAL);
        voteFor(id, validator(1), ROOT, TOTAL);
        voteFor(id, validator(2), OTHER, TOTAL);
        show(id, validator(0), ROOT, TOTAL);
        show(id, validator(1), ROOT, TOTAL);
        show(id, validator(2), OTHER, TOTAL);
        quality.tally(id);
        vm.expectRevert(
            abi.encodeWithSelector(
                IAccessControl.AccessControlUnauthorizedAccount.selector, address(this), quality.DISPUTES_ROLE()
            )
        );
        quality.overturn(jobId, true);
        _suspend(jobId, ROOT);
        vm.expectEmit(address(quality));
        emit IQualityRounds.Overturned(id, jobId, true);
        quality.overturn(jobId, true);
        vm.assertTrue(quality.round(id).state == RoundState.Failed);
        vm.assertEq(stakes.stakeOf(Role.Validator, validator(0)), 60 ether);
        vm.assertEq(stakes.stakeOf(Role.Validator, validator(1)), 60 ether);
        // This one was punished at the tally, and is not punished for having been right.
        vm.assertEq(stakes.stakeOf(Role.Validator, validator(2)), 60 ether);
        vm.assertTrue(escrow.job(jobId).state == State.Refunded);
        vm.assertEq(escrow.job(jobId).reserved, 0);
    }

    function test_overturned_without_a_verdict_nobody_pays() public {
        (uint256 jobId, uint256 id) = _round();
        agree(jobId, id, TOTAL);
        quality.tally(id);
        _suspend(jobId, quality.round(id).root);
        quality.overturn(jobId, false);
        vm.assertEq(stakes.stakeOf(Role.Validator, validator(0)), 100 ether);
        vm.assertTrue(escrow.job(jobId).state == State.Refunded);
    }

    function _suspend(uint256 jobId, bytes32 root) private {
        grant(address(quality), quality.DISPUTES_ROLE());
        grant(address(rewards), rewards.DISPUTES_ROLE());
        rewards.suspend(jobId, root);
    }

    /// @dev Three validators with 100 HYDRA each, all of them drawn.
    function _round() private returns (uint256 jobId, uint256 roundId) {
        stakeValidators(3);
        jobId = submitted(terms());
        roundId = openRound(jobId);
    }

    function _drawAgain(uint256 jobId) private returns (uint256) {
        vm.roll(block.number + 3);
        return quality.openRound(jobId);
    }
}

contract SortitionTest {
    function test_the_draw() public pure {
        uint256[4] memory given = [uint256(5), 0, 3, 2];
        uint256[4] memory firsts;
        for (uint256 seed = 0; seed < 400; ++seed) {
            (address[] memory who, uint256[] memory weights) = _candidates(given);
            uint256 drawn = Sortition.draw(who, weights, 2, bytes32(seed));
            vm.assertEq(drawn, 2);
            vm.assertTrue(who[0] != who[1]);
            for (uint256 i = 0; i < 4; ++i) {
                // Each keeps its weight, and the weightless one is never among the drawn.
                vm.assertEq(weights[i], given[uint160(who[i]) - 1]);
                if (i < 2) vm.assertTrue(weights[i] != 0);
            }
            ++firsts[uint160(who[0]) - 1];
        }
        // 400 draws with the chances 5 : 3 : 2.
        vm.assertTrue(firsts[0] > 160 && firsts[0] < 240);
        vm.assertTrue(firsts[2] > 90 && firsts[2] < 150);
        vm.assertTrue(firsts[3] > 50 && firsts[3] < 110);
    }

    function test_no_more_than_have_weight() public pure {
        (address[] memory who, uint256[] memory weights) = _candidates([uint256(0), 0, 3, 2]);
        vm.assertEq(Sortition.draw(who, weights, 4, 0), 2);
        (who, weights) = _candidates([uint256(0), 0, 0, 0]);
        vm.assertEq(Sortition.draw(who, weights, 4, 0), 0);
    }

    function _candidates(uint256[4] memory given) private pure returns (address[] memory who, uint256[] memory weights) {
        (who, weights) = (new address[](4), new uint256[](4));
        for (uint256 i = 0; i < 4; ++i) {
            (who[i], weights[i]) = (address(uint160(i + 1)), given[i]);
        }
    }
}
