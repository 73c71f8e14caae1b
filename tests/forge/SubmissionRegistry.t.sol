// SPDX-License-Identifier: MIT
pragma solidity 0.8.28;

import {IAccessControl} from "@openzeppelin/contracts/access/IAccessControl.sol";
import {Cid} from "../../contracts/base/Cid.sol";
import {IJobEscrow, Kind, State} from "../../contracts/interfaces/IJobEscrow.sol";
import {CampaignTerms, ISubmissionRegistry, SubmissionState} from "../../contracts/interfaces/ISubmissionRegistry.sol";
import {World} from "./World.sol";
import {vm} from "./Vm.sol";

contract SubmissionRegistryTest is World {
    bytes32 private constant COMMIT_TYPEHASH = keccak256(
        "Commit(uint256 jobId,address contributor,bytes32 commitment,uint256 fee,uint256 nonce,uint256 deadline)"
    );
    uint256 private constant MAX = 4096;

    function test_open_campaign() public {
        vm.assertEq(address(submissions.token()), address(token));
        vm.assertEq(address(submissions.escrow()), address(escrow));
        uint256 jobId = openJob(Kind.Campaign);
        vm.expectRevert(abi.encodeWithSelector(ISubmissionRegistry.NotSponsor.selector, jobId, STRANGER));
        vm.prank(STRANGER);
        submissions.openCampaign(jobId, terms());
        vm.expectEmit(address(submissions));
        emit ISubmissionRegistry.CampaignOpened(jobId, terms(), uint40(START + 100), uint40(START + 210));
        vm.startPrank(SPONSOR);
        submissions.openCampaign(jobId, terms());
        vm.assertTrue(escrow.job(jobId).state == State.Collecting);
        vm.expectRevert(abi.encodeWithSelector(ISubmissionRegistry.NotOpenCampaign.selector, jobId));
        submissions.openCampaign(jobId, terms());
        vm.stopPrank();
        ISubmissionRegistry.Campaign memory found = submissions.campaign(jobId);
        vm.assertEq(keccak256(abi.encode(found.terms)), keccak256(abi.encode(terms())));
        vm.assertEq(found.commitEnd, START + 100);
        vm.assertEq(found.revealEnd, START + 210);
        uint256 trains = openJob(Kind.Training);
        vm.expectRevert(abi.encodeWithSelector(ISubmissionRegistry.NotOpenCampaign.selector, trains));
        vm.prank(SPONSOR);
        submissions.openCampaign(trains, terms());
    }

    function test_bad_terms() public {
        CampaignTerms[6] memory bad = [terms(), terms(), terms(), terms(), terms(), terms()];
        bad[0].commitSeconds = 0;
        bad[1].revealSeconds = 0;
        bad[2].scoreCommitSeconds = 0;
        bad[3].scoreRevealSeconds = 0;
        bad[4].maxItems = 0;
        bad[5].relayFee = COMMITMENT_BOND + 1;
        uint256 jobId = openJob(Kind.Campaign);
        vm.startPrank(SPONSOR);
        for (uint256 i = 0; i < 6; ++i) {
            vm.expectRevert(abi.encodeWithSelector(ISubmissionRegistry.BadTerms.selector));
            submissions.openCampaign(jobId, bad[i]);
        }
        CampaignTerms memory edge = terms();
        edge.scoreRevealSeconds = 10_000 - 329;
        vm.expectRevert(
            abi.encodeWithSelector(
                ISubmissionRegistry.ExitTooEarly.selector, jobId, START + 10_001, uint40(START + 10_000)
            )
        );
        submissions.openCampaign(jobId, edge);
        edge.scoreRevealSeconds -= 1;
        edge.relayFee = COMMITMENT_BOND;
        submissions.openCampaign(jobId, edge);
        vm.stopPrank();
    }

    function test_commit() public {
        uint256 jobId = openCampaign(terms());
        bytes32 commitment = commitmentBy(jobId, person(0));
        uint256 id = (jobId << 32) | 1;
        vm.expectEmit(address(submissions));
        emit ISubmissionRegistry.Committed(id, jobId, person(0), commitment);
        vm.assertEq(commit(jobId, 0), id);
        vm.assertEq(commit(jobId, 1), id + 1);
        vm.assertEq(balance(address(submissions)), 2 * COMMITMENT_BOND);
        vm.assertEq(balance(person(0)), 10_000 ether - COMMITMENT_BOND);
        ISubmissionRegistry.Submission memory found = submissions.submission(id);
        vm.assertEq(found.jobId, jobId);
        vm.assertEq(found.contributor, person(0));
        vm.assertEq(found.commitBlock, 1_000);
        vm.assertEq(found.itemsRoot, 0);
        vm.assertTrue(found.state == SubmissionState.Committed && found.itemCount == 0);
        uint256[] memory ids = submissions.submissionsOf(jobId);
        vm.assertEq(ids.length, 2);
        vm.assertEq(ids[1], id + 1);
    }

    function test_commit_is_refused() public {
        uint256 jobId = openCampaign(terms());
        vm.startPrank(person(0));
        vm.expectRevert(abi.encodeWithSelector(ISubmissionRegistry.UnknownCampaign.selector, 9));
        submissions.commit(9, SPEC);
        vm.expectRevert(abi.encodeWithSelector(ISubmissionRegistry.EmptyCommitment.selector));
        submissions.commit(jobId, 0);
        vm.warp(START + 99);
        submissions.commit(jobId, SPEC);
        vm.warp(START + 100);
        vm.expectRevert(
            abi.encodeWithSelector(ISubmissionRegistry.CommitClosed.selector, jobId, uint40(START + 100))
        );
        submissions.commit(jobId, SPEC);
        vm.stopPrank();
    }

    function test_a_campaign_is_full() public {
        CampaignTerms memory free = terms();
        (free.bond, free.relayFee) = (0, 0);
        uint256 jobId = openCampaign(free);
        for (uint256 i = 0; i < MAX; ++i) {
            submissions.commit(jobId, SPEC);
        }
        vm.expectRevert(abi.encodeWithSelector(ISubmissionRegistry.CampaignFull.selector, jobId, MAX));
        submissions.commit(jobId, SPEC);
    }

    function test_pause() public {
        uint256 jobId = openCampaign(terms());
        uint256 id = commit(jobId, 0);
        vm.expectRevert(
            abi.encodeWithSelector(
                IAccessControl.AccessControlUnauthorizedAccount.selector, address(this), submissions.GUARDIAN_ROLE()
            )
        );
        submissions.setPaused(jobId, true);
        vm.expectEmit(address(submissions));
        emit ISubmissionRegistry.PauseSet(jobId, true);
        vm.prank(GUARDIAN);
        submissions.setPaused(jobId, true);
        vm.expectRevert(abi.encodeWithSelector(ISubmissionRegistry.CampaignPaused.selector, jobId));
        submissions.commit(jobId, SPEC);
        vm.warp(START + 100);
        reveal(id);
        vm.prank(GUARDIAN);
        submissions.setPaused(jobId, false);
        vm.warp(START + 99);
        commit(jobId, 1);
    }

    function test_reveal() public {
        uint256 jobId = openCampaign(terms());
        uint256 id = commit(jobId, 0);
        vm.expectRevert(
            abi.encodeWithSelector(
                ISubmissionRegistry.WrongSubmissionState.selector, id + 1, SubmissionState.None
            )
        );
        reveal(id + 1);
        vm.warp(START + 99);
        _outside(jobId);
        reveal(id);
        vm.warp(START + 210);
        _outside(jobId);
        reveal(id);
        vm.warp(START + 209);
        for (uint32 items = 0; items < 2; ++items) {
            vm.expectRevert(
                abi.encodeWithSelector(ISubmissionRegistry.BadItemCount.selector, items * 1_001, uint32(1_000))
            );
            submissions.reveal(id, ITEMS, items * 1_001, CID, LICENCE, CONSENT, SALT);
        }
        vm.expectRevert(abi.encodeWithSelector(Cid.BadCidLength.selector, 0, 96));
        submissions.reveal(id, ITEMS, 10, "", LICENCE, CONSENT, SALT);
        bytes32 other = submissions.commitmentOf(jobId, person(0), ITEMS, 1_000, CID, LICENCE, CONSENT, SALT);
        vm.expectRevert(
            abi.encodeWithSelector(
                ISubmissionRegistry.CommitmentMismatch.selector, id, commitmentBy(jobId, person(0)), other
            )
        );
        submissions.reveal(id, ITEMS, 1_000, CID, LICENCE, CONSENT, SALT);
        vm.expectEmit(address(submissions));
        emit ISubmissionRegistry.Revealed(id, jobId, person(0), ITEMS, 10, CID, LICENCE, CONSENT);
        reveal(id);
        vm.assertEq(balance(person(0)), 10_000 ether);
        vm.assertEq(submissions.revealedCount(jobId), 1);
        ISubmissionRegistry.Submission memory found = submissions.submission(id);
        vm.assertTrue(found.state == SubmissionState.Revealed && found.itemCount == 10);
        vm.assertEq(found.itemsRoot, ITEMS);
        vm.expectRevert(
            abi.encodeWithSelector(ISubmissionRegistry.WrongSubmissionState.selector, id, SubmissionState.Revealed)
        );
        reveal(id);
    }

    function test_the_windows_meet_without_a_gap() public {
        uint256 jobId = openCampaign(terms());
        uint256 id = commit(jobId, 0);
        vm.warp(START + 100);
        reveal(id);
    }

    function test_what_a_commitment_binds() public view {
        bytes32 plain = commitmentBy(1, person(0));
        bytes32 content = keccak256(abi.encode(ITEMS, uint32(10), keccak256(bytes(CID)), LICENCE, CONSENT));
        vm.assertEq(plain, keccak256(abi.encode(block.chainid, submissions, 1, person(0), content, SALT)));
    }

    function test_forfeit() public {
        uint256 jobId = openCampaign(terms());
        uint256 id = commit(jobId, 0);
        uint256 shown = commit(jobId, 1);
        vm.warp(START + 209);
        reveal(shown);
        vm.expectRevert(
            abi.encodeWithSelector(ISubmissionRegistry.RevealsOpen.selector, jobId, uint40(START + 210))
        );
        submissions.forfeit(id);
        vm.warp(START + 210);
        vm.expectRevert(
            abi.encodeWithSelector(ISubmissionRegistry.WrongSubmissionState.selector, shown, SubmissionState.Revealed)
        );
        submissions.forfeit(shown);
        vm.expectEmit(address(escrow));
        emit IJobEscrow.ToppedUp(jobId, address(submissions), COMMITMENT_BOND);
        vm.expectEmit(address(token));
        emit Transfer(address(submissions), address(escrow), COMMITMENT_BOND);
        submissions.forfeit(id);
        vm.assertTrue(submissions.submission(id).state == SubmissionState.Expired);
        vm.assertEq(escrow.available(jobId), REWARD + COMMITMENT_BOND);
        vm.expectRevert(
            abi.encodeWithSelector(ISubmissionRegistry.WrongSubmissionState.selector, id, SubmissionState.Expired)
        );
        submissions.forfeit(id);
    }

    event Transfer(address indexed from, address indexed to, uint256 value);

    function test_without_a_bond_nothing_moves() public {
        CampaignTerms memory free = terms();
        (free.bond, free.relayFee) = (0, 0);
        uint256 jobId = openCampaign(free);
        uint256 kept = commit(jobId, 0);
        uint256 shown = commit(jobId, 1);
        uint256 gone = commit(jobId, 2);
        vm.recordLogs();
        vm.prank(person(2));
        submissions.revoke(gone);
        vm.warp(START + 100);
        reveal(shown);
        vm.warp(START + 210);
        submissions.forfeit(kept);
        vm.assertEq(emitted(address(token), Transfer.selector), 0);
    }

    function test_revoke() public {
        uint256 jobId = openCampaign(terms());
        uint256[3] memory ids = [commit(jobId, 0), commit(jobId, 1), commit(jobId, 2)];
        vm.expectRevert(abi.encodeWithSelector(ISubmissionRegistry.NotContributor.selector, ids[0], person(1)));
        vm.prank(person(1));
        submissions.revoke(ids[0]);
        vm.warp(START + 99);
        vm.expectEmit(address(submissions));
        emit ISubmissionRegistry.Revoked(ids[0], jobId, person(0));
        vm.prank(person(0));
        submissions.revoke(ids[0]);
        vm.assertEq(balance(person(0)), 10_000 ether);
        vm.assertTrue(submissions.submission(ids[0]).state == SubmissionState.Revoked);
        vm.expectRevert(
            abi.encodeWithSelector(ISubmissionRegistry.WrongSubmissionState.selector, ids[0], SubmissionState.Revoked)
        );
        vm.prank(person(0));
        submissions.revoke(ids[0]);
        vm.warp(START + 100);
        vm.expectEmit(address(submissions));
        emit ISubmissionRegistry.Forfeited(ids[1], jobId, person(1), COMMITMENT_BOND);
        vm.prank(person(1));
        submissions.revoke(ids[1]);
        vm.assertEq(escrow.available(jobId), REWARD + COMMITMENT_BOND);
        reveal(ids[2]);
        vm.prank(person(2));
        submissions.revoke(ids[2]);
        vm.assertEq(balance(person(2)), 10_000 ether);
        vm.assertTrue(submissions.submission(ids[2]).state == SubmissionState.Revoked);
        vm.assertEq(balance(address(submissions)), 0);
    }

    function test_relay() public {
        uint256 jobId = openCampaign(terms());
        bytes32 commitment = commitmentBy(jobId, person(0));
        bytes memory signed = _sign(0, jobId, commitment, 1 ether, 0, START);
        vm.warp(START + 1);
        vm.expectRevert(abi.encodeWithSelector(ISubmissionRegistry.SignatureExpired.selector, START));
        submissions.commitFor(jobId, person(0), commitment, 1 ether, START, signed);
        vm.warp(START);
        vm.expectRevert(abi.encodeWithSelector(ISubmissionRegistry.BadSignature.selector, person(1), 0));
        submissions.commitFor(jobId, person(1), commitment, 1 ether, START, signed);
        uint256 id = (jobId << 32) | 1;
        vm.expectEmit(address(submissions));
        emit ISubmissionRegistry.Relayed(id, jobId, STRANGER, 0, 1 ether);
        vm.prank(STRANGER);
        vm.assertEq(submissions.commitFor(jobId, person(0), commitment, 1 ether, START, signed), id);
        vm.assertEq(balance(STRANGER), 10_001 ether);
        vm.assertEq(balance(person(0)), 10_000 ether - COMMITMENT_BOND);
        vm.assertEq(submissions.relayed(jobId), 1 ether);
        vm.assertEq(submissions.submission(id).contributor, person(0));
        vm.expectRevert(abi.encodeWithSelector(ISubmissionRegistry.BadSignature.selector, person(0), 1));
        submissions.commitFor(jobId, person(0), commitment, 1 ether, START, signed);
    }

    function test_relay_fees_are_capped() public {
        uint256 jobId = openCampaign(terms());
        vm.expectRevert(abi.encodeWithSelector(ISubmissionRegistry.FeeTooHigh.selector, jobId, 1 ether + 1, 1 ether));
        this.relay(jobId, 0, 1 ether + 1, 0);
        this.relay(jobId, 0, 1 ether, 0);
        this.relay(jobId, 1, 1 ether, 0);
        this.relay(jobId, 2, 1 ether - 1, 0);
        vm.expectRevert(abi.encodeWithSelector(ISubmissionRegistry.FeeTooHigh.selector, jobId, 2, 1));
        this.relay(jobId, 3, 2, 0);
        this.relay(jobId, 3, 1, 0);
        vm.recordLogs();
        this.relay(jobId, 0, 0, 1);
        vm.assertEq(emitted(address(escrow), IJobEscrow.Paid.selector), 0);
        vm.assertEq(submissions.relayed(jobId), 3 ether);
    }

    function test_a_revoked_relay_gives_its_fee_back() public {
        uint256 jobId = openCampaign(terms());
        uint256 id = this.relay(jobId, 0, 1 ether, 0);
        vm.prank(person(0));
        submissions.revoke(id);
        vm.assertEq(balance(person(0)), 10_000 ether - 1 ether);
        vm.assertEq(escrow.available(jobId), REWARD);
    }

    /// @notice The contributor signs, the test sends.
    function relay(uint256 jobId, uint256 who, uint256 fee, uint256 nonce) external returns (uint256) {
        bytes32 commitment = commitmentBy(jobId, person(who));
        bytes memory signed = _sign(who, jobId, commitment, fee, nonce, START);
        return submissions.commitFor(jobId, person(who), commitment, fee, START, signed);
    }

    function _sign(uint256 who, uint256 jobId, bytes32 commitment, uint256 fee, uint256 nonce, uint256 deadline)
        private
        view
        returns (bytes memory)
    {
        bytes32 content =
            keccak256(abi.encode(COMMIT_TYPEHASH, jobId, person(who), commitment, fee, nonce, deadline));
        return signature(who, "Hydra submissions", address(submissions), content);
    }

    function _outside(uint256 jobId) private {
        vm.expectRevert(
            abi.encodeWithSelector(
                ISubmissionRegistry.OutsideRevealWindow.selector, jobId, uint40(START + 100), uint40(START + 210)
            )
        );
    }
}
