// SPDX-License-Identifier: MIT
pragma solidity 0.8.28;

/// @notice The rules of a campaign, fixed when it opens.
/// @param commitSeconds length of the window for commitments.
/// @param revealSeconds length of the window for reveals, right after it.
/// @param scoreCommitSeconds length of the validators' commit window.
/// @param scoreRevealSeconds length of the validators' reveal window, right after it.
/// @param bond wei a contributor leaves until the reveal.
/// @param maxItems items a submission may hold.
/// @param validatorFee wei for each validator that backed the result.
/// @param validatorPenalty wei cut from a validator that was silent or wrong, at most half of its stake.
/// @param relayFee the most wei that whoever sends a contributor's signed commitment gets for it.
/// @param gasPool wei of the campaign's money that relay fees may take altogether.
struct CampaignTerms {
    uint32 commitSeconds;
    uint32 revealSeconds;
    uint32 scoreCommitSeconds;
    uint32 scoreRevealSeconds;
    uint256 bond;
    uint32 maxItems;
    uint256 validatorFee;
    uint256 validatorPenalty;
    uint256 relayFee;
    uint256 gasPool;
}

/// @notice Where a submission stands.
enum SubmissionState {
    None,
    Committed,
    Revealed,
    Expired,
    Revoked
}

/// @title Submissions of data: committed blind, then revealed
interface ISubmissionRegistry {
    /// @notice A campaign's rules, and when its windows end, seconds; all zero for a job that is none.
    struct Campaign {
        CampaignTerms terms;
        uint40 commitEnd;
        uint40 revealEnd;
    }

    /// @notice A submission; root and count are zero until it is revealed.
    /// @param commitBlock number of the block of its commitment: what came earlier counts as the original.
    struct Submission {
        uint256 jobId;
        address contributor;
        SubmissionState state;
        bytes32 itemsRoot;
        uint32 itemCount;
        uint40 commitBlock;
    }

    /// @notice The campaign takes commitments until `commitEnd` and reveals until `revealEnd`, seconds.
    event CampaignOpened(uint256 indexed jobId, CampaignTerms terms, uint40 commitEnd, uint40 revealEnd);
    /// @notice The guardian closed or opened the campaign's entry.
    event PauseSet(uint256 indexed jobId, bool paused);
    /// @notice A contributor has committed to a submission that nobody else can read or copy.
    event Committed(
        uint256 indexed submissionId, uint256 indexed jobId, address indexed contributor, bytes32 commitment
    );
    /// @notice Somebody sent a contributor's signed commitment and was paid `fee` for it.
    event Relayed(
        uint256 indexed submissionId, uint256 indexed jobId, address indexed relayer, uint256 nonce, uint256 fee
    );
    /// @dev The CID lives in this event only, so nobody reads it before the commit window has closed.
    event Revealed(
        uint256 indexed submissionId,
        uint256 indexed jobId,
        address indexed contributor,
        bytes32 itemsRoot,
        uint32 itemCount,
        string cid,
        bytes32 licenceHash,
        bytes32 consentHash
    );
    /// @notice The bond of `bond` wei of what was never shown went to the campaign's money.
    event Forfeited(
        uint256 indexed submissionId, uint256 indexed jobId, address indexed contributor, uint256 bond
    );
    /// @notice The contributor took the submission back: what is left is this tombstone.
    event Revoked(uint256 indexed submissionId, uint256 indexed jobId, address indexed contributor);

    /// @notice Only the job's sponsor may open it.
    error NotSponsor(uint256 jobId, address caller);
    /// @notice The job is no campaign, or is not Open.
    error NotOpenCampaign(uint256 jobId);
    /// @notice A window of zero seconds, no item allowed, or a relay fee above the bond.
    error BadTerms();
    /// @notice The last window must end by the job's exit time.
    error ExitTooEarly(uint256 jobId, uint256 windowsEnd, uint40 exitTime);
    /// @notice No campaign has this job number.
    error UnknownCampaign(uint256 jobId);
    /// @notice The guardian has closed the campaign's entry.
    error CampaignPaused(uint256 jobId);
    /// @notice A commitment of zero commits to nothing.
    error EmptyCommitment();
    /// @notice The commit window closed at `commitEnd`.
    error CommitClosed(uint256 jobId, uint40 commitEnd);
    /// @notice The signature counted until `deadline`.
    error SignatureExpired(uint256 deadline);
    /// @notice The signature is not the contributor's over these values and its next nonce.
    error BadSignature(address contributor, uint256 nonce);
    /// @notice The fee is above the campaign's `relayFee`, or more than its gas pool has left.
    error FeeTooHigh(uint256 jobId, uint256 fee, uint256 limit);
    /// @notice The campaign holds as many submissions as it may.
    error CampaignFull(uint256 jobId, uint256 limit);
    /// @notice Reveals are taken from `commitEnd` until just before `revealEnd`.
    error OutsideRevealWindow(uint256 jobId, uint40 commitEnd, uint40 revealEnd);
    /// @notice Reveals are still taken.
    error RevealsOpen(uint256 jobId, uint40 revealEnd);
    /// @notice The submission is not in the state that the call needs.
    error WrongSubmissionState(uint256 submissionId, SubmissionState state);
    /// @notice Only the contributor may do this.
    error NotContributor(uint256 submissionId, address caller);
    /// @notice The revealed values are not the committed ones.
    error CommitmentMismatch(uint256 submissionId, bytes32 committed, bytes32 revealed);
    /// @notice A submission holds between one and `maxItems` items.
    error BadItemCount(uint32 itemCount, uint32 maxItems);

    /// @notice Fix the rules of the sponsor's own job and start its commit window.
    function openCampaign(uint256 jobId, CampaignTerms calldata terms) external;

    /// @notice Close or open the entry of one campaign; the guardian only. One by one, because the flag lies in the slot that
    /// every commitment reads anyway: a flag for all would make each of them dearer. New campaigns end with the escrow's
    /// entry.
    function setPaused(uint256 jobId, bool paused) external;

    /// @notice Commit to a submission and leave the bond (needs an allowance when there is one).
    function commit(uint256 jobId, bytes32 commitment) external returns (uint256 submissionId);

    /// @notice Commit for a contributor who signed it (EIP-712) and need not hold ether; anyone may, for a fee from the
    /// campaign's gas pool. The bond is the contributor's all the same, by an allowance that a permit can give. Answers
    /// replays: a signature names this chain and contract, the job, a nonce that is used once, and a deadline.
    /// @param fee wei for the sender, as signed; at most the campaign's `relayFee` and what the pool has left.
    /// @param deadline seconds of chain time until when the signature counts.
    /// @param signature the contributor's: 65 bytes, or what its contract accepts (ERC-1271).
    function commitFor(
        uint256 jobId,
        address contributor,
        bytes32 commitment,
        uint256 fee,
        uint256 deadline,
        bytes calldata signature
    ) external returns (uint256 submissionId);

    /// @notice Show what was committed; the bond goes back to the contributor. Whoever was told the salt may send it:
    /// the commitment names its contributor, so that this changes nothing but who pays for the transaction.
    /// @param itemsRoot Merkle root of the items.
    /// @param cid where the items are found, at most 96 bytes.
    function reveal(
        uint256 submissionId,
        bytes32 itemsRoot,
        uint32 itemCount,
        string calldata cid,
        bytes32 licenceHash,
        bytes32 consentHash,
        bytes32 salt
    ) external;

    /// @notice Give the bond of a submission that was never revealed to the job; anyone may, after the reveal window.
    function forfeit(uint256 submissionId) external;

    /// @notice Withdraw a submission; a tombstone remains. The bond returns only while commitments are still taken.
    function revoke(uint256 submissionId) external;

    /// @notice The commitment of `contributor`, bound to this chain and contract.
    function commitmentOf(
        uint256 jobId,
        address contributor,
        bytes32 itemsRoot,
        uint32 itemCount,
        string calldata cid,
        bytes32 licenceHash,
        bytes32 consentHash,
        bytes32 salt
    ) external view returns (bytes32);

    /// @notice A campaign's rules and windows; `commitEnd` is zero when there is none.
    function campaign(uint256 jobId) external view returns (Campaign memory);

    /// @notice A submission; all zero for a number that there is not.
    function submission(uint256 submissionId) external view returns (Submission memory);

    /// @notice Numbers of the campaign's submissions in order of commitment.
    function submissionsOf(uint256 jobId) external view returns (uint256[] memory);

    /// @notice Wei that relay fees have taken from the campaign's gas pool.
    function relayed(uint256 jobId) external view returns (uint256);

    /// @notice How many submissions were ever revealed.
    function revealedCount(uint256 jobId) external view returns (uint256);
}
