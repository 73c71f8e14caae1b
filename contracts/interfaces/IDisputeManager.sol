// SPDX-License-Identifier: MIT
pragma solidity 0.8.28;

/// @notice Where a dispute stands. Answered disputes are drawn at once, others when the time to answer is over.
enum DisputeState {
    None,
    Drawing,
    Voting,
    Upheld,
    Overturned,
    Undecided
}

/// @title Disputes about published roots, decided by a jury of validators
/// @notice Amounts are wei of HYDRA, times are seconds of chain time.
interface IDisputeManager {
    /// @param defender who answered with the same bond; zero when nobody did.
    /// @param everyone whether the jury is all validators: then what it says, or does not, ends the dispute.
    /// @param voteEnd end of the vote, known once the jury is seated.
    /// @param weight stake of the whole jury when it was seated, of which two thirds decide.
    struct Dispute {
        uint256 jobId;
        bytes32 root;
        address challenger;
        address defender;
        DisputeState state;
        bool everyone;
        uint40 answerEnd;
        uint40 voteEnd;
        uint64 anchor;
        uint8 jurors;
        uint8 voted;
        uint96 weight;
        uint96 upholding;
        uint96 overturning;
    }

    /// @notice A root is disputed: it pays nobody until a jury has decided. The challenger put `bond` wei down.
    event Challenged(
        uint256 indexed disputeId,
        uint256 indexed jobId,
        address indexed challenger,
        bytes32 root,
        string evidenceCid,
        uint256 bond,
        uint40 answerEnd
    );
    /// @notice Somebody answered for the root, with `bond` wei.
    event Defended(uint256 indexed disputeId, address indexed defender, string evidenceCid, uint256 bond);
    /// @notice The block whose hash draws the jury; `seat` once it is mined.
    event DrawFixed(uint256 indexed disputeId, uint256 blockNumber);
    /// @notice The jury is drawn; `weight` is its stake in wei, `everyone` says that it is all validators.
    event JurySeated(uint256 indexed disputeId, address[] jurors, uint256 weight, bool everyone, uint40 voteEnd);
    /// @notice A juror voted, with the `weight` wei of stake that it had at the drawing.
    event Voted(uint256 indexed disputeId, address indexed juror, bool uphold, uint256 weight);
    /// @notice The drawn jury did not agree; all validators decide.
    event Escalated(uint256 indexed disputeId);
    /// @notice The dispute has ended; the stakes on either side and of the whole jury, wei.
    event Resolved(
        uint256 indexed disputeId,
        uint256 indexed jobId,
        DisputeState state,
        uint256 upholding,
        uint256 overturning,
        uint256 weight
    );
    /// @notice A bond's money on its way out: back to its owner, to the winner or to a juror.
    event BondPaid(uint256 indexed disputeId, address indexed to, uint256 amount);

    /// @notice The dispute is not in the state that the call needs.
    error WrongDisputeState(uint256 disputeId, DisputeState state);
    /// @notice Somebody has answered for the root already.
    error AlreadyDefended(uint256 disputeId, address defender);
    /// @notice The time to answer ended at `answerEnd`.
    error AnswersClosed(uint256 disputeId, uint40 answerEnd);
    /// @notice Nobody has answered, and somebody still may until `answerEnd`.
    error AnswersOpen(uint256 disputeId, uint40 answerEnd);
    /// @notice The block that draws the jury is not mined yet.
    error DrawPending(uint256 disputeId, uint256 blockNumber);
    /// @notice The caller does not sit on the jury.
    error NotJuror(uint256 disputeId, address caller);
    /// @notice One vote a juror and jury: nobody changes a vote after it has seen the others'.
    error AlreadyVoted(uint256 disputeId, address juror);
    /// @notice The vote ended at `voteEnd`.
    error VotesClosed(uint256 disputeId, uint40 voteEnd);
    /// @notice Some juror may still vote until `voteEnd`.
    error VotesOpen(uint256 disputeId, uint40 voteEnd);

    /// @notice Dispute the newest root of a job before it is active, with a bond (needs an allowance). The root stays
    /// inactive until the dispute ends. Answers a committee that passed a wrong result.
    /// @param evidenceCid where the reasons are found, at most 96 bytes.
    function challenge(uint256 jobId, bytes32 root, string calldata evidenceCid) external returns (uint256 disputeId);

    /// @notice Answer for the root with the same bond; the first who does gains or loses by it. Anyone may.
    function defend(uint256 disputeId, string calldata evidenceCid) external;

    /// @notice Seat the jury; anyone may, once answered or too late to answer. The first call fixes the block whose hash
    /// draws, the next one after that block draws.
    /// @return seated whether the jury sits; false when the call only fixed the block.
    function seat(uint256 disputeId) external returns (bool seated);

    /// @notice Vote, once, as a juror. Votes are open: they are one bit about public evidence, and every vote is paid alike.
    function vote(uint256 disputeId, bool uphold) external;

    /// @notice End the vote when all jurors have voted or its time is over; anyone may. Two thirds of the jury's stake
    /// decide, and silent jurors lose a tenth of their stake. A drawn jury that does not agree gives way to all
    /// validators; when these do not agree either, the root falls, the bonds go back and nobody is slashed.
    function resolve(uint256 disputeId) external;

    /// @notice A dispute; all zero for a number that there is not.
    function dispute(uint256 disputeId) external view returns (Dispute memory);

    /// @notice The jury that sits or sat last.
    function jury(uint256 disputeId) external view returns (address[] memory);

    /// @notice Number of the newest dispute; numbers start at one.
    function disputeCount() external view returns (uint256);
}
