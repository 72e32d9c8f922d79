"""Main function of a collector process. Importing this module imports TensorFlow, but runs nothing in it."""

from __future__ import annotations

from typing import Any

import cloudpickle

from agents.collection.shared_arrays import arrays_in, own_columns
from agents.collection.worker import CollectorWorker, Shapes
from agents.contract.pickling import unpickled
from agents.contract.registry import import_all
from agents.errors import portable

import_all()


def main(payload: bytes, pipe: Any, blocks: list[tuple[Any, Shapes]]) -> None:
    """Execute requests until the pipe is closed.

    Args:
        payload: A pickled `Task`.
        pipe: Connection for requests and their answers; see `encode_answer`.
        blocks: Shared memory of the transitions and of the acting state, each with its shapes.
    """
    rows, acting = (arrays_in(*block) for block in blocks)
    try:
        task = unpickled(payload)
        worker = CollectorWorker(task)
    except Exception as error:  # noqa: BLE001 - a user's environment may raise anything
        pipe.recv_bytes()
        pipe.send_bytes(encode_answer(error, raised=True))
        return
    try:
        while True:
            request = pipe.recv_bytes()
            try:
                method, arguments = cloudpickle.loads(request)
                if method == "collect":
                    slot, n_steps = arguments
                    arguments = (n_steps, list(acting.values()), own_columns(rows, slot, task.copies))
                answer = encode_answer(getattr(worker, method)(*arguments))
            except Exception as error:  # noqa: BLE001 - any error is sent to the learner
                answer = encode_answer(error, raised=True)
            pipe.send_bytes(answer)
    except (EOFError, OSError):
        worker.close()


def encode_answer(value: Any, *, raised: bool = False) -> bytes:
    """Pickle an answer for the learner: whether the request raised an error, and its result or that error."""
    return bytes(cloudpickle.dumps((raised, portable(value) if raised else value)))
