"""Copies of environments in the middle of an episode, also of those that pickle as their constructor's arguments."""

from __future__ import annotations

import io
import pickle
import types
from typing import Any

import cloudpickle
from gymnasium.utils import EzPickle


def complete_copy(environment: Any) -> bytes:
    """Return a pickled environment with the state of its episode.

    Gymnasium's `EzPickle` makes an object anew from the arguments of its constructor, without its state. Here the
    state is added. Attributes of such an object that cannot be pickled (fonts, windows) are as the constructor makes
    them.

    Raises:
        TypeError: Anything else cannot be pickled, such as a part of Box2D's world.
    """
    stream = io.BytesIO()
    _Complete(stream).dump(environment)
    return stream.getvalue()


class _Complete(cloudpickle.Pickler):  # type: ignore[misc]
    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, EzPickle):
            arguments = type(obj), obj._ezpickle_args, obj._ezpickle_kwargs
            state = {name: value for name, value in vars(obj).items() if self._can_be_reduced(value)}
            return _made, arguments, state, None, None, _set_state
        return super().reducer_override(obj)

    def _can_be_reduced(self, value: Any) -> bool:
        by_name = isinstance(value, type | types.FunctionType | types.BuiltinFunctionType)
        if by_name or type(value) in self.dispatch_table:
            return True
        try:
            value.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
        except TypeError:
            return False
        return True


def _made(kind: type, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
    return kind(*arguments, **named)


def _set_state(environment: Any, state: dict[str, Any]) -> None:
    vars(environment).update(state)
