// SPDX-License-Identifier: MIT
pragma solidity 0.8.28;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {ERC20Burnable} from "@openzeppelin/contracts/token/ERC20/extensions/ERC20Burnable.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {ExactTransfer} from "./base/ExactTransfer.sol";
import {Guarded} from "./base/Guarded.sol";
import {PausableEntry} from "./base/PausableEntry.sol";
import {Permitting} from "./base/Permitting.sol";
import {IStakeManager, Role} from "./interfaces/IStakeManager.sol";
import {Permit} from "./interfaces/Permit.sol";

// slither-disable-start timestamp
// Windows are minutes to days long: the seconds that a block producer may choose change nothing.

/// @title Stakes of validators and trainers
/// @notice Invariant: the token balance is at least the sum of all active and thawing stake.
contract StakeManager is IStakeManager, PausableEntry {
    using SafeCast for uint256;
    using SafeERC20 for IERC20;

    /// @notice May burn stake: the contracts whose rules say when.
    bytes32 public constant SLASHER_ROLE = keccak256("SLASHER_ROLE");
    /// @notice May delay withdrawals: the contracts that stake answers to.
    bytes32 public constant LOCKER_ROLE = keccak256("LOCKER_ROLE");

    /// @notice Operators of one role. Bounds every list and loop over operators.
    uint256 public constant MAX_OPERATORS = 64;

    /// @notice Least active stake, wei. Answers dust operators that would take all seats for nothing.
    uint256 public constant MIN_STAKE = 1 ether;

    /// @dev Active stake by role, in one slot with the guardian's pause, which every stake reads anyway.
    uint96 private _validatorStake;
    uint96 private _trainerStake;

    /// @notice HYDRA.
    ERC20Burnable public immutable token;
    /// @notice Seconds between a request to withdraw and the withdrawal.
    uint40 public immutable thawSeconds;

    /// @dev One slot. `seat` is the 1-based place in the role's list of operators, zero without active stake.
    struct Account {
        uint96 active;
        uint96 thawing;
        uint40 readyAt;
        uint16 seat;
    }

    mapping(Role => mapping(address => Account)) private _accounts;
    /// @inheritdoc IStakeManager
    mapping(Role => mapping(address => uint40)) public lockedUntil;
    // Filled through a storage pointer.
    // slither-disable-next-line uninitialized-state
    mapping(Role => address[]) private _operators;

    /// @param admin wires the contracts together and renounces.
    /// @param guardian may close and open the entry.
    constructor(ERC20Burnable token_, uint40 thawSeconds_, address admin, address guardian) Guarded(admin, guardian) {
        token = token_;
        thawSeconds = thawSeconds_;
    }

    /// @inheritdoc IStakeManager
    function stake(Role role, uint256 amount) external {
        _stake(role, amount);
    }

    /// @inheritdoc IStakeManager
    // A permit calls the token alone, which calls nobody back.
    // slither-disable-next-line reentrancy-benign,reentrancy-events
    function stakeWithPermit(Role role, uint256 amount, Permit calldata permit) external {
        Permitting.use(address(token), permit);
        _stake(role, amount);
    }

    /// @inheritdoc IStakeManager
    /// @dev A new request thaws older ones anew: splitting a withdrawal never brings stake out from under a slash sooner.
    function requestWithdraw(Role role, uint256 amount) external {
        if (amount == 0) revert ZeroAmount();
        Account storage account = _accounts[role][msg.sender];
        uint256 active = account.active;
        if (amount > active) revert InsufficientStake(role, msg.sender, active, amount);
        uint256 remaining = active - amount;
        if (remaining != 0 && remaining < MIN_STAKE) revert BelowMinimumStake(remaining, MIN_STAKE);
        uint40 readyAt = uint40(block.timestamp) + thawSeconds;
        account.active = uint96(remaining);
        account.thawing += uint96(amount);
        account.readyAt = readyAt;
        _setTotal(role, totalStaked(role) - amount);
        if (remaining == 0) _leaveSeat(role, account);
        emit WithdrawRequested(role, msg.sender, amount, readyAt);
    }

    /// @inheritdoc IStakeManager
    function withdraw(Role role) external returns (uint256 amount) {
        Account storage account = _accounts[role][msg.sender];
        amount = account.thawing;
        if (amount == 0) revert NothingThawing(role, msg.sender);
        if (block.timestamp < account.readyAt) revert StillThawing(role, msg.sender, account.readyAt);
        uint40 until = lockedUntil[role][msg.sender];
        if (block.timestamp < until) revert StakeLocked(role, msg.sender, until);
        account.thawing = 0;
        emit Withdrawn(role, msg.sender, amount);
        IERC20(token).safeTransfer(msg.sender, amount);
    }

    /// @inheritdoc IStakeManager
    /// @dev Thawing stake is cut too: answers unbonding just before the slash.
    function slash(Role role, address operator, uint256 amount)
        external
        onlyRole(SLASHER_ROLE)
        returns (uint256 burned)
    {
        Account storage account = _accounts[role][operator];
        uint256 fromActive = Math.min(amount, account.active);
        uint256 fromThawing = Math.min(amount - fromActive, account.thawing);
        burned = fromActive + fromThawing;
        if (burned == 0) return 0;
        account.active -= uint96(fromActive);
        account.thawing -= uint96(fromThawing);
        _setTotal(role, totalStaked(role) - fromActive);
        if (account.active == 0 && account.seat != 0) _leaveSeat(role, account);
        emit Slashed(role, operator, burned);
        token.burn(burned);
    }

    /// @inheritdoc IStakeManager
    function lock(Role role, address operator, uint40 until) external onlyRole(LOCKER_ROLE) {
        if (until <= lockedUntil[role][operator]) return;
        lockedUntil[role][operator] = until;
        emit Locked(role, operator, until);
    }

    /// @inheritdoc IStakeManager
    function stakeOf(Role role, address operator) external view returns (uint256) {
        return _accounts[role][operator].active;
    }

    /// @inheritdoc IStakeManager
    function thawingOf(Role role, address operator) external view returns (uint256 amount, uint40 readyAt) {
        Account storage account = _accounts[role][operator];
        return (account.thawing, account.readyAt);
    }

    /// @inheritdoc IStakeManager
    function operators(Role role) external view returns (address[] memory) {
        return _operators[role];
    }

    /// @inheritdoc IStakeManager
    function totalStaked(Role role) public view returns (uint256) {
        return role == Role.Validator ? _validatorStake : _trainerStake;
    }

    /// @dev All effects precede the transfer, and the transfer must be exact: re-entering gains nothing.
    function _stake(Role role, uint256 amount) private whenNotPaused {
        if (amount == 0) revert ZeroAmount();
        Account storage account = _accounts[role][msg.sender];
        uint256 active = account.active + amount;
        if (active < MIN_STAKE) revert BelowMinimumStake(active, MIN_STAKE);
        account.active = active.toUint96();
        if (account.seat == 0) account.seat = _takeSeat(role);
        _setTotal(role, totalStaked(role) + amount);
        emit Staked(role, msg.sender, amount);
        ExactTransfer.pull(token, msg.sender, amount);
    }

    function _setTotal(Role role, uint256 total) private {
        if (role == Role.Validator) _validatorStake = total.toUint96();
        else _trainerStake = total.toUint96();
    }

    function _takeSeat(Role role) private returns (uint16) {
        address[] storage seats = _operators[role];
        if (seats.length >= MAX_OPERATORS) revert SeatsTaken(role, MAX_OPERATORS);
        seats.push(msg.sender);
        return uint16(seats.length);
    }

    /// @dev The last operator moves into the freed seat.
    function _leaveSeat(Role role, Account storage account) private {
        address[] storage seats = _operators[role];
        uint16 seat = account.seat;
        address moved = seats[seats.length - 1];
        seats[seat - 1] = moved;
        _accounts[role][moved].seat = seat;
        seats.pop();
        account.seat = 0;
    }
}
// slither-disable-end timestamp
