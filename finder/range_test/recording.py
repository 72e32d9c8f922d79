"""Records a range test as a study of one trial."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any

import numpy as np

from agents.contract.agent import Agent
from agents.contract.spec import AgentSpec
from agents.training.trainer import Trainer
from finder.range_test.range_test import RangeTestResult
from finder.trials.execution import KEY as EXECUTION
from finder.trials.execution import execution_of, jit_compile_of, with_executor
from finder.trials.trial import TrialSpec, configuration_of, episode_record
from studies.analysis.listing import list_studies
from studies.checked_model import plain
from studies.database.records import EpisodeRecord
from studies.errors import StudyError
from studies.recording.opening import open_study
from studies.recording.recorder import Recorder
from studies.spaces.spaces import check_json
from studies.spec.spec import StudySpec
from studies.storage.storage import open_storage
from studies.words import class_or_id, free_name

_MAX_POINTS = 400


@dataclass(frozen=True, kw_only=True)
class RangeTestRun:
    """The recorded data of one run of a range test.

    Attributes:
        seed: Seed of the run.
        result: Result of the run.
        agent: The agent at the end.
        vectorization: How the environments were stepped.
        env_steps: Environment steps of the run.
        episodes: Episodes of the run.
    """

    seed: int
    result: RangeTestResult
    agent: Agent
    vectorization: str
    env_steps: int
    episodes: list[EpisodeRecord]

    @classmethod
    def of(cls, trainer: Trainer, result: RangeTestResult) -> RangeTestRun:
        """Return the data of the run of a trainer."""
        seed = trainer.run.seed
        return cls(
            seed=seed,
            result=result,
            agent=trainer.agent,
            vectorization=trainer.collector.environments.kind,
            env_steps=trainer.env_steps,
            episodes=[episode_record(seed, episode) for episode in trainer.history.episodes],
        )


def record_range_test(
    agent: AgentSpec,
    runs: Sequence[RangeTestRun],
    result: RangeTestResult,
    settings: Mapping[str, Any],
    *,
    fields: Mapping[str, Any],
    study_name: str | None,
    storage: str | PathLike[str],
) -> str:
    """Create a study with one trial: the settings of a test, its episodes, its curve and its suggestion.

    A test that ended with an error becomes a failed trial with the traceback and the data so far.

    Args:
        agent: The agent that was tested.
        runs: The runs of the test.
        result: The pooled result.
        settings: The arguments of the test.
        fields: Fields of the study that have the agent's settings and weights.
        study_name: Name of the study. Defaults to the question, the agent and the environment. A number is appended if
            a study of this name exists.
        storage: URL of the storage, or path of its file.

    Returns:
        The name of the study.

    Raises:
        StudyError: The settings cannot be stored, or the storage cannot be opened; there is no study then.
    """
    rates, values = result.curve()
    extra = plain({"range_test": _curve(result, rates, values), "settings": dict(settings), "ended": result.reason})
    check_json(extra)  # before the study exists: it would be left with a trial that never ends
    with contextlib.closing(open_storage(storage)) as opened:
        name = study_name or f"range-test-{agent.label.rpartition(':')[2]}-{class_or_id(agent.environment.label)}"
        spec = StudySpec(
            name=free_name(name, {summary.name for summary in list_studies(opened)}),
            storage=fspath(storage),
            kind="range-test",
            agents=(agent.label,),
            **fields,
            **agent.environment.described,
            seeds=tuple(run.seed for run in runs),
            env_steps=max(1, *(run.env_steps for run in runs)),
            metric=result.metric,
            n_trials=1,
            sampler="random",
            pruner="none",
        )
        with open_study(spec, opened) as study, Recorder(study) as recorder:
            ask = recorder.ask()
            if ask is None:
                raise StudyError(f"the study {spec.name!r} takes no further trial.")
            trial = TrialSpec(number=ask.number, agent=agent, seeds=spec.seeds, env_steps=spec.env_steps)
            last = runs[-1]
            configuration = configuration_of(trial, _with_suggested_rate(last.agent, result), last.vectorization)
            configuration[EXECUTION] = execution_of(1, jit_compile_of(last.agent))
            recorder.started(ask.number, with_executor(configuration, "inline", 1))
            for run in runs:
                recorder.episodes(ask.number, run.episodes)
            finite = [value for value in values if np.isfinite(value)]
            if result.error is not None:
                text = "".join(traceback.format_exception(result.error))
                recorder.failed(ask.number, result.reason, text, extra=extra)
            elif finite:
                recorder.completed(ask.number, float(np.mean(finite)), _seed_values(runs), extra)
            else:
                recorder.failed(ask.number, f"no episode or update was seen: {result.reason}", extra=extra)
        return spec.name


def _with_suggested_rate(agent: Agent, result: RangeTestResult) -> Agent:
    """Return the agent with the suggested rate, for the pick of the study."""
    if result.suggestion.rate is not None:
        name = "learning_rate" if result.optimizer == "all" else f"{result.optimizer}.learning_rate"
        agent.set_hyperparameter(name, result.suggestion.rate)
    return agent


def _seed_values(runs: Sequence[RangeTestRun]) -> dict[int, float]:
    """Return the mean of the curve of each run that has points."""
    values = {run.seed: [value for value in run.result.curve()[1] if np.isfinite(value)] for run in runs}
    return {seed: float(np.mean(own)) for seed, own in values.items() if own}


def _curve(result: RangeTestResult, rates: list[float], values: list[float]) -> dict[str, Any]:
    chosen = np.unique(np.linspace(0, max(0, len(rates) - 1), min(_MAX_POINTS, len(rates))).round().astype(int))
    band = result.band()
    return {
        "optimizer": result.optimizer,
        "metric": result.metric,
        "rates": [rates[i] for i in chosen],
        "values": [values[i] if np.isfinite(values[i]) else None for i in chosen],
        "suggestion": result.suggestion.rate,
        "low": result.low if np.isfinite(result.low) else None,
        "high": result.high if np.isfinite(result.high) else None,
        "rule": result.suggestion.rule,
        "band": None if band is None else band._asdict(),
    }
