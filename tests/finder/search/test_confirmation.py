"""Tests of the confirmation of finalists on further seeds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import optuna
import pytest
from death import simulate_crash
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial
from sampler_packages import runnable, skip_without_package

from agents.contract.spec import AgentSpec
from finder import LRFinder, OptFinder
from finder.cli.commands.studies import studies as studies_command
from finder.search.object_resolver import with_stretched_schedules
from finder.trials.trial import TrialSpec
from studies import StudyError, load_study, open_study, write_report
from studies.analysis.conclusion import conclusion
from studies.analysis.listing import list_studies
from studies.analysis.recommendation import best
from studies.analysis.status import study_status
from studies.figures.learning_rate import plot_learning_rate
from studies.figures.optimizers import plot_optimizers
from studies.judging.confirmation import pruned_estimates, unconfirmed, verdict
from studies.judging.search_history import held_out_seeds
from studies.queue.trial_states import add_trial, requeue
from studies.recording.failure_streak import FailureStreak
from studies.recording.recorder import Recorder
from studies.reports.explanation import explain
from studies.servers.proxy import make_proxy
from studies.spec.attributes import CONFIRMS_ATTR, FailureKind
from studies.spec.spec import StudySpec
from studies.storage.storage import open_storage
from studies.study.study import OpenStudy

SMALL = {"n_envs": 1, "n_steps": 32, "batch_size": 16, "n_epochs": 1, "hidden_sizes": [4], "jit_compile": False}


def spec_of(**fields: Any) -> StudySpec:
    rows = tuple({"learning_rate": rate} for rate in (1e-4, 1e-3, 1e-2, 1e-1))
    given = {"name": "s", "storage": "memory", "agents": ("ppo",), "env": "CartPole-v1", "env_steps": 1000, **fields}
    return StudySpec(pruner="none", **{"trials": rows, "seeds": (0, 1), **given})


def searched(spec: StudySpec, values: tuple[float, ...] = (10.0, 20.0, 30.0, 25.0)) -> OpenStudy:
    """Return a study whose four trials have these values."""
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
    """Run the remaining confirmations with the values given for the trials that they confirm."""
    asked = []
    with Recorder(study) as recorder:
        while (ask := recorder.ask_confirmation()) is not None:
            asked.append((ask.confirms, ask.seeds))
            assert ask.confirms is not None
            value = values[ask.confirms]
            recorder.completed(ask.number, value, {seed: value + seed % 2 for seed in ask.seeds})
    return asked


def test_best_trials_are_confirmed_on_seeds_after_those_of_the_search():
    study = searched(spec_of())
    assert held_out_seeds(study.spec) == (2, 3, 4, 5, 6)
    assert study_status(study).n_unconfirmed == 3
    assert not study_status(study).complete
    asked = confirm(study, {1: 18.0, 2: 21.0, 3: 26.0})
    assert {number for number, _ in asked} == {1, 2, 3}
    assert {seeds for _, seeds in asked} == {(2, 3, 4, 5, 6)}
    assert study_status(study).complete
    assert confirm(study, {}) == []


def test_value_of_the_pick_is_that_on_further_seeds():
    study = searched(spec_of())
    before = best(study)
    assert (before.trial, before.value) == (2, 30.0)
    confirm(study, {1: 18.0, 2: 29.0, 3: 22.0})
    pick = best(study)
    assert (pick.trial, pick.tuning_value) == (2, 30.0)
    assert pick.confirmed_by == verdict(study).confirmed[0].runs[-1].number
    assert pick.seed_values == {2: 29.0, 3: 30.0, 4: 29.0, 5: 30.0, 6: 29.0}
    assert pick.value == pytest.approx(29.4)
    with pytest.raises(StudyError, match="has no complete trial 4: it confirms trial "):
        best(study, 4)
    assert "over 5 further seeds" in repr(pick)
    assert "confirmed over 5 further seeds" in conclusion(study).value
    explanation = explain(study)
    assert (
        "The 3 finalists were chosen by the seeds of the search alone, the pick among them by all seeds." in explanation
    )
    assert "Its value was 30 in the search and 29.4 on the further ones, which is within" in explanation


def test_finalists_are_compared_on_all_seeds():
    study = searched(spec_of())
    confirm(study, {1: 18.0, 2: 25.0, 3: 29.0})  # over all seven seeds the mean of trial 3 is higher
    assert best(study).trial == 3
    assert best(study).tuning_value == 25.0
    study = searched(spec_of(name="stays"))
    confirm(study, {1: 18.0, 2: 28.0, 3: 20.0})
    assert best(study).trial == 2


def test_overestimation_of_the_pick_is_reported():
    study = searched(spec_of(confirm=1, seeds=(0, 1, 2)))
    confirm(study, {2: 20.0})
    assert verdict(study).confirmed[0].bias == pytest.approx(30 - (20 + 21 + 20 + 21 + 21) / 5)
    means = "Its value was 30 in the search and 20.6 on the further ones"
    assert f"{means}: the search overestimated it by 9.4." in explain(study)


def test_optimizers_are_compared_on_all_seeds():
    rows = tuple({"optimizer": name} for name in ("adam", "adamw", "sgd"))
    study = searched(spec_of(kind="opt", trials=rows, seeds=(0, 1, 2), confirm=3), (100.0, 99.0, 10.0))
    assert "adam and adamw" in explain(study)
    confirm(study, {0: 100.0, 1: 20.0, 2: 10.0})
    assert conclusion(study).lines[2] == "safe: no other trial may be as good, with 95% confidence"
    assert "optimizer" not in explain(study)


def test_values_of_the_search_and_on_further_seeds_are_comparable():
    """Means of three and of five seeds estimate the same."""
    study = searched(spec_of(confirm=1, seeds=(0, 1, 2)))
    with Recorder(study) as recorder:
        ask = recorder.ask_confirmation()
        assert ask is not None
        values = dict(zip(ask.seeds, (0.0, 0.0, 50.0, 50.0, 50.0), strict=True))
        recorder.completed(ask.number, 33.3, values)
    [found] = verdict(study).confirmed
    assert (found.tuning.value, found.held_out.value) == (30.0, 30.0)
    assert found.bias == 0.0
    assert not found.beyond_noise


def test_trial_that_beats_all_confirmed_finalists_is_confirmed_too():
    study = searched(spec_of(confirm=2, seeds=(0, 1, 2)), (500.0, 490.0, 480.0, 470.0))
    assert [number for number, _ in confirm(study, {0: 105.0, 1: 101.0})] == [0, 1]
    assert [trial.number for trial, _ in unconfirmed(study)] == [2], "the best remaining trial must be next"
    assert not study_status(study).complete
    assert [number for number, _ in confirm(study, {2: 470.0})] == [2]
    assert study_status(study).complete
    assert best(study).trial == 2


def test_at_most_twice_the_requested_number_is_confirmed():
    study = searched(spec_of(confirm=1, seeds=(0, 1, 2)), (500.0, 490.0, 480.0, 470.0))
    confirm(study, {0: 10.0})
    assert [number for number, _ in confirm(study, {1: 10.0})] == [1]
    assert unconfirmed(study) == []
    assert "trial #2" in conclusion(study).certainty, "the conclusion must name the trial with the higher value"


def test_ties_are_determined_among_all_trials():
    study = searched(spec_of(confirm=1), (20.0, 20.4, 20.8, 20.2))
    tied = best(study).tied
    assert len(tied) == 3
    confirm(study, dict.fromkeys(range(4), 20.5))
    assert best(study).tied == tied
    assert best(study).probability_best < 0.9


def test_finalist_that_fails_on_further_seeds_is_not_picked():
    study = searched(spec_of())
    with Recorder(study) as recorder:
        while (ask := recorder.ask_confirmation()) is not None:
            if ask.confirms == 2:
                recorder.failed(ask.number, "it diverged.", diverged=True)
            else:
                recorder.completed(ask.number, 24.0, dict.fromkeys(ask.seeds, 24.0))
    assert best(study).trial == 3
    assert "On further seeds trial #2 failed: it diverged." in explain(study)


def test_failed_finalist_is_excluded_from_ties_and_from_the_rate_curve():
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


def test_retried_trial_counts_with_its_last_outcome():
    study = open_study(spec_of())
    with Recorder(study) as recorder:
        for _ in range(4):
            ask = recorder.ask()
            assert ask is not None
            recorder.failed(ask.number, "the disk was full", diverged=True)
            recorder._failures = FailureStreak()
    assert len(pruned_estimates(study)) == 4
    for row in study.spec.trials:  # a user queues them again, as in the dashboard
        study.study.enqueue_trial(row)
    with Recorder(study) as recorder:
        while (ask := recorder.ask()) is not None:
            recorder.completed(ask.number, 10.0, {0: 9.0, 1: 11.0})
    assert pruned_estimates(study) == []


def test_only_a_divergence_is_evidence_about_neighbouring_rates():
    found = {}
    kinds: tuple[FailureKind, ...] = ("killed", "environment", "hung", "error", "diverged")
    for name in kinds:
        study = open_study(spec_of(name=name, confirm=0))
        with Recorder(study) as recorder:
            for value in (10.0, 20.0, 30.0, None):
                ask = recorder.ask()
                assert ask is not None
                if value is None:
                    recorder.failed(ask.number, "the reason", kind=name)
                else:
                    recorder.completed(ask.number, value, {0: value - 1, 1: value + 1})
        found[name] = best(study).rate
    seen = {name: None if rate is None else (rate.highest, rate.edge) for name, rate in found.items()}
    assert seen == {name: (1e-1, "") if name == "diverged" else (1e-2, "highest") for name in kinds}


def test_pruned_trial_is_estimated_from_later_gains_of_its_optimizer():
    rows = tuple({"optimizer": name, "learning_rate": rate} for name in ("adam", "sgd") for rate in (1e-3, 1e-2, 1e-1))
    gains = {"adam": 300.0, "sgd": 5.0}
    for kinds in (("adam", "sgd"), ("adam",)):
        study = open_study(
            spec_of(name="-".join(kinds), kind="opt", confirm=0).model_copy(
                update={"trials": rows, "n_trials": len(rows), "params": {}}
            )
        )
        with Recorder(study) as recorder:
            for row in rows:
                ask = recorder.ask()
                assert ask is not None
                assert ask.params == row
                early = 40.0 if row["optimizer"] == "adam" else 20.0 + 10 * row["learning_rate"]
                recorder.report(ask.number, 500, early)
                if row["optimizer"] in kinds and row["learning_rate"] < 0.1:
                    end = early + gains[row["optimizer"]]
                    recorder.completed(ask.number, end, {0: end - 1, 1: end + 1})
                else:
                    recorder.pruned(ask.number, 500, early, {0: early - 1, 1: early + 1})
        pruned = {(each.params["optimizer"], each.params["learning_rate"]): each for each in pruned_estimates(study)}
        slow = pruned["sgd", 1e-1]
        if "sgd" in kinds:
            assert slow.value == pytest.approx(21 + 5)
        else:  # the later gain of SGD is unknown: anything from zero to that of Adam
            assert slow.value == pytest.approx(21)
            assert slow.error >= 300


def test_pick_remains_when_all_finalists_fail_on_further_seeds():
    study = searched(spec_of(confirm=4))
    with Recorder(study) as recorder:
        while (ask := recorder.ask_confirmation()) is not None:
            recorder.failed(ask.number, "it diverged.", diverged=True)
    assert best(study).trial == 2
    assert "On further seeds trial #2 and 3 others failed: it diverged." in explain(study)


def test_finalist_is_not_assigned_twice_after_an_interruption():
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


def test_running_confirmations_are_listed(capsys: pytest.CaptureFixture[str], tmp_path: Any):
    storage = f"sqlite:///{tmp_path}/s.db"
    with searched(spec_of(storage=storage)) as study, Recorder(study) as recorder:
        first, _ = recorder.ask_confirmation(), recorder.ask_confirmation()
        recorder.completed(first.number, 18.0, dict.fromkeys(range(2, 7), 18.0))
        (summary,) = list_studies(storage)
        assert (summary.n_ended, summary.n_running, summary.n_confirmed, summary.n_confirming) == (4, 0, 1, 1)
        studies_command(storage)
        assert "4/4, 1 confirming" in capsys.readouterr().out


def test_queued_trial_is_not_taken_for_a_confirmation():
    study = searched(spec_of())
    study.study.enqueue_trial({"learning_rate": 5e-4})
    with Recorder(study) as recorder:
        ask = recorder.ask_confirmation()
        assert ask is not None
        assert (ask.confirms, ask.params["learning_rate"]) == (2, 1e-2)


@pytest.mark.slow
def test_confirmations_are_not_trials_of_the_search(tmp_path: Any):
    storage = f"sqlite:///{tmp_path}/s.db"
    with searched(spec_of(storage=storage)) as study:
        confirm(study, {1: 18.0, 2: 21.0, 3: 26.0})
        assert [trial.number for trial in study.trials()] == [0, 1, 2, 3]
        assert len(study.confirmation_trials()) == 3
        assert len(study.all_trials()) == 7
        assert (study_status(study).n_total, study_status(study).n_ended) == (4, 4)
        text = write_report(study, tmp_path / "r.html").read_text()
        assert "The best, run again on 5 further seeds" in text
    (summary,) = list_studies(storage)
    assert (summary.n_trials, summary.n_ended, summary.best_value) == (4, 4, 30.0)
    assert (summary.n_confirmed, summary.n_confirming) == (3, 0)
    # A longer plan resumes; confirmed trials stay confirmed.
    rows = tuple({"learning_rate": rate} for rate in (1e-4, 1e-3, 1e-2, 1e-1, 1.0))
    longer = spec_of(storage=storage).model_copy(update={"trials": rows, "n_trials": 5})
    with open_study(longer) as study, Recorder(study) as recorder:
        assert recorder.queue.n_left == 1
        ask = recorder.ask()
        assert ask is not None
        recorder.completed(ask.number, 40.0, {0: 39.0, 1: 41.0})
    with load_study("s", storage) as study:
        assert [(trial.number, seeds) for trial, seeds in unconfirmed(study)] == [(7, (2, 3, 4, 5, 6))]


def test_interrupted_confirmations_are_repeated_and_diverged_ones_are_not():
    study = searched(spec_of())
    with Recorder(study) as recorder:
        first, second, third = (recorder.ask_confirmation() for _ in range(3))
        assert first is not None
        assert second is not None
        assert third is not None
        recorder.failed(second.number, "its process was killed (signal 9)")
        recorder.failed(third.number, "the loss became NaN", diverged=True)
        assert len(recorder.to_confirm()) == 0, "the next run must retry failed trials"
        recorder.interrupted(first.number)
        assert len(recorder.to_confirm()) == 1
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
def test_study_sets_the_number_of_confirmations(fields: dict[str, int]):
    study = searched(spec_of(**fields))
    asked = confirm(study, dict.fromkeys(range(4), 1.0))
    assert len(asked) == fields["confirm"]
    assert all(len(seeds) == fields.get("confirm_seeds") for _, seeds in asked)


def test_more_confirmation_seeds_are_added_to_the_existing_ones(tmp_path: Any):
    storage = f"sqlite:///{tmp_path}/s.db"
    with searched(spec_of(storage=storage, confirm=1, confirm_seeds=2)) as study:
        assert confirm(study, {2: 29.0}) == [(2, (2, 3))]
    with open_study(spec_of(storage=storage, confirm=1, confirm_seeds=4)) as study:
        assert confirm(study, {2: 29.0}) == [(2, (4, 5))]
        assert set(best(study).seed_values) == {2, 3, 4, 5}


def test_longer_runs_confirm_and_choose_alone():
    study = searched(spec_of(confirm=2, confirm_seeds=2, confirm_env_steps=3000))
    confirm(study, {2: 50.0, 3: 60.0})
    pick = best(study)
    assert (pick.trial, pick.value, pick.tuning_value, pick.value_env_steps) == (3, 60.5, 25.0, 3000)
    assert pick.tied == [2]
    assert conclusion(study).value.startswith(
        "return 60.5 ± 0.7 confirmed over 2 further seeds in runs of 3,000 environ"
    )
    assert "in the search" not in conclusion(study).value
    explanation = explain(study)
    assert "over the last part of training, 3,000 environment steps each." in explanation
    assert "The 2 finalists were chosen by the search, the pick among them by their further runs alone." in explanation
    assert "In the shorter runs of the search its value was 25." in explanation
    assert study_status(study).complete


def test_schedules_are_stretched_in_longer_runs_that_confirm(monkeypatch: pytest.MonkeyPatch) -> None:
    specs: list[Any] = []
    monkeypatch.setattr("finder.search.search.TrialSpec", lambda **fields: specs.append(fields) or TrialSpec(**fields))
    finder = OptFinder(
        AgentSpec.of("ppo", "CartPole-v1", SMALL), ["adam(CosineDecay(0.01, 40))", "sgd(CosineDecay(0.01, 20))"]
    )
    finder.find(
        env_steps=128, seeds=1, confirm=2, confirm_seeds=1, confirm_env_steps=384, storage=None, executor="inline",
        pruner="none", progress=False,
    )  # fmt: skip
    steps = [each["agent"].config.learning_rate["config"]["decay_steps"] for each in specs]
    budgets = [each["env_steps"] for each in specs]
    assert sorted(zip(budgets, steps, strict=True)) == [(128, 20), (128, 40), (384, 60), (384, 120)]


def test_schedules_of_agents_with_a_replay_are_stretched_by_their_gradient_steps() -> None:
    params = {"learning_starts": 64, "optimizer": "adam(CosineDecay(0.01, 64))"}
    agent = AgentSpec.of("dqn", "CartPole-v1", params)
    longer = with_stretched_schedules(agent, 128, 256)
    assert longer.config.learning_rate["config"]["decay_steps"] == 192  # all but the first 64
    assert with_stretched_schedules(agent, 128, 128) is agent
    assert with_stretched_schedules(agent, None, 256) is agent


def test_one_longer_run_of_each_finalist_is_not_safe():
    study = searched(spec_of(confirm=2, confirm_seeds=1, confirm_env_steps=3000))
    confirm(study, {2: 50.0, 3: 60.0})
    found = conclusion(study)
    assert found.lines[2] == "not safe: each finalist has 1 further seed, which cannot exclude luck"
    assert found.reasons[0].remedy is not None
    assert found.reasons[0].remedy.options == {"confirm_seeds": 3, "confirm_env_steps": 3000}  # as they are now
    assert best(study).trial == 3


def test_confirmations_of_another_length_are_left_out(tmp_path: Any):
    storage = f"sqlite:///{tmp_path}/s.db"
    fields: dict[str, Any] = {"storage": storage, "confirm": 2, "confirm_seeds": 1}
    with searched(spec_of(**fields)) as study:
        confirm(study, {2: 50.0, 3: 10.0})
        assert best(study).value == 50.0
    with open_study(spec_of(**fields, confirm_env_steps=3000)) as study:
        assert not study_status(study).complete
        recorder = Recorder(study)
        assert recorder.ask_confirmation() is not None
        simulate_crash(study)  # this one waits, and is ended as there are no such runs any more
    with open_study(spec_of(**fields, confirm_env_steps=4000)) as study:
        assert confirm(study, {2: 20.0, 3: 60.0}) == [(2, (2,)), (3, (2,))]
        assert [trial.state for trial in study.confirmation_trials()].count(TrialState.FAIL) == 1
        assert (best(study).trial, best(study).value) == (3, 60.0)
    with open_study(spec_of(**fields)) as study:  # what is not given remains
        assert (study.spec.confirm_env_steps, best(study).trial, confirm(study, {})) == (4000, 3, [])
    with open_study(spec_of(**fields, confirm_env_steps=1000)) as study:  # those of the first call count again
        [note] = study.notes
        assert note.startswith(
            "From here on finalists have runs of 1,000 environment steps; until now they had runs of 4,"
        )
        assert confirm(study, {}) == []
        assert (best(study).trial, best(study).value) == (2, 50.0)


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["inline", "population"])
def test_search_trains_finalists_longer(executor: str):
    result = LRFinder("ppo", "CartPole-v1").grid(
        1e-3, 1e-1, 3, env_steps=128, seeds=1, storage=None, executor=executor, n_jobs=1, fixed=SMALL, pruner="none",
        confirm=2, confirm_seeds=2, confirm_env_steps=320,
    )  # fmt: skip
    assert [trial.user_attrs["env_steps"] for trial in result.study.trials()] == [128, 128, 128]
    assert [trial.user_attrs["env_steps"] for trial in result.study.confirmation_trials()] == [320, 320]
    assert all((trial.last_step or 0) > 256 for trial in result.study.confirmation_trials())
    assert result.best.value_env_steps == 320


ONLY_ONE = "only one of the best trials came to the end of the "


@pytest.mark.parametrize(
    ("given", "tried", "text", "remedy"),
    [
        (
            {"confirm": 1, "confirm_env_steps": 3000},
            [2],
            "only one trial was confirmed",
            {"confirm": 2, "confirm_env_steps": 3000},
        ),
        ({"confirm": 1, "seeds": (0,)}, [2], "only one trial was confirmed", {"confirm": 2}),
        ({"confirm": 2, "confirm_env_steps": 3000}, [2, 3, 1, 0], f"{ONLY_ONE}longer runs", None),
        ({"confirm": 2, "seeds": (0,)}, [2, 3, 1, 0], f"{ONLY_ONE}runs on further seeds", None),
    ],
)
def test_finalist_without_rival_is_not_safe(given: Any, tried: list[int], text: str, remedy: Any):
    study = searched(spec_of(**{"confirm_seeds": 3, "seeds": (0, 1, 2), **given}))
    asked = []
    with Recorder(study) as recorder:
        while recorder.to_confirm():  # the next best replace those that diverge
            ask = recorder.ask_confirmation()
            assert ask is not None
            asked.append(ask.confirms)
            if ask.confirms == 2:
                recorder.completed(ask.number, 50.0, dict.fromkeys(ask.seeds, 50.0))
            else:
                recorder.failed(ask.number, "NaN", diverged=True)
    assert sorted(asked[:2]) == sorted(tried[:2])
    assert asked[2:] == tried[2:]
    found = conclusion(study)
    assert found.lines[2] == f"not safe: {text}, so there is nothing to compare it with"
    own = found.reasons[0].remedy
    assert (None if own is None else own.options) == remedy


def test_values_of_longer_runs_have_their_own_bounds():
    study = searched(spec_of(metric="steps-to:100", confirm=2, confirm_seeds=3, confirm_env_steps=3000))
    confirm(study, {0: 2400.0, 1: 2900.0})
    pick = best(study)
    assert pick.value < pick.high <= 3000
    assert all(each.high <= 1000 for each in verdict(study).tuning)


@pytest.mark.parametrize("seeds", [(0,), (0, 1)])
def test_report_compares_trials_of_several_seeds_only(tmp_path: Any, seeds: tuple[int, ...]):
    study = searched(spec_of(kind="lr", seeds=seeds, confirm=2, confirm_seeds=3))
    confirm(study, {2: 50.0, 3: 60.0})
    page = write_report(study, tmp_path / "report.html").read_text()
    assert ("beats the pick" in page) == (len(seeds) > 1)
    assert ("Complete trials in the search" in page) == (len(seeds) == 1)
    assert "The best, run again on 3 further seeds" in page


def test_report_and_figures_name_the_longer_runs(tmp_path: Any):
    study = searched(spec_of(kind="lr", confirm=2, confirm_seeds=2, confirm_env_steps=3000))
    confirm(study, {2: 50.0, 3: 60.0})
    page = write_report(study, tmp_path / "report.html").read_text()
    assert "The best, run again on 2 further seeds, 3,000 environment steps each" in page
    assert "Complete trials in the search, 1,000 environment steps" in page
    assert ">optimism</th>" not in page
    for figure in (plot_learning_rate(study), plot_optimizers(study)):
        assert "further seeds, 3,000 steps, 95% interval" in {trace.name for trace in figure.data}


def test_seeds_of_the_search_tell_rates_apart_that_were_not_run_longer():
    study = searched(spec_of(seeds=(0, 1, 2), confirm=2, confirm_seeds=2, confirm_env_steps=3000), (1, 100, 99, 2))
    confirm(study, {1: 200.0, 2: 201.0})
    found = verdict(study)
    assert [each.clearly_worse for each in found.estimated] == [True, True]
    assert found.rate is not None
    assert found.rate.told_apart


def test_interval_of_the_rate_contains_all_tied_finalists():
    study = searched(spec_of(confirm=2, confirm_seeds=3, confirm_env_steps=3000))
    confirm(study, {2: 50.0, 3: 50.0})
    rate = verdict(study).rate
    assert rate is not None
    assert rate.low <= 1e-2
    assert rate.high >= 1e-1


def test_planned_runs_of_finalists_are_long_enough_before_they_began():
    study = searched(spec_of(confirm=2, confirm_env_steps=12_000, horizon=40_000))
    reasons = [reason.text for reason in conclusion(study).reasons]
    assert not any("too short" in text for text in reasons)
    assert any("not confirmed" in text for text in reasons)


def test_remedies_lengthen_the_runs_that_decide():
    spec = spec_of(confirm=2, confirm_seeds=2, confirm_env_steps=3000, horizon=40_000)
    study = searched(spec)
    confirm(study, {2: 50.0, 3: 60.0})
    short = next(each for each in conclusion(study).reasons if "too short" in each.text)
    assert short.text == "runs of 3,000 environment steps are too short to predict one of 40,000"
    assert short.remedy is not None
    assert (short.remedy.options, short.remedy.joins) == ({"confirm_env_steps": 10_000}, True)


def test_single_trial_needs_no_confirmation():
    study = open_study(spec_of().model_copy(update={"trials": ({"learning_rate": 1e-3},), "n_trials": 1}))
    with Recorder(study) as recorder:
        ask = recorder.ask()
        assert ask is not None
        recorder.completed(ask.number, 1.0, {0: 0.0, 1: 2.0})
    assert study_status(study).complete


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["inline", "population"])
def test_search_confirms_its_best_and_a_second_run_adds_nothing(tmp_path: Any, executor: str):
    options: dict[str, Any] = {
        "env_steps": 128, "seeds": 1, "storage": f"sqlite:///{tmp_path}/s.db", "executor": executor, "n_jobs": 1,
        "fixed": SMALL, "pruner": "none", "confirm": 2, "confirm_seeds": 2,
    }  # fmt: skip
    result = LRFinder("ppo", "CartPole-v1").grid(1e-3, 1e-1, 3, **options)
    runs = result.study.confirmation_trials()
    assert [set(trial.user_attrs["seed_values"]) for trial in runs] == [{"1", "2"}] * 2
    assert [trial.user_attrs["configuration"]["seeds"] for trial in runs] == [[1, 2]] * 2
    assert result.best.confirmed_by in (3, 4)
    again = LRFinder("ppo", "CartPole-v1").grid(1e-3, 1e-1, 3, **options)
    assert len(again.study.all_trials()) == 5


def test_interrupted_confirmation_resumes_after_a_retried_row(tmp_path: Any):
    storage = f"sqlite:///{tmp_path}/s.db"
    study = searched(spec_of(storage=storage))
    recorder = Recorder(study)
    ask = recorder.ask_confirmation()
    assert ask is not None
    simulate_crash(study)  # the next run retries a failed row and then resumes the confirmation
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
        resumed = recorder.ask_confirmation()
        assert resumed == ask


class TestOptunaRanking:
    """Optuna's own ranking of a study excludes confirmations."""

    @pytest.mark.parametrize("kind", ["memory", "sqlite", "journal"])
    def test_confirmation_is_never_the_best_trial(self, tmp_path: Any, kind: str):
        url = {"memory": "memory", "sqlite": f"sqlite:///{tmp_path}/s.db", "journal": f"journal:///{tmp_path}/s.log"}
        study = searched(spec_of(storage=url[kind]))
        confirm(study, {1: 18.0, 2: 99.0, 3: 26.0})
        assert max(trial.value for trial in study.all_trials()) > 90
        plain = optuna.load_study(study_name="s", storage=study.storage.optuna)
        assert (plain.best_trial.number, plain.best_value) == (2, 30.0)
        assert [trial.number for trial in plain.best_trials] == [2]

    @pytest.mark.real
    @pytest.mark.parametrize("sampler", runnable(["random", "tpe", "cmaes", "gp", "nsgaii"]))
    def test_confirmation_is_excluded_through_a_grpc_proxy(self, tmp_path: Any, sampler: str):
        """Constraints are system attributes, which a proxy passes on: proposals and best trial are the same."""
        skip_without_package(sampler)
        found = []
        with open_storage(f"sqlite:///{tmp_path}/served.db") as behind:
            server, port = make_proxy(behind, "127.0.0.1", 0)
            server.start()
            try:
                for url in ("memory", f"grpc://127.0.0.1:{port}"):
                    with open_storage(url) as storage:
                        study = open_study(sampled(sampler, n_trials=12), storage)
                        asked = run_remaining(study)
                        confirm(study, {trial.number: 100.0 for trial in study.trials()})
                        study.close()
                        with open_study(sampled(sampler, n_trials=15), storage) as again:
                            asked += run_remaining(again)
                            best_trial = again.study.best_trial
                            assert CONFIRMS_ATTR not in best_trial.user_attrs
                            found.append((asked, best_trial.number))
            finally:
                server.stop(grace=1).wait()
        assert found[0] == found[1]

    def test_resumed_confirmation_of_an_earlier_version_is_excluded(self):
        study = searched(spec_of())
        interrupted = unmarked(study, confirms=2)
        requeue(study.study, interrupted._trial_id)
        confirm(study, {1: 18.0, 2: 99.0, 3: 26.0})
        assert {trial.number for trial in study.confirmation_trials()} >= {interrupted.number}
        assert study.study.best_trial.number == 2

    def test_study_of_an_earlier_version_is_ranked_and_resumes(self):
        study = searched(spec_of(confirm=2))
        ended = unmarked(study, confirms=2)
        for name, value in (("seed_values", dict.fromkeys("23456", 99.0)), ("configuration", {"agent": "ppo"})):
            ended.set_user_attr(name, value)
        study.study.tell(ended, 99.0)
        assert best(study).trial == 2
        assert best(study).value == 99.0
        assert [trial.number for trial, _ in unconfirmed(study)] == [3]
        assert [number for number, _ in confirm(study, {3: 26.0})] == [3]
        assert study_status(study).complete

    @pytest.mark.parametrize("sampler", runnable(["tpe", "cmaes", "gp", "nsgaii"]))
    def test_confirmations_do_not_change_proposals_of_samplers(self, sampler: str):
        """Optuna's samplers rank excluded trials last, or reject studies that have some."""
        skip_without_package(sampler)
        further = {}
        for confirmed in (False, True):
            study = open_study(sampled(sampler, n_trials=12))
            run_remaining(study)
            numbers = [trial.number for trial in study.all_trials()]
            if confirmed:
                confirm(study, dict.fromkeys(numbers, 100.0))
            else:  # the number of a trial is the seed of its proposal
                for _ in range(study.spec.confirm):
                    study.study.add_trial(create_trial(state=TrialState.FAIL))
            with open_study(sampled(sampler, n_trials=16 if confirmed else 19), study.storage) as again:
                further[confirmed] = [params for number, params in run_remaining(again) if number not in numbers][:4]
        assert further[True] == further[False]


def sampled(sampler: str, n_trials: int) -> StudySpec:
    params = {"learning_rate": "1e-5:1e-1:log", "gamma": "0.9:0.999"}
    return StudySpec(
        name="s", storage="memory", agents=("ppo",), env="CartPole-v1", env_steps=1000, params=params, sampler=sampler,
        n_trials=n_trials, pruner="none", seeds=(0, 1), confirm=3,
    )  # fmt: skip


def run_remaining(study: OpenStudy) -> list[tuple[int, dict[str, Any]]]:
    """Run the remaining trials of the search; low learning rates are good."""
    asked = []
    with Recorder(study) as recorder:
        while (ask := recorder.ask()) is not None:
            asked.append((ask.number, dict(ask.params)))
            value = -float(ask.params["learning_rate"])
            recorder.completed(ask.number, value, {0: value, 1: value})
    return asked


def unmarked(study: OpenStudy, confirms: int) -> Trial:
    """Return a running confirmation as created by earlier versions: Optuna took it for an ordinary trial."""
    finalist = study.trials()[confirms]
    template = create_trial(
        state=TrialState.RUNNING, params=finalist.params, distributions=finalist.distributions,
        user_attrs={"confirms": confirms},
    )  # fmt: skip
    return Trial(study.study, add_trial(study.study, template)._trial_id)


def failed_row(row: dict[str, float]) -> FrozenTrial:
    return create_trial(state=TrialState.RUNNING, system_attrs={"fixed_params": row})


def test_queued_confirmation_of_a_former_finalist_is_abandoned():
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
