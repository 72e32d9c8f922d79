"""What runs in a collector process. Importing this module imports TensorFlow and does nothing with it."""

from __future__ import annotations

from typing import Any

import cloudpickle

from agents.collection.shared_arrays import arrays_in, own_columns
from agents.collection.worker import Part, Shapes
from agents.contract.pickling import unpickled
from agents.contract.registry import import_all
from agents.errors import portable
from agents.processes.child_process import begin

import_all()


def main(payload: bytes, pipe: Any, blocks: list[tuple[Any, Shapes]], threads: int, address: str) -> None:
    """Does what it is asked, until the pipe is closed.

    Args:
        payload: A pickled `Task`.
        pipe: Where it is asked, and answers with whether it raised, and what.
        blocks: Shared memory of the rows, and of what it acts with; and what is in there.
        threads: Cores that this process may use.
        address: Where shared objects are.
    """
    begin(threads, address)
    rows, acting = (arrays_in(*block) for block in blocks)
    try:
        task = unpickled(payload)
        part = Part(task)
    except Exception as error:  # noqa: BLE001 - a user's environment may raise anything
        pipe.recv_bytes()
        pipe.send_bytes(as_answer(error, raised=True))
        return
    try:
        while True:
            method, arguments = cloudpickle.loads(pipe.recv_bytes())
            if method == "collect":
                slot, n_steps = arguments
                arguments = (n_steps, list(acting.values()), own_columns(rows, slot, task.copies))
            try:
                answer = as_answer(getattr(part, method)(*arguments))
            except Exception as error:  # noqa: BLE001 - whatever it is, the learner hears of it
                answer = as_answer(error, raised=True)
            pipe.send_bytes(answer)
    except (EOFError, OSError):
        part.close()


def as_answer(value: Any, *, raised: bool = False) -> bytes:
    """What the learner is sent: whether it was raised, and what."""
    return bytes(cloudpickle.dumps((raised, portable(value) if raised else value)))
