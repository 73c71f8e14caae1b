"""The commands of `hydra-node`, one module a subject; `hydra_node.cli` puts them together."""
