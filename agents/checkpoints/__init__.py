"""Checkpoints: the state of a training in a file, resuming a training, and loading an agent.

`agents.callbacks.checkpoint` decides when checkpoints are written, `agents.state_files` has the file format.
"""
