"""States of numbers, texts and arrays as bytes that hold no code: JSON for what they are made of, and NumPy's arrays.

Reading a pickle runs what it says. Weights need none of that, so those of other people can be read from here.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np

_KINDS = "biufc"
"""Of arrays: booleans, integers, floats and complex numbers, as NumPy writes them."""


def packed(value: Any) -> bytes:
    """Returns a value as bytes.

    Args:
        value: Mappings (with texts as keys), lists, tuples, arrays, numbers, texts and None.

    Raises:
        TypeError: Something else is in it.
    """
    arrays: dict[str, Any] = {}
    tree = json.dumps(_tree(value, arrays))
    file = io.BytesIO()
    np.savez(file, tree=np.frombuffer(tree.encode(), np.uint8), **arrays)
    return file.getvalue()


def unpacked(data: bytes) -> Any:
    """Returns the value that `packed` was given.

    Raises:
        ValueError: The bytes are none of `packed`; nothing in them is run.
    """
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            return _value(json.loads(arrays["tree"].tobytes()), arrays)
    except (KeyError, TypeError, ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"its weights are damaged: {error}") from error


def _tree(value: Any, arrays: dict[str, Any]) -> Any:
    if value is None or (isinstance(value, bool | int | float | str) and not isinstance(value, np.generic)):
        return {"is": value}
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in _KINDS:
        name = f"array{len(arrays)}"
        arrays[name] = np.asarray(value)
        return {"array" if isinstance(value, np.ndarray) else "number": name}
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {"mapping": {key: _tree(item, arrays) for key, item in value.items()}}
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [_tree(item, arrays) for item in value]}
    raise TypeError(f"{type(value).__name__} is no number, text, array, list or mapping")


def _value(tree: Any, arrays: Any) -> Any:
    [(kind, content)] = tree.items()
    if kind == "is":
        return content
    if kind in ("array", "number"):
        found = arrays[content]
        return found if kind == "array" else found[()]
    if kind == "mapping":
        return {key: _value(item, arrays) for key, item in content.items()}
    several = [_value(item, arrays) for item in content]
    return several if kind == "list" else tuple(several)
