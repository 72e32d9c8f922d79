"""Methods that users override and that have a new name: classes with the old names work for one version."""

from __future__ import annotations

import warnings
from collections.abc import Mapping


def keep_old_names(cls: type, renamed: Mapping[str, str]) -> None:
    """Give a class its methods under their old and their new names, whichever of the two it defines.

    So an override of an old name is called under the new one, and ``super().old_name(...)`` reaches the base class.

    Args:
        cls: The class; called for the base class once, and from its `__init_subclass__`.
        renamed: Old name -> new name.
    """
    for old, new in renamed.items():
        if old in vars(cls) and new not in vars(cls):
            warnings.warn(
                f"{cls.__module__}.{cls.__qualname__}.{old} is deprecated: name it {new}.",
                DeprecationWarning,
                stacklevel=4,
            )
            setattr(cls, new, vars(cls)[old])
        elif new in vars(cls) and old not in vars(cls):
            setattr(cls, old, vars(cls)[new])
