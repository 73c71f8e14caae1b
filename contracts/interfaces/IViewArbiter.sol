// SPDX-License-Identifier: MIT
pragma solidity 0.8.28;

/// @title The last word on who goes on with a training job
/// @notice A swarm changes its view by itself as long as a majority of it lives. When the majority is lost for good, those
/// who are left take the job over here: bonded, and only after a time in which a living majority can object. Times are
/// seconds of chain time, amounts wei of HYDRA.
interface IViewArbiter {
    /// @notice What the chain knows of a job's newest view. Views are ordered by epoch, then by number.
    /// @param epoch takeovers so far: a view of an earlier epoch is void, whatever its number.
    /// @param number of the view within the swarm's log; 0 in epoch 0: everybody who joined the job, in that order.
    /// @param membersHash keccak-256 of the members' addresses, 32 bytes each, in the view's order; zero for view 0.
    struct View {
        uint64 epoch;
        uint64 number;
        bytes32 membersHash;
    }

    /// @notice A takeover that waits, or whose time has come; all zero when there is none.
    /// @param proposer put the bond down, and has it back when the takeover takes effect or gives way to a larger one.
    /// @param effectiveAt from when it can no longer be cancelled; seconds.
    /// @param size how many members go on.
    /// @param membersHash of those who go on, as in View.
    struct Takeover {
        address proposer;
        uint40 effectiveAt;
        uint16 size;
        bytes32 membersHash;
    }

    /// @notice A majority of the view recorded before has shown a newer one.
    event ViewRecorded(uint256 indexed jobId, uint64 indexed epoch, uint64 indexed number, address[] members);
    /// @notice Members of the view named by epoch and number would go on; it takes effect at `effectiveAt`, seconds.
    event TakeoverProposed(
        uint256 indexed jobId,
        uint64 indexed epoch,
        uint64 number,
        address indexed proposer,
        address[] members,
        uint40 effectiveAt
    );
    /// @notice A larger takeover took the place of the proposer's, who has its bond back.
    event TakeoverReplaced(uint256 indexed jobId, address indexed proposer);
    /// @notice A living majority objected, or a newer view was shown; the bond is burned.
    event TakeoverCancelled(uint256 indexed jobId, address indexed proposer);
    /// @notice The view recorded before is void; `number` is the first of the new epoch.
    event TakeoverCompleted(uint256 indexed jobId, uint64 indexed epoch, uint64 number, bytes32 membersHash);

    /// @notice Views are recorded and taken over only while the training job runs.
    error NotRunning(uint256 jobId);
    /// @notice The members given are not those of the newest recorded view.
    error WrongMembers(uint256 jobId, bytes32 given, bytes32 recorded);
    /// @notice A view has between 1 and `limit` members.
    error BadSize(uint256 size, uint256 limit);
    /// @notice Views are recorded in order: `number` must be above `recorded`.
    error OldView(uint256 jobId, uint64 number, uint64 recorded);
    /// @notice One entry for each member: a signature, or nothing where there is none.
    error WrongSignatureCount(uint256 signatures, uint256 members);
    /// @notice The entry is not the member's signature of this very statement.
    error BadSignature(address member);
    /// @notice Fewer signatures than a majority of the recorded view.
    error NoMajority(uint256 signatures, uint256 members);
    /// @notice Not everybody who goes on has signed.
    error NotUnanimous(uint256 signatures, uint256 members);
    /// @notice Those who go on are named by ascending places in the recorded view, each once.
    error BadPlaces(uint256 place);
    /// @notice A banned trainer takes nothing over.
    error Banned(uint256 jobId, address member);
    /// @notice Another takeover waits, by as many or more.
    error TakeoverPending(uint256 jobId, uint16 size, uint40 effectiveAt);
    /// @notice No takeover waits.
    error NoTakeover(uint256 jobId);
    /// @notice The takeover takes effect only at `effectiveAt`.
    error TakeoverWaits(uint256 jobId, uint40 effectiveAt);

    /// @notice Record a newer view, shown by a majority of the recorded one; anyone may. A takeover that waits named an
    /// older view, and is cancelled by it. Answers takers who come back from a view that the swarm left long ago.
    /// @param number of the new view.
    /// @param members of the new view, at most MAX_MEMBERS, in its order.
    /// @param current the members of the recorded view; ignored for view 0.
    /// @param signatures EIP-712 over View(jobId, epoch, number, members), one entry a member of the recorded view, empty
    /// where a member did not sign.
    function recordView(
        uint256 jobId,
        uint64 number,
        address[] calldata members,
        address[] calldata current,
        bytes[] calldata signatures
    ) external;

    /// @notice Take the job over from the recorded view; the caller puts the bond down. One takeover waits at a time; a larger
    /// one replaces a smaller one and waits anew. Answers a minority that would go on while the majority lives: it has to
    /// wait where the majority can see it, and pays for the attempt.
    /// @param current the members of the recorded view; ignored for view 0.
    /// @param going places in the recorded view of those who go on, ascending.
    /// @param signatures EIP-712 over Takeover(jobId, epoch, number, cancelled, members) by each of them, where epoch and
    /// number are the recorded view's and `cancelled` is how many takeovers of the job were cancelled before.
    function proposeTakeover(
        uint256 jobId,
        address[] calldata current,
        uint16[] calldata going,
        bytes[] calldata signatures
    ) external;

    /// @notice Cancel the takeover that waits, by a majority of the recorded view; anyone may send it. The bond is burned.
    /// @param signatures EIP-712 over Objection(jobId, epoch, number, cancelled, membersHash), naming the takeover.
    function cancelTakeover(uint256 jobId, address[] calldata current, bytes[] calldata signatures) external;

    /// @notice Write down a takeover whose time has come, and give the bond back; anyone may.
    function completeTakeover(uint256 jobId) external;

    /// @notice The newest view that the chain knows, a takeover whose time has come included.
    function newestView(uint256 jobId) external view returns (View memory);

    /// @notice The takeover that was proposed and not yet written down.
    function takeover(uint256 jobId) external view returns (Takeover memory);

    /// @notice How many takeovers of the job were cancelled.
    function cancelled(uint256 jobId) external view returns (uint256);
}
