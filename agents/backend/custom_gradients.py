"""Custom gradients that are freed with the graph that they belong to.

TensorFlow 2.21 keeps each custom gradient of a traced function in a table that is never cleared, and the gradient
references the whole graph. Keras's optimizers trace one in every step (`tf.distribute.ReplicaContext.all_reduce`), as
do some activations: without this module, every compiled update leaks a graph of several MB.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

from agents.backend.tensorflow import tf

_KEPT = "custom_gradients"
"""Name of the graph collection that holds the custom gradients of the graph."""


@contextmanager
def owned_gradients() -> Generator[None]:
    """Hand the custom gradients created in the block to their graphs. Use only while tracing.

    The graph keeps the gradient, and the table keeps a weak reference to it, for as long as the graph exists.
    """
    traced, table = tf.compat.v1.get_default_graph(), gradient_table()
    before = set(table)
    try:
        yield
    finally:
        for name in [name for name in list(table) if name not in before and name.startswith("CustomGradient-")]:
            owner = _graph_of(table[name]["type"])
            if owner is not None and _is_within(owner, traced):  # other threads may trace at the same time
                _give(owner, table, name)


def gradient_table() -> dict[str, dict[str, Any]]:
    """Return TensorFlow's table of gradients, by name."""
    from tensorflow.python.framework import ops

    table: dict[str, dict[str, Any]] = ops.gradient_registry._registry
    return table


def _give(owner: Any, table: dict[str, dict[str, Any]], name: str) -> None:
    gradient = table[name]["type"]
    owner.add_to_collection(_KEPT, gradient)
    reference = weakref.ref(gradient)

    def call(op: Any, *gradients: Any) -> Any:
        function = reference()
        if function is None:
            raise LookupError(f"The gradient {name} belongs to a graph that no longer exists.")
        return function(op, *gradients)

    table[name]["type"] = call
    weakref.finalize(owner, table.pop, name, None)


def _graph_of(function: Callable[..., Any]) -> Any:
    """Return the graph of the tensors that a function refers to, None if it refers to none."""
    for cell in function.__closure__ or ():
        value = cell.cell_contents
        if isinstance(value, FunctionType):
            found = _graph_of(value)
        else:
            found = next((each.graph for each in tf.nest.flatten(value) if tf.is_symbolic_tensor(each)), None)
        if found is not None:
            return found
    return None


def _is_within(graph: Any, outer: Any) -> bool:
    """Return whether a graph is `outer`, or a loop or branch inside it."""
    while graph is not None and graph is not outer:
        graph = getattr(graph, "outer_graph", None)
    return graph is outer
