"""Hyperparameters as frozen dataclasses: what may be set, in which range, and what is searched by default.

Optimizers, networks and buffers are described here as data; other rooms build them.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
