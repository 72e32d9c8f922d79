"""`tf.distribute` strategies: by name, and the processes of those that need several.

The gradient of a minibatch is the same with every strategy; only where it is computed differs.
"""

from agents.shared_objects import Counter, serve_shared, shared

__all__ = ["Counter", "serve_shared", "shared"]
