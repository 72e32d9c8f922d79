"""TensorFlow and Keras: their import without chatter, values of variables, gradients and functions that agents share.

Only what needs a tensor enters. Imports nothing of the other rooms.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
