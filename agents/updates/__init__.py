"""Updates: gradient steps, their compilation, mutable hyperparameters, packing of minibatches, normalization.

This room is independent of algorithms: agents supply the losses.
"""
