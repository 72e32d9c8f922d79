"""States in three parts: JSON for the structure, NumPy arrays, and objects that only a pickle can store.

Reading a pickle can run any code. JSON and arrays cannot, so they can be read from anybody's file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]

_KINDS = "biufc"
"""Kinds of arrays: booleans, integers, floats and complex numbers."""

_AS_IT_IS = (type(None), bool, int, float, str)
"""Types that JSON restores unchanged. Other types with equal values, such as enumerations, are objects."""


class Split(NamedTuple):
    """A state in three parts."""

    tree: Any
    """The structure, as JSON values. A mapping in it has one key, which names the kind of its value."""
    arrays: list[Array]
    """The arrays, in the order of the tree."""
    objects: list[Any]
    """The other values, by their numbers in the tree."""


def split(value: Any) -> Split:
    """Split a state into tree, arrays and objects.

    Args:
        value: Any value. Mappings, lists, tuples, arrays, numbers, texts and None go into tree and arrays. Bytes are
            objects, as they include pickles.

    Returns:
        The parts; arrays and objects are those of the state, not copies.
    """
    arrays: list[Array] = []
    objects: list[Any] = []
    try:
        tree = _tree(value, arrays, objects)
    except RecursionError:  # a user's object that contains itself
        tree, arrays, objects = {"object": 0}, [], [value]
    return Split(tree, arrays, objects)


def joined(tree: Any, array: Callable[[np.dtype[Any], tuple[int, ...]], Array], objects: Sequence[Any]) -> Any:
    """Return the state of a split.

    Args:
        tree: Its tree.
        array: Returns the next array, of this dtype and shape.
        objects: Its objects.

    Raises:
        ValueError: The tree is not from `split`, or there are fewer objects.
    """
    try:
        return _value(tree, array, objects)
    except (TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:
        raise ValueError(f"it is damaged: {type(error).__name__}: {error}") from error


def _tree(value: Any, arrays: list[Array], objects: list[Any]) -> Any:
    kind = type(value)
    if kind in _AS_IT_IS:
        return value
    if kind is list:
        return [_tree(item, arrays, objects) for item in value]
    if kind is tuple:
        return {"tuple": [_tree(item, arrays, objects) for item in value]}
    if kind is dict and all(type(key) in _AS_IT_IS for key in value):
        if all(type(key) is str for key in value):
            return {"mapping": {key: _tree(item, arrays, objects) for key, item in value.items()}}
        return {"pairs": [[key, _tree(item, arrays, objects)] for key, item in value.items()]}
    return _leaf(value, arrays, objects)


def _leaf(value: Any, arrays: list[Array], objects: list[Any]) -> Any:
    if type(value) is np.ndarray and value.dtype.kind in _KINDS:
        arrays.append(value)
        return {"array": [value.dtype.str, list(value.shape)]}
    if isinstance(value, np.generic) and value.dtype.kind in _KINDS:
        arrays.append(np.asarray(value))
        return {"number": value.dtype.str}
    objects.append(value)
    return {"object": len(objects) - 1}


def _value(tree: Any, array: Callable[[np.dtype[Any], tuple[int, ...]], Array], objects: Sequence[Any]) -> Any:
    kind = type(tree)
    if kind in _AS_IT_IS:
        return tree
    if kind is list:
        return [_value(item, array, objects) for item in tree]
    if kind is not dict or len(tree) != 1:
        raise ValueError(f"it is damaged: it has {tree!r:.100}")
    [(what, content)] = tree.items()
    if what == "tuple":
        return tuple(_value(item, array, objects) for item in content)
    if what in ("mapping", "pairs"):
        items = content.items() if what == "mapping" else content
        return {key: _value(item, array, objects) for key, item in items}
    return _value_of_leaf(what, content, array, objects)


def _value_of_leaf(
    what: str,
    content: Any,
    array: Callable[[np.dtype[Any], tuple[int, ...]], Array],
    objects: Sequence[Any],
) -> Any:
    if what == "array":
        dtype, shape = content
        return array(_plain(dtype), tuple(shape))
    if what == "number":
        return array(_plain(content), ())[()]
    if what == "object" and type(content) is int and content >= 0:
        return objects[content]
    raise ValueError(f"it is damaged: it has a {what!r}")


def _plain(text: str) -> np.dtype[Any]:
    dtype = np.dtype(text)
    if dtype.kind not in _KINDS:
        raise ValueError(f"it is damaged: it has an array of {text!r}")
    return dtype
