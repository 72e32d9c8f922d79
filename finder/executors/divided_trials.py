"""Trials whose seeds are divided among workers: the events of their parts are joined before the listener receives them.

Only confirmations are divided, of which nothing is pruned or paused (`finder.executors.batches`).
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
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
        self._seeds: dict[int, list[tuple[int, ...]]] = {}  # of each part of a divided trial
        self._built: set[int] = set()
        self._outcomes: dict[int, list[Outcome]] = {}
        self._values_at: dict[tuple[int, int], dict[int, float]] = {}

    def begin(self, batches: Sequence[Sequence[TrialSpec]]) -> None:
        """Note which trials of some batches are divided."""
        seeds: dict[int, list[tuple[int, ...]]] = {}
        for trial in itertools.chain.from_iterable(batches):
            seeds.setdefault(trial.number, []).append(trial.seeds)
        self._seeds |= {number: own for number, own in seeds.items() if len(own) > 1}

    def built(self, number: int, configuration: dict[str, Any]) -> dict[str, Any] | None:
        """Return the configuration of a trial of which a part was built; None if another part was built before."""
        if number not in self._seeds:
            return configuration
        if number in self._built:
            return None
        self._built.add(number)
        return {**configuration, "seeds": self._all_seeds(number)}

    def rung(self, env_steps: int, values: Mapping[int, Mapping[int, float]]) -> dict[int, dict[int, float]]:
        """Return the values of the trials of which all seeds are known at an environment step.

        Args:
            env_steps: The environment step.
            values: Trial -> seed -> value, of the parts that have reached it.
        """
        known: dict[int, dict[int, float]] = {}
        for number, own in values.items():
            if number not in self._seeds:
                known[number] = dict(own)
                continue
            # Runs that callbacks have stopped have ended before, with their final values.
            final = [each.seed_values for each in self._outcomes.get(number, ()) if each.state == "complete"]
            at = self._merged(number, [*final, self._values_at.get((number, env_steps), {}), own])
            self._values_at[number, env_steps] = at
            if len(at) == len(self._all_seeds(number)):
                known[number] = at
        return known

    def stopped(self, numbers: Collection[int]) -> dict[int, str]:
        """Return the reason to stop for those trials of which another part has ended before its time."""
        ended = {n: [each for each in self._outcomes.get(n, ()) if each.state != "complete"] for n in numbers}
        return {n: FELL_BEHIND if own[0].state == "failed" else own[0].reason for n, own in ended.items() if own}

    def ended(self, number: int, outcome: Outcome) -> Outcome | None:
        """Return the outcome of a trial of which a part has ended; None if other parts have not ended."""
        if number not in self._seeds:
            return outcome
        outcomes = self._outcomes.setdefault(number, [])
        outcomes.append(outcome)
        if len(outcomes) < len(self._seeds[number]):
            return None
        joined = self._joined(number, outcomes)
        self._values_at = {key: own for key, own in self._values_at.items() if key[0] != number}
        del self._seeds[number], self._outcomes[number]
        self._built.discard(number)
        return joined

    def _all_seeds(self, number: int) -> list[int]:
        return list(itertools.chain.from_iterable(self._seeds[number]))

    def _merged(self, number: int, parts: Iterable[Mapping[int, float]]) -> dict[int, float]:
        """Return the values of the seeds of several parts in the order of the seeds; later parts replace earlier."""
        values: dict[int, float] = {}
        for part in parts:
            values |= part
        return {seed: values[seed] for seed in self._all_seeds(number) if seed in values}

    def _joined(self, number: int, outcomes: Sequence[Outcome]) -> Outcome:
        decisive = min(outcomes, key=lambda each: _DECISIVE_FIRST.index(each.state))
        failed = decisive.state == "failed"
        seed_values = {} if failed else self._merged(number, [each.seed_values for each in outcomes])
        known = decisive.value is not None and seed_values
        return replace(
            decisive,
            value=float(mean_of_seeds(list(seed_values.values()))) if known else decisive.value,
            env_steps=min(each.env_steps for each in outcomes),
            seed_values=seed_values,
            wall_seconds=max(each.wall_seconds for each in outcomes),
            objectives={
                name: self._merged(number, [each.objectives.get(name, {}) for each in outcomes])
                for name in decisive.objectives
            },
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
