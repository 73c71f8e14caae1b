"""An Ethereum chain in one process: py-evm behind JSON-RPC over HTTP on loopback.

`python -m hydra_node.devnet.embedded --port 0 --data DIR` starts it. Several processes share it through any
Ethereum library; blocks are on disk before anybody can see them.

    store     key-value database on SQLite; one block is one transaction
    evm       py-evm: blocks built, calls run, state read
    pool      transactions that wait for a block
    producer  when a block is built, and at which time
    encoding  the hexadecimal forms of JSON-RPC
    views     blocks, transactions, receipts and logs as JSON-RPC shows them
    api       the methods
    server    HTTP
"""
