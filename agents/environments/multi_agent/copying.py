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
    state is added. What cannot be pickled (fonts, windows) is as the constructor makes it.
    """
    stream = io.BytesIO()
    _Complete(stream).dump(environment)
    return stream.getvalue()


class _Missing:
    """Stands for a value that cannot be pickled."""


class _Complete(cloudpickle.Pickler):  # type: ignore[misc]
    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, EzPickle):
            arguments = type(obj), obj._ezpickle_args, obj._ezpickle_kwargs
            return _made, arguments, dict(vars(obj)), None, None, _set_state
        reduced = super().reducer_override(obj)
        by_name = isinstance(obj, type | types.FunctionType | types.BuiltinFunctionType)
        if reduced is not NotImplemented or by_name or type(obj) in self.dispatch_table:
            return reduced
        try:
            obj.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
        except TypeError:
            return _Missing, ()
        return NotImplemented


def _made(kind: type, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
    return kind(*arguments, **named)


def _set_state(environment: Any, state: dict[str, Any]) -> None:
    vars(environment).update({name: value for name, value in state.items() if not isinstance(value, _Missing)})
