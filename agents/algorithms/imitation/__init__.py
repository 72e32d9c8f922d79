"""Learning from demonstrations: clones of an expert (BC), and rewards that a network learns (GAIL, AIRL).

Learned rewards and clones as starts are parts that any algorithm can have, classes before it among the bases of an
agent: `composed.with_prefixes` makes the agent's class, which has the name ``"gail-ppo"`` or ``"bc-airl-sac"``.
"""
