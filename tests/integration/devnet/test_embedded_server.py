"""The embedded chain as people use it: a process, spoken to by web3.py over HTTP."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
import requests
from eth_account import Account
from eth_account.signers.local import LocalAccount
from web3 import HTTPProvider, Web3
from web3.exceptions import ContractCustomError, Web3RPCError

from hydra_node.chain.abi import ARTIFACTS
from hydra_node.devnet.chains import DEV_MNEMONIC
from hydra_node.devnet.embedded.accounts import dev_accounts

SERVER = (sys.executable, "-m", "hydra_node.devnet.embedded", "--port", "0", "--mnemonic", DEV_MNEMONIC)
ETHER = 10**18
DEVELOPERS = [Account.from_key(account.key) for account in dev_accounts(DEV_MNEMONIC, 6)]
SINK = Web3.to_checksum_address("0x1111111111111111111111111111111111111111")


@dataclass
class Server:
    process: subprocess.Popen[str]
    url: str
    ready: dict[str, Any]

    @property
    def web3(self) -> Web3:
        return Web3(HTTPProvider(self.url, request_kwargs={"proxies": {"http": "", "https": ""}}))

    def raw(self, method: str, *params: Any) -> Any:
        return self.web3.provider.make_request(method, list(params))  # type: ignore[arg-type]  # evm_* are not named there


@contextmanager
def serving(*options: str) -> Iterator[Server]:
    process = subprocess.Popen([*SERVER, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None and process.stderr is not None
        line = process.stdout.readline()
        assert line, process.stderr.read()
        ready = json.loads(line)
        yield Server(process, ready["rpc"], ready)
    finally:
        process.terminate()
        process.wait(20)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving("--block-time", "0") as running:
        yield running


@pytest.fixture
def web3(server: Server) -> Web3:
    return server.web3


def fields(web3: Web3, sender: LocalAccount, **extra: Any) -> dict[str, Any]:
    return {
        "type": 2,
        "chainId": web3.eth.chain_id,
        "nonce": web3.eth.get_transaction_count(sender.address, "pending"),
        "gas": 21_000,
        "maxFeePerGas": 3 * 10**9,
        "maxPriorityFeePerGas": 10**9,
        "to": SINK,
        "value": 1,
        **extra,
    }


def send(web3: Web3, sender: LocalAccount, **extra: Any) -> Any:
    signed = sender.sign_transaction(fields(web3, sender, **extra))
    return web3.eth.wait_for_transaction_receipt(
        web3.eth.send_raw_transaction(signed.raw_transaction), timeout=20, poll_latency=0.02
    )


@pytest.fixture(scope="module")
def token(server: Server) -> Any:
    web3, owner = server.web3, DEVELOPERS[0]
    artifact = json.loads((ARTIFACTS / "HydraToken.json").read_text())
    constructor = web3.eth.contract(abi=artifact["abi"], bytecode=artifact["bytecode"]).constructor(
        owner.address, 10**27
    )
    receipt = send(web3, owner, gas=constructor.estimate_gas(), data=constructor.data_in_transaction, to="", value=0)
    assert receipt["status"] == 1
    return web3.eth.contract(receipt["contractAddress"], abi=artifact["abi"])


def test_it_introduces_itself(server: Server, web3: Web3) -> None:
    assert server.ready["chain_id"] == web3.eth.chain_id == 1337
    assert web3.net.version == "1337"
    assert "py-evm" in web3.client_version
    assert server.ready["accounts"] == web3.eth.accounts
    assert web3.eth.accounts[0] == DEVELOPERS[0].address
    assert web3.eth.get_balance(list(web3.eth.accounts)[9]) == 10**6 * ETHER
    assert web3.eth.syncing is False


def test_a_transfer_moves_the_value_and_costs_its_gas(web3: Web3) -> None:
    alice = DEVELOPERS[1]
    before, sink = web3.eth.get_balance(alice.address), web3.eth.get_balance(SINK)
    receipt = send(web3, alice, value=5)
    assert (receipt["status"], receipt["gasUsed"]) == (1, 21_000)
    assert web3.eth.get_balance(SINK) == sink + 5
    paid = receipt["gasUsed"] * receipt["effectiveGasPrice"]
    assert before - web3.eth.get_balance(alice.address) == 5 + paid
    past = web3.eth.get_balance(alice.address, receipt["blockNumber"] - 1)
    assert past == before


def test_blocks_and_transactions_read_the_same_from_every_side(web3: Web3) -> None:
    receipt = send(web3, DEVELOPERS[1])
    block = web3.eth.get_block(receipt["blockNumber"], full_transactions=True)
    assert block == web3.eth.get_block(receipt["blockHash"], full_transactions=True)
    shown = block["transactions"][receipt["transactionIndex"]]
    assert shown == web3.eth.get_transaction(receipt["transactionHash"])
    assert shown["from"] == DEVELOPERS[1].address
    assert web3.eth.get_block(receipt["blockNumber"])["transactions"] == [receipt["transactionHash"]]
    assert web3.eth.get_block(block["number"] - 1)["hash"] == block["parentHash"]
    for tag in ("latest", "safe", "finalized"):
        assert web3.eth.get_block(tag)["number"] == web3.eth.block_number
    assert web3.eth.get_block("earliest")["number"] == 0
    assert web3.eth.get_block("pending")["number"] == web3.eth.block_number + 1


def test_an_estimate_is_enough_to_send_with(web3: Web3, token: Any) -> None:
    call = token.functions.transfer(SINK, 7)
    gas = call.estimate_gas({"from": DEVELOPERS[0].address})
    receipt = send(web3, DEVELOPERS[0], gas=gas, to=token.address, data=call._encode_transaction_data(), value=0)
    assert receipt["status"] == 1
    assert token.functions.balanceOf(SINK).call() >= 7


@pytest.mark.parametrize("way", ["call", "estimate_gas"])
def test_a_custom_error_arrives_with_its_data(token: Any, way: str) -> None:
    poor = DEVELOPERS[2].address
    with pytest.raises(ContractCustomError) as failure:
        getattr(token.functions.transfer(SINK, 3), way)({"from": poor})
    selector = Web3.keccak(text="ERC20InsufficientBalance(address,uint256,uint256)")[:4].hex()
    data = str(failure.value.data)
    assert data.removeprefix("0x").startswith(selector)
    assert int(data[-64:], 16) == 3


def test_a_failing_transaction_is_mined_with_status_0(web3: Web3, token: Any) -> None:
    payload = token.functions.transfer(SINK, 1)._encode_transaction_data()
    receipt = send(web3, DEVELOPERS[2], gas=100_000, to=token.address, data=payload, value=0)
    assert receipt["status"] == 0
    assert receipt["logs"] == []


def test_logs_are_found_by_address_topic_block_and_range(web3: Web3, token: Any) -> None:
    sender, other = DEVELOPERS[0], DEVELOPERS[3].address
    receipts = []
    for account, amount in ((other, 1), (SINK, 2), (other, 3)):
        payload = token.functions.transfer(account, amount)._encode_transaction_data()
        receipts.append(send(web3, sender, gas=100_000, to=token.address, data=payload, value=0))
    first, last = receipts[0]["blockNumber"], receipts[-1]["blockNumber"]
    event = token.events.Transfer
    found = event.get_logs(from_block=first, to_block=last)
    assert [log["args"]["value"] for log in found] == [1, 2, 3]
    to_other = event.get_logs(from_block=first, argument_filters={"to": other})
    assert [log["args"]["value"] for log in to_other] == [1, 3]
    assert event.get_logs(from_block=first, to_block=first)[0]["args"]["value"] == 1
    by_hash = web3.eth.get_logs({"blockHash": receipts[1]["blockHash"], "address": [token.address, SINK]})
    assert [log["transactionHash"] for log in by_hash] == [receipts[1]["transactionHash"]]
    assert web3.eth.get_logs({"fromBlock": first, "address": SINK}) == []
    assert found[0]["logIndex"] == receipts[0]["logs"][0]["logIndex"]


def test_transactions_that_cannot_be_taken_say_why_as_clients_expect(web3: Web3) -> None:
    alice, pauper = DEVELOPERS[1], Account.create()
    receipt = send(web3, alice)
    used = web3.eth.get_transaction(receipt["transactionHash"])["nonce"]
    cases = [
        (alice, {"nonce": used, "value": 9}, "nonce too low"),
        (pauper, {"nonce": 0}, "insufficient funds"),
        (alice, {"gas": 20_999}, "intrinsic gas too low"),
        (alice, {"gas": 10**9}, "exceeds block gas limit"),
        (alice, {"maxFeePerGas": 1, "maxPriorityFeePerGas": 1}, "less than block base fee"),
        (alice, {"chainId": 5}, "invalid chain id"),
    ]
    for sender, change, message in cases:
        signed = sender.sign_transaction(fields(web3, sender, **change))
        with pytest.raises(Web3RPCError, match=message):
            web3.eth.send_raw_transaction(signed.raw_transaction)
    waiting = alice.sign_transaction(fields(web3, alice, nonce=used + 5)).raw_transaction
    web3.eth.send_raw_transaction(waiting)
    with pytest.raises(Web3RPCError, match="already known"):
        web3.eth.send_raw_transaction(waiting)


def test_many_transactions_of_one_sender_may_be_under_way(web3: Web3) -> None:
    bob = DEVELOPERS[4]
    start = web3.eth.get_transaction_count(bob.address)
    hashes = [
        web3.eth.send_raw_transaction(bob.sign_transaction(fields(web3, bob, nonce=nonce)).raw_transaction)
        for nonce in reversed(range(start, start + 10))
    ]
    receipts = [web3.eth.wait_for_transaction_receipt(each, timeout=20, poll_latency=0.02) for each in hashes]
    assert web3.eth.get_transaction_count(bob.address) == start + 10
    assert len({receipt["blockNumber"] for receipt in receipts}) <= 2


def test_batches_answer_each_request(server: Server, web3: Web3) -> None:
    with web3.batch_requests() as batch:
        batch.add(web3.eth.get_block("latest"))
        batch.add(web3.eth.get_balance(DEVELOPERS[0].address))
        block, balance = cast(Any, batch.execute())
    assert block["number"] == web3.eth.block_number
    assert balance > 0
    requests_sent: Any = [
        {"jsonrpc": "2.0", "id": 1, "method": "eth_chainId", "params": []},
        {"jsonrpc": "2.0", "id": 2, "method": "no_such"},
        {"jsonrpc": "2.0", "method": "eth_chainId"},
        17,
    ]
    answers = requests.post(server.url, json=requests_sent, timeout=10).json()
    assert [answer.get("result") for answer in answers] == ["0x539", None, None]
    assert [answer.get("error", {}).get("code") for answer in answers] == [None, -32601, -32600]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", -32700),
        (b"[]", -32600),
        (b'{"id":1,"method":"eth_getBalance","params":["0x12"]}', -32602),
        (b'{"id":1,"method":"eth_getBalance","params":[]}', -32602),
        (b'{"id":1,"method":"eth_getBlockByNumber","params":["now",false]}', -32602),
        (b'{"id":1,"method":"eth_sendRawTransaction","params":["0x02c0"]}', -32000),
        (b'{"id":1,"method":"eth_sendRawTransaction","params":["0x"]}', -32000),
        (b'{"id":1,"method":"eth_getLogs","params":[{"topics":[1,2,3,4,5]}]}', -32602),
        (
            b'{"id":1,"method":"eth_call","params":[{"to":"0x1111111111111111111111111111111111111111"},"0xffffff"]}',
            -32000,
        ),
    ],
)
def test_nonsense_is_refused_by_name(server: Server, body: bytes, code: int) -> None:
    answer = requests.post(server.url, data=body, headers={"Content-Type": "application/json"}, timeout=10).json()
    assert answer["error"]["code"] == code, answer
    assert "internal" not in answer["error"]["message"]


def test_pages_of_other_sites_get_nothing(server: Server) -> None:
    body: Any = {"jsonrpc": "2.0", "id": 1, "method": "eth_chainId", "params": []}
    foreign = requests.post(server.url, json=body, headers={"Origin": "https://example.org"}, timeout=10)
    assert foreign.status_code == 403
    local = requests.post(server.url, json=body, headers={"Origin": "http://localhost:8000"}, timeout=10)
    assert local.headers["Access-Control-Allow-Origin"] == "http://localhost:8000"


def test_two_processes_share_the_chain(server: Server, web3: Web3) -> None:
    program = (
        "import sys; from web3 import Web3, HTTPProvider; from eth_account import Account\n"
        "web3 = Web3(HTTPProvider(sys.argv[1])); me = Account.from_key(sys.stdin.read())\n"
        "fields = dict(chainId=1337, nonce=0, gas=21000, gasPrice=10**9 + 7, to=sys.argv[2], value=123)\n"
        "print(web3.eth.send_raw_transaction(me.sign_transaction(fields).raw_transaction).to_0x_hex())\n"
    )
    newcomer = Account.create()
    send(web3, DEVELOPERS[1], to=newcomer.address, value=ETHER)
    done = subprocess.run(
        [sys.executable, "-c", program, server.url, SINK],
        input=newcomer.key.hex(),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    receipt = web3.eth.wait_for_transaction_receipt(done.stdout.strip(), timeout=20)
    assert receipt["from"] == newcomer.address
    assert web3.eth.get_transaction(receipt["transactionHash"])["value"] == 123


def test_time_moves_forward_when_told(server: Server, web3: Web3) -> None:
    before = web3.eth.get_block("latest")["timestamp"]
    assert server.raw("evm_increaseTime", 5000)["result"] >= 5000
    server.raw("evm_mine")
    after = web3.eth.get_block("latest")["timestamp"]
    assert after >= before + 5000
    server.raw("evm_setNextBlockTimestamp", after + 77)
    server.raw("evm_mine")
    assert web3.eth.get_block("latest")["timestamp"] == after + 77
    assert server.raw("evm_setNextBlockTimestamp", after)["error"]["code"] == -32602


def test_a_snapshot_undoes_everything_after_it(server: Server, web3: Web3) -> None:
    sink = SINK
    before, number = web3.eth.get_balance(sink), web3.eth.block_number
    snapshot = server.raw("evm_snapshot")["result"]
    lost = send(web3, DEVELOPERS[5], value=1000)
    assert web3.eth.get_balance(sink) == before + 1000
    assert server.raw("evm_revert", snapshot)["result"] is True
    assert (web3.eth.get_balance(sink), web3.eth.block_number) == (before, number)
    assert server.raw("eth_getTransactionReceipt", lost["transactionHash"].to_0x_hex())["result"] is None
    assert send(web3, DEVELOPERS[5], value=1)["status"] == 1
    assert server.raw("evm_revert", snapshot)["result"] is False


def test_fees_are_low_and_stay(web3: Web3) -> None:
    history = web3.eth.fee_history(5, "latest", [10, 90])
    assert set(history["baseFeePerGas"]) == {7}
    assert web3.eth.gas_price == web3.eth.max_priority_fee + 7


def test_accounts_sign_for_whoever_asks_only_when_unlocked(server: Server) -> None:
    """Off, nobody spends from them without the key; on, what fails says why in the form of Ganache."""
    call = {"from": DEVELOPERS[0].address, "to": SINK, "value": hex(5)}
    assert "does not exist" in server.raw("eth_sendTransaction", call)["error"]["message"]
    with serving("--block-time", "0", "--unlocked") as unlocked:
        tx_hash = unlocked.raw("eth_sendTransaction", call)["result"]
        assert int(unlocked.raw("eth_getTransactionReceipt", tx_hash)["result"]["status"], 16) == 1
        assert unlocked.web3.eth.get_balance(SINK) == 5
        artifact = json.loads((ARTIFACTS / "HydraToken.json").read_text())
        factory = unlocked.web3.eth.contract(abi=artifact["abi"], bytecode=artifact["bytecode"])
        data = factory.constructor(DEVELOPERS[0].address, 0).data_in_transaction
        refused = {"from": DEVELOPERS[0].address, "data": data, "gas": hex(5_000_000)}
        error = unlocked.raw("eth_sendTransaction", refused)["error"]
        ((_tx_hash, failure),) = error["data"].items()
        assert failure["error"] == "revert"
        assert failure["reason"].startswith("0x")
        strange = {**call, "from": SINK}
        assert "not one of this chain's" in unlocked.raw("eth_sendTransaction", strange)["error"]["message"]


def test_a_block_a_second_dated_by_the_clock() -> None:
    with serving("--block-time", "1") as running:
        web3 = running.web3
        first = send(web3, DEVELOPERS[0])
        deadline = time.monotonic() + 30
        while web3.eth.block_number < first["blockNumber"] + 2:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        times = [web3.eth.get_block(number)["timestamp"] for number in range(web3.eth.block_number + 1)]
        assert all(later > earlier for earlier, later in itertools.pairwise(times))
        assert times[-1] <= time.time()


def test_what_was_mined_survives_kill_9(tmp_path: Path) -> None:
    with serving("--block-time", "0", "--data", str(tmp_path)) as running:
        receipt = send(running.web3, DEVELOPERS[0], value=42)
        os.kill(running.process.pid, signal.SIGKILL)
        running.process.wait(20)
    with serving("--block-time", "0", "--data", str(tmp_path)) as running:
        again = running.web3.eth.get_transaction_receipt(receipt["transactionHash"])
        assert again["blockHash"] == receipt["blockHash"]
        assert running.web3.eth.get_balance(SINK) == 42
        assert send(running.web3, DEVELOPERS[0])["status"] == 1


def test_it_ends_cleanly_when_asked(tmp_path: Path) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        with serving("--data", str(tmp_path)) as running:
            running.process.send_signal(number)
            assert running.process.wait(20) == 0
            assert running.process.stderr is not None
            assert running.process.stderr.read() == ""


def refused(*options: str) -> str:
    done = subprocess.run([*SERVER, *options], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    return done.stderr


def test_what_it_cannot_start_with_is_one_line_and_status_2(tmp_path: Path, server: Server) -> None:
    data = tmp_path / "data"
    with serving("--data", str(data)):
        locked = refused("--data", str(data))
    assert "in use by another process" in locked
    taken = refused("--port", server.url.rpartition(":")[2])
    assert "cannot listen" in taken
    other = refused("--data", str(data), "--chain-id", "5")
    assert "chain id 5" in other
    words = refused("--mnemonic", "not a phrase")
    assert "mnemonic" in words
    for message in (locked, taken, other, words):
        assert len(message.strip().splitlines()) == 1
        assert message.startswith("error: ")
