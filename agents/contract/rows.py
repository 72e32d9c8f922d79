"""Methods that treat every row by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Method = TypeVar("Method", bound=Callable[..., Any])

_MARK = "_row_by_row"


def row_by_row(method: Method) -> Method:
    """Mark an override of `act`, `chosen` or `preprocess_batch` that treats every row by itself.

    `KerasAgent.rowwise` of the base class holds for it, too, so that a population calls it once for all of its members.
    """
    setattr(method, _MARK, True)
    return method


def treats_rows_alone(agent_class: type, methods: tuple[str, ...]) -> bool:
    """Return whether `rowwise` holds for methods of a class: its own override of one may be otherwise.

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
