// SPDX-License-Identifier: MIT
pragma solidity 0.8.28;

import {Permit} from "./Permit.sol";

/// @notice What an operator stakes for. Stakes of different roles never mix.
enum Role {
    Validator,
    Trainer
}

/// @title Stakes of validators and trainers
/// @notice Amounts are wei of HYDRA, times are seconds of chain time. Slashed stake is burned, so that nobody earns by
/// having somebody slashed.
interface IStakeManager {
    /// @notice `amount` wei were added to the operator's active stake.
    event Staked(Role indexed role, address indexed operator, uint256 amount);
    /// @notice `amount` wei went from active to thawing; all that thaws is ready at `readyAt` (seconds).
    event WithdrawRequested(Role indexed role, address indexed operator, uint256 amount, uint40 readyAt);
    /// @notice `amount` wei of thawed stake were paid out.
    event Withdrawn(Role indexed role, address indexed operator, uint256 amount);
    /// @notice `amount` wei were burned, of active stake first.
    event Slashed(Role indexed role, address indexed operator, uint256 amount);
    /// @notice No withdrawal before `until` (seconds).
    event Locked(Role indexed role, address indexed operator, uint40 until);

    /// @notice The amount is zero.
    error ZeroAmount();
    /// @notice Active stake must be zero or at least `minimum`; this call would leave `remaining`.
    error BelowMinimumStake(uint256 remaining, uint256 minimum);
    /// @notice All `seats` seats of the role are taken.
    error SeatsTaken(Role role, uint256 seats);
    /// @notice Less active stake than the call needs.
    error InsufficientStake(Role role, address operator, uint256 active, uint256 requested);
    /// @notice Nothing is thawing.
    error NothingThawing(Role role, address operator);
    /// @notice The stake still thaws.
    error StillThawing(Role role, address operator, uint40 readyAt);
    /// @notice The stake still answers for a round or job.
    error StakeLocked(Role role, address operator, uint40 until);

    /// @notice Add `amount` to the caller's active stake; needs an allowance of the token.
    function stake(Role role, uint256 amount) external;

    /// @notice Like `stake`, with the allowance given by the caller's signature instead of a transaction before.
    function stakeWithPermit(Role role, uint256 amount, Permit calldata permit) external;

    /// @notice Move `amount` from active to thawing. A second request thaws everything anew from now.
    function requestWithdraw(Role role, uint256 amount) external;

    /// @notice Pay the caller's thawed stake out.
    /// @return amount wei paid.
    function withdraw(Role role) external returns (uint256 amount);

    /// @notice Burn up to `amount` of the operator's stake, active first, then thawing.
    /// @return burned wei really burned: less than `amount` when the operator had less.
    function slash(Role role, address operator, uint256 amount) external returns (uint256 burned);

    /// @notice Forbid withdrawal before `until`; an earlier, longer lock stays.
    function lock(Role role, address operator, uint40 until) external;

    /// @notice Active stake.
    function stakeOf(Role role, address operator) external view returns (uint256 active);

    /// @notice Stake on its way out, and when it may leave.
    function thawingOf(Role role, address operator) external view returns (uint256 amount, uint40 readyAt);

    /// @notice No withdrawal before this time.
    function lockedUntil(Role role, address operator) external view returns (uint40 until);

    /// @notice Sum of the role's active stake.
    function totalStaked(Role role) external view returns (uint256 active);

    /// @notice Everybody with active stake, at most `MAX_OPERATORS`, in no particular order.
    function operators(Role role) external view returns (address[] memory);
}
