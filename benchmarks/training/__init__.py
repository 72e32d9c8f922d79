"""Training: speed beside peers, populations, memory, recording and checkpoints."""
