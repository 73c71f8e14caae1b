// SPDX-License-Identifier: MIT
pragma solidity 0.8.28;

import {HydraToken} from "../../contracts/HydraToken.sol";
import {Kind, State, IJobEscrow} from "../../contracts/interfaces/IJobEscrow.sol";
import {Role} from "../../contracts/interfaces/IStakeManager.sol";
import {SubmissionState} from "../../contracts/interfaces/ISubmissionRegistry.sol";
import {RoundState} from "../../contracts/interfaces/IQualityRounds.sol";
import {DisputeState, IDisputeManager} from "../../contracts/interfaces/IDisputeManager.sol";
import {Handler} from "./Handler.sol";
import {System} from "./System.sol";
import {vm} from "./Vm.sol";

/// @notice What is true after any moves of anybody. `forge` calls the handler at random and checks after every move.
contract Invariants {
    address private constant TREASURY = address(0x7EA);
    error NeverSeen(string what, uint256 state, uint256 disputes);

    System private _system;
    Handler private _handler;

    function setUp() public {
        vm.warp(1_700_000_000);
        vm.roll(1_000);
        _system = new System(TREASURY, address(0xDEAD));
        _handler = new Handler(_system);
        for (uint256 i = 0; i < 6; ++i) {
            address person = _handler.people(i);
            HydraToken token = _system.token();
            vm.prank(TREASURY);
            token.transfer(person, 100_000 ether);
            _allow(person, address(_system.stakes()));
            _allow(person, address(_system.escrow()));
            _allow(person, address(_system.submissions()));
            _allow(person, address(_system.disputes()));
        }
        // Judges and trainers to begin with: without them most stories end at once.
        for (uint256 i = 0; i < 4; ++i) {
            _handler.move(0, i, 0, 100 ether);
            _handler.move(0, i, 1, 100 ether);
        }
    }

    function targetContracts() public view returns (address[] memory targets) {
        targets = new address[](1);
        targets[0] = address(_handler);
    }

    /// @notice All of them at once: forge would walk anew for each.
    function invariant_the_books_are_right() public view {
        _the_escrow_holds_what_its_jobs_have_left();
        _stake_is_there_and_counted();
        _bonds_of_submissions_are_there();
        _bonds_of_disputes_are_there();
        _what_is_promised_is_reserved();
        _no_token_is_lost();
        _no_job_goes_back();
    }

    /// @notice The escrow holds exactly what its jobs have not paid out.
    function _the_escrow_holds_what_its_jobs_have_left() private view {
        uint256 left = 0;
        for (uint256 jobId = 1; jobId <= _system.escrow().jobCount(); ++jobId) {
            IJobEscrow.Job memory job = _system.escrow().job(jobId);
            left += job.deposited - job.paid - job.refunded;
            assert(job.deposited == _system.escrow().available(jobId) + job.reserved + job.paid + job.refunded);
        }
        assert(_system.token().balanceOf(address(_system.escrow())) == left);
    }

    /// @notice The stake manager holds exactly the active and the thawing stake, and its totals and lists are theirs.
    function _stake_is_there_and_counted() private view {
        uint256 held = 0;
        for (uint256 r = 0; r < 2; ++r) {
            Role role = Role(r);
            uint256 active = 0;
            uint256 seats = 0;
            for (uint256 i = 0; i < 6; ++i) {
                address person = _handler.people(i);
                uint256 stake = _system.stakes().stakeOf(role, person);
                (uint256 thawing,) = _system.stakes().thawingOf(role, person);
                held += stake + thawing;
                active += stake;
                if (stake != 0) ++seats;
            }
            assert(_system.stakes().totalStaked(role) == active);
            assert(_system.stakes().operators(role).length == seats);
        }
        assert(_system.token().balanceOf(address(_system.stakes())) == held);
    }

    /// @notice The registry holds exactly the bonds of what is committed and not revealed.
    function _bonds_of_submissions_are_there() private view {
        uint256 bonds = 0;
        for (uint256 jobId = 1; jobId <= _system.escrow().jobCount(); ++jobId) {
            uint256 bond = _system.submissions().campaign(jobId).terms.bond;
            uint256[] memory ids = _system.submissions().submissionsOf(jobId);
            for (uint256 i = 0; i < ids.length; ++i) {
                if (_system.submissions().submission(ids[i]).state == SubmissionState.Committed) bonds += bond;
            }
        }
        assert(_system.token().balanceOf(address(_system.submissions())) == bonds);
    }

    /// @notice The bonds of open disputes are there, and nothing else.
    function _bonds_of_disputes_are_there() private view {
        uint256 bonds = 0;
        for (uint256 id = 1; id <= _system.disputes().disputeCount(); ++id) {
            IDisputeManager.Dispute memory d = _system.disputes().dispute(id);
            if (d.state == DisputeState.Drawing || d.state == DisputeState.Voting) {
                bonds += _system.BOND() * (d.defender == address(0) ? 1 : 2);
            }
        }
        assert(_system.token().balanceOf(address(_system.disputes())) == bonds);
    }

    /// @notice What is promised and not claimed is reserved, so that every proven claim can be paid.
    function _what_is_promised_is_reserved() private view {
        for (uint256 jobId = 1; jobId <= _system.escrow().jobCount(); ++jobId) {
            IJobEscrow.Job memory job = _system.escrow().job(jobId);
            (bytes32 root, uint256 total,) = _system.rewards().current(jobId);
            uint256 claimed = _system.rewards().claimedTotal(jobId);
            assert(claimed <= total);
            assert(job.reserved >= total - claimed);
            // Once there is a result, nothing is kept from the sponsor that nobody was promised.
            bool decided = job.state == State.Settled || (job.state == State.Challenge && root != 0);
            if (decided || job.kind == Kind.Training) assert(job.reserved == total - claimed);
        }
    }

    /// @notice Nobody prints or loses a token: what is gone is burned stake.
    function _no_token_is_lost() private view {
        uint256 sum = _system.token().balanceOf(TREASURY) + _system.token().balanceOf(address(_system.stakes()))
            + _system.token().balanceOf(address(_system.escrow())) + _system.token().balanceOf(address(_system.disputes()))
            + _system.token().balanceOf(address(_system.submissions()));
        for (uint256 i = 0; i < 6; ++i) {
            sum += _system.token().balanceOf(_handler.people(i));
        }
        assert(sum == _system.token().totalSupply());
    }

    function _no_job_goes_back() private view {
        assert(!_handler.wentBack());
    }

    /// @notice The invariants count only if the moves lead everywhere: here by one long, fixed walk.
    function test_the_moves_reach_every_state() public {
        bytes32 seed = keccak256("walk");
        for (uint256 i = 0; i < 6_000; ++i) {
            seed = keccak256(bytes.concat(seed));
            uint256 n = uint256(seed);
            try _handler.move(uint8(n), n >> 16 & 0xffff, n >> 32 & 0xffff, n >> 64) {} catch {}
            if (i % 16 == 0) invariant_the_books_are_right();
        }
        for (uint256 s = uint256(State.Open); s <= uint256(State.Refunded); ++s) {
            if (!_handler.sawJob(State(s))) revert NeverSeen("job", s, _system.disputes().disputeCount());
        }
        for (uint256 s = uint256(SubmissionState.Committed); s <= uint256(SubmissionState.Revoked); ++s) {
            if (!_handler.sawSubmission(SubmissionState(s))) revert NeverSeen("submission", s, _system.disputes().disputeCount());
        }
        for (uint256 s = uint256(RoundState.Commit); s <= uint256(RoundState.Failed); ++s) {
            if (!_handler.sawRound(RoundState(s))) revert NeverSeen("round", s, _system.disputes().disputeCount());
        }
        for (uint256 s = uint256(DisputeState.Drawing); s <= uint256(DisputeState.Undecided); ++s) {
            if (!_handler.sawDispute(DisputeState(s))) revert NeverSeen("dispute", s, _system.disputes().disputeCount());
        }
    }

    function _allow(address person, address spender) private {
        HydraToken token = _system.token();
        vm.prank(person);
        token.approve(spender, type(uint256).max);
    }
}
