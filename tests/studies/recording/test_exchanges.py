"""Tests of what populations and their samplers learn from what is recorded."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from studies.figures.schedules import schedules_data
from studies.population_based.population_based import Perturbation
from studies.recording.exchanges import Exchanges
from studies.recording.opening import open_study
from studies.recording.recorder import Recorder
from studies.reports.explanation import counts_text
from studies.spec.attributes import EXCHANGED_ATTR
from studies.spec.spec import StudySpec
from studies.storage.storage import StudyStorage, open_storage
from studies.study.schedules import divergences_of, member_of

N = 8


def spec_of(n_trials: int = N, **changes: Any) -> StudySpec:
    given: dict[str, Any] = {
        "name": "s", "storage": "memory", "agents": ("ppo",), "env": "CartPole-v1", "env_steps": 1000, "n_reports": 10,
        "params": {"learning_rate": "1e-5:1e-1:log"}, "n_trials": n_trials, "pruner": "pb2", "confirm": 0,
        "seeds": (0,), **changes,
    }  # fmt: skip
    return StudySpec(**given)


def decided(values: dict[int, dict[int, float]], resumed_at: int | None) -> list[Perturbation]:
    """Return the last exchange of a population, which another process may have continued before a step."""
    with open_storage("memory") as storage, open_study(spec_of(), storage) as study, Recorder(study) as recorder:
        for _ in range(N):
            recorder.ask()
        found: list[Perturbation] = []
        for step, own in values.items():
            if step == resumed_at:
                recorder._exchanges = Exchanges(study, recorder._writer)
            found = recorder.exchange(step, {number: {0: value} for number, value in own.items()})
        return found


@pytest.mark.parametrize("seed", range(6))
def test_a_resumed_population_knows_members_without_a_value_at_the_step(seed: int) -> None:
    rng = random.Random(seed)
    values = {100 * k: {n: rng.gauss(20 * k, 15) for n in range(N)} for k in range(1, 6)}
    for number in rng.sample(range(N), 2):  # no episode of theirs ended in the last interval
        del values[500][number]
    assert decided(values, resumed_at=500) == decided(values, resumed_at=None)


def test_a_divergence_is_recorded_and_counted() -> None:
    with open_storage("memory") as storage, open_study(spec_of(4), storage) as study, Recorder(study) as recorder:
        for _ in range(4):
            recorder.ask()
        recorder.exchange(100, {number: {0: float(number)} for number in range(4)})
        found = recorder.exchange(200, {number: {0: float(number)} for number in (0, 2, 3)}, [1])
        assert [(each.number, each.copied_from) for each in found] == [(1, 3)]
        recorder._exchanges = Exchanges(study, recorder._writer)  # of another process
        recorder.exchange(300, {number: {0: float(number)} for number in range(4)})
        member = member_of(study.spec, study.trials()[1])
        assert member.values == {100: 1.0, 200: -math.inf, 300: 1.0}
        assert study.trials()[1].user_attrs[EXCHANGED_ATTR] == {"100": 1.0, "200": None, "300": 1.0}
        assert divergences_of(study) == {1: (200,)}
        assert counts_text(study).endswith("0 failed, 4 running, 1 divergence with a copy of another trial")
        assert "copied from #3 after a divergence" in schedules_data(study).lines["learning_rate"][1].texts[1]
        for number in range(4):
            recorder.completed(number, float(number))
        assert divergences_of(study) == {1: (200,)}


def proposed(storage: StudyStorage, n_trials: int) -> list[float]:
    """Return the learning rates of the trials of a study that are still to be run."""
    with open_study(spec_of(n_trials, pruner="pbt"), storage) as study, Recorder(study) as recorder:
        rates = []
        while (ask := recorder.ask()) is not None:
            rates.append(float(ask.params["learning_rate"]))
        for number in range(n_trials - len(rates), n_trials):
            recorder.completed(number, -abs(rates[number - n_trials] - 1e-4))
        return rates


def test_a_further_population_is_not_proposed_from_values_of_copied_weights() -> None:
    with open_storage("memory") as storage:
        first = proposed(storage, 16)
        further = proposed(storage, 48)
    assert len(further) == 32
    assert not set(further) & set(first)
    # Uniform on the scale of the range, of which half is above 1e-3; TPE would draw most of them near 1e-4.
    assert 10 <= sum(rate > 1e-3 for rate in further) <= 22
