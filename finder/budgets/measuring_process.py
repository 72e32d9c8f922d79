"""The main functions of processes that measure the speed of trials, and episodes. The import loads TensorFlow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agents.contract.pickling import unpickled
from agents.contract.registry import import_all
from agents.environments.time_limits import episodes_or_none
from agents.trust.allowed_modules import restricted
from finder.trials.speed_measurement import SpeedError, measure_speed

import_all()


def main(payload: Sequence[bytes], end: Any) -> None:
    """Measure the speed of trials, and send it or the reason of a failure.

    Args:
        payload: The pickled trials.
        end: Connection to the parent.
    """
    try:
        trials = [unpickled(each) for each in payload]
        with restricted(trials[0].only_modules):
            answer: Any = measure_speed(trials)
    except SpeedError as error:
        answer = str(error)
    except Exception as error:  # noqa: BLE001 - importing a module of the user may raise anything
        answer = f"{type(error).__name__}: {error}"
    end.send(answer)


def episodes_main(payload: bytes, end: Any) -> None:
    """Play a few random episodes, and send their length, or None after an error.

    Args:
        payload: The pickled agent, whose environment is stepped.
        end: Connection to the parent.
    """
    end.send(episodes_or_none(unpickled(payload).environment))
