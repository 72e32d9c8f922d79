"""Algorithms of other libraries, as training functions that are named wherever an agent is."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
