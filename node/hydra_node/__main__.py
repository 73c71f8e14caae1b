"""`python -m hydra_node` is `hydra-node`."""

from hydra_node.cli import main

main()
