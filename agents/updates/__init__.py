"""Updates: gradient steps, their compilation, mutable hyperparameters, packing of minibatches, normalization.

Nothing in this room knows an algorithm: losses come from agents.
"""
