"""`tf.distribute` strategies: by name, and the worker processes of those that need several.

The gradient of a minibatch is the same with every strategy; only the place of its computation differs.
"""

from agents.shared_objects import Counter, serve_shared, shared

__all__ = ["Counter", "serve_shared", "shared"]
