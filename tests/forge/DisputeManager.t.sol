// SPDX-License-Identifier: MIT
pragma solidity 0.8.28;

import {Cid} from "../../contracts/base/Cid.sol";
import {Kind, State} from "../../contracts/interfaces/IJobEscrow.sol";
import {DisputeState, IDisputeManager} from "../../contracts/interfaces/IDisputeManager.sol";
import {IRewardsDistributor} from "../../contracts/interfaces/IRewardsDistributor.sol";
import {IStakeManager, Role} from "../../contracts/interfaces/IStakeManager.sol";
import {CampaignTerms} from "../../contracts/interfaces/ISubmissionRegistry.sol";
import {World} from "./World.sol";
import {vm} from "./Vm.sol";

contract DisputeManagerTest is World {
    uint256 private constant BOND = 50 ether;
    uint256 private constant TOTAL = 100 ether;
    address private constant DEFENDER = address(0xDEF);

    function setUp() public override {
        super.setUp();
        supply(DEFENDER);
    }

    function test_deployment() public view {
        vm.assertEq(address(disputes.token()), address(token));
        vm.assertEq(address(disputes.stakes()), address(stakes));
        vm.assertEq(address(disputes.escrow()), address(escrow));
        vm.assertEq(address(disputes.rewards()), address(rewards));
        vm.assertEq(address(disputes.quality()), address(quality));
        vm.assertEq(address(disputes.training()), address(training));
        vm.assertEq(disputes.bond(), BOND);
        vm.assertEq(disputes.windowSeconds(), 100);
    }

    // --- challenge and defence ---------------------------------------------------------------------------------------

    function test_challenge() public {
        (uint256 jobId, bytes32 root) = _campaign(3);
        vm.startPrank(STRANGER);
        vm.expectRevert(abi.encodeWithSelector(Cid.BadCidLength.selector, 0, 96));
        disputes.challenge(jobId, root, "");
        uint40 answerEnd = uint40(block.timestamp + 100);
        vm.expectEmit(address(disputes));
        emit IDisputeManager.Challenged(1, jobId, STRANGER, root, CID, BOND, answerEnd);
        vm.assertEq(disputes.challenge(jobId, root, CID), 1);
        vm.stopPrank();
        IDisputeManager.Dispute memory d = disputes.dispute(1);
        vm.assertEq(d.jobId, jobId);
        vm.assertEq(d.root, root);
        vm.assertEq(d.challenger, STRANGER);
        vm.assertEq(d.defender, address(0));
        vm.assertEq(d.answerEnd, answerEnd);
        vm.assertTrue(d.state == DisputeState.Drawing && !d.everyone);
        vm.assertEq(balance(STRANGER), 10_000 ether - BOND);
        vm.assertEq(balance(address(disputes)), BOND);
        for (uint256 i = 0; i < 3; ++i) {
            vm.assertEq(stakes.lockedUntil(Role.Validator, validator(i)), answerEnd + 300);
        }
        (,, uint40 activeAt) = rewards.current(jobId);
        vm.assertEq(activeAt, type(uint40).max);
    }

    function test_defend() public {
        _challenged(3);
        vm.expectRevert(
            abi.encodeWithSelector(IDisputeManager.WrongDisputeState.selector, 2, DisputeState.None)
        );
        disputes.defend(2, CID);
        uint40 answerEnd = disputes.dispute(1).answerEnd;
        vm.startPrank(DEFENDER);
        vm.warp(answerEnd);
        vm.expectRevert(abi.encodeWithSelector(IDisputeManager.AnswersClosed.selector, 1, answerEnd));
        disputes.defend(1, CID);
        vm.warp(answerEnd - 1);
        vm.expectRevert(abi.encodeWithSelector(Cid.BadCidLength.selector, 0, 96));
        disputes.defend(1, "");
        vm.expectEmit(address(disputes));
        emit IDisputeManager.Defended(1, DEFENDER, CID, BOND);
        disputes.defend(1, CID);
        vm.stopPrank();
        vm.assertEq(disputes.dispute(1).defender, DEFENDER);
        vm.assertEq(balance(address(disputes)), 2 * BOND);
        vm.expectRevert(abi.encodeWithSelector(IDisputeManager.AlreadyDefended.selector, 1, DEFENDER));
        disputes.defend(1, CID);
    }

    // --- the jury ----------------------------------------------------------------------------------------------------

    function test_seat_waits_for_an_answer_and_for_the_block() public {
        _challenged(3);
        uint40 answerEnd = disputes.dispute(1).answerEnd;
        vm.warp(answerEnd - 1);
        vm.expectRevert(abi.encodeWithSelector(IDisputeManager.AnswersOpen.selector, 1, answerEnd));
        disputes.seat(1);
        vm.warp(answerEnd);
        uint256 anchor = block.number + 2;
        vm.expectEmit(address(disputes));
        emit IDisputeManager.DrawFixed(1, anchor);
        vm.assertFalse(disputes.seat(1));
        vm.roll(anchor);
        vm.expectRevert(abi.encodeWithSelector(IDisputeManager.DrawPending.selector, 1, anchor));
        disputes.seat(1);
        // Forgotten: fixed to a later block.
        vm.roll(anchor + 257);
        vm.assertFalse(disputes.seat(1));
        vm.roll(anchor + 260);
        vm.assertTrue(disputes.seat(1));
        vm.expectRevert(
            abi.encodeWithSelector(IDisputeManager.WrongDisputeState.selector, 1, DisputeState.Voting)
        );
        disputes.seat(1);
    }

    function test_an_answer_ends_the_waiting() public {
        _challenged(3);
        _defend();
        vm.assertFalse(disputes.seat(1));
    }

    function test_a_jury_is_twice_the_committee_and_holds_none_of_it() public {
        _manyValidators(10);
        (uint256 jobId,) = _challengedByCommitteeOf(3);
        _defend();
        disputes.seat(1);
        vm.roll(block.number + 3);
        vm.recordLogs();
        disputes.seat(1);
        IDisputeManager.Dispute memory d = disputes.dispute(1);
        address[] memory jury = disputes.jury(1);
        vm.assertEq(jury.length, 6);
        vm.assertEq(d.jurors, 6);
        vm.assertFalse(d.everyone);
        vm.assertEq(d.voteEnd, block.timestamp + 100);
        uint256 weight = 0;
        address[] memory judges = quality.judges(jobId);
        for (uint256 i = 0; i < 6; ++i) {
            weight += stakes.stakeOf(Role.Validator, jury[i]);
            vm.assertEq(stakes.lockedUntil(Role.Validator, jury[i]), d.voteEnd + 100);
            for (uint256 k = 0; k < 3; ++k) {
                vm.assertTrue(jury[i] != judges[k]);
            }
        }
        vm.assertEq(d.weight, weight);
        vm.assertEq(emitted(address(disputes), IDisputeManager.JurySeated.selector), 1);
    }

    function test_just_enough_others_make_a_drawn_jury_and_one_less_makes_everyone() public {
        _manyValidators(9);
        _challengedByCommitteeOf(3);
        _defend();
        _seat();
        vm.assertFalse(disputes.dispute(1).everyone);
        vm.assertEq(disputes.jury(1).length, 6);
        super.setUp();
        supply(DEFENDER);
        _manyValidators(8);
        _challengedByCommitteeOf(3);
        _defend();
        _seat();
        vm.assertTrue(disputes.dispute(1).everyone);
        vm.assertEq(disputes.jury(1).length, 8);
    }

    // --- votes -------------------------------------------------------------------------------------------------------

    function test_vote() public {
        _seated(3);
        uint40 voteEnd = disputes.dispute(1).voteEnd;
        vm.expectRevert(abi.encodeWithSelector(IDisputeManager.NotJuror.selector, 1, STRANGER));
        vm.prank(STRANGER);
        disputes.vote(1, true);
        vm.expectEmit(address(disputes));
        emit IDisputeManager.Voted(1, validator(0), true, 100 ether);
        _vote(0, true);
        vm.expectRevert(abi.encodeWithSelector(IDisputeManager.AlreadyVoted.selector, 1, validator(0)));
        _vote(0, false);
        vm.warp(voteEnd - 1);
        _vote(1, false);
        IDisputeManager.Dispute memory d = disputes.dispute(1);
        vm.assertEq(d.upholding, 100 ether);
        vm.assertEq(d.overturning, 100 ether);
        vm.assertEq(d.voted, 2);
        vm.assertEq(d.weight, 300 ether);
        vm.expectRevert(abi.encodeWithSelector(IDisputeManager.VotesOpen.selector, 1, voteEnd));
        disputes.resolve(1);
        vm.warp(voteEnd);
        vm.expectRevert(abi.encodeWithSelector(IDisputeManager.VotesClosed.selector, 1, voteEnd));
        _vote(2, false);
    }

    // --- verdicts ----------------------------------------------------------------------------------------------------

    function test_upheld() public {
        (uint256 jobId, bytes32 root) = _seated(3);
        _vote(0, true);
        _vote(1, true);
        _vote(2, false);
        vm.expectEmit(address(disputes));
        emit IDisputeManager.Resolved(1, jobId, DisputeState.Upheld, 200 ether, 100 ether, 300 ether);
        vm.expectEmit(address(rewards));
        emit IRewardsDistributor.RootResumed(jobId, root);
        disputes.resolve(1);
        vm.assertTrue(disputes.dispute(1).state == DisputeState.Upheld);
        // The defender has its bond and half of the challenger's; three jurors share the rest, with two wei left over.
        uint256 share = BOND / 2 / 3;
        vm.assertEq(balance(DEFENDER), 10_000 ether + BOND - 3 * share);
        vm.assertEq(balance(STRANGER), 10_000 ether - BOND);
        for (uint256 i = 0; i < 3; ++i) {
            vm.assertEq(balance(validator(i)), 9_900 ether + FEE + share);
        }
        vm.assertEq(balance(address(disputes)), 0);
        vm.expectRevert(abi.encodeWithSelector(IDisputeManager.WrongDisputeState.selector, 1, DisputeState.Upheld));
        disputes.resolve(1);
    }

    function test_upheld_without_a_defender_the_jurors_share_all() public {
        _challenged(3);
        vm.warp(disputes.dispute(1).answerEnd);
        _seat();
        _vote(0, true);
        _vote(1, true);
        vm.warp(disputes.dispute(1).voteEnd);
        vm.expectEmit(address(disputes));
        emit IDisputeManager.BondPaid(1, validator(0), BOND / 2);
        disputes.resolve(1);
        vm.assertEq(balance(validator(0)), 9_900 ether + FEE + BOND / 2);
        vm.assertEq(balance(validator(1)), 9_900 ether + FEE + BOND / 2);
        // The silent one loses a tenth, and gets nothing.
        vm.assertEq(balance(validator(2)), 9_900 ether + FEE);
        vm.assertEq(stakes.stakeOf(Role.Validator, validator(2)), 90 ether);
        vm.assertEq(stakes.stakeOf(Role.Validator, validator(0)), 100 ether);
        vm.assertEq(balance(address(disputes)), 0);
    }

    function test_what_does_not_divide_is_the_last_jurors() public {
        _challenged(3);
        vm.warp(disputes.dispute(1).answerEnd);
        _seat();
        for (uint256 i = 0; i < 3; ++i) {
            _vote(i, true);
        }
        disputes.resolve(1);
        vm.assertEq(balance(validator(0)), 9_900 ether + FEE + BOND / 3);
        vm.assertEq(balance(validator(2)), 9_900 ether + FEE + BOND - 2 * (BOND / 3));
    }

    function test_overturned() public {
        (uint256 jobId,) = _seated(3);
        for (uint256 i = 0; i < 2; ++i) {
            _vote(i, false);
        }
        _vote(2, true);
        disputes.resolve(1);
        vm.assertTrue(disputes.dispute(1).state == DisputeState.Overturned);
        vm.assertTrue(escrow.job(jobId).state == State.Refunded);
        vm.assertEq(balance(STRANGER), 10_000 ether + BOND - 3 * (BOND / 2 / 3));
        vm.assertEq(balance(DEFENDER), 10_000 ether - BOND);
        // The committee backed a wrong result.
        vm.assertEq(stakes.stakeOf(Role.Validator, validator(0)), 100 ether - PENALTY);
    }

    function test_overturned_without_a_defender_the_challenger_has_its_bond_back() public {
        _challenged(3);
        vm.warp(disputes.dispute(1).answerEnd);
        _seat();
        for (uint256 i = 0; i < 3; ++i) {
            _vote(i, false);
        }
        vm.recordLogs();
        disputes.resolve(1);
        vm.assertEq(balance(STRANGER), 10_000 ether);
        vm.assertEq(balance(validator(0)), 9_900 ether + FEE);
        vm.assertEq(emitted(address(disputes), IDisputeManager.BondPaid.selector), 1);
    }

    function test_undecided_by_everyone() public {
        (uint256 jobId,) = _seated(3);
        _vote(0, false);
        _vote(1, true);
        vm.warp(disputes.dispute(1).voteEnd);
        disputes.resolve(1);
        vm.assertTrue(disputes.dispute(1).state == DisputeState.Undecided);
        vm.assertEq(balance(STRANGER), 10_000 ether);
        vm.assertEq(balance(DEFENDER), 10_000 ether);
        vm.assertTrue(escrow.job(jobId).state == State.Refunded);
        // Nobody is slashed, silent or not.
        for (uint256 i = 0; i < 3; ++i) {
            vm.assertEq(stakes.stakeOf(Role.Validator, validator(i)), 100 ether);
        }
    }

    function test_undecided_without_a_defender() public {
        _challenged(3);
        vm.warp(disputes.dispute(1).answerEnd);
        _seat();
        vm.warp(disputes.dispute(1).voteEnd);
        disputes.resolve(1);
        vm.assertTrue(disputes.dispute(1).state == DisputeState.Undecided);
        vm.assertEq(balance(STRANGER), 10_000 ether);
    }

    function test_without_any_stake_left_nobody_decides() public {
        (uint256 jobId,) = _challenged(3);
        _defend();
        for (uint256 i = 0; i < 3; ++i) {
            vm.prank(validator(i));
            stakes.requestWithdraw(Role.Validator, 100 ether);
        }
        _seat();
        vm.assertEq(disputes.dispute(1).weight, 0);
        disputes.resolve(1);
        vm.assertTrue(disputes.dispute(1).state == DisputeState.Undecided);
        vm.assertTrue(escrow.job(jobId).state == State.Refunded);
        vm.assertEq(balance(address(disputes)), 0);
    }

    function test_two_thirds_exactly() public {
        _decided(true, 0, DisputeState.Upheld);
        _decided(true, 1, DisputeState.Undecided);
        _decided(false, 0, DisputeState.Overturned);
        _decided(false, 1, DisputeState.Undecided);
    }

    /// @dev 200 of 300 HYDRA, but for what is short, vote one way and the rest the other.
    function _decided(bool uphold, uint256 short, DisputeState expected) private {
        super.setUp();
        supply(DEFENDER);
        stake(Role.Validator, validator(0), 200 ether - short);
        stake(Role.Validator, validator(1), 100 ether);
        _challengeResult();
        _defend();
        _seat();
        _vote(0, uphold);
        _vote(1, !uphold);
        disputes.resolve(1);
        vm.assertTrue(disputes.dispute(1).state == expected);
    }

    function test_a_drawn_jury_that_is_split_gives_way_to_everyone() public {
        _manyValidators(10);
        _challengedByCommitteeOf(3);
        _defend();
        _seat();
        address[] memory jury = disputes.jury(1);
        for (uint256 i = 0; i < 6; ++i) {
            vm.prank(jury[i]);
            disputes.vote(1, i % 2 == 0);
        }
        vm.expectEmit(address(disputes));
        emit IDisputeManager.Escalated(1);
        disputes.resolve(1);
        IDisputeManager.Dispute memory d = disputes.dispute(1);
        vm.assertTrue(d.state == DisputeState.Drawing && d.everyone);
        vm.assertEq(d.voted + d.upholding + d.overturning + d.anchor, 0);
        vm.assertEq(disputes.jury(1).length, 0);
        _seat();
        vm.assertEq(disputes.jury(1).length, 10);
        // Who voted in the first jury votes anew.
        for (uint256 i = 0; i < 10; ++i) {
            address juror = disputes.jury(1)[i];
            vm.prank(juror);
            disputes.vote(1, true);
        }
        disputes.resolve(1);
        vm.assertTrue(disputes.dispute(1).state == DisputeState.Upheld);
    }

    function test_nobody_answers_after_the_first_jury() public {
        _manyValidators(10);
        _challengedByCommitteeOf(3);
        vm.warp(disputes.dispute(1).answerEnd);
        _seat();
        vm.warp(disputes.dispute(1).voteEnd);
        disputes.resolve(1);
        vm.expectRevert(
            abi.encodeWithSelector(IDisputeManager.AnswersClosed.selector, 1, uint40(block.timestamp))
        );
        vm.prank(DEFENDER);
        disputes.defend(1, CID);
    }

    function test_a_training_round_is_judged_by_everyone() public {
        stakeValidators(3);
        uint256 jobId = openTraining();
        attest(validator(0), jobId, 0, TOTAL, none(), false);
        attest(validator(1), jobId, 0, TOTAL, none(), false);
        (bytes32 root,,) = rewards.current(jobId);
        vm.prank(STRANGER);
        disputes.challenge(jobId, root, CID);
        _defend();
        _seat();
        vm.assertTrue(disputes.dispute(1).everyone);
        vm.assertEq(disputes.jury(1).length, 3);
        for (uint256 i = 0; i < 3; ++i) {
            _vote(i, false);
        }
        disputes.resolve(1);
        vm.assertEq(training.settledRounds(jobId), 0);
        vm.assertEq(escrow.job(jobId).reserved, 0);
    }

    // --- how it comes to a dispute -------------------------------------------------------------------------------------

    /// @dev A tallied campaign of validators with 100 HYDRA each.
    function _campaign(uint256 number) private returns (uint256 jobId, bytes32 root) {
        stakeValidators(number);
        return _tallied();
    }

    function _tallied() private returns (uint256 jobId, bytes32 root) {
        jobId = submitted(terms());
        uint256 roundId = openRound(jobId);
        agree(jobId, roundId, TOTAL);
        quality.tally(roundId);
        (root,,) = rewards.current(jobId);
    }

    function _challengeResult() private returns (uint256 jobId, bytes32 root) {
        (jobId, root) = _tallied();
        vm.prank(STRANGER);
        disputes.challenge(jobId, root, CID);
    }

    function _challenged(uint256 number) private returns (uint256 jobId, bytes32 root) {
        stakeValidators(number);
        return _challengeResult();
    }

    function _seated(uint256 number) private returns (uint256 jobId, bytes32 root) {
        (jobId, root) = _challenged(number);
        _defend();
        _seat();
    }

    function _manyValidators(uint256 number) private {
        for (uint256 i = 0; i < number; ++i) {
            address who = address(uint160(0x9000 + i));
            supply(who);
            stake(Role.Validator, who, (10 + i) * 1 ether);
        }
    }

    /// @dev The money pays for `seats` members alone, so that others are left for the jury.
    function _challengedByCommitteeOf(uint256 seats) private returns (uint256 jobId, bytes32 root) {
        jobId = openJob(Kind.Campaign);
        vm.prank(SPONSOR);
        submissions.openCampaign(jobId, _paying(seats));
        uint256 id = commit(jobId, 0);
        vm.warp(submissions.campaign(jobId).commitEnd);
        reveal(id);
        vm.warp(submissions.campaign(jobId).revealEnd);
        uint256 roundId = openRound(jobId);
        agree(jobId, roundId, 1 ether);
        quality.tally(roundId);
        (root,,) = rewards.current(jobId);
        vm.prank(STRANGER);
        disputes.challenge(jobId, root, CID);
    }

    function _paying(uint256 seats) private pure returns (CampaignTerms memory paying) {
        paying = terms();
        paying.validatorFee = (REWARD - 10 ether) / seats;
    }

    function _defend() private {
        vm.prank(DEFENDER);
        disputes.defend(1, CID);
    }

    function _seat() private {
        disputes.seat(1);
        vm.roll(block.number + 3);
        disputes.seat(1);
    }

    function _vote(uint256 who, bool uphold) private {
        vm.prank(validator(who));
        disputes.vote(1, uphold);
    }
}
