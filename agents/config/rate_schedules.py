"""Learning-rate schedules of Keras as text: `CosineDecay(0.001, 1000)`."""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Mapping
from typing import Any

from agents.errors import ConfigurationError, unknown_name


def schedule_text(serialised: Mapping[str, Any]) -> str:
    """Return class and arguments of a schedule, without arguments that have Keras's defaults; `schedule_of` reads it.

    Args:
        serialised: The schedule, as `keras.optimizers.schedules.serialize` returns it.
    """
    name, config = str(serialised.get("class_name")), dict(serialised.get("config") or {})
    config.pop("name", None)
    known = _classes().get(name)
    parameters = {} if known is None else inspect.signature(known).parameters
    ordered = [key for key in parameters if key in config] + [key for key in config if key not in parameters]
    arguments: list[str] = []
    is_positional = known is not None
    for key in ordered:
        if key in parameters and config[key] == parameters[key].default:
            is_positional = False
        else:
            value = json.dumps(config[key], default=str)
            arguments.append(value if is_positional else f"{key}={value}")
    return f"{name}({', '.join(arguments)})"


def schedule_of(call: ast.Call) -> dict[str, Any]:
    """Return the serialised schedule of a call such as `CosineDecay(0.001, 1000)`.

    Raises:
        ConfigurationError: Keras has no such schedule, or rejects the arguments.
    """
    from agents.backend.tensorflow import keras

    text, known = ast.unparse(call), _classes()
    name = call.func.id if isinstance(call.func, ast.Name) else ast.unparse(call.func)
    if name not in known:
        raise unknown_name("learning-rate schedule", name, known)
    try:
        positional = [_value(each) for each in call.args]
        named = {str(each.arg): _value(each.value) for each in call.keywords}
        serialised: dict[str, Any] = keras.optimizers.schedules.serialize(known[name](*positional, **named))
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"The learning-rate schedule {text} cannot be built: {error}") from error
    return serialised


def _value(expression: ast.expr) -> Any:
    """Return the value of a literal as JSON or Python writes it."""
    if isinstance(expression, ast.Name) and expression.id in _JSON_NAMES:
        return _JSON_NAMES[expression.id]
    return ast.literal_eval(expression)


_JSON_NAMES = {"true": True, "false": False, "null": None}


def _classes() -> dict[str, Any]:
    """Return the schedules of Keras by name."""
    from agents.backend.tensorflow import keras

    base = keras.optimizers.schedules.LearningRateSchedule
    found = vars(keras.optimizers.schedules)
    return {n: each for n, each in found.items() if isinstance(each, type) and issubclass(each, base) and each != base}
