// SPDX-License-Identifier: MIT
pragma solidity 0.8.28;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {MerkleProof} from "@openzeppelin/contracts/utils/cryptography/MerkleProof.sol";
import {SignatureChecker} from "@openzeppelin/contracts/utils/cryptography/SignatureChecker.sol";
import {Sortition} from "../base/Sortition.sol";

// For tests: each contract is a rule of ours without the one check that an attack needs missing. An attack counts as
// answered when it works here and not there.

/// @notice A commitment that binds neither its sender nor the round: a copied one can be revealed.
contract WeakCommitments {
    mapping(address => bytes32) public commitmentOf;
    mapping(address => bytes32) public rootOf;

    function commit(bytes32 commitment) external {
        commitmentOf[msg.sender] = commitment;
    }

    function reveal(bytes32 root, bytes32 salt) external {
        require(keccak256(abi.encode(root, salt)) == commitmentOf[msg.sender], "mismatch");
        rootOf[msg.sender] = root;
    }
}

/// @notice A draw that takes the hash as it is: zero once 256 blocks have passed, so that anybody can compute it before.
contract WeakDraw {
    address[] public candidates;
    uint64 public anchor;

    constructor(address[] memory candidates_) {
        candidates = candidates_;
        anchor = Sortition.fixBlock();
    }

    function draw(uint256 count) external view returns (address[] memory drawn) {
        drawn = candidates;
        uint256[] memory weights = new uint256[](drawn.length);
        for (uint256 i = 0; i < drawn.length; ++i) {
            weights[i] = 1;
        }
        count = Sortition.draw(drawn, weights, count, keccak256(abi.encode(blockhash(anchor))));
        assembly {
            mstore(drawn, count)
        }
    }
}

/// @notice Stake whose slash does not reach what thaws: whoever asks to withdraw first loses nothing.
contract WeakStakes {
    IERC20 private immutable _token;
    mapping(address => uint256) public active;
    mapping(address => uint256) public thawing;

    constructor(IERC20 token) {
        _token = token;
    }

    function stake(uint256 amount) external {
        active[msg.sender] += amount;
        _token.transferFrom(msg.sender, address(this), amount);
    }

    function requestWithdraw(uint256 amount) external {
        active[msg.sender] -= amount;
        thawing[msg.sender] += amount;
    }

    function slash(address operator, uint256 amount) external {
        active[operator] -= amount < active[operator] ? amount : active[operator];
    }

    function withdraw() external {
        uint256 amount = thawing[msg.sender];
        thawing[msg.sender] = 0;
        _token.transfer(msg.sender, amount);
    }
}

/// @notice Rewards that forget what was paid: a leaf pays again and again.
contract WeakRewards {
    IERC20 private immutable _token;
    bytes32 private immutable _root;

    constructor(IERC20 token, bytes32 root) {
        _token = token;
        _root = root;
    }

    function claim(uint256 jobId, address account, uint256 amount, bytes32 evidence, bytes32[] calldata proof) external {
        bytes32 leaf = keccak256(bytes.concat(keccak256(abi.encode(jobId, account, amount, evidence))));
        require(MerkleProof.verifyCalldata(proof, _root, leaf), "proof");
        _token.transfer(account, amount);
    }
}

/// @notice Rewards whose roots pay at once: what a majority made up is gone before anybody can object.
contract WeakActivation {
    IERC20 private immutable _token;
    bytes32 public root;
    mapping(address => uint256) public claimed;

    constructor(IERC20 token) {
        _token = token;
    }

    function publish(bytes32 root_) external {
        root = root_;
    }

    function claim(uint256 jobId, address account, uint256 amount, bytes32 evidence, bytes32[] calldata proof) external {
        bytes32 leaf = keccak256(bytes.concat(keccak256(abi.encode(jobId, account, amount, evidence))));
        require(MerkleProof.verifyCalldata(proof, root, leaf), "proof");
        uint256 owed = amount - claimed[account];
        claimed[account] = amount;
        _token.transfer(account, owed);
    }
}

/// @notice An escrow that pays before it books: a token that calls back is paid twice.
contract WeakEscrow {
    IERC20 private immutable _token;
    mapping(address => uint256) public deposited;

    constructor(IERC20 token) {
        _token = token;
    }

    function open(uint256 amount) external {
        _token.transferFrom(msg.sender, address(this), amount);
        deposited[msg.sender] += amount;
    }

    function refund() external {
        uint256 amount = deposited[msg.sender];
        require(amount != 0, "nothing");
        _token.transfer(msg.sender, amount);
        deposited[msg.sender] = 0;
    }
}

/// @notice A relayed commitment without a nonce: whoever saw it once sends it again, and is paid again.
contract WeakRelay {
    uint256 public count;

    function commitFor(address contributor, bytes32 commitment, bytes calldata signature) external {
        bytes32 message = keccak256(abi.encode(address(this), contributor, commitment));
        require(SignatureChecker.isValidSignatureNow(contributor, message, signature), "signature");
        ++count;
    }
}

/// @notice A campaign that takes the CID itself: whoever sees it in the pool submits it first.
contract WeakCampaign {
    mapping(string => address) public contributorOf;

    function submit(string calldata cid) external {
        require(contributorOf[cid] == address(0), "submitted already");
        contributorOf[cid] = msg.sender;
    }
}

/// @notice A bond that comes back to whoever asks: committing, looking at what the others show, and keeping quiet costs
/// nothing.
contract WeakBond {
    IERC20 private immutable _token;
    mapping(address => uint256) public bondOf;

    constructor(IERC20 token) {
        _token = token;
    }

    function commit(uint256 bond) external {
        bondOf[msg.sender] += bond;
        _token.transferFrom(msg.sender, address(this), bond);
    }

    function takeBack() external {
        uint256 bond = bondOf[msg.sender];
        bondOf[msg.sender] = 0;
        _token.transfer(msg.sender, bond);
    }
}

/// @notice A tally that waits for every reveal, with no deadline: who likes the outcome less than none keeps quiet for ever.
contract WeakTally {
    uint256 private immutable _voters;
    uint256 public revealed;

    constructor(uint256 voters) {
        _voters = voters;
    }

    function reveal() external {
        ++revealed;
    }

    function tally() external view {
        require(revealed == _voters, "reveals are missing");
    }
}

/// @notice A job that its sponsor alone may finish: rewards and rest stay where they are for as long as it likes.
contract WeakFinish {
    address private immutable _sponsor = msg.sender;
    bool public finished;

    function finish() external {
        require(msg.sender == _sponsor, "not the sponsor");
        finished = true;
    }
}

/// @notice Submissions without bond or limit, and a settlement that goes through all of them: whoever sends enough of
/// them, for nothing, makes it dearer than a block.
contract WeakSettlement {
    address[] public submissions;
    mapping(address => uint256) public paid;

    function submit() external {
        submissions.push(msg.sender);
    }

    function settle() external {
        for (uint256 i = 0; i < submissions.length; ++i) {
            paid[submissions[i]] += 1;
        }
    }
}

/// @notice Books what was asked for, not what arrived: a token that keeps a fee leaves the last to withdraw short.
contract WeakDeposit {
    IERC20 private immutable _token;
    mapping(address => uint256) public deposited;

    constructor(IERC20 token) {
        _token = token;
    }

    function deposit(uint256 amount) external {
        _token.transferFrom(msg.sender, address(this), amount);
        deposited[msg.sender] += amount;
    }
}

/// @notice Seats for any stake at all, and one vote a seat: dust takes every seat, and a stake that is split votes often.
contract WeakSeats {
    address[] public seats;
    mapping(address => uint256) public stakeOf;
    mapping(bytes32 => uint256) public votes;

    function stake(uint256 amount) external {
        require(seats.length < 64, "seats taken");
        seats.push(msg.sender);
        stakeOf[msg.sender] = amount;
    }

    function vote(bytes32 root) external {
        require(stakeOf[msg.sender] != 0, "no stake");
        ++votes[root];
    }
}

/// @notice A rate that its sponsor may change whenever it likes, the time after the work included.
contract WeakRate {
    address private immutable _sponsor = msg.sender;
    uint256 public rate;
    mapping(address => uint256) public samples;

    function setRate(uint256 rate_) external {
        require(msg.sender == _sponsor, "not the sponsor");
        rate = rate_;
    }

    function work(uint256 count) external {
        samples[msg.sender] += count;
    }

    function owed(address trainer) external view returns (uint256) {
        return rate * samples[trainer];
    }
}
