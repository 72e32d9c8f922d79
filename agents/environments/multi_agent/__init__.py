"""Environments with several agents: PettingZoo's, and Gymnasium's with a tuple of actions, as one `JointEnv`.

Everything above this room sees an ordinary environment, whose observation (`JointSpace`) holds those of all agents.
"""
