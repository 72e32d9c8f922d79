"""The best of a search run again on further seeds: what is run, what is recorded, what the pick says then."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from death import die
from optuna.trial import FrozenTrial, TrialState, create_trial

from finder import LRFinder
from studies import load_study, open_study, write_report
from studies.confirmation import held_out_seeds, unconfirmed, verdict
from studies.listing import list_studies
from studies.pick import best
from studies.recorder import Recorder
from studies.reports.answer import answer
from studies.spec import StudySpec
from studies.standing import standing
from studies.study import OpenStudy

SMALL = {"n_envs": 1, "n_steps": 32, "batch_size": 16, "n_epochs": 1, "hidden_sizes": [4], "jit_compile": False}


def spec_of(**fields: Any) -> StudySpec:
    rows = tuple({"learning_rate": rate} for rate in (1e-4, 1e-3, 1e-2, 1e-1))
    given = {"name": "s", "storage": "memory", "agents": ("ppo",), "env": "CartPole-v1", "env_steps": 1000, **fields}
    return StudySpec(trials=rows, pruner="none", **{"seeds": (0, 1), **given})


def searched(spec: StudySpec, values: tuple[float, ...] = (10.0, 20.0, 30.0, 25.0)) -> OpenStudy:
    """A study whose four trials are worth so much."""
    study = open_study(spec)
    with Recorder(study) as recorder:
        for value in values:
            ask = recorder.ask()
            assert ask is not None
            recorder.started(ask.number, {"agent": "ppo", "config": {}, "env": "CartPole-v1"})
            recorder.completed(ask.number, value, {seed: value + (-1, 1, 0)[seed] for seed in spec.seeds})
        assert recorder.ask() is None
    return study


def confirm(study: OpenStudy, values: dict[int, float]) -> list[tuple[int | None, tuple[int, ...]]]:
    """Runs what is left to confirm; a trial is worth what is said of the one that it confirms."""
    asked = []
    with Recorder(study) as recorder:
        while (ask := recorder.ask_confirmation()) is not None:
            asked.append((ask.confirms, ask.seeds))
            assert ask.confirms is not None
            value = values[ask.confirms]
            recorder.completed(ask.number, value, {seed: value + seed % 2 for seed in ask.seeds})
    return asked


def test_the_best_are_run_again_on_seeds_after_those_of_the_search():
    study = searched(spec_of())
    assert held_out_seeds(study.spec) == (2, 3, 4, 5, 6)
    assert standing(study).n_unconfirmed == 3
    assert not standing(study).complete
    asked = confirm(study, {1: 18.0, 2: 21.0, 3: 26.0})
    assert {number for number, _ in asked} == {1, 2, 3}
    assert {seeds for _, seeds in asked} == {(2, 3, 4, 5, 6)}
    assert standing(study).complete
    assert confirm(study, {}) == []


def test_the_pick_is_worth_what_it_is_on_further_seeds():
    study = searched(spec_of())
    before = best(study)
    assert (before.trial, before.value) == (2, 30.0)
    confirm(study, {1: 18.0, 2: 29.0, 3: 22.0})
    pick = best(study)
    assert (pick.trial, pick.tuning_value) == (2, 30.0)
    assert pick.confirmed_by == verdict(study).confirmed[0].runs[-1].number
    assert pick.seed_values == {2: 29.0, 3: 30.0, 4: 29.0, 5: 30.0, 6: 29.0}
    assert pick.value == pytest.approx((29 + 29 + 30) / 3)
    assert "over 5 further seeds" in repr(pick)
    assert "over 5 further seeds that took no part in choosing it" in answer(study)
    assert "On the seeds of the search it was 30, which is within what seeds differ by." in answer(study)


def test_all_seeds_choose_among_the_finalists():
    study = searched(spec_of())
    confirm(study, {1: 18.0, 2: 25.0, 3: 26.0})  # of seven seeds the third is worth 26 to 27, the second 25 to 31
    assert best(study).trial == 3
    assert best(study).tuning_value == 25.0
    study = searched(spec_of(name="stays"))
    confirm(study, {1: 18.0, 2: 28.0, 3: 20.0})
    assert best(study).trial == 2


def test_a_flattered_pick_is_told_so():
    study = searched(spec_of(confirm=1, seeds=(0, 1, 2)))
    confirm(study, {2: 20.0})
    assert verdict(study).confirmed[0].bias == pytest.approx(30 - (20 + 21 + 21) / 3)
    assert "On the seeds of the search it was 30: choosing it flattered it by 9.333." in answer(study)


def test_where_all_finalists_are_defeated_the_one_that_is_better_is_confirmed_too():
    study = searched(spec_of(confirm=2, seeds=(0, 1, 2)), (500.0, 490.0, 480.0, 470.0))
    assert [number for number, _ in confirm(study, {0: 105.0, 1: 101.0})] == [0, 1]
    assert [trial.number for trial, _ in unconfirmed(study)] == [2], "the best of those that are left"
    assert not standing(study).complete
    assert [number for number, _ in confirm(study, {2: 470.0})] == [2]
    assert standing(study).complete
    assert best(study).trial == 2


def test_no_more_than_twice_as_many_as_asked_for_are_confirmed():
    study = searched(spec_of(confirm=1, seeds=(0, 1, 2)), (500.0, 490.0, 480.0, 470.0))
    confirm(study, {0: 10.0})
    assert [number for number, _ in confirm(study, {1: 10.0})] == [1]
    assert unconfirmed(study) == []
    assert "trial #2" in answer(study), "who looks better is told"


def test_who_is_level_is_judged_among_all_trials():
    study = searched(spec_of(confirm=1), (20.0, 20.4, 20.8, 20.2))
    tied = best(study).tied
    assert len(tied) == 3
    confirm(study, dict.fromkeys(range(4), 20.5))
    assert best(study).tied == tied
    assert best(study).probability_best < 0.9


def test_a_finalist_that_fails_on_further_seeds_is_not_picked():
    study = searched(spec_of())
    with Recorder(study) as recorder:
        while (ask := recorder.ask_confirmation()) is not None:
            if ask.confirms == 2:
                recorder.failed(ask.number, "it diverged.", diverged=True)
            else:
                recorder.completed(ask.number, 24.0, dict.fromkeys(ask.seeds, 24.0))
    assert best(study).trial == 3
    assert "On further seeds trial #2 failed: it diverged." in answer(study)


def test_a_finalist_that_failed_is_level_with_nobody_and_no_peak_of_the_curve():
    study = searched(spec_of(), (10.0, 20.0, 30.0, 29.5))
    with Recorder(study) as recorder:
        while (ask := recorder.ask_confirmation()) is not None:
            if ask.confirms == 3:
                recorder.failed(ask.number, "it diverged.", diverged=True)
            else:
                value = {2: 30.0, 1: 20.0}[ask.confirms or 0]
                recorder.completed(ask.number, value, {seed: value + seed % 2 for seed in ask.seeds})
    pick = best(study)
    assert (pick.trial, pick.tied) == (2, [])
    assert pick.rate is not None
    assert pick.rate.high < 10**-1.45


def test_a_trial_that_failed_and_was_tried_again_is_what_it_was_then():
    from studies.confirmation import left_behind

    study = open_study(spec_of())
    with Recorder(study) as recorder:
        for _ in range(4):
            ask = recorder.ask()
            assert ask is not None
            recorder.failed(ask.number, "the disk was full", diverged=True)
            recorder._failures = 0
    assert len(left_behind(study)) == 4
    with Recorder(study) as recorder:
        while (ask := recorder.ask()) is not None:
            recorder.completed(ask.number, 10.0, {0: 9.0, 1: 11.0})
    assert left_behind(study) == []


def test_all_finalists_may_fail_on_further_seeds():
    study = searched(spec_of(confirm=4))
    with Recorder(study) as recorder:
        while (ask := recorder.ask_confirmation()) is not None:
            recorder.failed(ask.number, "it diverged.", diverged=True)
    assert best(study).trial == 2
    assert "On further seeds trial #2 and 3 others failed: it diverged." in answer(study)


def test_a_finalist_is_not_handed_out_twice_when_another_is_interrupted():
    with Recorder(searched(spec_of())) as recorder:
        first, second = recorder.ask_confirmation(), recorder.ask_confirmation()
        assert first is not None
        assert second is not None
        recorder.interrupted(first.number)
        again, third = recorder.ask_confirmation(), recorder.ask_confirmation()
        assert again is not None
        assert third is not None
        assert again.confirms == first.confirms
        assert third.confirms not in (first.confirms, second.confirms)
        assert recorder.ask_confirmation() is None


def test_a_trial_that_waits_in_the_queue_is_not_taken_for_a_confirmation():
    study = searched(spec_of())
    study.study.enqueue_trial({"learning_rate": 5e-4})
    with Recorder(study) as recorder:
        ask = recorder.ask_confirmation()
        assert ask is not None
        assert (ask.confirms, ask.params["learning_rate"]) == (2, 1e-2)


def test_confirmations_are_no_trials_of_the_search(tmp_path: Any):
    storage = f"sqlite:///{tmp_path}/s.db"
    with searched(spec_of(storage=storage)) as study:
        confirm(study, {1: 18.0, 2: 21.0, 3: 26.0})
        assert [trial.number for trial in study.trials()] == [0, 1, 2, 3]
        assert len(study.confirmation_trials()) == 3
        assert len(study.all_trials()) == 7
        assert (standing(study).n_total, standing(study).n_ended) == (4, 4)
        text = write_report(study, tmp_path / "r.html").read_text()
        assert "The best, run again on 5 further seeds" in text
    (summary,) = list_studies(storage)
    assert (summary.n_trials, summary.n_ended, summary.best_value) == (4, 4, 30.0)
    # A longer plan goes on; who was confirmed stays so.
    rows = tuple({"learning_rate": rate} for rate in (1e-4, 1e-3, 1e-2, 1e-1, 1.0))
    longer = spec_of(storage=storage).model_copy(update={"trials": rows, "n_trials": 5})
    with open_study(longer) as study, Recorder(study) as recorder:
        assert recorder.n_left == 1
        ask = recorder.ask()
        assert ask is not None
        recorder.completed(ask.number, 40.0, {0: 39.0, 1: 41.0})
    with load_study(storage, "s") as study:
        assert [(trial.number, seeds) for trial, seeds in unconfirmed(study)] == [(7, (2, 3, 4, 5, 6))]


def test_what_was_interrupted_or_lost_is_confirmed_the_next_time_and_what_diverged_is_not():
    study = searched(spec_of())
    with Recorder(study) as recorder:
        first, second, third = (recorder.ask_confirmation() for _ in range(3))
        assert first is not None
        assert second is not None
        assert third is not None
        recorder.failed(second.number, "its process was killed (signal 9)")
        recorder.failed(third.number, "the loss became NaN", diverged=True)
        assert recorder.n_to_confirm() == 0, "what failed is tried again by the next run"
        recorder.interrupted(first.number)
        assert recorder.n_to_confirm() == 1
    assert set(verdict(study).refuted) == {third.confirms}
    asked = [number for number, _ in confirm(study, {1: 18.0, 2: 21.0, 3: 26.0})]
    assert set(asked) == {first.confirms, second.confirms}


def test_confirmations_are_never_pruned():
    study = searched(spec_of().model_copy(update={"pruner": "median", "pruner_kwargs": {"n_startup_trials": 1}}))
    with Recorder(study) as recorder:
        ask = recorder.ask_confirmation()
        assert ask is not None
        assert recorder.rung(500, {ask.number: {3: -1e9}}) == set()


@pytest.mark.parametrize("fields", [{"confirm": 0}, {"confirm": 3, "confirm_seeds": 2}])
def test_how_many_is_said_by_the_study(fields: dict[str, int]):
    study = searched(spec_of(**fields))
    asked = confirm(study, dict.fromkeys(range(4), 1.0))
    assert len(asked) == fields["confirm"]
    assert all(len(seeds) == fields.get("confirm_seeds") for _, seeds in asked)


def test_more_further_seeds_are_added_to_those_that_are_there(tmp_path: Any):
    storage = f"sqlite:///{tmp_path}/s.db"
    with searched(spec_of(storage=storage, confirm=1, confirm_seeds=2)) as study:
        assert confirm(study, {2: 29.0}) == [(2, (2, 3))]
    with open_study(spec_of(storage=storage, confirm=1, confirm_seeds=4)) as study:
        assert confirm(study, {2: 29.0}) == [(2, (4, 5))]
        assert set(best(study).seed_values) == {2, 3, 4, 5}


def test_one_trial_was_not_chosen_and_needs_no_confirmation():
    study = open_study(spec_of().model_copy(update={"trials": ({"learning_rate": 1e-3},), "n_trials": 1}))
    with Recorder(study) as recorder:
        ask = recorder.ask()
        assert ask is not None
        recorder.completed(ask.number, 1.0, {0: 0.0, 1: 2.0})
    assert standing(study).complete


@pytest.mark.parametrize("executor", ["inline", "population"])
def test_a_search_confirms_its_best_and_a_second_run_finds_nothing_left(tmp_path: Any, executor: str):
    options: dict[str, Any] = {
        "env_steps": 128, "seeds": 1, "storage": f"sqlite:///{tmp_path}/s.db", "executor": executor, "n_jobs": 1,
        "params": SMALL, "pruner": "none", "confirm": 2, "confirm_seeds": 2,
    }  # fmt: skip
    result = LRFinder("ppo", "CartPole-v1").grid(1e-3, 1e-1, 3, **options)
    runs = result.study.confirmation_trials()
    assert [set(trial.user_attrs["seed_values"]) for trial in runs] == [{"1", "2"}] * 2
    assert [trial.user_attrs["configuration"]["seeds"] for trial in runs] == [[1, 2]] * 2
    assert result.best.confirmed_by in (3, 4)
    again = LRFinder("ppo", "CartPole-v1").grid(1e-3, 1e-1, 3, **options)
    assert len(again.study.all_trials()) == 5


def test_a_confirmation_that_was_interrupted_goes_on_also_where_a_row_is_tried_again(tmp_path: Any):
    storage = f"sqlite:///{tmp_path}/s.db"
    study = searched(spec_of(storage=storage))
    recorder = Recorder(study)
    ask = recorder.ask_confirmation()
    assert ask is not None
    die(study)  # the next run finds a row that it tries again, and then the confirmation as it was
    failed = study.study._storage.create_new_trial(study.study._study_id, failed_row({"learning_rate": 0.1}))
    study.study._storage.set_trial_state_values(failed, TrialState.FAIL)
    rows = (*study.spec.trials, {"learning_rate": 0.1})
    longer = study.spec.model_copy(update={"trials": rows, "n_trials": len(rows)})
    with open_study(longer) as again, Recorder(again) as recorder:
        assert [trial.state for trial in again.confirmation_trials()] == [TrialState.WAITING]
        tried = recorder.ask()
        assert tried is not None
        assert tried.params["learning_rate"] == 0.1
        recorder.completed(tried.number, 0.0, {0: 0.0, 1: 0.0})
        goes_on = recorder.ask_confirmation()
        assert goes_on == ask


def failed_row(row: dict[str, float]) -> FrozenTrial:
    return create_trial(state=TrialState.RUNNING, system_attrs={"fixed_params": row})


def test_what_waits_to_confirm_a_finalist_that_is_none_any_more_is_given_up():
    study = searched(spec_of())
    with Recorder(study) as recorder:
        ask = recorder.ask_confirmation()
        assert ask is not None
        recorder.interrupted(ask.number)
    with Recorder(replace(study, spec=study.spec.model_copy(update={"confirm": 0}))):
        pass
    [left] = study.confirmation_trials()
    assert left.state == TrialState.FAIL
    assert "no finalist any more" in left.user_attrs["reason"]
