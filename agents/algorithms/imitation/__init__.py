"""Learning from demonstrations: rewards that a network learns from an expert's episodes (GAIL, AIRL).

A learned reward is a part that any algorithm can have: `learned_reward.LearnedReward` rewrites the rewards before the
algorithm learns from them, and trains the reward network in the same compiled update. `composed.with_learned_reward`
makes the agent's class, which has the name ``"gail-ppo"`` or ``"airl-sac"``.
"""
