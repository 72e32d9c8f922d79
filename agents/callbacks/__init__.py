"""Callbacks, one per file. `callback` has their base class.

A callback observes and steers a training; it contains no part of the loop.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
