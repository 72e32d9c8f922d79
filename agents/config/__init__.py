"""Hyperparameters as frozen dataclasses: names, ranges, and default search ranges.

This room describes optimizers, networks and buffers as data; other rooms build them.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
