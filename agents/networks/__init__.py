"""Networks: builders, layers (noisy, dueling), distributions, value heads, and forward passes in NumPy.

Keras models and functions of their outputs belong here; losses and optimizers do not.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
