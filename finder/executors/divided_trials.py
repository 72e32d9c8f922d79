"""Trials whose seeds are divided among workers: their parts are joined before the listener hears of them.

Only confirmations are divided, of which nothing is pruned or paused (`finder.executors.batches`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from agents.training.records import MetricSummary
from finder.trials.trial import FELL_BEHIND, Outcome, State, TrialSpec
from studies.statistics.values import mean_of_seeds

_DECISIVE_FIRST: tuple[State, ...] = ("failed", "interrupted", "pruned", "paused", "complete")
"""States, the first of which decides how a trial has ended whose parts have ended in different ways."""


class DividedTrials:
    """Joins the events of the parts of trials. A part is a `TrialSpec` with some of the seeds of its trial.

    Trials that were not divided pass through unchanged.
    """

    def __init__(self) -> None:
        self._parts: dict[int, list[TrialSpec]] = {}
        self._built: set[int] = set()
        self._outcomes: dict[int, list[Outcome]] = {}
        self._values_at: dict[tuple[int, int], dict[int, float]] = {}

    def begin(self, batches: Sequence[Sequence[TrialSpec]]) -> None:
        """Note which trials of some batches are divided."""
        parts: dict[int, list[TrialSpec]] = {}
        for batch in batches:
            for trial in batch:
                parts.setdefault(trial.number, []).append(trial)
        self._parts |= {number: own for number, own in parts.items() if len(own) > 1}

    def built(self, number: int, configuration: dict[str, Any]) -> dict[str, Any] | None:
        """Return the configuration of a trial of which a part was built; None if another part was built before."""
        if number not in self._parts:
            return configuration
        if number in self._built:
            return None
        self._built.add(number)
        return {**configuration, "seeds": list(self._seeds(number))}

    def rung(self, env_steps: int, values: Mapping[int, Mapping[int, float]]) -> dict[int, dict[int, float]]:
        """Return the values of the trials of which all seeds are known at an environment step.

        Args:
            env_steps: The environment step.
            values: Trial -> seed -> value, of the parts that have reached it.
        """
        known: dict[int, dict[int, float]] = {}
        for number, own in values.items():
            if number not in self._parts:
                known[number] = dict(own)
                continue
            at = self._final_values(number) | self._values_at.get((number, env_steps), {}) | dict(own)
            self._values_at[number, env_steps] = at
            if len(at) == len(self._seeds(number)):
                known[number] = self._in_order(number, at)
        return known

    def stopped(self, numbers: Collection[int]) -> dict[int, str]:
        """Return the reason to stop for those trials of which another part has ended before its time."""
        ended = {n: [each for each in self._outcomes.get(n, ()) if each.state != "complete"] for n in numbers}
        return {n: FELL_BEHIND if own[0].state == "failed" else own[0].reason for n, own in ended.items() if own}

    def ended(self, number: int, outcome: Outcome) -> Outcome | None:
        """Return the outcome of a trial of which a part has ended; None if other parts have not ended."""
        if number not in self._parts:
            return outcome
        outcomes = self._outcomes.setdefault(number, [])
        outcomes.append(outcome)
        if len(outcomes) < len(self._parts[number]):
            return None
        joined = self._joined(number, outcomes)
        self._values_at = {key: own for key, own in self._values_at.items() if key[0] != number}
        del self._parts[number], self._outcomes[number]
        self._built.discard(number)
        return joined

    def _seeds(self, number: int) -> tuple[int, ...]:
        return tuple(seed for part in self._parts[number] for seed in part.seeds)

    def _in_order(self, number: int, values: Mapping[int, float]) -> dict[int, float]:
        return {seed: values[seed] for seed in self._seeds(number) if seed in values}

    def _final_values(self, number: int) -> dict[int, float]:
        """Return the values of parts that ended early, because callbacks have stopped their runs."""
        ended = self._outcomes.get(number, ())
        return {seed: value for each in ended if each.state == "complete" for seed, value in each.seed_values.items()}

    def _joined(self, number: int, outcomes: Sequence[Outcome]) -> Outcome:
        decisive = min(outcomes, key=lambda each: _DECISIVE_FIRST.index(each.state))
        merged: dict[int, float] = {}
        for each in outcomes:
            merged |= each.seed_values
        seed_values = {} if decisive.state == "failed" else self._in_order(number, merged)
        objectives = {
            name: self._in_order(number, {s: v for each in outcomes for s, v in each.objectives.get(name, {}).items()})
            for name in (decisive.objectives if decisive.state == "complete" else ())
        }
        known = decisive.value is not None and seed_values
        return replace(
            decisive,
            value=float(mean_of_seeds(list(seed_values.values()))) if known else decisive.value,
            env_steps=min(each.env_steps for each in outcomes),
            seed_values=seed_values,
            wall_seconds=max(each.wall_seconds for each in outcomes),
            objectives=objectives,
            custom_metrics=_joined_metrics([each.custom_metrics for each in outcomes]),
            learned=any(each.learned for each in outcomes),
        )


def _joined_metrics(parts: Sequence[Mapping[str, MetricSummary]]) -> dict[str, MetricSummary]:
    """Return the summaries of custom metrics over the episodes of all parts."""
    joined: dict[str, MetricSummary] = {}
    for name in sorted({name for part in parts for name in part}):
        own = [part[name] for part in parts if name in part]
        n_episodes = sum(each.n_episodes for each in own)
        mean = sum(each.mean * each.n_episodes for each in own) / n_episodes
        joined[name] = MetricSummary(mean, min(each.min for each in own), max(each.max for each in own), n_episodes)
    return joined
