"""How to search: which learning rate, which optimizer, which agent, which hyperparameters.

Public names are listed in `__init__.pyi` and imported when they are first used, so that the command line starts without
TensorFlow.
"""

from __future__ import annotations

import warnings
from typing import Any

import lazy_loader

_public, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

_RENAMED = {"picked_agent": "recommended_agent"}
"""Deprecated public name -> its present name."""


def __getattr__(name: str) -> Any:
    if name not in _RENAMED:
        return _public(name)
    warnings.warn(f"finder.{name} is deprecated: use finder.{_RENAMED[name]}.", DeprecationWarning, stacklevel=2)
    return _public(_RENAMED[name])
