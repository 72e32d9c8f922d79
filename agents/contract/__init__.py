"""The contract of an agent: `Agent`, `KerasAgent`, and an agent as data (`AgentSpec`) that crosses processes.

What every algorithm shares enters; what only some share is in `agents.algorithms`.
"""
