"""Studies with several objectives: how their metrics are given, and what does not go together with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

from studies.errors import StudyError
from studies.spec.fields import SpecFields
from studies.spec.metrics import check_metric, metric_of
from studies.spec.scheduler_names import GRID_SAMPLERS, canonical_pruner_name, canonical_sampler_name

MOST_OBJECTIVES = 3
"""Most objectives of a study. Of more, nearly every trial would be on the Pareto front."""

SEVERAL_KINDS = ("tune", "agents")
"""Questions that may have several objectives."""

SEVERAL_SAMPLERS = ("tpe", "nsgaii", "nsgaiii", "random", "qmc", *sorted(GRID_SAMPLERS))
"""Samplers for several objectives."""


class Metrics(Protocol):
    """Interface of what is judged by one metric or several: specs of studies and of trials."""

    @property
    def metric(self) -> str:
        """The metric, or the first objective."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """All objectives; empty for one metric."""


def with_objectives(data: Any) -> Any:
    """Return the fields of a spec with a list of metrics taken apart: `metrics`, and the first one as `metric`.

    By default, a study with several objectives has the scheduler `none` and no confirmation.
    """
    if not isinstance(data, Mapping):
        return data
    given = data.get("metric")
    if isinstance(given, Sequence) and not isinstance(given, str):
        names = [check_metric(name) for name in given]
        data = {**data, "metric": names[0] if names else "", "metrics": tuple(names) if len(names) > 1 else ()}
    return {"pruner": "none", "confirm": 0, **data} if data.get("metrics") else data


def names_of(spec: Metrics) -> tuple[str, ...]:
    """Return the metrics of a study, one or several."""
    return spec.metrics or (spec.metric,)


def directions_of(spec: Metrics) -> list[Literal["minimize", "maximize"]]:
    """Return the direction of each objective of a study, one or several."""
    return ["minimize" if metric_of(name).minimize else "maximize" for name in names_of(spec)]


def greedy_episodes_of(spec: Metrics) -> int:
    """Return the episodes of each greedy evaluation in a study; 0 without evaluations."""
    return max(metric_of(name).n_episodes for name in names_of(spec))


def needs_episodes(spec: Metrics) -> bool:
    """Return whether a run has no value, or lacks that of an objective, if none of its training episodes ends."""
    return any(metric_of(name).needs_episodes for name in names_of(spec))


def check_objectives(spec: SpecFields) -> None:
    """Check the objectives of a study, if it has several.

    Raises:
        StudyError: Names what was given, what is allowed and what to do.
    """
    names = spec.metrics
    if not names:
        return
    listed = ", ".join(names)
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise StudyError(f"the metric {twice!r} was given more than once ({listed}): give each objective once.")
    if len(names) > MOST_OBJECTIVES:
        raise StudyError(f"{len(names)} metrics were given ({listed}): give at most {MOST_OBJECTIVES} objectives.")
    greedy = [name for name in names if metric_of(name).n_episodes]
    if len(greedy) > 1:
        raise StudyError(f"the metrics {' and '.join(greedy)} are one objective with different episodes: give one.")
    if spec.metric not in names:
        raise StudyError(f"metric is {spec.metric!r}, which is not one of the objectives {listed}.")
    if spec.kind not in SEVERAL_KINDS:
        raise StudyError(
            f"several metrics ({listed}) were given, but finder {spec.kind} picks by one: give one metric, or search "
            "with finder tune (finder.tune), such as --param learning_rate, which gives a Pareto front."
        )
    if canonical_pruner_name(spec.pruner) != "none":
        raise StudyError(
            f"the scheduler is {spec.pruner!r} with several metrics ({listed}), but no one value says which trials "
            "have fallen behind: use the scheduler 'none', which is the default there, or give one metric."
        )
    if spec.confirm:
        raise StudyError(
            f"confirm is {spec.confirm} with several metrics ({listed}), whose result is a Pareto front without one "
            "pick to confirm: leave it out, give more seeds, or give one metric."
        )
    if canonical_sampler_name(spec.sampler) not in SEVERAL_SAMPLERS and not spec.trials:
        raise StudyError(
            f"sampler is {spec.sampler!r} with several metrics ({listed}): use one of {', '.join(SEVERAL_SAMPLERS)}."
        )
    if spec.warm_start is not None:
        raise StudyError(
            f"a warm start has the values of one metric, but several were given ({listed}): leave it out, and give "
            "known parameters as first trials."
        )
