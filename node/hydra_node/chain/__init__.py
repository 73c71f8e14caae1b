"""The chain as the rest of Hydra sees it: amounts, trees, wallets, transactions, contracts and events.

Nothing is imported here, so that `hydra_node.chain.amounts` and `hydra_node.chain.merkle` stay cheap.
"""
