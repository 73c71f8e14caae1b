// SPDX-License-Identifier: MIT
pragma solidity 0.8.28;

import {HydraToken} from "../../contracts/HydraToken.sol";
import {StakeManager} from "../../contracts/StakeManager.sol";
import {JobEscrow} from "../../contracts/JobEscrow.sol";
import {RewardsDistributor} from "../../contracts/RewardsDistributor.sol";
import {SubmissionRegistry} from "../../contracts/SubmissionRegistry.sol";
import {QualityRounds} from "../../contracts/QualityRounds.sol";
import {TrainingRegistry} from "../../contracts/TrainingRegistry.sol";
import {DisputeManager} from "../../contracts/DisputeManager.sol";
import {ViewArbiter} from "../../contracts/ViewArbiter.sol";

/// @notice All contracts, wired as the deployment plan says.
contract System {
    uint256 public constant SUPPLY = 1_000_000 ether;
    uint256 public constant BOND = 50 ether;
    uint40 public constant THAW = 300;
    uint40 public constant ACTIVATION = 60;
    uint40 public constant ANSWER = 100;

    HydraToken public token;
    StakeManager public stakes;
    JobEscrow public escrow;
    RewardsDistributor public rewards;
    SubmissionRegistry public submissions;
    QualityRounds public quality;
    TrainingRegistry public training;
    DisputeManager public disputes;
    ViewArbiter public arbiter;

    constructor(address treasury, address guardian) {
        token = new HydraToken(treasury, SUPPLY);
        stakes = new StakeManager(token, THAW, address(this), guardian);
        escrow = new JobEscrow(token, address(this), guardian);
        rewards = new RewardsDistributor(escrow, address(this), ACTIVATION);
        submissions = new SubmissionRegistry(token, escrow, address(this), guardian);
        quality = new QualityRounds(stakes, escrow, submissions, rewards, address(this));
        training = new TrainingRegistry(stakes, escrow, rewards, address(this), guardian);
        disputes = new DisputeManager(token, stakes, escrow, rewards, quality, training, BOND, ANSWER);
        arbiter = new ViewArbiter(token, escrow, training, BOND, ANSWER);
        _wire();
    }

    function _wire() private {
        address[3] memory judging = [address(quality), address(training), address(disputes)];
        for (uint256 i = 0; i < judging.length; ++i) {
            stakes.grantRole(stakes.SLASHER_ROLE(), judging[i]);
            stakes.grantRole(stakes.LOCKER_ROLE(), judging[i]);
        }
        escrow.grantRole(escrow.CONTROLLER_ROLE(), address(submissions));
        escrow.grantRole(escrow.CONTROLLER_ROLE(), address(quality));
        escrow.grantRole(escrow.CONTROLLER_ROLE(), address(training));
        escrow.grantRole(escrow.PAYER_ROLE(), address(submissions));
        escrow.grantRole(escrow.PAYER_ROLE(), address(quality));
        escrow.grantRole(escrow.PAYER_ROLE(), address(rewards));
        rewards.grantRole(rewards.PUBLISHER_ROLE(), address(quality));
        rewards.grantRole(rewards.PUBLISHER_ROLE(), address(training));
        rewards.grantRole(rewards.DISPUTES_ROLE(), address(disputes));
        quality.grantRole(quality.DISPUTES_ROLE(), address(disputes));
        training.grantRole(training.DISPUTES_ROLE(), address(disputes));
    }
}
