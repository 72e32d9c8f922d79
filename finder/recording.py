"""Writes a range test into a study: one trial, its curve kept with it."""

from __future__ import annotations

import contextlib
import itertools
import traceback
from collections.abc import Mapping
from typing import Any

import numpy as np

from agents.agent import Agent
from agents.spec import AgentSpec
from agents.trainer import Trainer
from finder.range_test import RangeTestResult
from finder.trial import TrialSpec, configuration_of, episode_record
from studies.errors import StudyError
from studies.listing import list_studies
from studies.recorder import Recorder
from studies.spec import StudySpec
from studies.storage import StudyStorage, open_storage
from studies.study import open_study

_MAX_POINTS = 400


def record_range_test(
    agent: AgentSpec,
    trainer: Trainer,
    result: RangeTestResult,
    settings: Mapping[str, Any],
    *,
    study_name: str | None,
    storage: str,
) -> str:
    """Adds a trial with the test's settings, its episodes, its curve and its suggestion.

    A test that was ended by an error is a trial that failed, with the traceback and what was seen until then.

    Args:
        agent: What was tested.
        trainer: The trainer that ran the test, for its episodes.
        result: What came out.
        settings: What the test was told.
        study_name: Name of the study; by default the question, the agent and the environment. A number is put behind
            it where there is such a study already.
        storage: URL of the storage.

    Returns:
        The study's name.
    """
    with contextlib.closing(open_storage(storage)) as opened:
        spec = StudySpec(
            name=_free_name(
                opened, study_name or f"range-test-{agent.label.rpartition(':')[2]}-{agent.environment.label}"
            ),
            storage=storage,
            kind="range-test",
            agents=(agent.label,),
            env=agent.environment.label,
            env_kwargs=dict(agent.environment.kwargs),
            seeds=(int(settings["seed"]),),
            env_steps=max(1, trainer.env_steps),
            metric="return" if result.metrics == "reward" else "loss",
            n_trials=1,
            sampler="random",
            pruner="none",
        )
        with open_study(spec, opened) as study, Recorder(study) as recorder:
            ask = recorder.ask()
            if ask is None:
                raise StudyError(f"the study {spec.name!r} takes no further trial.")
            trial = TrialSpec(number=ask.number, agent=agent, seeds=spec.seeds, env_steps=trainer.env_steps)
            vectorization = trainer.collector.environments.kind
            configuration = configuration_of(trial, _at_suggestion(trainer.agent, result), vectorization)
            recorder.started(ask.number, {"executor": "inline", **configuration})
            recorder.episodes(
                ask.number, [episode_record(trainer.run.seed, episode) for episode in trainer.history.episodes]
            )
            rates, values = result.curve()
            finite = [value for value in values if np.isfinite(value)]
            extra = {"range_test": _curve(result, rates, values), "settings": dict(settings), "ended": result.reason}
            if result.error is not None:
                told = "".join(traceback.format_exception(result.error))
                recorder.failed(ask.number, result.reason, told, extra=extra)
            elif finite:
                recorder.completed(
                    ask.number, float(np.mean(finite)), {trainer.run.seed: float(np.mean(finite))}, extra
                )
            else:
                recorder.failed(ask.number, f"no episode or update was seen: {result.reason}", extra=extra)
        return spec.name


def _free_name(storage: StudyStorage, name: str) -> str:
    """The name, with a number behind it where there is such a study already: every range test is its own study."""
    taken = {summary.name for summary in list_studies(storage)}
    numbered = (name if number == 1 else f"{name}-{number}" for number in itertools.count(1))
    return next(candidate for candidate in numbered if candidate not in taken)


def _at_suggestion(agent: Agent, result: RangeTestResult) -> Agent:
    """The agent with the rate that is suggested, so that the study's pick has it."""
    if result.suggestion.rate is not None:
        name = "learning_rate" if result.optimizer == "all" else f"{result.optimizer}.learning_rate"
        agent.set_hyperparameter(name, result.suggestion.rate)
    return agent


def _curve(result: RangeTestResult, rates: list[float], values: list[float]) -> dict[str, Any]:
    chosen = np.unique(np.linspace(0, max(0, len(rates) - 1), min(_MAX_POINTS, len(rates))).round().astype(int))
    return {
        "optimizer": result.optimizer,
        "metric": "return" if result.metrics == "reward" else "loss",
        "rates": [rates[i] for i in chosen],
        "values": [values[i] if np.isfinite(values[i]) else None for i in chosen],
        "suggestion": result.suggestion.rate,
        "rule": result.suggestion.rule,
    }
