// SPDX-License-Identifier: MIT
pragma solidity 0.8.28;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {Kind, State} from "../../contracts/interfaces/IJobEscrow.sol";
import {IViewArbiter} from "../../contracts/interfaces/IViewArbiter.sol";
import {World} from "./World.sol";
import {vm} from "./Vm.sol";

contract ViewArbiterTest is World {
    uint256 private constant BOND = 50 ether;
    uint256 private constant TRAINERS = 4;
    uint256 private _job;

    function setUp() public override {
        super.setUp();
        _job = openTraining();
        for (uint256 i = 0; i < TRAINERS; ++i) {
            join(_job, trainer(i));
        }
    }

    function test_deployment() public view {
        vm.assertEq(address(arbiter.token()), address(token));
        vm.assertEq(address(arbiter.escrow()), address(escrow));
        vm.assertEq(address(arbiter.training()), address(training));
        vm.assertEq(arbiter.bond(), BOND);
        vm.assertEq(arbiter.takeoverSeconds(), 100);
        vm.assertEq(arbiter.newestView(_job).membersHash, 0);
    }

    // --- views -------------------------------------------------------------------------------------------------------

    function test_a_majority_of_all_trainers_makes_the_first_view() public {
        address[] memory members = _members(0, 3);
        bytes[] memory signed = _signView(_all(), 2, 0, 1, members);
        vm.expectRevert(abi.encodeWithSelector(IViewArbiter.NoMajority.selector, 2, 4));
        arbiter.recordView(_job, 1, members, none(), signed);
        signed = _signView(_all(), 3, 0, 1, members);
        vm.expectEmit(address(arbiter));
        emit IViewArbiter.ViewRecorded(_job, 0, 1, members);
        arbiter.recordView(_job, 1, members, none(), signed);
        _viewIs(0, 1, members);
    }

    function test_views_follow_one_another() public {
        address[] memory first = _record(1, _members(0, 3), none(), _all());
        address[] memory second = _members(1, 4);
        bytes[] memory signed = _signView(first, 2, 0, 7, second);
        bytes32 hash = keccak256(abi.encodePacked(first));
        bytes32 given = keccak256(abi.encodePacked(second));
        vm.expectRevert(abi.encodeWithSelector(IViewArbiter.WrongMembers.selector, _job, given, hash));
        arbiter.recordView(_job, 7, second, second, signed);
        arbiter.recordView(_job, 7, second, first, signed);
        _viewIs(0, 7, second);
        vm.expectRevert(abi.encodeWithSelector(IViewArbiter.OldView.selector, _job, 7, 7));
        arbiter.recordView(_job, 7, second, second, signed);
        vm.expectRevert(abi.encodeWithSelector(IViewArbiter.OldView.selector, _job, 0, 7));
        arbiter.recordView(_job, 0, second, second, signed);
    }

    function test_bad_views() public {
        address[] memory members = _members(0, 3);
        bytes[] memory signed = _signView(_all(), 3, 0, 1, members);
        vm.expectRevert(abi.encodeWithSelector(IViewArbiter.BadSize.selector, 0, 256));
        arbiter.recordView(_job, 1, none(), none(), signed);
        vm.expectRevert(abi.encodeWithSelector(IViewArbiter.BadSize.selector, 257, 256));
        arbiter.recordView(_job, 1, new address[](257), none(), signed);
        vm.expectRevert(abi.encodeWithSelector(IViewArbiter.WrongSignatureCount.selector, 3, 4));
        arbiter.recordView(_job, 1, members, none(), new bytes[](3));
        // Signed for another number.
        vm.expectRevert(abi.encodeWithSelector(IViewArbiter.BadSignature.selector, trainer(0)));
        arbiter.recordView(_job, 2, members, none(), signed);
        // A large view is not refused for its size.
        address[] memory large = new address[](256);
        arbiter.recordView(_job, 1, large, none(), _signView(_all(), 3, 0, 1, large));
    }

    function test_only_running_training_jobs_have_views() public {
        address[] memory members = _members(0, 3);
        uint256 campaign = openCampaign(terms());
        vm.expectRevert(abi.encodeWithSelector(IViewArbiter.NotRunning.selector, campaign));
        arbiter.recordView(campaign, 1, members, none(), new bytes[](0));
        uint256 open = openJob(Kind.Training);
        vm.expectRevert(abi.encodeWithSelector(IViewArbiter.NotRunning.selector, open));
        arbiter.recordView(open, 1, members, none(), new bytes[](0));
        vm.warp(escrow.job(_job).exitTime);
        escrow.refund(_job);
        vm.expectRevert(abi.encodeWithSelector(IViewArbiter.NotRunning.selector, _job));
        arbiter.proposeTakeover(_job, none(), new uint16[](0), new bytes[](0));
    }

    // --- takeovers ---------------------------------------------------------------------------------------------------

    function test_those_who_are_left_take_over() public {
        address[] memory first = _record(1, _members(0, 4), none(), _all());
        address[] memory left = _pair(0, 2);
        uint40 effectiveAt = uint40(block.timestamp + 100);
        vm.expectEmit(address(arbiter));
        emit IViewArbiter.TakeoverProposed(_job, 0, 1, STRANGER, left, effectiveAt);
        _propose(first, _places(0, 2), 0, 1, 0);
        vm.assertEq(balance(STRANGER), 10_000 ether - BOND);
        vm.assertEq(balance(address(arbiter)), BOND);
        IViewArbiter.Takeover memory waiting = arbiter.takeover(_job);
        vm.assertEq(waiting.proposer, STRANGER);
        vm.assertEq(waiting.effectiveAt, effectiveAt);
        vm.assertEq(waiting.size, 2);
        vm.assertEq(waiting.membersHash, keccak256(abi.encodePacked(left)));
        vm.warp(effectiveAt - 1);
        _viewIs(0, 1, first);
        vm.expectRevert(abi.encodeWithSelector(IViewArbiter.TakeoverWaits.selector, _job, effectiveAt));
        arbiter.completeTakeover(_job);
        vm.warp(effectiveAt);
        // In effect before anybody writes it down.
        _viewIs(1, 2, left);
        vm.expectEmit(address(arbiter));
        emit IViewArbiter.TakeoverCompleted(_job, 1, 2, keccak256(abi.encodePacked(left)));
        arbiter.completeTakeover(_job);
        _viewIs(1, 2, left);
        vm.assertEq(balance(STRANGER), 10_000 ether);
        vm.expectRevert(abi.encodeWithSelector(IViewArbiter.NoTakeover.selector, _job));
        arbiter.completeTakeover(_job);
        // The new view goes on by itself; signatures of the epoch before count for nothing.
        address[] memory next = _members(0, 1);
        bytes[] memory stale = _signView(left, 2, 0, 3, next);
        vm.expectRevert(abi.encodeWithSelector(IViewArbiter.BadSignature.selector, trainer(0)));
        arbiter.recordView(_job, 3, next, left, stale);
        arbiter.recordView(_job, 3, next, left, _signView(left, 2, 1, 3, next));
        _viewIs(1, 3, next);
    }

    function test_what_is_in_effect_is_no_longer_cancelled_or_replaced() public {
        _propose(none(), _places(0, 1), 0, 0, 0);
        vm.warp(block.timestamp + 100);
        bytes[] memory objections = _signObjection(_all(), 3, 0, 0, 0, keccak256(abi.encodePacked(_pair(0, 1))));
        vm.expectRevert(abi.encodeWithSelector(IViewArbiter.NoTakeover.selector, _job));
        arbiter.cancelTakeover(_job, none(), objections);
        // The old majority's view comes too late, too: the takers' is written down first.
        address[] memory late = _members(0, 4);
        bytes[] memory signed = _signView(_all(), 4, 0, 1, late);
        vm.expectRevert(abi.encodeWithSelector(IViewArbiter.OldView.selector, _job, 1, 1));
        arbiter.recordView(_job, 1, late, none(), signed);
        // Entering writes it down; what follows is about the new view.
        address[] memory pair = _pair(0, 1);
        arbiter.recordView(_job, 2, pair, pair, _signView(pair, 2, 1, 2, pair));
        vm.assertEq(balance(STRANGER), 10_000 ether);
        vm.assertEq(balance(address(arbiter)), 0);
    }

    function test_bad_takeovers() public {
        address[] memory left = _pair(0, 2);
        bytes[] memory signed = _signTakeover(left, 2, 0, 0, 0, left);
        vm.expectRevert(abi.encodeWithSelector(IViewArbiter.BadSize.selector, 0, 256));
        arbiter.proposeTakeover(_job, none(), new uint16[](0), signed);
        vm.expectRevert(abi.encodeWithSelector(IViewArbiter.BadSize.selector, 257, 256));
        arbiter.proposeTakeover(_job, none(), new uint16[](257), signed);
        uint16[2][3] memory bad = [[uint16(2), 0], [uint16(2), 2], [uint16(0), 4]];
        for (uint256 i = 0; i < 3; ++i) {
            vm.expectRevert(abi.encodeWithSelector(IViewArbiter.BadPlaces.selector, bad[i][1]));
            arbiter.proposeTakeover(_job, none(), _places(bad[i][0], bad[i][1]), signed);
        }
        vm.expectRevert(abi.encodeWithSelector(IViewArbiter.WrongSignatureCount.selector, 1, 2));
        arbiter.proposeTakeover(_job, none(), _places(0, 2), new bytes[](1));
        signed = _signTakeover(left, 1, 0, 0, 0, left);
        vm.expectRevert(abi.encodeWithSelector(IViewArbiter.NotUnanimous.selector, 1, 2));
        arbiter.proposeTakeover(_job, none(), _places(0, 2), signed);
    }

    function test_who_is_banned_takes_nothing_over() public {
        stakeValidators(1);
        address[] memory cheats = new address[](1);
        cheats[0] = trainer(1);
        attest(validator(0), _job, 0, 0, cheats, false);
        vm.expectRevert(abi.encodeWithSelector(IViewArbiter.Banned.selector, _job, trainer(1)));
        arbiter.proposeTakeover(_job, none(), _places(0, 1), new bytes[](2));
    }

    function test_a_larger_takeover_replaces_a_smaller_one() public {
        _propose(none(), _places(0, 1), 0, 0, 0);
        address[] memory same = _pair(2, 3);
        bytes[] memory signed = _signTakeover(same, 2, 0, 0, 0, same);
        vm.expectRevert(
            abi.encodeWithSelector(
                IViewArbiter.TakeoverPending.selector, _job, uint16(2), uint40(block.timestamp + 100)
            )
        );
        arbiter.proposeTakeover(_job, none(), _places(2, 3), signed);
        vm.warp(block.timestamp + 50);
        uint16[] memory three = new uint16[](3);
        (three[1], three[2]) = (1, 3);
        address[] memory larger = new address[](3);
        (larger[0], larger[1], larger[2]) = (trainer(0), trainer(1), trainer(3));
        signed = _signTakeover(larger, 3, 0, 0, 0, larger);
        vm.expectEmit(address(arbiter));
        emit IViewArbiter.TakeoverReplaced(_job, STRANGER);
        vm.prank(SPONSOR);
        arbiter.proposeTakeover(_job, none(), three, signed);
        vm.assertEq(balance(STRANGER), 10_000 ether);
        vm.assertEq(balance(address(arbiter)), BOND);
        // It waits anew.
        vm.assertEq(arbiter.takeover(_job).effectiveAt, block.timestamp + 100);
        vm.assertEq(arbiter.takeover(_job).proposer, SPONSOR);
    }

    function test_a_living_majority_objects() public {
        address[] memory first = _record(1, _members(0, 3), none(), _all());
        vm.expectRevert(abi.encodeWithSelector(IViewArbiter.NoTakeover.selector, _job));
        arbiter.cancelTakeover(_job, first, new bytes[](3));
        _propose(first, _places(0, 1), 0, 1, 0);
        bytes32 named = keccak256(abi.encodePacked(_pair(0, 1)));
        bytes[] memory objections = _signObjection(first, 1, 0, 1, 0, named);
        vm.expectRevert(abi.encodeWithSelector(IViewArbiter.NoMajority.selector, 1, 3));
        arbiter.cancelTakeover(_job, first, objections);
        objections = _signObjection(first, 2, 0, 1, 0, SPEC);
        vm.expectRevert(abi.encodeWithSelector(IViewArbiter.BadSignature.selector, trainer(0)));
        arbiter.cancelTakeover(_job, first, objections);
        objections = _signObjection(first, 2, 0, 1, 0, named);
        uint256 supplied = token.totalSupply();
        vm.warp(block.timestamp + 99);
        vm.expectEmit(address(arbiter));
        emit IViewArbiter.TakeoverCancelled(_job, STRANGER);
        arbiter.cancelTakeover(_job, first, objections);
        vm.assertEq(token.totalSupply(), supplied - BOND);
        vm.assertEq(balance(address(arbiter)), 0);
        vm.assertEq(arbiter.cancelled(_job), 1);
        vm.assertEq(arbiter.takeover(_job).effectiveAt, 0);
        _viewIs(0, 1, first);
        // What was cancelled cannot be sent again with the same signatures, nor cancelled by the same objections.
        bytes[] memory again = _signTakeover(_pair(0, 1), 2, 0, 1, 0, _pair(0, 1));
        vm.expectRevert(abi.encodeWithSelector(IViewArbiter.BadSignature.selector, trainer(0)));
        arbiter.proposeTakeover(_job, first, _places(0, 1), again);
        _propose(first, _places(0, 1), 0, 1, 1);
        vm.expectRevert(abi.encodeWithSelector(IViewArbiter.BadSignature.selector, trainer(0)));
        arbiter.cancelTakeover(_job, first, objections);
    }

    function test_a_newer_view_cancels_a_takeover_from_an_older_one() public {
        _propose(none(), _places(0, 1), 0, 0, 0);
        uint256 supplied = token.totalSupply();
        vm.expectEmit(address(arbiter));
        emit IViewArbiter.TakeoverCancelled(_job, STRANGER);
        _record(1, _members(1, 4), none(), _all());
        vm.assertEq(token.totalSupply(), supplied - BOND);
        vm.assertEq(arbiter.cancelled(_job), 1);
        vm.warp(block.timestamp + 100);
        _viewIs(0, 1, _members(1, 4));
        // Without a takeover nothing is cancelled.
        _record(2, _members(1, 3), _members(1, 4), _members(1, 4));
        vm.assertEq(arbiter.cancelled(_job), 1);
    }

    function test_the_bond_comes_back_after_the_job_has_ended() public {
        _propose(none(), _places(0, 1), 0, 0, 0);
        vm.warp(escrow.job(_job).exitTime);
        escrow.refund(_job);
        arbiter.completeTakeover(_job);
        vm.assertEq(balance(STRANGER), 10_000 ether);
    }

    // --- statements and signatures -----------------------------------------------------------------------------------

    function _propose(address[] memory current, uint16[] memory going, uint64 epoch, uint64 number, uint256 before)
        private
    {
        address[] memory members = new address[](going.length);
        for (uint256 i = 0; i < going.length; ++i) {
            members[i] = trainer(going[i]);
        }
        bytes[] memory signed = _signTakeover(members, members.length, epoch, number, before, members);
        vm.prank(STRANGER);
        arbiter.proposeTakeover(_job, current, going, signed);
    }

    function _record(uint64 number, address[] memory members, address[] memory current, address[] memory signers)
        private
        returns (address[] memory)
    {
        bytes[] memory signed = _signView(signers, signers.length / 2 + 1, 0, number, members);
        arbiter.recordView(_job, number, members, current, signed);
        return members;
    }

    function _signView(address[] memory signers, uint256 many, uint64 epoch, uint64 number, address[] memory members)
        private
        view
        returns (bytes[] memory)
    {
        bytes32 kind = keccak256("View(uint256 jobId,uint64 epoch,uint64 number,address[] members)");
        bytes32 hash = keccak256(abi.encodePacked(members));
        return _sign(signers, many, keccak256(abi.encode(kind, _job, epoch, number, hash)));
    }

    function _signTakeover(
        address[] memory signers,
        uint256 many,
        uint64 epoch,
        uint64 number,
        uint256 before,
        address[] memory members
    ) private view returns (bytes[] memory) {
        bytes32 kind =
            keccak256("Takeover(uint256 jobId,uint64 epoch,uint64 number,uint256 cancelled,address[] members)");
        bytes32 hash = keccak256(abi.encodePacked(members));
        return _sign(signers, many, keccak256(abi.encode(kind, _job, epoch, number, before, hash)));
    }

    function _signObjection(
        address[] memory signers,
        uint256 many,
        uint64 epoch,
        uint64 number,
        uint256 before,
        bytes32 named
    ) private view returns (bytes[] memory) {
        bytes32 kind =
            keccak256("Objection(uint256 jobId,uint64 epoch,uint64 number,uint256 cancelled,bytes32 membersHash)");
        return _sign(signers, many, keccak256(abi.encode(kind, _job, epoch, number, before, named)));
    }

    /// @dev The first `many` sign; the others' entries stay empty.
    function _sign(address[] memory signers, uint256 many, bytes32 content) private view returns (bytes[] memory signed) {
        signed = new bytes[](signers.length);
        for (uint256 i = 0; i < many; ++i) {
            for (uint256 k = 0; k < TRAINERS; ++k) {
                if (trainer(k) == signers[i]) {
                    signed[i] = signature(8 + k, "Hydra views", address(arbiter), content);
                }
            }
        }
    }

    function _all() private pure returns (address[] memory) {
        return _members(0, TRAINERS);
    }

    function _members(uint256 from, uint256 to) private pure returns (address[] memory members) {
        members = new address[](to - from);
        for (uint256 i = from; i < to; ++i) {
            members[i - from] = trainer(i);
        }
    }

    function _pair(uint256 one, uint256 two) private pure returns (address[] memory members) {
        members = new address[](2);
        (members[0], members[1]) = (trainer(one), trainer(two));
    }

    function _places(uint16 one, uint16 two) private pure returns (uint16[] memory places) {
        places = new uint16[](2);
        (places[0], places[1]) = (one, two);
    }

    function _viewIs(uint64 epoch, uint64 number, address[] memory members) private view {
        IViewArbiter.View memory newest = arbiter.newestView(_job);
        vm.assertEq(newest.epoch, epoch, "epoch");
        vm.assertEq(newest.number, number, "number");
        vm.assertEq(newest.membersHash, keccak256(abi.encodePacked(members)));
    }
}
