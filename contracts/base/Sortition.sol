// SPDX-License-Identifier: MIT
pragma solidity 0.8.28;

/// @title Drawing people by stake from the hash of a block to come
/// @notice Whoever asks for a draw fixes a block that does not exist yet, so nobody can choose stake, timing or names to
/// suit the outcome. The producer of that block can: it may hold back one that it does not like, and is trusted not to.
library Sortition {
    /// @dev Blocks from the request to the one whose hash draws.
    uint256 private constant DELAY = 2;

    /// @notice The number of the block whose hash will draw.
    function fixBlock() internal view returns (uint64) {
        return uint64(block.number + DELAY);
    }

    /// @notice Draw up to `count` of the candidates without putting back, each with a probability in proportion to its
    /// weight among those left; whoever weighs nothing is never drawn. The drawn ones are moved to the front of both
    /// arrays. Two bounded loops: at most `count` times the number of candidates.
    /// @return drawn how many were drawn: fewer than `count` when fewer have weight.
    function draw(address[] memory candidates, uint256[] memory weights, uint256 count, bytes32 seed)
        internal
        pure
        returns (uint256 drawn)
    {
        uint256 left = 0;
        for (uint256 i = 0; i < weights.length; ++i) {
            left += weights[i];
        }
        for (; drawn < count && left != 0; ++drawn) {
            uint256 chosen = _at(weights, drawn, uint256(keccak256(abi.encode(seed, drawn))) % left);
            left -= weights[chosen];
            (candidates[drawn], candidates[chosen]) = (candidates[chosen], candidates[drawn]);
            (weights[drawn], weights[chosen]) = (weights[chosen], weights[drawn]);
        }
    }

    /// @dev Whose weight the point falls into, counted from the index `first` on.
    function _at(uint256[] memory weights, uint256 first, uint256 point) private pure returns (uint256 index) {
        index = first;
        while (point >= weights[index]) {
            point -= weights[index];
            ++index;
        }
    }
}
