"""A whole network on one machine: local chain, deployment, participants as processes."""
