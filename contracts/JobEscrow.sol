// SPDX-License-Identifier: MIT
pragma solidity 0.8.28;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {ReentrancyGuard} from "@openzeppelin/contracts/utils/ReentrancyGuard.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {Cid} from "./base/Cid.sol";
import {ExactTransfer} from "./base/ExactTransfer.sol";
import {Guarded} from "./base/Guarded.sol";
import {PausableEntry} from "./base/PausableEntry.sol";
import {Permitting} from "./base/Permitting.sol";
import {IJobEscrow, Kind, State} from "./interfaces/IJobEscrow.sol";
import {Permit} from "./interfaces/Permit.sol";

// slither-disable-start timestamp
// Windows are minutes to days long: the seconds that a block producer may choose change nothing.

/// @title Money of campaigns and training jobs
/// @notice Invariant: the token balance is at least the sum of available and reserved money of all jobs.
contract JobEscrow is IJobEscrow, PausableEntry, ReentrancyGuard {
    using SafeCast for uint256;
    using SafeERC20 for IERC20;

    /// @notice May reserve, release and advance: the contracts that the work is done under.
    bytes32 public constant CONTROLLER_ROLE = keccak256("CONTROLLER_ROLE");
    /// @notice May pay out of what is reserved.
    bytes32 public constant PAYER_ROLE = keccak256("PAYER_ROLE");

    /// @notice Longest life of a job, seconds. Answers an exit time that would hold the money for ever by mistake.
    uint256 public constant MAX_LIFETIME = 730 days;

    /// @notice HYDRA.
    IERC20 public immutable token;

    /// @dev What changes together shares a slot: `reserved` and `paid` on every claim.
    struct Account {
        address sponsor;
        Kind kind;
        State state;
        uint40 exitTime;
        bytes32 specHash;
        uint128 reserved;
        uint128 paid;
        uint128 deposited;
        uint128 refunded;
    }

    /// @notice Number of the newest job; numbers start at one.
    uint256 public jobCount;
    mapping(uint256 => Account) private _jobs;

    /// @param admin wires the contracts together and renounces.
    /// @param guardian may close and open the entry.
    constructor(IERC20 token_, address admin, address guardian) Guarded(admin, guardian) {
        token = token_;
    }

    /// @inheritdoc IJobEscrow
    function open(Kind kind, bytes32 specHash, string calldata specCid, uint256 amount, uint40 exitTime)
        external
        nonReentrant
        returns (uint256 jobId)
    {
        return _open(kind, specHash, specCid, amount, exitTime);
    }

    /// @inheritdoc IJobEscrow
    // A permit calls the token alone, which calls nobody back.
    // slither-disable-next-line reentrancy-benign
    function openWithPermit(
        Kind kind,
        bytes32 specHash,
        string calldata specCid,
        uint256 amount,
        uint40 exitTime,
        Permit calldata permit
    ) external nonReentrant returns (uint256 jobId) {
        Permitting.use(address(token), permit);
        return _open(kind, specHash, specCid, amount, exitTime);
    }

    /// @inheritdoc IJobEscrow
    /// @dev A controller may add to an ended job: a bond forfeited late still needs a place to go.
    function topUp(uint256 jobId, uint256 amount) external nonReentrant {
        if (amount == 0) revert ZeroAmount();
        Account storage account = _known(jobId);
        if (_ended(account.state) && !hasRole(CONTROLLER_ROLE, msg.sender)) revert JobEnded(jobId, account.state);
        account.deposited += amount.toUint128();
        emit ToppedUp(jobId, msg.sender, amount);
        ExactTransfer.pull(token, msg.sender, amount);
    }

    /// @inheritdoc IJobEscrow
    function reserve(uint256 jobId, uint256 amount) external onlyRole(CONTROLLER_ROLE) {
        Account storage account = _known(jobId);
        uint256 free = _available(account);
        if (amount > free) revert InsufficientAvailable(jobId, free, amount);
        account.reserved += uint128(amount);
        emit Reserved(jobId, amount);
    }

    /// @inheritdoc IJobEscrow
    function release(uint256 jobId, uint256 amount) external onlyRole(CONTROLLER_ROLE) {
        Account storage account = _known(jobId);
        if (amount > account.reserved) revert InsufficientReserved(jobId, account.reserved, amount);
        account.reserved -= uint128(amount);
        emit Released(jobId, amount);
    }

    /// @inheritdoc IJobEscrow
    function advance(uint256 jobId, State next) external onlyRole(CONTROLLER_ROLE) {
        Account storage account = _known(jobId);
        if (next <= account.state || _ended(account.state)) revert IllegalTransition(jobId, account.state, next);
        account.state = next;
        emit StateChanged(jobId, next);
    }

    /// @inheritdoc IJobEscrow
    /// @dev Books before it pays, and only contracts of this system may call: needs no guard of its own.
    function pay(uint256 jobId, address to, uint256 amount) external onlyRole(PAYER_ROLE) {
        Account storage account = _jobs[jobId];
        (uint256 reserved, uint256 paid) = (account.reserved, account.paid);
        if (amount > reserved) revert InsufficientReserved(jobId, reserved, amount);
        (account.reserved, account.paid) = (uint128(reserved - amount), uint128(paid + amount));
        emit Paid(jobId, to, amount);
        token.safeTransfer(to, amount);
    }

    /// @inheritdoc IJobEscrow
    /// @dev A job whose work never came to scoring ends here, so that its sponsor's exit depends on nobody else.
    function refund(uint256 jobId) external nonReentrant returns (uint256 amount) {
        Account storage account = _known(jobId);
        State state = account.state;
        bool ended = _ended(state);
        if (!ended && block.timestamp < account.exitTime) revert NotRefundable(jobId, state, account.exitTime);
        amount = _available(account);
        if (amount == 0) revert NothingToRefund(jobId);
        account.refunded += uint128(amount);
        if (state == State.Open || state == State.Collecting) {
            account.state = State.Refunded;
            emit StateChanged(jobId, State.Refunded);
        }
        emit Refunded(jobId, account.sponsor, amount);
        token.safeTransfer(account.sponsor, amount);
    }

    /// @inheritdoc IJobEscrow
    function job(uint256 jobId) external view returns (Job memory) {
        Account storage account = _known(jobId);
        return Job({
            sponsor: account.sponsor,
            kind: account.kind,
            state: account.state,
            exitTime: account.exitTime,
            specHash: account.specHash,
            deposited: account.deposited,
            reserved: account.reserved,
            paid: account.paid,
            refunded: account.refunded
        });
    }

    /// @inheritdoc IJobEscrow
    function available(uint256 jobId) external view returns (uint256) {
        return _available(_known(jobId));
    }

    function _open(Kind kind, bytes32 specHash, string calldata specCid, uint256 amount, uint40 exitTime)
        private
        whenNotPaused
        returns (uint256 jobId)
    {
        if (amount == 0) revert ZeroAmount();
        Cid.check(specCid);
        uint256 latest = block.timestamp + MAX_LIFETIME;
        if (exitTime <= block.timestamp || exitTime > latest) revert BadExitTime(exitTime, latest);
        jobId = ++jobCount;
        Account storage account = _jobs[jobId];
        account.sponsor = msg.sender;
        account.kind = kind;
        account.state = State.Open;
        account.exitTime = exitTime;
        account.specHash = specHash;
        account.deposited = amount.toUint128();
        emit JobOpened(jobId, kind, msg.sender, specHash, specCid, amount, exitTime);
        ExactTransfer.pull(token, msg.sender, amount);
    }

    function _known(uint256 jobId) private view returns (Account storage account) {
        account = _jobs[jobId];
        if (account.state == State.None) revert UnknownJob(jobId);
    }

    function _available(Account storage account) private view returns (uint256) {
        return account.deposited - account.reserved - account.paid - account.refunded;
    }

    function _ended(State state) private pure returns (bool) {
        return state == State.Settled || state == State.Refunded;
    }
}
// slither-disable-end timestamp
