"""Marks of methods that treat every row independently."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Method = TypeVar("Method", bound=Callable[..., Any])

_MARK = "_row_by_row"


def row_by_row(method: Method) -> Method:
    """Mark an override of `act`, `chosen` or `preprocess_batch` that treats every row independently.

    The `rowwise` of the base class then applies to the override, and a population calls it once for all its members.
    """
    setattr(method, _MARK, True)
    return method


def treats_rows_alone(agent_class: type, methods: tuple[str, ...]) -> bool:
    """Return whether `rowwise` applies to methods of a class: it does not apply to unmarked overrides.

    Args:
        agent_class: The class of an agent.
        methods: Names of methods; a class may lack some.
    """
    mro = agent_class.__mro__

    def depth(name: str) -> int:
        return next((i for i, base in enumerate(mro) if name in vars(base)), len(mro))

    return all(
        getattr(getattr(agent_class, name, None), _MARK, False) or depth("rowwise") <= depth(name) for name in methods
    )
