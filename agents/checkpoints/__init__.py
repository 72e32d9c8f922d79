"""Checkpoints: the file format, resuming a training, and loading an agent.

`agents.callbacks.checkpoint` decides when checkpoints are written.
"""
