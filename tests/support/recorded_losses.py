"""Studies in memory whose trials have losses that a test gives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from agents import AgentSpec
from finder.search.options import make_spec
from studies.recording.opening import open_study
from studies.recording.recorder import Recorder
from studies.study.study import OpenStudy


@contextmanager
def recorded(
    kind: str,
    specs: Sequence[AgentSpec],
    options: Any,
    trials: Sequence[Mapping[str, Any]],
    losses: Sequence[float],
    *,
    metric: str = "loss",
    **fields: Any,
) -> Iterator[OpenStudy]:
    """Open a study by loss of two seeds, whose trials have ended with these losses.

    Args:
        kind: The kind of search.
        specs: The agents.
        options: The `StudyOptions`.
        trials: The parameters of each trial.
        losses: The mean loss of each trial; its seeds differ from it by 0.01.
        metric: The metric, if it is another one.
        **fields: Further arguments of `make_spec`.
    """
    spec = make_spec(
        kind, list(specs), options, env_steps=100, episodes=None, metric=metric, trials=tuple(trials), **fields
    )
    values = {frozenset(params.items()): loss for params, loss in zip(trials, losses, strict=True)}
    with open_study(spec) as study:
        with Recorder(study) as recorder:
            while (trial := recorder.ask()) is not None:
                value = values[frozenset(trial.params.items())]
                recorder.started(trial.number, {"agent": specs[0].label, "config": {}, "env": spec.env})
                recorder.completed(trial.number, value, {0: value - 0.01, 1: value + 0.01})
        yield study
