"""Study specs, storage, records, ranking, the recommendation and its reports.

Public names are listed in `__init__.pyi` and imported when they are first used, so `import studies` costs nothing and a
command loads only what it needs.
"""

import warnings
from typing import Any

import lazy_loader

# Optuna imports tqdm, which warns in a notebook without widgets; Finder's own display needs none.
warnings.filterwarnings("ignore", message="IProgress not found")

_lazy_getattr, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

_RENAMED = {"NoPick": "NoRecommendation", "Pick": "Recommendation"}
"""Deprecated public name -> the name that replaces it."""


def __getattr__(name: str) -> Any:
    if name not in _RENAMED:
        return _lazy_getattr(name)
    warnings.warn(f"studies.{name} is deprecated: use studies.{_RENAMED[name]}.", DeprecationWarning, stacklevel=2)
    return _lazy_getattr(_RENAMED[name])
