"""How an agent learns: environments, buffers, exploration, networks, losses, and the one training loop.

Public names are listed in `__init__.pyi` and imported when they are first used: importing this package does not import
TensorFlow. The rooms, lowest first, are in `docs/architecture.md`; import-linter keeps their order.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from typing import Any

import lazy_loader

from agents import moved
from agents.backend.threads import limit_blas_threads

moved.install()
limit_blas_threads()

_public, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

_RENAMED = {
    "Checkpoints": "agents.callbacks.Checkpoint",
    "EarlyStop": "agents.callbacks.EarlyStopping",
    "RolloutMemory": "agents.buffers.RolloutBuffer",
    "Counter": "agents.distributed.Counter",
    "serve_shared": "agents.distributed.serve_shared",
    "shared": "agents.distributed.shared",
}
"""Old public name -> its name now."""


def __getattr__(name: str) -> Any:
    if name not in _RENAMED:
        if name not in __all__:
            raise AttributeError(f"module 'agents' has no attribute {name!r}", name=name, obj=sys.modules[__name__])
        return _public(name)
    package, _, now = _RENAMED[name].rpartition(".")
    warnings.warn(f"agents.{name} is deprecated: use {_RENAMED[name]}.", DeprecationWarning, stacklevel=2)
    return getattr(importlib.import_module(package), now)
