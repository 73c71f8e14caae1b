// SPDX-License-Identifier: MIT
pragma solidity 0.8.28;

/// @notice Where a scoring round stands. Commit turns into Reveal by time, or once every member has committed.
enum RoundState {
    None,
    Commit,
    Reveal,
    Tallied,
    Failed
}

/// @title Scoring rounds: each validator commits to one Merkle root of rewards, then reveals it
interface IQualityRounds {
    /// @notice A scoring round; the result is zero until it is tallied.
    /// @param commitEnd until when commitments count, seconds; it moves forward when everybody has committed.
    /// @param revealEnd until when reveals count, seconds.
    /// @param reserved wei of the job that rewards and fees are paid from.
    struct Round {
        uint256 jobId;
        RoundState state;
        uint40 commitEnd;
        uint40 revealEnd;
        uint256 reserved;
        bytes32 root;
        uint256 total;
    }

    /// @param commitment what the member committed; zero before, and again after its reveal (the event remains).
    struct Ballot {
        bytes32 commitment;
        bytes32 root;
        uint256 total;
        bool revealed;
        uint256 weight;
    }

    /// @notice A committee is drawn; the windows end at these times (seconds), and `reserved` wei are there to be given.
    event RoundOpened(
        uint256 indexed roundId,
        uint256 indexed jobId,
        address[] committee,
        uint40 commitEnd,
        uint40 revealEnd,
        uint256 reserved
    );
    /// @notice A member has committed to a result that nobody else can read or copy.
    event Committed(uint256 indexed roundId, address indexed validator, bytes32 commitment);
    /// @notice The last member has committed: the reveal window runs from now, with its full length.
    event CommitsClosed(uint256 indexed roundId, uint40 commitEnd, uint40 revealEnd);
    /// @notice A member has shown what it committed to; the evidence holds the leaves behind the root.
    event Revealed(
        uint256 indexed roundId, address indexed validator, bytes32 root, uint256 total, string evidenceCid
    );
    /// @notice A result passed. Its evidence is what its backers named in their `Revealed`.
    event Tallied(uint256 indexed roundId, uint256 indexed jobId, bytes32 root, uint256 total, uint256 backing);
    /// @notice The block whose hash draws the job's committee; `openRound` once it is mined.
    event DrawFixed(uint256 indexed jobId, uint256 blockNumber);
    /// @notice The round had no result; another committee is drawn, this once.
    event Redrawing(uint256 indexed roundId, uint256 indexed jobId);
    /// @notice No committee had a result; the money goes back.
    event Failed(uint256 indexed roundId, uint256 indexed jobId);
    /// @notice A dispute took the result back, as wrong or because no jury agreed; the money goes back.
    event Overturned(uint256 indexed roundId, uint256 indexed jobId, bool wrong);

    /// @notice The job has its round already.
    error AlreadyOpened(uint256 jobId, uint256 roundId);
    /// @notice The campaign's reveal window is still open, or there is no such campaign (`revealEnd` zero).
    error CampaignRunning(uint256 jobId, uint40 revealEnd);
    /// @notice Nobody revealed a submission; the sponsor is refunded at the exit time.
    error NothingRevealed(uint256 jobId);
    /// @notice The block that draws the committee is not mined yet.
    error DrawPending(uint256 jobId, uint256 blockNumber);
    /// @notice No validator has stake.
    error NoValidators();
    /// @notice The job's available money does not exceed the fee of a single member.
    error FeesNotCovered(uint256 jobId, uint256 available, uint256 fee);
    /// @notice The job has no result that stands.
    error NotTallied(uint256 jobId, uint256 roundId);
    /// @notice The result can be disputed until `activeAt`, or is disputed (the largest time there is).
    error Disputable(uint256 jobId, uint40 activeAt);
    /// @notice No open round has this number.
    error RoundNotOpen(uint256 roundId);
    /// @notice The caller does not sit on the committee.
    error NotOnCommittee(uint256 roundId, address caller);
    /// @notice Zero and one commit to nothing.
    error EmptyCommitment();
    /// @notice One commitment a member: nobody keeps several and shows the one that suits.
    error AlreadyCommitted(uint256 roundId, address validator);
    /// @notice The member has shown its result before.
    error AlreadyRevealed(uint256 roundId, address validator);
    /// @notice The commit window closed at `commitEnd`.
    error CommitClosed(uint256 roundId, uint40 commitEnd);
    /// @notice Reveals are taken once commits are closed, until just before `revealEnd`.
    error OutsideRevealWindow(uint256 roundId, uint40 commitEnd, uint40 revealEnd);
    /// @notice The revealed values are not the committed ones.
    error CommitmentMismatch(uint256 roundId, bytes32 committed, bytes32 revealed);
    /// @notice Some member may still reveal until `revealEnd`.
    error RevealsOpen(uint256 roundId, uint40 revealEnd);

    /// @notice Open the scoring of a campaign whose reveals are closed; anyone may. The first call fixes the block whose
    /// hash draws the committee, the next one after that block draws it. So nobody can stake, leave or split to be drawn.
    /// @return roundId the round's number; zero when the call only fixed the block.
    function openRound(uint256 jobId) external returns (uint256 roundId);

    /// @notice Commit to a result; see `commitmentOf`.
    function commit(uint256 roundId, bytes32 commitment) external;

    /// @notice Show the committed result.
    /// @param root Merkle root of the rewards.
    /// @param total sum of the rewards, wei.
    /// @param evidenceCid where the rewards and what they were counted from are found, at most 96 bytes.
    function reveal(uint256 roundId, bytes32 root, uint256 total, string calldata evidenceCid, bytes32 salt) external;

    /// @notice End the round: publish a result that 2/3 of the committee's stake backs, or draw another committee; give the
    /// money back when that one has no result either. Anyone may.
    function tally(uint256 roundId) external;

    /// @notice Settle a campaign whose result can no longer be disputed, so that its rest can be refunded; anyone may.
    function finish(uint256 jobId) external;

    /// @notice The commitment of `validator`, bound to this chain, contract and round.
    function commitmentOf(
        uint256 roundId,
        address validator,
        bytes32 root,
        uint256 total,
        string calldata evidenceCid,
        bytes32 salt
    ) external view returns (bytes32);

    /// @notice A round; all zero for a number that there is not.
    function round(uint256 roundId) external view returns (Round memory);

    /// @notice The members drawn for a round, in the order of the draw.
    function committee(uint256 roundId) external view returns (address[] memory);

    /// @notice The job's newest round; zero when none was opened.
    function roundOf(uint256 jobId) external view returns (uint256 roundId);

    /// @notice What a member has committed to or shown, and the stake it had at the drawing, wei.
    function ballot(uint256 roundId, address validator) external view returns (Ballot memory);

    /// @notice The most that a result's total may be: what the round reserved, less a fee for every member.
    function budget(uint256 roundId) external view returns (uint256);
}
