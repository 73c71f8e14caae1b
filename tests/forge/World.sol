// SPDX-License-Identifier: MIT
pragma solidity 0.8.28;

import {Kind, State, IJobEscrow} from "../../contracts/interfaces/IJobEscrow.sol";
import {Permit} from "../../contracts/interfaces/Permit.sol";
import {Role} from "../../contracts/interfaces/IStakeManager.sol";
import {CampaignTerms} from "../../contracts/interfaces/ISubmissionRegistry.sol";
import {TrainingTerms} from "../../contracts/interfaces/ITrainingRegistry.sol";
import {HydraToken} from "../../contracts/HydraToken.sol";
import {StakeManager} from "../../contracts/StakeManager.sol";
import {JobEscrow} from "../../contracts/JobEscrow.sol";
import {RewardsDistributor} from "../../contracts/RewardsDistributor.sol";
import {SubmissionRegistry} from "../../contracts/SubmissionRegistry.sol";
import {QualityRounds} from "../../contracts/QualityRounds.sol";
import {TrainingRegistry} from "../../contracts/TrainingRegistry.sol";
import {DisputeManager} from "../../contracts/DisputeManager.sol";
import {ViewArbiter} from "../../contracts/ViewArbiter.sol";
import {System} from "./System.sol";
import {Vm, vm} from "./Vm.sol";

/// @notice The contracts as they are deployed, the people of the story, and the moves that they make. Everybody has 10,000
/// HYDRA and has allowed every contract that pulls.
abstract contract World {
    string internal constant CID = "bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy";
    bytes32 internal constant SPEC = "spec";
    bytes32 internal constant ITEMS = "items";
    bytes32 internal constant LICENCE = "licence";
    bytes32 internal constant CONSENT = "consent";
    bytes32 internal constant SALT = "salt";
    bytes32 internal constant EVIDENCE = "evidence";
    uint256 internal constant START = 1_700_000_000;
    uint256 internal constant REWARD = 1_000 ether;
    uint256 internal constant FEE = 5 ether;
    uint256 internal constant PENALTY = 40 ether;
    uint256 internal constant COMMITMENT_BOND = 2 ether;

    address internal constant TREASURY = address(0x7EA);
    address internal constant GUARDIAN = address(0xDEAD);
    address internal constant SPONSOR = address(0x5B0);
    address internal constant STRANGER = address(0x57A);
    uint256 internal constant KEYS = 0xBEEF00;

    System internal system;
    HydraToken internal token;
    StakeManager internal stakes;
    JobEscrow internal escrow;
    RewardsDistributor internal rewards;
    SubmissionRegistry internal submissions;
    QualityRounds internal quality;
    TrainingRegistry internal training;
    DisputeManager internal disputes;
    ViewArbiter internal arbiter;

    function setUp() public virtual {
        vm.warp(START);
        vm.roll(1_000);
        system = new System(TREASURY, GUARDIAN);
        (token, stakes, escrow) = (system.token(), system.stakes(), system.escrow());
        (rewards, submissions, quality) = (system.rewards(), system.submissions(), system.quality());
        (training, disputes, arbiter) = (system.training(), system.disputes(), system.arbiter());
        supply(SPONSOR);
        supply(STRANGER);
        for (uint256 i = 0; i < 12; ++i) {
            supply(person(i));
        }
    }

    // --- people ------------------------------------------------------------------------------------------------------

    /// @notice People with known keys: 0 to 3 contribute, 4 to 7 validate, 8 to 11 train.
    function person(uint256 i) internal pure returns (address) {
        return vm.addr(KEYS + i);
    }

    function validator(uint256 i) internal pure returns (address) {
        return person(4 + i);
    }

    function trainer(uint256 i) internal pure returns (address) {
        return person(8 + i);
    }

    function supply(address who) internal {
        vm.prank(TREASURY);
        token.transfer(who, 10_000 ether);
        vm.startPrank(who);
        token.approve(address(stakes), type(uint256).max);
        token.approve(address(escrow), type(uint256).max);
        token.approve(address(submissions), type(uint256).max);
        token.approve(address(disputes), type(uint256).max);
        token.approve(address(arbiter), type(uint256).max);
        vm.stopPrank();
    }

    function stake(Role role, address who, uint256 amount) internal {
        vm.prank(who);
        stakes.stake(role, amount);
    }

    /// @notice `number` validators stake 100 HYDRA each.
    function stakeValidators(uint256 number) internal {
        for (uint256 i = 0; i < number; ++i) {
            stake(Role.Validator, validator(i), 100 ether);
        }
    }

    /// @notice Let the test itself act as one of the system's contracts.
    function grant(address target, bytes32 role) internal {
        vm.prank(address(system));
        StakeManager(target).grantRole(role, address(this));
    }

    function balance(address who) internal view returns (uint256) {
        return token.balanceOf(who);
    }

    /// @notice An allowance by signature from one of the people.
    function permit(uint256 who, address spender, uint256 value) internal view returns (Permit memory) {
        bytes32 content = keccak256(
            abi.encode(
                keccak256("Permit(address owner,address spender,uint256 value,uint256 nonce,uint256 deadline)"),
                person(who),
                spender,
                value,
                token.nonces(person(who)),
                block.timestamp
            )
        );
        bytes32 digest = keccak256(abi.encodePacked("\x19\x01", token.DOMAIN_SEPARATOR(), content));
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(KEYS + who, digest);
        return Permit(value, block.timestamp, v, r, s);
    }

    /// @notice A signature in one of the system's EIP-712 domains.
    function signature(uint256 who, string memory name, address target, bytes32 content)
        internal
        view
        returns (bytes memory)
    {
        bytes32 domain = keccak256(
            abi.encode(
                keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"),
                keccak256(bytes(name)),
                keccak256("1"),
                block.chainid,
                target
            )
        );
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(KEYS + who, keccak256(abi.encodePacked("\x19\x01", domain, content)));
        return abi.encodePacked(r, s, v);
    }

    // --- campaigns ---------------------------------------------------------------------------------------------------

    function terms() internal pure returns (CampaignTerms memory) {
        return CampaignTerms(100, 110, 120, 130, COMMITMENT_BOND, 1_000, FEE, PENALTY, 1 ether, 3 ether);
    }

    function openJob(Kind kind) internal returns (uint256) {
        vm.prank(SPONSOR);
        return escrow.open(kind, SPEC, CID, REWARD, uint40(block.timestamp + 10_000));
    }

    function openCampaign(CampaignTerms memory agreed) internal returns (uint256 jobId) {
        jobId = openJob(Kind.Campaign);
        vm.prank(SPONSOR);
        submissions.openCampaign(jobId, agreed);
    }

    function commitmentBy(uint256 jobId, address who) internal view returns (bytes32) {
        return submissions.commitmentOf(jobId, who, ITEMS, 10, CID, LICENCE, CONSENT, SALT);
    }

    function commit(uint256 jobId, uint256 who) internal returns (uint256) {
        bytes32 commitment = commitmentBy(jobId, person(who));
        vm.prank(person(who));
        return submissions.commit(jobId, commitment);
    }

    function reveal(uint256 id) internal {
        submissions.reveal(id, ITEMS, 10, CID, LICENCE, CONSENT, SALT);
    }

    /// @notice A campaign with one revealed submission, ready to be scored.
    function submitted(CampaignTerms memory agreed) internal returns (uint256 jobId) {
        jobId = openCampaign(agreed);
        uint256 id = commit(jobId, 0);
        vm.warp(submissions.campaign(jobId).commitEnd);
        reveal(id);
        vm.warp(submissions.campaign(jobId).revealEnd);
    }

    // --- scoring -----------------------------------------------------------------------------------------------------

    /// @notice Fix the draw and draw.
    function openRound(uint256 jobId) internal returns (uint256) {
        quality.openRound(jobId);
        vm.roll(block.number + 3);
        return quality.openRound(jobId);
    }

    function voteFor(uint256 roundId, address who, bytes32 root, uint256 total) internal {
        bytes32 commitment = quality.commitmentOf(roundId, who, root, total, CID, SALT);
        vm.prank(who);
        quality.commit(roundId, commitment);
    }

    function show(uint256 roundId, address who, bytes32 root, uint256 total) internal {
        vm.prank(who);
        quality.reveal(roundId, root, total, CID, SALT);
    }

    /// @notice A tree of one leaf, which proves itself.
    function leaf(uint256 jobId, address account, uint256 amount) internal pure returns (bytes32) {
        return keccak256(bytes.concat(keccak256(abi.encode(jobId, account, amount, EVIDENCE))));
    }

    /// @notice All of the committee agree that the first contributor gets `total`; not tallied yet.
    function agree(uint256 jobId, uint256 roundId, uint256 total) internal {
        address[] memory members = quality.committee(roundId);
        bytes32 root = leaf(jobId, person(0), total);
        for (uint256 i = 0; i < members.length; ++i) {
            voteFor(roundId, members[i], root, total);
        }
        for (uint256 i = 0; i < members.length; ++i) {
            show(roundId, members[i], root, total);
        }
    }

    function claim(uint256 jobId, address account, uint256 total) internal returns (uint256) {
        return rewards.claim(jobId, account, total, EVIDENCE, new bytes32[](0));
    }

    // --- training ----------------------------------------------------------------------------------------------------

    function trainingTerms() internal pure returns (TrainingTerms memory) {
        return TrainingTerms(0.01 ether, 50 ether, 30 ether, 1 ether, 100, 20, 10);
    }

    function openTraining() internal returns (uint256 jobId) {
        jobId = openJob(Kind.Training);
        vm.prank(SPONSOR);
        training.openTraining(jobId, trainingTerms());
    }

    function peerKey(address who) internal pure returns (bytes32) {
        return bytes32(uint256(uint160(who)));
    }

    /// @notice The trainer stakes 100 HYDRA, binds a peer and joins.
    function join(uint256 jobId, address who) internal {
        stake(Role.Trainer, who, 100 ether);
        vm.startPrank(who);
        training.bindPeer(peerKey(who), new bytes(64));
        training.join(jobId);
        vm.stopPrank();
    }

    function attest(address who, uint256 jobId, uint256 round, uint256 total, address[] memory cheats, bool last) internal {
        vm.prank(who);
        training.attest(jobId, round, leaf(jobId, trainer(0), total), total, cheats, last, CID);
    }

    // --- what happened -------------------------------------------------------------------------------------------------

    /// @notice How often a contract emitted an event since `vm.recordLogs`.
    function emitted(address emitter, bytes32 topic) internal returns (uint256 times) {
        return count(vm.getRecordedLogs(), emitter, topic);
    }

    function count(Vm.Log[] memory logs, address emitter, bytes32 topic) internal pure returns (uint256 times) {
        for (uint256 i = 0; i < logs.length; ++i) {
            if (logs[i].emitter == emitter && logs[i].topics[0] == topic) ++times;
        }
    }

    function none() internal pure returns (address[] memory) {
        return new address[](0);
    }
}
