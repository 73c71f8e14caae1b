// SPDX-License-Identifier: MIT
pragma solidity 0.8.28;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {SignatureChecker} from "@openzeppelin/contracts/utils/cryptography/SignatureChecker.sol";
import {Nonces} from "@openzeppelin/contracts/utils/Nonces.sol";
import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {Cid} from "./base/Cid.sol";
import {ExactTransfer} from "./base/ExactTransfer.sol";
import {Guarded} from "./base/Guarded.sol";
import {IJobEscrow, Kind, State} from "./interfaces/IJobEscrow.sol";
import {CampaignTerms, ISubmissionRegistry, SubmissionState} from "./interfaces/ISubmissionRegistry.sol";

// slither-disable-start timestamp
// Windows are minutes to days long: the seconds that a block producer may choose change nothing.

/// @title Submissions of data: committed blind, then revealed
/// @notice A commitment is salted and bound to its sender, the chain and this contract. So nobody learns a CID before the
/// commit window has closed, and a copied commitment cannot be revealed by its copier.
contract SubmissionRegistry is ISubmissionRegistry, Guarded, EIP712, Nonces {
    using SafeCast for uint256;
    using SafeERC20 for IERC20;

    /// @notice Submissions of one campaign. Bounds `submissionsOf`; the bond answers filling it with spam.
    uint256 public constant MAX_SUBMISSIONS = 4096;

    bytes32 private constant COMMIT_TYPEHASH = keccak256(
        "Commit(uint256 jobId,address contributor,bytes32 commitment,uint256 fee,uint256 nonce,uint256 deadline)"
    );

    /// @notice HYDRA, in which bonds are put down.
    IERC20 public immutable token;
    /// @notice Holds the campaigns' money.
    IJobEscrow public immutable escrow;

    /// @dev Everything that `commit` reads, in one slot.
    struct Window {
        uint40 commitEnd;
        uint40 revealEnd;
        uint16 count;
        uint16 revealed;
        uint32 maxItems;
        uint96 bond;
        bool paused;
    }

    /// @dev `content` is the commitment, and from the reveal on the items' root.
    struct Entry {
        address contributor;
        SubmissionState state;
        uint40 commitBlock;
        uint32 itemCount;
        bytes32 content;
    }

    mapping(uint256 => CampaignTerms) private _terms;
    mapping(uint256 => Window) private _windows;
    mapping(uint256 => Entry) private _entries;
    mapping(uint256 => uint256) private _feeOf;
    /// @inheritdoc ISubmissionRegistry
    mapping(uint256 => uint256) public relayed;

    /// @param admin wires the contracts together and renounces.
    /// @param guardian may pause campaigns.
    constructor(IERC20 token_, IJobEscrow escrow_, address admin, address guardian)
        Guarded(admin, guardian)
        EIP712("Hydra submissions", "1")
    {
        token = token_;
        escrow = escrow_;
    }

    /// @inheritdoc ISubmissionRegistry
    /// @dev Every window ends by the job's exit time: no sponsor takes the money back from under its contributors.
    function openCampaign(uint256 jobId, CampaignTerms calldata terms) external {
        IJobEscrow.Job memory job = escrow.job(jobId);
        if (job.sponsor != msg.sender) revert NotSponsor(jobId, msg.sender);
        if (job.kind != Kind.Campaign || job.state != State.Open) revert NotOpenCampaign(jobId);
        if (terms.commitSeconds == 0 || terms.revealSeconds == 0 || terms.maxItems == 0) revert BadTerms();
        if (terms.scoreCommitSeconds == 0 || terms.scoreRevealSeconds == 0) revert BadTerms();
        // A submission that is relayed and then given up must cost more than it brought.
        if (terms.relayFee > terms.bond) revert BadTerms();
        uint40 commitEnd = uint40(block.timestamp) + terms.commitSeconds;
        uint40 revealEnd = commitEnd + terms.revealSeconds;
        uint40 windowsEnd = revealEnd + terms.scoreCommitSeconds + terms.scoreRevealSeconds;
        if (windowsEnd > job.exitTime) revert ExitTooEarly(jobId, windowsEnd, job.exitTime);
        _terms[jobId] = terms;
        _windows[jobId] = Window({
            commitEnd: commitEnd,
            revealEnd: revealEnd,
            count: 0,
            revealed: 0,
            maxItems: terms.maxItems,
            bond: terms.bond.toUint96(),
            paused: false
        });
        emit CampaignOpened(jobId, terms, commitEnd, revealEnd);
        escrow.advance(jobId, State.Collecting);
    }

    /// @inheritdoc ISubmissionRegistry
    function setPaused(uint256 jobId, bool paused) external onlyRole(GUARDIAN_ROLE) {
        _windows[jobId].paused = paused;
        emit PauseSet(jobId, paused);
    }

    /// @inheritdoc ISubmissionRegistry
    function commit(uint256 jobId, bytes32 commitment) external returns (uint256 submissionId) {
        return _commit(jobId, msg.sender, commitment);
    }

    /// @inheritdoc ISubmissionRegistry
    /// @dev The nonce is used before anything else is called, so that a contract's signature check gains nothing by calling
    /// back in.
    function commitFor(
        uint256 jobId,
        address contributor,
        bytes32 commitment,
        uint256 fee,
        uint256 deadline,
        bytes calldata signature
    ) external returns (uint256 submissionId) {
        if (block.timestamp > deadline) revert SignatureExpired(deadline);
        uint256 nonce = _useNonce(contributor);
        bytes32 content = keccak256(abi.encode(COMMIT_TYPEHASH, jobId, contributor, commitment, fee, nonce, deadline));
        if (!SignatureChecker.isValidSignatureNow(contributor, _hashTypedDataV4(content), signature)) {
            revert BadSignature(contributor, nonce);
        }
        submissionId = _commit(jobId, contributor, commitment);
        emit Relayed(submissionId, jobId, msg.sender, nonce, fee);
        _payRelay(submissionId, jobId, fee);
    }

    /// @inheritdoc ISubmissionRegistry
    /// @dev Only from the end of the commit window on: what is revealed can no longer be copied into the campaign.
    function reveal(
        uint256 submissionId,
        bytes32 itemsRoot,
        uint32 itemCount,
        string calldata cid,
        bytes32 licenceHash,
        bytes32 consentHash,
        bytes32 salt
    ) external {
        Entry storage entry = _entries[submissionId];
        if (entry.state != SubmissionState.Committed) revert WrongSubmissionState(submissionId, entry.state);
        uint256 jobId = _jobOf(submissionId);
        address contributor = entry.contributor;
        uint256 bond = _admitReveal(jobId, itemCount);
        Cid.check(cid);
        bytes32 shown = commitmentOf(jobId, contributor, itemsRoot, itemCount, cid, licenceHash, consentHash, salt);
        if (shown != entry.content) revert CommitmentMismatch(submissionId, entry.content, shown);
        entry.state = SubmissionState.Revealed;
        entry.itemCount = itemCount;
        entry.content = itemsRoot;
        emit Revealed(submissionId, jobId, contributor, itemsRoot, itemCount, cid, licenceHash, consentHash);
        if (bond != 0) token.safeTransfer(contributor, bond);
    }

    /// @inheritdoc ISubmissionRegistry
    /// @dev Answers commit without reveal, which would otherwise be a free option on what the others show.
    function forfeit(uint256 submissionId) external {
        Entry storage entry = _entries[submissionId];
        if (entry.state != SubmissionState.Committed) revert WrongSubmissionState(submissionId, entry.state);
        uint256 jobId = _jobOf(submissionId);
        Window storage window = _windows[jobId];
        if (block.timestamp < window.revealEnd) revert RevealsOpen(jobId, window.revealEnd);
        entry.state = SubmissionState.Expired;
        _forfeitBond(submissionId, jobId, entry.contributor, window.bond);
    }

    /// @inheritdoc ISubmissionRegistry
    /// @dev After the commit window a revocation costs the bond like silence does, or it would be the same free option.
    function revoke(uint256 submissionId) external {
        Entry storage entry = _own(submissionId);
        SubmissionState state = entry.state;
        if (state != SubmissionState.Committed && state != SubmissionState.Revealed) {
            revert WrongSubmissionState(submissionId, state);
        }
        uint256 jobId = _jobOf(submissionId);
        Window storage window = _windows[jobId];
        entry.state = SubmissionState.Revoked;
        emit Revoked(submissionId, jobId, msg.sender);
        if (state == SubmissionState.Revealed) return;
        if (block.timestamp >= window.commitEnd) {
            _forfeitBond(submissionId, jobId, msg.sender, window.bond);
        } else if (window.bond != 0) {
            // What a relay of it took from the gas pool comes back: committing and revoking would drain the pool.
            uint256 fee = _feeOf[submissionId];
            if (fee != 0) _toEscrow(jobId, fee);
            token.safeTransfer(msg.sender, window.bond - fee);
        }
    }

    /// @inheritdoc ISubmissionRegistry
    function commitmentOf(
        uint256 jobId,
        address contributor,
        bytes32 itemsRoot,
        uint32 itemCount,
        string calldata cid,
        bytes32 licenceHash,
        bytes32 consentHash,
        bytes32 salt
    ) public view returns (bytes32) {
        bytes32 content = keccak256(abi.encode(itemsRoot, itemCount, keccak256(bytes(cid)), licenceHash, consentHash));
        return keccak256(abi.encode(block.chainid, address(this), jobId, contributor, content, salt));
    }

    /// @inheritdoc ISubmissionRegistry
    function campaign(uint256 jobId) external view returns (Campaign memory) {
        Window storage window = _windows[jobId];
        return Campaign({terms: _terms[jobId], commitEnd: window.commitEnd, revealEnd: window.revealEnd});
    }

    /// @inheritdoc ISubmissionRegistry
    function submission(uint256 submissionId) external view returns (Submission memory) {
        Entry storage entry = _entries[submissionId];
        return Submission({
            jobId: _jobOf(submissionId),
            contributor: entry.contributor,
            state: entry.state,
            itemsRoot: entry.itemCount == 0 ? bytes32(0) : entry.content,
            itemCount: entry.itemCount,
            commitBlock: entry.commitBlock
        });
    }

    /// @inheritdoc ISubmissionRegistry
    function submissionsOf(uint256 jobId) external view returns (uint256[] memory submissionIds) {
        submissionIds = new uint256[](_windows[jobId].count);
        for (uint256 i = 0; i < submissionIds.length; ++i) {
            submissionIds[i] = _numberOf(jobId, i);
        }
    }

    /// @inheritdoc ISubmissionRegistry
    function revealedCount(uint256 jobId) external view returns (uint256) {
        return _windows[jobId].revealed;
    }

    function _commit(uint256 jobId, address contributor, bytes32 commitment)
        private
        returns (uint256 submissionId)
    {
        Window storage window = _windows[jobId];
        (uint40 commitEnd, uint16 count, uint96 bond) = (window.commitEnd, window.count, window.bond);
        if (window.paused) revert CampaignPaused(jobId);
        if (commitEnd == 0) revert UnknownCampaign(jobId);
        if (block.timestamp >= commitEnd) revert CommitClosed(jobId, commitEnd);
        if (commitment == 0) revert EmptyCommitment();
        if (count >= MAX_SUBMISSIONS) revert CampaignFull(jobId, MAX_SUBMISSIONS);
        submissionId = _numberOf(jobId, count);
        window.count = count + 1;
        Entry storage entry = _entries[submissionId];
        entry.contributor = contributor;
        entry.state = SubmissionState.Committed;
        entry.commitBlock = uint40(block.number);
        entry.content = commitment;
        emit Committed(submissionId, jobId, contributor, commitment);
        if (bond != 0) ExactTransfer.pull(token, contributor, bond);
    }

    /// @dev The pool bounds what spam can take from the sponsor; the bond and the scoring bound the rest.
    function _payRelay(uint256 submissionId, uint256 jobId, uint256 fee) private {
        if (fee == 0) return;
        CampaignTerms storage terms = _terms[jobId];
        uint256 limit = Math.min(terms.relayFee, terms.gasPool - relayed[jobId]);
        if (fee > limit) revert FeeTooHigh(jobId, fee, limit);
        relayed[jobId] += fee;
        _feeOf[submissionId] = fee;
        escrow.reserve(jobId, fee);
        escrow.pay(jobId, msg.sender, fee);
    }

    function _own(uint256 submissionId) private view returns (Entry storage entry) {
        entry = _entries[submissionId];
        if (entry.contributor != msg.sender) revert NotContributor(submissionId, msg.sender);
    }

    function _admitReveal(uint256 jobId, uint32 itemCount) private returns (uint256 bond) {
        Window storage window = _windows[jobId];
        Window memory w = window;
        if (block.timestamp < w.commitEnd || block.timestamp >= w.revealEnd) {
            revert OutsideRevealWindow(jobId, w.commitEnd, w.revealEnd);
        }
        if (itemCount == 0 || itemCount > w.maxItems) revert BadItemCount(itemCount, w.maxItems);
        window.revealed = w.revealed + 1;
        return w.bond;
    }

    function _forfeitBond(uint256 submissionId, uint256 jobId, address contributor, uint256 bond) private {
        emit Forfeited(submissionId, jobId, contributor, bond);
        if (bond != 0) _toEscrow(jobId, bond);
    }

    function _toEscrow(uint256 jobId, uint256 amount) private {
        token.forceApprove(address(escrow), amount);
        escrow.topUp(jobId, amount);
    }

    /// @dev A submission's number holds its job and its place (from one), which saves a stored list.
    function _numberOf(uint256 jobId, uint256 index) private pure returns (uint256) {
        return (jobId << 32) | (index + 1);
    }

    function _jobOf(uint256 submissionId) private pure returns (uint256) {
        return submissionId >> 32;
    }
}
// slither-disable-end timestamp
