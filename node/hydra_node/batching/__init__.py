"""How large a share of each step's batch every machine takes."""
