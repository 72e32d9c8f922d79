"""Tests of what populations and their samplers learn from what is recorded."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from finder.cli.advice import print_doubts
from studies.analysis.conclusion import conclusion
from studies.analysis.recommendation import best
from studies.figures.schedules import schedules_data
from studies.population_based.population_based import Perturbation
from studies.population_based.schedule import ScheduleEntry
from studies.recording.exchanges import Exchanges
from studies.recording.opening import open_study
from studies.recording.recorder import Recorder
from studies.reports.explanation import counts_text, explain
from studies.reports.html import report_html
from studies.spec.attributes import EXCHANGED_ATTR, SCHEDULE_ATTR
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


@pytest.mark.parametrize(
    ("rates", "n_finalists"), [((0.1, 0.2, 0.3, 0.4), 3), ((0.1, 0.2, 0.1, 0.2), 2), ((0.1, 0.1, 0.1, 0.1), 1)]
)
def test_fewer_finalists_than_requested_are_explained(
    rates: tuple[float, ...], n_finalists: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Members with equal schedules are confirmed once."""
    spec = spec_of(len(rates), confirm=3, confirm_seeds=3)
    with open_storage("memory") as storage, open_study(spec, storage) as study, Recorder(study) as recorder:
        for rate in rates:
            ask = recorder.ask()
            assert ask is not None
            trial_id = study.trials()[ask.number]._trial_id
            schedule = [ScheduleEntry(env_steps=0, params={"learning_rate": rate}).to_json()]
            study.study._storage.set_trial_user_attr(trial_id, SCHEDULE_ATTR, schedule)
            recorder.completed(ask.number, float(ask.number), {0: float(ask.number)})
        n_confirmed = 0
        while (again := recorder.ask_confirmation()) is not None:
            recorder.completed(again.number, 5.0, {seed: 5.0 + seed for seed in again.seeds})
            n_confirmed += 1
        assert n_confirmed == n_finalists
        pick = best(study)
        assert pick is not None
        print_doubts(study, pick, concluded=True)
        printed = " ".join(capsys.readouterr().err.split())
        counts = {
            2: "2 different schedules, so that there are 2 finalists",
            1: "1 different schedule, so that there is 1",
        }
        for text in (explain(study), printed, report_html(study)):
            assert ("different schedule" in text) == (n_finalists < 3)
            assert counts.get(n_finalists, "") in text
        same = "all complete trials have the same schedule, so there is nothing to compare it with"
        assert (same in [each.text for each in conclusion(study).reasons]) == (n_finalists == 1)
