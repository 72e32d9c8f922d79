"""Compiled functions that agents share: functions with equal definitions are compiled once.

A function that XLA compiled is never freed within a process (some 10 MB for an update of PPO, in TensorFlow 2.21), and
compiling takes seconds. A traced function takes the variables that it uses as arguments. An agent that is built like an
earlier agent therefore calls the earlier agent's update function with its own variables.

Every agent is traced as usual, and nothing is assumed about its code: definitions are compared node by node, without
the names that TensorFlow generates.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

KEPT = 64
"""Number of functions that are kept for later agents; the least recently used one is dropped first."""

_STATELESS_ENOUGH = frozenset({"Assert", "Case", "If", "PartitionedCall", "StatefulPartitionedCall", "While"})
"""Operations that TensorFlow marks as stateful but that hold no state themselves, like operations on variables."""

_INVENTED = ("_gradient_op_type", "_user_specified_name")
"""Attributes that hold names only and do not change what a function computes."""

_kept: OrderedDict[bytes, Any] = OrderedDict()
_lock = threading.Lock()


def shared_function(function: Any) -> Any:
    """Return the function to call for a traced one: an earlier function of equal definition, or the function itself.

    Functions with stateful operations (random generators, calls into Python) are not shared.

    Args:
        function: A concrete function.

    Returns:
        The atomic function, to be called with the inputs of `function` and the tensors that `function` captured.
    """
    own = function.inference_fn
    digest = _digest(own)
    if digest is None:
        return own
    with _lock:
        shared = _kept.get(digest)
        if shared is None:
            shared = _kept[digest] = _without_graph(own)
        _kept.move_to_end(digest)
        while len(_kept) > KEPT:
            _kept.popitem(last=False)
    return shared


def _without_graph(function: Any) -> Any:
    """Return the same runtime function without the Python objects of its tracing."""
    from tensorflow.python.eager import context
    from tensorflow.python.eager.polymorphic_function.atomic_function import AtomicFunction

    children = [_without_graph(child) for child in function.children]
    return AtomicFunction(function.name, context.context(), function.function_type, children, function.call_options)


def _digest(function: Any) -> bytes | None:
    """Return a digest of what a function computes, None if the function has stateful operations."""
    from tensorflow.python.eager import context

    definitions, seen = context.context(), dict[str, bytes]()

    def digest_of(name: str) -> bytes:
        if name not in seen:
            seen[name] = b""  # placeholder during the computation: functions may be recursive
            seen[name] = _digest_of_definition(definitions.get_function_def(name), digest_of)
        return seen[name]

    try:
        return digest_of(function.name.decode())
    except _KeepsStateError:
        return None


class _KeepsStateError(Exception):
    """An operation holds state of its own."""


def _digest_of_definition(definition: Any, digest_of: Any) -> bytes:
    """Return the digest of a `FunctionDef`, with arguments and nodes numbered in their order."""
    arguments = [argument.name for argument in definition.signature.input_arg]
    numbers = {name: f"#{i}" for i, name in enumerate([*arguments, *(node.name for node in definition.node_def)])}

    def attributes(values: Any) -> list[Any]:
        return [(n, _attribute(values[n], numbers, digest_of)) for n in sorted(values) if n not in _INVENTED]

    nodes = []
    for node in definition.node_def:
        if _keeps_state(node.op):
            raise _KeepsStateError
        nodes.append((node.op, node.device, _inputs(node.input, numbers), attributes(node.attr)))
    content = (
        [argument.type for argument in definition.signature.input_arg],
        [(i, attributes(definition.arg_attr[i].attr)) for i in sorted(definition.arg_attr)],
        sorted(definition.resource_arg_unique_id.items()),
        attributes(definition.attr),
        nodes,
        _inputs([definition.ret[output.name] for output in definition.signature.output_arg], numbers),
        sorted(numbers[name] for name in definition.control_ret.values()),
    )
    return hashlib.sha256(repr(content).encode()).digest()


def _keeps_state(operation: str) -> bool:
    from tensorflow.python.framework import op_def_registry

    if operation in _STATELESS_ENOUGH or "VariableOp" in operation or operation.startswith("Resource"):
        return False
    known = op_def_registry.get(operation)
    return known is None or known.is_stateful or operation == "PyFuncStateless"


def _inputs(inputs: Sequence[str], numbers: dict[str, str]) -> list[str]:
    """Return inputs ``node:output:index`` with numbers for names; control inputs have no order and are sorted."""
    data: list[str] = []
    control: list[str] = []
    for each in inputs:
        name, colon, output = each.removeprefix("^").partition(":")
        (control if each.startswith("^") else data).append(numbers[name] + colon + output)
    return [*data, "^", *sorted(control)]


def _attribute(value: Any, numbers: dict[str, str], digest_of: Any) -> Any:
    """Return an `AttrValue` as a value whose `repr` identifies it."""
    functions = [value.func] if value.HasField("func") else list(value.list.func)
    if functions:
        return [
            (digest_of(each.name), [(n, _attribute(each.attr[n], numbers, digest_of)) for n in sorted(each.attr)])
            for each in functions
        ]
    if any(each.startswith(b"loc:@") for each in value.list.s):  # colocation constraints
        return [numbers.get(each.decode().removeprefix("loc:@"), each) for each in value.list.s]
    return value.SerializeToString(deterministic=True)
