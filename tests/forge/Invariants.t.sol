// SPDX-License-Identifier: MIT
pragma solidity 0.8.28;

import {HydraToken} from "../../contracts/HydraToken.sol";
import {Kind, State, IJobEscrow} from "../../contracts/interfaces/IJobEscrow.sol";
import {Role} from "../../contracts/interfaces/IStakeManager.sol";
import {SubmissionState} from "../../contracts/interfaces/ISubmissionRegistry.sol";
import {RoundState} from "../../contracts/interfaces/IQualityRounds.sol";
import {DisputeState, IDisputeManager} from "../../contracts/interfaces/IDisputeManager.sol";
import {StakeManager} from "../../contracts/StakeManager.sol";
import {JobEscrow} from "../../contracts/JobEscrow.sol";
import {RewardsDistributor} from "../../contracts/RewardsDistributor.sol";
import {SubmissionRegistry} from "../../contracts/SubmissionRegistry.sol";
import {DisputeManager} from "../../contracts/DisputeManager.sol";
import {Handler} from "./Handler.sol";
import {System} from "./System.sol";
import {vm} from "./Vm.sol";

/// @notice What is true after any moves of anybody. `forge` calls the handler at random and checks after every move.
contract Invariants {
    address private constant TREASURY = address(0x7EA);
    error NeverSeen(string what, uint256 state, uint256 disputes);

    System private _system;
    Handler private _handler;
    // Held here: the checks ask for them hundreds of times after each move.
    HydraToken private _token;
    StakeManager private _stakes;
    JobEscrow private _escrow;
    RewardsDistributor private _rewards;
    SubmissionRegistry private _submissions;
    DisputeManager private _disputes;

    function setUp() public {
        vm.warp(1_700_000_000);
        vm.roll(1_000);
        _system = new System(TREASURY, address(0xDEAD));
        _handler = new Handler(_system);
        (_token, _stakes, _escrow) = (_system.token(), _system.stakes(), _system.escrow());
        (_rewards, _submissions, _disputes) = (_system.rewards(), _system.submissions(), _system.disputes());
        for (uint256 i = 0; i < 6; ++i) {
            address person = _handler.people(i);
            vm.prank(TREASURY);
            _token.transfer(person, 100_000 ether);
            _allow(person, address(_stakes));
            _allow(person, address(_escrow));
            _allow(person, address(_submissions));
            _allow(person, address(_disputes));
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
        _the_jobs_are_right();
        _stake_is_there_and_counted();
        _bonds_of_disputes_are_there();
        _no_token_is_lost();
        _no_job_goes_back();
    }

    /// @notice The escrow holds exactly what its jobs have not paid out, and the registry exactly the bonds of what is
    /// committed and not revealed.
    function _the_jobs_are_right() private view {
        uint256 left = 0;
        uint256 bonds = 0;
        for (uint256 jobId = 1; jobId <= _escrow.jobCount(); ++jobId) {
            IJobEscrow.Job memory job = _escrow.job(jobId);
            left += job.deposited - job.paid - job.refunded;
            assert(job.deposited == _escrow.available(jobId) + job.reserved + job.paid + job.refunded);
            _what_is_promised_is_reserved(jobId, job);
            if (job.kind == Kind.Campaign && job.state > State.Open) bonds += _bonds_of_submissions(jobId);
        }
        assert(_token.balanceOf(address(_escrow)) == left);
        assert(_token.balanceOf(address(_submissions)) == bonds);
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
                uint256 stake = _stakes.stakeOf(role, person);
                (uint256 thawing,) = _stakes.thawingOf(role, person);
                held += stake + thawing;
                active += stake;
                if (stake != 0) ++seats;
            }
            assert(_stakes.totalStaked(role) == active);
            assert(_stakes.operators(role).length == seats);
        }
        assert(_token.balanceOf(address(_stakes)) == held);
    }

    function _bonds_of_submissions(uint256 jobId) private view returns (uint256 bonds) {
        uint256 bond = _submissions.campaign(jobId).terms.bond;
        uint256[] memory ids = _submissions.submissionsOf(jobId);
        for (uint256 i = 0; i < ids.length; ++i) {
            if (_submissions.submission(ids[i]).state == SubmissionState.Committed) bonds += bond;
        }
    }

    /// @notice The bonds of open disputes are there, and nothing else.
    function _bonds_of_disputes_are_there() private view {
        uint256 bonds = 0;
        for (uint256 id = 1; id <= _disputes.disputeCount(); ++id) {
            IDisputeManager.Dispute memory d = _disputes.dispute(id);
            if (d.state == DisputeState.Drawing || d.state == DisputeState.Voting) {
                bonds += _system.BOND() * (d.defender == address(0) ? 1 : 2);
            }
        }
        assert(_token.balanceOf(address(_disputes)) == bonds);
    }

    /// @notice What is promised and not claimed is reserved, so that every proven claim can be paid.
    function _what_is_promised_is_reserved(uint256 jobId, IJobEscrow.Job memory job) private view {
        (bytes32 root, uint256 total,) = _rewards.current(jobId);
        uint256 claimed = _rewards.claimedTotal(jobId);
        assert(claimed <= total);
        assert(job.reserved >= total - claimed);
        // Once there is a result, nothing is kept from the sponsor that nobody was promised.
        bool decided = job.state == State.Settled || (job.state == State.Challenge && root != 0);
        if (decided || job.kind == Kind.Training) assert(job.reserved == total - claimed);
    }

    /// @notice Nobody prints or loses a token: what is gone is burned stake.
    function _no_token_is_lost() private view {
        uint256 sum = _token.balanceOf(TREASURY) + _token.balanceOf(address(_stakes))
            + _token.balanceOf(address(_escrow)) + _token.balanceOf(address(_disputes))
            + _token.balanceOf(address(_submissions));
        for (uint256 i = 0; i < 6; ++i) {
            sum += _token.balanceOf(_handler.people(i));
        }
        assert(sum == _token.totalSupply());
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
            if (!_handler.sawJob(State(s))) revert NeverSeen("job", s, _disputes.disputeCount());
        }
        for (uint256 s = uint256(SubmissionState.Committed); s <= uint256(SubmissionState.Revoked); ++s) {
            if (!_handler.sawSubmission(SubmissionState(s))) revert NeverSeen("submission", s, _disputes.disputeCount());
        }
        for (uint256 s = uint256(RoundState.Commit); s <= uint256(RoundState.Failed); ++s) {
            if (!_handler.sawRound(RoundState(s))) revert NeverSeen("round", s, _disputes.disputeCount());
        }
        for (uint256 s = uint256(DisputeState.Drawing); s <= uint256(DisputeState.Undecided); ++s) {
            if (!_handler.sawDispute(DisputeState(s))) revert NeverSeen("dispute", s, _disputes.disputeCount());
        }
    }

    function _allow(address person, address spender) private {
        vm.prank(person);
        _token.approve(spender, type(uint256).max);
    }
}
