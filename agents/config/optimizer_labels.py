"""Reads labels of optimizers: `adam`, `sgd(momentum=0.9)`, `adam(CosineDecay(0.001, 1000))`."""

from __future__ import annotations

import ast
import json
from typing import Any

from agents.config.rate_schedules import schedule_of
from agents.errors import ConfigurationError


def parse_label(label: str) -> tuple[str, dict[str, Any]]:
    """Return the name of an optimizer and the arguments in its label.

    A learning rate is among them only if the label has one, as `learning_rate` or as a schedule in the first place,
    which is returned serialised.

    Raises:
        ConfigurationError: The label cannot be read, or has two learning rates.
    """
    name, parenthesis, rest = label.strip().partition("(")
    if not parenthesis:
        return name, {}
    source = f"f({rest}"
    try:
        call = ast.parse(source, mode="eval").body
    except (SyntaxError, ValueError) as error:
        reason = "cannot be read" if rest.endswith(")") else "has no closing bracket"
        raise ConfigurationError(f"Optimizer {label!r} {reason}: write sgd(momentum=0.9).") from error
    if (
        not isinstance(call, ast.Call)
        or not isinstance(call.func, ast.Name)  # such as sgd(...)(...)
        or not all(isinstance(each, ast.Call) for each in call.args[:1])  # a schedule comes first, as in Keras
        or len(call.args) > 1
        or not all(keyword.arg for keyword in call.keywords)
    ):
        raise ConfigurationError(f"Optimizer {label!r}: write arguments as name=value, such as sgd(momentum=0.9).")
    nodes = {str(keyword.arg): keyword.value for keyword in call.keywords}
    if call.args and "learning_rate" in nodes:
        raise ConfigurationError(f"Optimizer {label!r} has two learning rates: leave one of them out.")
    if call.args:
        nodes["learning_rate"] = call.args[0]
    return name.strip(), {
        each: schedule_of(node)
        if each == "learning_rate" and isinstance(node, ast.Call)
        else _value_of(ast.get_source_segment(source, node) or "")
        for each, node in nodes.items()
    }


def _value_of(text: str) -> Any:
    """Return a value as JSON or Python writes it, or else the text itself."""
    for attempt in (text, text.lower()):  # True and None are Python literals
        try:
            return json.loads(attempt)
        except json.JSONDecodeError:
            pass
    return None if text == "None" else text
