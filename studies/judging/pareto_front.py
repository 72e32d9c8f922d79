"""Pareto front of a study with several objectives: the trials that no other one dominates."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from optuna.trial import TrialState

from studies.errors import StudyError
from studies.judging.confirmation import candidate
from studies.judging.ranking import Ranked, rank, within
from studies.judging.return_bounds import return_bounds, reward_threshold
from studies.spaces.spaces import Json
from studies.spec.attributes import OBJECTIVES_ATTR
from studies.spec.metrics import metric_of
from studies.spec.objectives import directions_of
from studies.statistics.pareto import dominated_by, surely_dominated
from studies.statistics.values import sign_of
from studies.words import are, counted, params_text, spread_text

if TYPE_CHECKING:
    from studies.study.study import OpenStudy


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontTrial:
    """A complete trial of a study with several objectives.

    Attributes:
        number: Number of the trial.
        params: Its parameters.
        values: Its value for each objective, with spread and interval over seeds.
        on_front: Whether no other trial is as good in every objective and better in one.
        told_apart: For a trial that is not on the front: whether another one dominates it by the 95% intervals, which
            then overlap in no objective. Always true for one that is.
    """

    number: int
    params: Mapping[str, Json]
    values: tuple[Ranked, ...]
    on_front: bool
    told_apart: bool


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ParetoFront:
    """Complete trials of a study with several objectives.

    Attributes:
        metrics: Names of the objectives.
        texts: The objectives for people.
        directions: `maximize` or `minimize` for each.
        trials: All complete trials, the best by the first objective first.
    """

    metrics: tuple[str, ...]
    texts: tuple[str, ...]
    directions: tuple[str, ...]
    trials: tuple[FrontTrial, ...]

    @property
    def front(self) -> tuple[FrontTrial, ...]:
        """The trials on the front, the best by the first objective first."""
        return tuple(trial for trial in self.trials if trial.on_front)

    @property
    def undecided(self) -> tuple[FrontTrial, ...]:
        """The trials that are not on the front, but cannot be told apart from it."""
        return tuple(trial for trial in self.trials if not trial.told_apart)

    @property
    def lines(self) -> tuple[str, str]:
        """Two sentences without full stops: how many trials are on the front, and how certain that is."""
        n = len(self.front)
        of = counted(len(self.trials), "complete trial")
        head = f"Pareto front of {' and '.join(self.texts)}: {n} of {of} {are(n)} on it"
        if all(math.isnan(value.low) for trial in self.trials for value in trial.values):
            return head, "with one seed each, nothing tells luck apart: give more seeds"
        if n == len(self.trials):
            return head, "no trial dominates another one"
        if not self.undecided:
            return head, "all other trials are told apart from it by their 95% intervals"
        n_others = len(self.undecided)
        return head, f"{counted(n_others, 'further trial')} cannot be told apart from it by the 95% intervals"

    def __repr__(self) -> str:
        """Return the two sentences, and a line for each trial on the front."""
        rows = [
            f"#{trial.number}  {', '.join(spread_text(each.value, each.spread) for each in trial.values)}  "
            f"{params_text(dict(trial.params))}"
            for trial in self.front
        ]
        return "\n".join([*self.lines, *rows])

    def to_json(self) -> dict[str, Json]:
        """Return the front as JSON values."""
        return {
            "metrics": list(self.metrics),
            "directions": list(self.directions),
            "pareto_front": [self._json_of(trial) for trial in self.front],
            "undecided": [self._json_of(trial) for trial in self.undecided],
            "conclusion": list(self.lines),
        }

    def _json_of(self, trial: FrontTrial) -> dict[str, Json]:
        def known(number: float) -> float | None:
            return None if math.isnan(number) else number

        values: dict[str, Json] = {
            name: {
                "value": known(own.value),
                "spread": known(own.spread),
                "low": known(own.low),
                "high": known(own.high),
                "seed_values": list(own.seed_values),
            }
            for name, own in zip(self.metrics, trial.values, strict=True)
        }
        return {"trial": trial.number, "params": dict(trial.params), "values": values}


def pareto_front(study: OpenStudy) -> ParetoFront:
    """Return the complete trials of a study with several objectives, and which of them are on the front.

    Raises:
        StudyError: If it has one metric.
    """
    metrics = study.spec.metrics
    if not metrics:
        raise StudyError(f"the study {study.name!r} has one metric, {study.spec.metric}: its pick is `best`.")
    directions = directions_of(study.spec)
    by_metric: list[dict[int, Ranked]] = []
    for name, direction in zip(metrics, directions, strict=True):
        view = study.by_objective(name)
        complete = [each for each in view.trials(TrialState.COMPLETE) if OBJECTIVES_ATTR in each.user_attrs]
        candidates = [candidate(view, trial) for trial in complete]
        ranked = within(rank(candidates, direction, reward_threshold(view)), return_bounds(view))
        by_metric.append({each.number: each for each in ranked})
    numbers = list(by_metric[0])
    rows = [tuple(of[number] for of in by_metric) for number in numbers]
    if not rows:
        return ParetoFront(metrics=metrics, texts=_texts(metrics), directions=tuple(directions), trials=())
    signs = [sign_of(direction) for direction in directions]
    values = [[each.value for each in row] for row in rows]
    lows, highs = ([[getattr(each, end) for each in row] for row in rows] for end in ("compared_low", "compared_high"))
    dominated: Any = dominated_by(values, signs).any(axis=1)  # [n]
    sure = surely_dominated(lows, highs, signs)
    trials = tuple(
        FrontTrial(
            number=number,
            params=row[0].params,
            values=row,
            on_front=not dominated[place],
            told_apart=bool(not dominated[place] or sure[place]),
        )
        for place, (number, row) in enumerate(zip(numbers, rows, strict=True))
    )
    return ParetoFront(metrics=metrics, texts=_texts(metrics), directions=tuple(directions), trials=trials)


def no_single_pick(name: str, metrics: tuple[str, ...]) -> str:
    """Return why a study with several objectives has no pick, and how to choose one."""
    several = f"it has several objectives ({', '.join(metrics)}), whose result is a Pareto front"
    return f"{several}: {how_to_choose(name, metrics)}"


def how_to_choose(name: str, metrics: tuple[str, ...]) -> str:
    """Return how to choose a trial of the Pareto front of a study."""
    quoted = shlex.quote(name)
    return (
        f"choose a trial of the front (finder train --from {quoted} --trial N), or pick by one objective (finder best "
        f"{quoted} --metric {shlex.quote(metrics[0])}; in Python studies.best(study.by_objective({metrics[0]!r})))"
    )


def _texts(metrics: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(metric_of(name).text for name in metrics)
