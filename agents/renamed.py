"""Methods that users override and that have a new name: classes with the old names work for one version."""

from __future__ import annotations

import warnings
from collections.abc import Mapping


def keep_old_names(cls: type, renamed: Mapping[str, str]) -> None:
    """Give a class and its mixins their methods under their old and their new names, whichever of the two they define.

    So an override of an old name is called under the new one, and ``super().old_name(...)`` reaches the next class.
    Attributes that are not methods or properties are left alone.

    Args:
        cls: The class; called for the base class once, from its `__init_subclass__`, and where an object is made
            (a class that is unpickled gets its methods after `__init_subclass__`).
        renamed: Old name -> new name.
    """
    for owner in cls.__mro__[:-1]:  # without `object`
        own = vars(owner)
        for old, new in renamed.items():
            if old in own and new not in own and _is_method(own[old]):
                warnings.warn(
                    f"{owner.__module__}.{owner.__qualname__}.{old} is deprecated: name it {new}.",
                    DeprecationWarning,
                    stacklevel=4,
                )
                setattr(owner, new, own[old])
            elif new in own and old not in own and _is_method(own[new]):
                setattr(owner, old, own[new])


def _is_method(attribute: object) -> bool:
    return hasattr(type(attribute), "__get__")
