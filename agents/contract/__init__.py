"""The contract of an agent: `Agent`, `KerasAgent`, and an agent as data (`AgentSpec`) that crosses processes.

Only what all algorithms share belongs here; code that some algorithms share is in `agents.algorithms`.
"""
