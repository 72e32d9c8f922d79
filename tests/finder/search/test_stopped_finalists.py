"""Tests of finalists that are stopped because the budget is spent, and are judged by their last common report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from fakes import SMALL_PPO
from limits import Clock, time_meter

from finder.budgets.limit import Limit
from finder.executors.executor import Executor, NextTrial, StudyListener
from finder.search.object_resolver import ObjectResolver
from finder.search.observer import Observer
from finder.search.search import Search
from finder.trials.trial import BudgetSpent, Outcome, TrialSpec
from studies.analysis.conclusion import conclusion
from studies.judging.confirmation import verdict
from studies.recording.opening import open_study
from studies.reports.explanation import explain
from studies.reports.html import report_html
from studies.spec.attributes import stopped_values
from studies.spec.spec import StudySpec
from studies.storage.storage import StudyStorage, open_storage
from studies.study.study import OpenStudy

SEARCH_STEPS, CONFIRM_STEPS = 1_000, 5_000
PLANNED = {
    "name": "s", "agents": ("ppo",), "env": "fakes:TwoStep-v0", "env_steps": SEARCH_STEPS, "n_reports": 10,
    "seeds": (0, 1), "fixed": SMALL_PPO, "trials": tuple({"learning_rate": rate} for rate in (1e-1, 1e-2, 1e-3)),
    "confirm": 2, "confirm_seeds": 2, "confirm_env_steps": CONFIRM_STEPS, "pruner": "none", "minutes": 1,
}  # fmt: skip


class SpentExecutor(Executor):
    """Completes the trials of the search at once, and stops confirmations after given reports.

    Args:
        clock: Clock of the budget, which is spent after the last report.
        reports: Environment steps of the last report of each finalist, in the order of their start. Their values are
            the environment steps, but those of the second finalist are 10 higher.
    """

    description = "stops"
    spent: type[BaseException] = BudgetSpent

    def __init__(self, clock: Clock, reports: list[int]) -> None:
        self._clock, self._reports = clock, reports

    def trials_at_once(self, n_seeds: int) -> int:
        return 1

    def run(self, next_trial: NextTrial, listener: StudyListener) -> None:
        confirming: list[TrialSpec] = []
        while (trial := next_trial()) is not None:
            listener.started(trial.number, {"seeds": list(trial.seeds)})
            if trial.confirms is not None:
                confirming.append(trial)
            else:
                listener.ended(trial.number, complete(trial, 1_000.0 - trial.number))
        if confirming:
            self._confirm(confirming, listener)

    def _confirm(self, trials: list[TrialSpec], listener: StudyListener) -> None:
        last = dict(zip((trial.number for trial in trials), self._reports, strict=True))
        for mark in trials[0].report_marks:
            values = {n: self._values(trials, n, mark) for n, at in last.items() if mark <= at}
            if values:
                listener.rung(mark, values)
        for trial in trials:
            if last[trial.number] == CONFIRM_STEPS:
                listener.ended(trial.number, complete(trial, float(CONFIRM_STEPS)))
        if all(at == CONFIRM_STEPS for at in last.values()):
            return
        self._clock.now += 1e6
        with pytest.raises(BudgetSpent):
            listener.episodes({})
        for number, at in last.items():
            if at < CONFIRM_STEPS:
                listener.ended(number, Outcome(state="interrupted", env_steps=at, wall_seconds=7.0))
        raise self.spent

    def _values(self, trials: list[TrialSpec], number: int, mark: int) -> dict[int, float]:
        higher = 10.0 * (number != trials[0].number)
        return {seed: mark + higher + seed for seed in trials[0].seeds}


def complete(trial: TrialSpec, value: float) -> Outcome:
    assert trial.env_steps is not None
    values = {seed: value + seed for seed in trial.seeds}
    return Outcome(state="complete", value=value, env_steps=trial.env_steps, seed_values=values)


class Notes(Observer):
    def __init__(self) -> None:
        self.notes: list[str] = []
        self.ends: list[str] = []

    def budget_spent(self, text: str) -> None:
        self.notes.append(text)

    def trial_ended(self, number: int, outcome: Outcome) -> None:
        self.ends.append(outcome.state)


@pytest.fixture
def notes() -> Notes:
    return Notes()


def run(reports: list[int], notes: Notes, storage: StudyStorage, planned: Mapping[str, Any] = PLANNED) -> OpenStudy:
    clock = Clock()
    study = open_study(StudySpec(**planned), storage)
    limit = Limit(study.spec, time_meter(60, clock), together=False, adjusts_seeds=False)
    search = Search(study, ObjectResolver.of(study.spec), SpentExecutor(clock, reports), notes, limit=limit)
    assert search.run() is None
    return search.study


def states(study: OpenStudy) -> list[str]:
    return [trial.state.name for trial in study.confirmation_trials()]


def reports(study: OpenStudy) -> list[tuple[int, dict[int, float]] | None]:
    return [stopped_values(trial) for trial in study.confirmation_trials()]


def test_finalists_are_judged_by_their_last_common_report(notes: Notes) -> None:
    with open_storage("memory") as storage:
        study = run([3_000, 2_500], notes, storage)
        assert states(study) == ["WAITING", "WAITING"]
        # Seeds 2 and 3 of the further seeds: the values of the report are 2,500 + seed, and 10 more.
        assert reports(study) == [(2_500, {2: 2_502.0, 3: 2_503.0}), (2_500, {2: 2_512.0, 3: 2_513.0})]
        found = verdict(study)
        assert found.pick is not None
        assert found.pick.number == 1, "on further seeds, the second finalist is the better one"
        assert [(each.number, each.held_out.value) for each in found.confirmed] == [(1, 2_512.5), (0, 2_502.5)]
        assert notes.ends == ["complete"] * 3 + ["interrupted"] * 2
        assert notes.notes == [
            "the budget of 1 minute was spent before the finalists had ended; they are judged by their last common "
            "report, after 2,500 of 5,000 environment steps."
        ]
        told = conclusion(study)
        assert told.value.startswith("return 2,512.5 ± 0.7 confirmed over 2 further seeds in runs of 2,500 environment")
        assert told.status == "not safe"
        assert (
            told.reasons[0].text == "the finalists were stopped after 2,500 of 5,000 environment steps: this may change"
        )
        assert told.reasons[0].remedy is not None
        assert told.reasons[0].remedy.purpose == "runs them to the end"


def test_continued_search_runs_the_same_trials_to_their_ends(notes: Notes) -> None:
    with open_storage("memory") as storage:
        run([3_000, 2_500], notes, storage)
        study = run([CONFIRM_STEPS, CONFIRM_STEPS], notes, storage)
        assert states(study) == ["COMPLETE", "COMPLETE"]
        assert verdict(study).confirm_env_steps == CONFIRM_STEPS
        assert [each.held_out.n_seeds for each in verdict(study).confirmed] == [2, 2]


@pytest.mark.parametrize("last", [[3_000, 500], [500, 3_000]])
def test_nothing_is_judged_unless_all_finalists_have_a_late_report(notes: Notes, last: list[int]) -> None:
    with open_storage("memory") as storage:
        study = run(last, notes, storage)
        assert reports(study) == [None, None]
        assert verdict(study).confirmed == []
        assert verdict(study).pick is not None
        assert verdict(study).pick.number == 0, "the best of the search"  # type: ignore[union-attr]
        assert (
            conclusion(study).reasons[0].text == "2 finalists are not confirmed on further seeds yet: this may change"
        )


def test_second_stop_without_a_common_report_keeps_the_first_one(notes: Notes) -> None:
    with open_storage("memory") as storage:
        run([3_000, 2_500], notes, storage)
        study = run([3_500, 500], notes, storage)
        assert [own and own[0] for own in reports(study)] == [2_500, 2_500]
        assert verdict(study).confirm_env_steps == 2_500
        study = run([3_500, 4_000], notes, storage)
        assert [own and own[0] for own in reports(study)] == [3_500, 3_500]


def test_interrupt_after_the_stop_keeps_the_reports(notes: Notes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SpentExecutor, "spent", KeyboardInterrupt)
    with open_storage("memory") as storage:
        with pytest.raises(KeyboardInterrupt):
            run([3_000, 2_500], notes, storage)
        with open_study(StudySpec(**PLANNED), storage) as study:
            assert [own and own[0] for own in reports(study)] == [2_500, 2_500]
            assert verdict(study).confirm_env_steps == 2_500


def test_early_reports_judge_nothing(notes: Notes) -> None:
    with open_storage("memory") as storage:
        study = run([500, 500], notes, storage)
        assert reports(study) == [None, None]
        assert verdict(study).confirmed == []
        assert not any("judged" in note for note in notes.notes)


def test_runs_as_long_as_those_of_the_search_are_compared_with_them(notes: Notes) -> None:
    with open_storage("memory") as storage:
        study = run([1_000, 1_500], notes, storage)
        assert verdict(study).confirm_env_steps == SEARCH_STEPS
        assert verdict(study).finalists_alone is False


def test_runs_that_were_to_be_as_long_as_those_of_the_search_are_judged_alone(notes: Notes) -> None:
    planned = {name: value for name, value in PLANNED.items() if name != "confirm_env_steps"}
    with open_storage("memory") as storage:
        study = run([900, 800], notes, storage, planned=planned)
        found = verdict(study)
        assert found.finalists_alone
        assert found.pick is not None
        assert (found.pick.number, found.confirmed[0].held_out.value) == (1, 812.5)
        told = conclusion(study)
        assert told.value.startswith(
            "return 812.5 ± 0.7 confirmed over 2 further seeds in runs of 800 environment steps"
        )
        assert "800 environment steps each" in report_html(study)
        assert "In the longer runs of the search its value was 999.5" in explain(study)


def test_finalist_that_has_ended_alone_counts(notes: Notes) -> None:
    with open_storage("memory") as storage:
        study = run([CONFIRM_STEPS, 2_500], notes, storage)
        assert states(study) == ["COMPLETE", "WAITING"]
        assert [each.number for each in verdict(study).confirmed] == [0]
        assert verdict(study).confirm_env_steps == CONFIRM_STEPS
        assert notes.ends == ["complete"] * 4 + ["interrupted"]
        assert not any("judged" in note for note in notes.notes)
