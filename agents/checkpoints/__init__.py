"""Checkpoints: the file format, and how a training resumes or an agent is loaded from one.

When checkpoints are written is decided by `agents.callbacks.checkpoint`.
"""
