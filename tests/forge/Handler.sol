// SPDX-License-Identifier: MIT
pragma solidity 0.8.28;

import {Kind, State, IJobEscrow} from "../../contracts/interfaces/IJobEscrow.sol";
import {Role} from "../../contracts/interfaces/IStakeManager.sol";
import {CampaignTerms, SubmissionState, ISubmissionRegistry} from "../../contracts/interfaces/ISubmissionRegistry.sol";
import {IQualityRounds, RoundState} from "../../contracts/interfaces/IQualityRounds.sol";
import {TrainingTerms} from "../../contracts/interfaces/ITrainingRegistry.sol";
import {DisputeState, IDisputeManager} from "../../contracts/interfaces/IDisputeManager.sol";
import {StakeManager} from "../../contracts/StakeManager.sol";
import {JobEscrow} from "../../contracts/JobEscrow.sol";
import {RewardsDistributor} from "../../contracts/RewardsDistributor.sol";
import {SubmissionRegistry} from "../../contracts/SubmissionRegistry.sol";
import {QualityRounds} from "../../contracts/QualityRounds.sol";
import {TrainingRegistry} from "../../contracts/TrainingRegistry.sol";
import {DisputeManager} from "../../contracts/DisputeManager.sol";
import {System} from "./System.sol";
import {vm} from "./Vm.sol";

/// @notice Random moves of a few people who are sponsors, contributors, validators and trainers all at once. A move that
/// names a job does what could come next in it, honestly or not, or lets time pass; what the contracts refuse, they refuse.
contract Handler {
    string private constant CID = "bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy";
    bytes32 private constant SALT = bytes32(uint256(1));
    bytes32 private constant ITEMS = bytes32(uint256(2));
    uint256 private constant PEOPLE = 6;

    // Held here: a call to look one up would use up the prank.
    StakeManager public immutable stakes;
    JobEscrow public immutable escrow;
    RewardsDistributor public immutable rewards;
    SubmissionRegistry public immutable submissions;
    QualityRounds public immutable quality;
    TrainingRegistry public immutable training;
    DisputeManager public immutable disputes;
    address[] public people;
    /// @notice Every state that some job, submission, round or dispute was in.
    mapping(State => bool) public sawJob;
    mapping(SubmissionState => bool) public sawSubmission;
    mapping(RoundState => bool) public sawRound;
    mapping(DisputeState => bool) public sawDispute;
    /// @notice A job was in an earlier state than before.
    bool public wentBack;

    mapping(uint256 => State) private _reached;
    /// @dev What a validator has committed to in a round: who is to have how much.
    mapping(uint256 => mapping(address => address)) private _favourite;
    mapping(uint256 => mapping(address => uint256)) private _total;

    constructor(System system) {
        (stakes, escrow, rewards) = (system.stakes(), system.escrow(), system.rewards());
        (submissions, quality) = (system.submissions(), system.quality());
        (training, disputes) = (system.training(), system.disputes());
        for (uint256 i = 0; i < PEOPLE; ++i) {
            people.push(address(uint160(0x1000 + i)));
        }
    }

    /// @notice One move. Two of three take a job further, so that stories come to their ends.
    function move(uint8 kind, uint256 who, uint256 job, uint256 choice) external {
        uint256 which = kind % 24;
        if (which == 0) _stake(who, job % 2 == 0, choice);
        else if (which == 1) _requestWithdraw(who, job % 2 == 0, choice);
        else if (which == 2) _withdraw(who, job % 2 == 0);
        else if (which == 3) _openEscrow(who, job % 2 == 0, choice);
        else if (which == 4) _topUp(who, job, choice);
        else if (which == 5) _refund(who, job);
        else if (which == 6) _claim(who, job, choice);
        else if (which == 7) _pass(choice);
        else _next(who, job, choice);
        _look();
    }

    // --- stake -------------------------------------------------------------------------------------------------------

    function _stake(uint256 who, bool trainer, uint256 amount) private {
        vm.prank(_person(who));
        stakes.stake(trainer ? Role.Trainer : Role.Validator, _within(amount, 1, 500 ether));
    }

    function _requestWithdraw(uint256 who, bool trainer, uint256 amount) private {
        Role role = trainer ? Role.Trainer : Role.Validator;
        address person = _person(who);
        uint256 active = stakes.stakeOf(role, person);
        // Half the time everything: what would be left under the minimum is refused.
        amount = amount % 2 == 0 ? active : _within(amount, 1, active + 1);
        vm.prank(person);
        stakes.requestWithdraw(role, amount);
    }

    function _withdraw(uint256 who, bool trainer) private {
        vm.prank(_person(who));
        stakes.withdraw(trainer ? Role.Trainer : Role.Validator);
    }

    // --- jobs --------------------------------------------------------------------------------------------------------

    function _openEscrow(uint256 who, bool trains, uint256 amount) private {
        uint256 newest = escrow.jobCount();
        // Old jobs are left behind: not too many new ones, so that stories come to their ends.
        if (newest > 1 && escrow.job(newest - 1).state < State.Settled && amount % 4 != 0) return;
        uint40 exitTime = uint40(block.timestamp + 20_000);
        vm.prank(_person(who));
        escrow.open(trains ? Kind.Training : Kind.Campaign, ITEMS, CID, _within(amount, 1, 5_000 ether), exitTime);
    }

    function _topUp(uint256 who, uint256 job, uint256 amount) private {
        uint256 jobId = _job(job);
        vm.prank(_person(who));
        escrow.topUp(jobId, _within(amount, 1, 100 ether));
    }

    function _refund(uint256 who, uint256 job) private {
        uint256 jobId = _job(job);
        vm.prank(_person(who));
        escrow.refund(jobId);
    }

    function _claim(uint256 who, uint256 job, uint256 choice) private {
        uint256 jobId = _job(job);
        (, uint256 total,) = rewards.current(jobId);
        address account = choice % 4 == 0 ? _person(choice / 4) : people[0];
        // Mostly the leaf that was published, sometimes a lie.
        uint256 amount = choice % 8 == 1 ? choice : total;
        vm.prank(_person(who));
        rewards.claim(jobId, account, amount, ITEMS, new bytes32[](0));
    }

    /// @notice What could come next in a job.
    function _next(uint256 who, uint256 job, uint256 choice) private {
        uint256 jobId = _job(job);
        IJobEscrow.Job memory found = escrow.job(jobId);
        address person = _person(who);
        if (found.state == State.Open) return _openJob(jobId, found, choice);
        if (found.state == State.Challenge) return _challenge(jobId, found.kind, person, choice);
        if (found.kind == Kind.Training) return _train(jobId, person, choice);
        if (found.state == State.Collecting) return _collect(jobId, person, choice);
        if (found.state == State.Scoring) return _score(quality.roundOf(jobId), jobId, person, choice);
    }

    function _pass(uint256 time) private {
        vm.warp(block.timestamp + _within(time, 1, time % 8 == 0 ? 2_000 : 100));
        vm.roll(block.number + 1 + time % 5);
    }

    // --- what comes next -----------------------------------------------------------------------------------------------

    function _openJob(uint256 jobId, IJobEscrow.Job memory job, uint256 choice) private {
        vm.prank(job.sponsor);
        if (job.kind == Kind.Campaign) {
            uint256 fee = _within(choice, 0, 20 ether);
            uint256 bond = choice % 3 == 0 ? 0 : 2 ether;
            submissions.openCampaign(jobId, CampaignTerms(100, 100, 100, 100, bond, 10, fee, 40 ether, 0, 0));
        } else {
            training.openTraining(jobId, TrainingTerms(1, 1 ether, 1 ether, 0, 100, 20, 10));
        }
    }

    function _collect(uint256 jobId, address person, uint256 choice) private {
        ISubmissionRegistry.Campaign memory campaign = submissions.campaign(jobId);
        uint256[] memory ids = submissions.submissionsOf(jobId);
        uint256 id = ids.length == 0 ? 0 : ids[choice % ids.length];
        address contributor = submissions.submission(id).contributor;
        if (choice % 16 == 1) {
            vm.prank(contributor);
            submissions.revoke(id);
        } else if (block.timestamp < campaign.commitEnd) {
            if (choice % 4 == 0 && ids.length != 0) return vm.warp(campaign.commitEnd);
            bytes32 commitment = submissions.commitmentOf(jobId, person, ITEMS, 1, CID, ITEMS, ITEMS, SALT);
            vm.prank(person);
            submissions.commit(jobId, commitment);
        } else if (block.timestamp < campaign.revealEnd) {
            if (choice % 4 == 0) return vm.warp(campaign.revealEnd);
            vm.prank(contributor);
            submissions.reveal(id, ITEMS, 1, CID, ITEMS, ITEMS, SALT);
        } else if (choice % 4 == 0) {
            submissions.forfeit(id);
        } else {
            _draw(jobId);
        }
    }

    function _draw(uint256 jobId) private {
        quality.openRound(jobId);
        vm.roll(block.number + 3);
    }

    function _score(uint256 roundId, uint256 jobId, address person, uint256 choice) private {
        IQualityRounds.Round memory round = quality.round(roundId);
        if (round.state == RoundState.Failed || round.state == RoundState.None) return _draw(jobId);
        if (choice % 8 == 0) return vm.warp(block.timestamp + 100);
        if (block.timestamp >= round.revealEnd || choice % 8 == 1) return quality.tally(roundId);
        if (_favourite[roundId][person] == address(0)) {
            // Most agree on the first person; some favour themselves.
            _favourite[roundId][person] = choice % 8 == 2 ? person : people[0];
            _total[roundId][person] = quality.budget(roundId) / (1 + roundId % 2 + (choice % 8 == 3 ? 1 : 0));
            bytes32 root = _leaf(jobId, _favourite[roundId][person], _total[roundId][person]);
            bytes32 vote =
                quality.commitmentOf(roundId, person, root, _total[roundId][person], CID, SALT);
            vm.prank(person);
            quality.commit(roundId, vote);
        } else {
            uint256 total = _total[roundId][person];
            vm.prank(person);
            quality.reveal(roundId, _leaf(jobId, _favourite[roundId][person], total), total, CID, SALT);
        }
    }

    function _train(uint256 jobId, address person, uint256 choice) private {
        if (choice % 4 == 0) {
            if (training.peerOf(person) == 0) {
                vm.prank(person);
                training.bindPeer(bytes32(uint256(uint160(person))), new bytes(64));
            }
            vm.prank(person);
            return training.join(jobId);
        }
        (, uint256 before,) = rewards.current(jobId);
        // The same for everybody at one time, so that rounds settle: everything so far to the first person.
        uint256 total = before + escrow.available(jobId) / 4;
        address[] memory cheats = new address[](choice % 8 == 1 ? 1 : 0);
        if (cheats.length == 1) cheats[0] = people[choice % PEOPLE];
        uint256 round = training.settledRounds(jobId);
        vm.prank(person);
        training.attest(jobId, round, _leaf(jobId, people[0], total), total, cheats, choice % 3 == 0, CID);
    }

    function _challenge(uint256 jobId, Kind kind, address person, uint256 choice) private {
        uint256 newest = disputes.disputeCount();
        IDisputeManager.Dispute memory d = disputes.dispute(newest);
        bool pending = newest != 0 && d.jobId == jobId;
        if (pending && d.state == DisputeState.Drawing) return _answer(newest, d, person, choice);
        if (pending && d.state == DisputeState.Voting) return _judge(newest, d, person, choice);
        (bytes32 root,, uint40 activeAt) = rewards.current(jobId);
        if (choice % 4 < 2) {
            vm.prank(person);
            disputes.challenge(jobId, root, CID);
        } else if (choice % 4 == 2) {
            if (block.timestamp < activeAt && activeAt < block.timestamp + 1_000) vm.warp(activeAt);
            if (kind == Kind.Campaign) quality.finish(jobId);
            else training.finish(jobId);
        } else if (kind == Kind.Training) {
            _train(jobId, person, choice);
        }
    }

    function _answer(uint256 id, IDisputeManager.Dispute memory d, address person, uint256 choice) private {
        if (choice % 3 != 0 && d.defender == address(0)) {
            vm.prank(person);
            return disputes.defend(id, CID);
        }
        if (d.defender == address(0) && block.timestamp < d.answerEnd) return vm.warp(d.answerEnd);
        disputes.seat(id);
        vm.roll(block.number + 3);
    }

    function _judge(uint256 id, IDisputeManager.Dispute memory d, address person, uint256 choice) private {
        if (choice % 12 == 0) vm.warp(d.voteEnd);
        if (block.timestamp >= d.voteEnd || d.voted == d.jurors) return disputes.resolve(id);
        // One juror after the other; sometimes anybody tries.
        address juror = choice % 12 == 1 ? person : disputes.jury(id)[d.voted];
        vm.prank(juror);
        disputes.vote(id, id % 4 == 0 ? choice % 2 == 0 : id % 4 == 1);
    }

    // --- what is seen ------------------------------------------------------------------------------------------------

    function _look() private {
        uint256 count = escrow.jobCount();
        // Moves touch the newest three only.
        for (uint256 jobId = count < 4 ? 1 : count - 3; jobId <= count; ++jobId) {
            State state = escrow.job(jobId).state;
            if (state < _reached[jobId]) wentBack = true;
            _reached[jobId] = state;
            sawJob[state] = true;
            uint256[] memory ids = submissions.submissionsOf(jobId);
            for (uint256 i = 0; i < ids.length; ++i) {
                sawSubmission[submissions.submission(ids[i]).state] = true;
            }
            uint256 roundId = quality.roundOf(jobId);
            if (roundId != 0) sawRound[quality.round(roundId).state] = true;
        }
        uint256 newest = disputes.disputeCount();
        if (newest != 0) sawDispute[disputes.dispute(newest).state] = true;
    }

    function _person(uint256 seed) private view returns (address) {
        return people[seed % PEOPLE];
    }

    /// @dev The newest three, so that stories come to their ends.
    function _job(uint256 seed) private view returns (uint256) {
        uint256 count = escrow.jobCount();
        if (count == 0) return 0;
        uint256 back = seed % 3;
        return count > back ? count - back : count;
    }

    function _within(uint256 seed, uint256 low, uint256 high) private pure returns (uint256) {
        return low + seed % (high - low + 1);
    }

    /// @dev A tree of one leaf: its proof is empty.
    function _leaf(uint256 jobId, address account, uint256 amount) private pure returns (bytes32) {
        return keccak256(bytes.concat(keccak256(abi.encode(jobId, account, amount, ITEMS))));
    }
}
