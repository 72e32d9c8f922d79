"""TensorFlow and Keras: import without log output, variable values, custom gradients, and functions that agents share.

Only code that needs a tensor belongs here. This room imports no other room.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
