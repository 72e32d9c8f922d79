"""The algorithms, one paper per file. `agents.contract.registry` imports them by name."""
