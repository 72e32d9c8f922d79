"""Opening, loading, replacing and extending studies."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
import pytest
from death import lease_to_another_process, simulate_crash
from episode_count import n_episodes
from optuna.trial import TrialState

from studies.adapters.pruners import make_pruner
from studies.analysis.listing import list_studies
from studies.coordination.lease_manager import STUDY
from studies.database.records import EpisodeRecord
from studies.errors import StudyError
from studies.recording.opening import join_study, open_study, rename_study
from studies.recording.recorder import Recorder
from studies.spec.attributes import is_interrupted
from studies.spec.spec import StudySpec
from studies.spec.stored_spec import SPEC_ATTR
from studies.storage.storage import StudyStorage, open_storage
from studies.study.study import load_study

Make = Callable[..., StudySpec]


class TestEveryStorage:
    def test_created_study_is_listed_and_loaded(self, storage: StudyStorage, make_spec: Make) -> None:
        spec = make_spec(params={"learning_rate": "1e-5:1e-1:log", "net": [[64], [32, 32]]})
        made = open_study(spec, storage)
        assert made.study.direction.name == "MAXIMIZE"
        loaded = load_study("a study", storage)
        assert loaded.spec == spec.model_copy(update={"storage": storage.label})
        (summary,) = list_studies(storage)
        assert (summary.name, summary.kind, summary.env, summary.n_trials) == ("a study", "tune", "CartPole-v1", 5)
        assert (summary.n_complete, summary.best_value, summary.started) == (0, None, None)

    def test_running_trials_of_a_dead_process_are_queued(self, storage: StudyStorage, make_spec: Make) -> None:
        study = open_study(make_spec(), storage)
        assert Recorder(study).ask() is not None
        simulate_crash(study)
        again = open_study(make_spec(), storage)
        Recorder(again).close()
        trials = again.trials()
        assert [(trial.state, is_interrupted(trial)) for trial in trials] == [(TrialState.WAITING, True)]

    def test_summary_counts_trials_by_state(self, storage: StudyStorage, make_spec: Make) -> None:
        with Recorder(open_study(make_spec(metric="loss", n_trials=9), storage)) as recorder:
            for value in (3.0, 1.0, 2.0):
                recorder.completed(recorder.ask().number, value)  # type: ignore[union-attr]
            recorder.pruned(recorder.ask().number, 100, 9.0)  # type: ignore[union-attr]
            recorder.failed(recorder.ask().number, "it broke")  # type: ignore[union-attr]
            recorder.ask()
            (summary,) = list_studies(storage)
            assert (summary.n_complete, summary.n_pruned, summary.n_failed, summary.n_running) == (3, 1, 1, 1)
            assert summary.best_value == 1.0
            assert summary.started is not None


RATES = [{"learning_rate": 1e-3}]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"params": {"learning_rate": "1e-4:1e-1:log"}},
            "the search space learning_rate=1e-5:0.1:log; now the search space learning_rate=0.0001:0.1:log is "
            "requested",
        ),
        (
            {"params": {"gamma": "0.9:0.99"}},
            "the search space learning_rate=1e-5:0.1:log and no search space of gamma; now no search space of "
            "learning_rate and the search space gamma=0.9:0.99 are requested",
        ),
        ({"env": "Acrobot-v1"}, "the environment CartPole-v1; now the environment Acrobot-v1 is requested"),
        ({"env_kwargs": {"x": 1}}, "no x for the environment; now x=1 for the environment is requested"),
        ({"agents": ("dqn",)}, "agents ['ppo']; now agents ['dqn'] are requested"),
        ({"agent_params": {"ppo": {"gamma": 0.5}}}, "ppo's gamma as usual; now ppo's gamma 0.5 is requested"),
        ({"agent_weights": {"ppo": "a1"}}, "new weights of ppo; now the weights a1 of ppo"),
        ({"metric": "loss"}, "the metric return; now the metric loss is requested"),
        ({"seeds": (0, 1)}, "seeds [0, 1, 2]; now seeds [0, 1] are requested"),
        ({"env_steps": 2000}, "1,000 environment steps; now 2,000 environment steps are requested"),
        ({"env_steps": None, "episodes": 9}, "1,000 environment steps; now 9 episodes are requested"),
        ({"fixed": {"tau": 0.1}}, "tau not fixed; now tau fixed to 0.1 is requested"),
        ({"kind": "lr"}, "the question tune; now the question lr is requested"),
        (
            {"seeds": (1,), "env_steps": 20},
            "seeds [0, 1, 2] and 1,000 environment steps; now seeds [1] and 20 environment steps are requested",
        ),
    ],
)
def test_different_study_of_the_same_name_raises(
    storage: StudyStorage, make_spec: Make, changes: dict[str, Any], message: str
) -> None:
    open_study(make_spec(), storage)
    open_study(make_spec(name="a study-2"), storage)
    with pytest.raises(StudyError) as error:
        open_study(make_spec(**changes), storage)
    assert f"the study 'a study' was made with {message}" in str(error.value)
    assert "--study-name 'a study-3'" in str(error.value)
    assert f"finder delete 'a study' --storage {storage.label}" in str(error.value)
    assert load_study("a study", storage).spec.params == make_spec().params


def test_error_names_only_the_differences(storage: StudyStorage, make_spec: Make) -> None:
    open_study(make_spec(params={"gamma": "0.9:0.99", "learning_rate": "1e-5:1e-1:log"}), storage)
    with pytest.raises(StudyError) as error:
        open_study(make_spec(params={"gamma": "0.9:0.99", "learning_rate": "1e-4:1e-1:log"}), storage)
    assert "learning_rate" in str(error.value)
    assert "0.0001" in str(error.value)
    assert "gamma" not in str(error.value)


class TestReplacing:
    NAME = "lr-ppo-CartPole-v1"

    @pytest.mark.parametrize("end", ["fail", "interrupt", "die"])
    def test_study_of_the_default_name_without_results_is_replaced(
        self, storage: StudyStorage, make_spec: Make, episode: Callable[..., EpisodeRecord], end: str
    ) -> None:
        spec = make_spec(name=self.NAME, kind="lr", trials=RATES)
        recorder = Recorder(open_study(spec, storage))
        number = recorder.ask().number  # type: ignore[union-attr]
        recorder.episodes(number, [episode()])
        if end != "die":
            recorder.failed(number, "it broke") if end == "fail" else recorder.interrupted(number)
            recorder.close()
        again = open_study(spec.model_copy(update={"seeds": (0,)}), storage)
        assert again.notes == (
            "The study lr-ppo-CartPole-v1 with seeds [0, 1, 2] had nothing to show: a new one takes its place.",
        )
        assert again.trials() == []
        assert n_episodes(storage, again.episodes_key) == 0
        assert load_study(self.NAME, storage).spec.seeds == (0,)

    @pytest.mark.parametrize("end", ["completed", "pruned"])
    def test_study_with_results_is_not_replaced(self, storage: StudyStorage, make_spec: Make, end: str) -> None:
        spec = make_spec(name=self.NAME, kind="lr", trials=RATES)
        with Recorder(open_study(spec, storage)) as recorder:
            number = recorder.ask().number  # type: ignore[union-attr]
            recorder.completed(number, 1.0) if end == "completed" else recorder.pruned(number, 10, 1.0)
        other = spec.model_copy(update={"seeds": (0,)})
        second = open_study(other, storage)
        assert second.name == f"{self.NAME}-2"
        assert second.notes == (
            "lr-ppo-CartPole-v1 was made with seeds [0, 1, 2], which is another question: this study is "
            "lr-ppo-CartPole-v1-2.",
        )
        with Recorder(second) as recorder:
            recorder.completed(recorder.ask().number, 1.0)  # type: ignore[union-attr]
        again = open_study(other, storage)
        assert (again.name, again.notes) == (second.name, ())
        assert open_study(spec, storage).name == self.NAME
        assert open_study(spec.model_copy(update={"seeds": (5,)}), storage).name == f"{self.NAME}-3"

    def test_resumable_study_is_not_replaced(self, storage: StudyStorage, make_spec: Make) -> None:
        spec = make_spec(name=self.NAME, kind="lr", trials=RATES)
        study = open_study(spec, storage)
        recorder = Recorder(study)
        recorder.report(recorder.ask().number, 100, 1.0)  # type: ignore[union-attr]
        simulate_crash(study)
        other = open_study(spec.model_copy(update={"seeds": (0,)}), storage)
        assert other.name == f"{self.NAME}-2"
        assert [trial.state for trial in open_study(spec, storage).trials()] == [TrialState.RUNNING]
        third = open_study(spec.model_copy(update={"seeds": (5,)}), storage)
        assert third.name == f"{self.NAME}-2"
        assert third.notes[-1].endswith("had nothing to show: a new one takes its place.")

    def test_running_study_is_not_replaced(self, storage: StudyStorage, make_spec: Make) -> None:
        spec = make_spec(name=self.NAME, kind="lr", trials=RATES)
        study = open_study(spec, storage)
        lease_to_another_process(study)
        with pytest.raises(StudyError, match="being run by process 1"):
            open_study(spec.model_copy(update={"seeds": (0,)}), storage)


class TestExtendedPlan:
    @pytest.mark.parametrize(
        ("first", "then"),
        [([1e-3], [1e-2]), ([1e-3, 3e-3], [1e-1]), ([1e-5, 1e-1], [1e-3]), ([1e-3, 1e-2], [1e-2, 1e-3])],
    )
    def test_further_rates_extend_the_plan(
        self, storage: StudyStorage, make_spec: Make, first: list[float], then: list[float]
    ) -> None:
        rows = [{"learning_rate": rate} for rate in first]
        more = [{"learning_rate": rate} for rate in then]
        with Recorder(open_study(make_spec(params={}, trials=rows), storage)) as recorder:
            recorder.completed(recorder.ask().number, 1.0)  # type: ignore[union-attr]
        study = open_study(make_spec(params={}, trials=more), storage)
        union = [*rows, *(row for row in more if row not in rows)]
        assert list(study.spec.trials) == union
        assert load_study("a study", storage).spec.n_trials == len(union)
        assert study.notes == (
            (f"The plan grows from {len(rows)} to {len(union)} trials.",) if len(union) > len(rows) else ()
        )
        with Recorder(study) as recorder:
            while (ask := recorder.ask()) is not None:
                recorder.completed(ask.number, 1.0)
        assert [study.params(trial) for trial in study.trials()] == union


def test_shorter_plan_keeps_all_planned_trials(storage: StudyStorage, make_spec: Make) -> None:
    rows = [{"learning_rate": rate} for rate in (1e-4, 1e-3, 1e-2)]
    open_study(make_spec(params={}, trials=rows), storage)
    study = open_study(make_spec(params={}, trials=rows[:1]), storage)
    assert list(study.spec.trials) == rows
    assert study.notes == ("The study has 2 more trials, planned before.",)


def test_changed_sampler_or_pruner_is_noted(storage: StudyStorage, make_spec: Make) -> None:
    open_study(make_spec(), storage)
    assert open_study(make_spec(), storage).notes == ()
    again = open_study(make_spec(sampler="random", pruner="median", pruner_kwargs={"n_startup_trials": 2}), storage)
    assert again.notes == (
        "From here on the sampler is random; until now it was tpe.",
        "From here on the scheduler is median(n_startup_trials=2); until now it was none.",
    )


def test_study_created_concurrently_is_joined(
    storage: StudyStorage, make_spec: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def create_concurrently(*args: Any) -> Any:
        monkeypatch.undo()
        open_study(make_spec(), storage).close()
        return make_pruner(*args)

    monkeypatch.setattr("studies.recording.opening.make_pruner", create_concurrently)
    with open_study(make_spec(n_trials=7), storage) as study:
        assert study.spec.n_trials == load_study("a study", storage).spec.n_trials == 7


@pytest.mark.slow
def test_settings_that_do_not_affect_trials_may_change(storage: StudyStorage, make_spec: Make) -> None:
    open_study(make_spec(), storage)
    changes = {"n_trials": 50, "sampler": "random", "pruner": "median", "n_jobs": 2, "executor": "inline", "seed": 3}
    assert load_study(open_study(make_spec(**changes), storage).name, storage).spec.n_trials == 50


def test_plan_may_extend_a_range_but_not_change_choices(storage: StudyStorage, make_spec: Make) -> None:
    rows = [{"optimizer": "adam", "x": 1.0}, {"optimizer": "sgd", "x": 2.0}]
    with Recorder(open_study(make_spec(params={}, trials=rows), storage)) as recorder:
        recorder.completed(recorder.ask().number, 1.0)  # type: ignore[union-attr]
    open_study(make_spec(params={}, trials=[*rows, {"optimizer": "adam", "x": 50.0}]), storage)
    with pytest.raises(StudyError, match=r"optimizer=adam,sgd; now .* optimizer=adam,sgd,lion is requested"):
        open_study(make_spec(params={}, trials=[*rows, {"optimizer": "lion", "x": 1.0}]), storage)


def test_differences_raise_before_plans_are_merged(storage: StudyStorage, make_spec: Make) -> None:
    old = [{"agent": "dqn"}, {"agent": "ppo"}]
    open_study(make_spec(params={}, agents=("dqn", "ppo"), trials=old), storage)
    with pytest.raises(StudyError, match=r"agents \['dqn', 'ppo'\]; now agents \['ppo', 'a2c'\] are requested"):
        open_study(make_spec(params={}, agents=("ppo", "a2c"), trials=[{"agent": "ppo"}, {"agent": "a2c"}]), storage)


def test_study_of_another_program_is_not_touched(storage: StudyStorage, make_spec: Make) -> None:
    foreign = optuna.create_study(study_name="a study", storage=storage.optuna, direction="maximize")
    foreign.add_trial(optuna.trial.create_trial(value=1.0))
    with pytest.raises(StudyError, match="not made by Finder"):
        open_study(make_spec(), storage)
    with pytest.raises(StudyError, match="not made by Finder"):
        load_study("a study", storage)
    assert list_studies(storage) == []
    assert SPEC_ATTR not in foreign.user_attrs


def test_study_without_spec_and_trials_is_taken_over(storage: StudyStorage, make_spec: Make) -> None:
    optuna.create_study(study_name="a study", storage=storage.optuna, direction="maximize")
    assert open_study(make_spec(), storage).name == "a study"


def test_unknown_study_suggests_the_nearest_name(storage: StudyStorage, make_spec: Make) -> None:
    open_study(make_spec(name="ppo-cartpole"), storage)
    with pytest.raises(StudyError, match=r"'ppo-cartpol'.*'ppo-cartpole'"):
        load_study("ppo-cartpol", storage)


def test_invalid_sampler_argument_creates_no_study(storage: StudyStorage, make_spec: Make) -> None:
    with pytest.raises(StudyError):
        open_study(make_spec(sampler_kwargs={"nonsense": 1}), storage)
    assert list_studies(storage) == []


def test_study_opened_by_url_owns_its_storage(tmp_path: Path, make_spec: Make) -> None:
    url = f"sqlite:///{tmp_path}/finder.db"
    with open_study(make_spec(storage=url)) as study:
        assert study.owns_storage
    with load_study("a study", url) as loaded:
        assert loaded.spec.storage == url
    assert [summary.name for summary in list_studies(url)] == ["a study"]
    path = tmp_path / "finder.db"
    with load_study("a study", path) as by_path:
        assert by_path.owns_storage
    assert [summary.name for summary in list_studies(path)] == ["a study"]
    with contextlib.closing(open_storage(path)) as opened:
        assert opened.url == url
    for call in (lambda: list_studies(f"{tmp_path}/typo.db"), lambda: load_study("a study", f"{tmp_path}/typo.db")):
        with pytest.raises(StudyError, match="there is no storage"):
            call()


def test_episodes_of_a_deleted_study_are_not_reused(
    storage: StudyStorage, make_spec: Make, episode: Callable[..., EpisodeRecord]
) -> None:
    with Recorder(open_study(make_spec(), storage)) as recorder:
        recorder.episodes(recorder.ask().number, [episode()])  # type: ignore[union-attr]
    optuna.delete_study(study_name="a study", storage=storage.optuna)
    again = open_study(make_spec(), storage)
    assert storage.episodes.curve(again.episodes_key, 0) == []


def test_renamed_study_keeps_its_episodes(
    storage: StudyStorage, make_spec: Make, episode: Callable[..., EpisodeRecord]
) -> None:
    study = open_study(make_spec(), storage)
    with Recorder(study) as recorder:
        recorder.episodes(recorder.ask().number, [episode()])  # type: ignore[union-attr]
    # As optuna-dashboard renames a study.
    renamed = optuna.create_study(study_name="renamed", storage=storage.optuna, direction="maximize")
    for key, value in study.study.user_attrs.items():
        renamed.set_user_attr(key, value)
    optuna.delete_study(study_name="a study", storage=storage.optuna)
    again = open_study(make_spec(), storage)
    assert storage.episodes.curve(again.episodes_key, 0) == []
    loaded = load_study("renamed", storage)
    assert storage.episodes.curve(loaded.episodes_key, 0) == [episode()]


def test_spec_of_a_renamed_study_has_its_present_name(storage: StudyStorage, make_spec: Make) -> None:
    with open_study(make_spec(), storage) as study:
        assert rename_study(storage, study.study._study_id, "renamed")
    assert load_study("renamed", storage).spec.name == "renamed"
    with join_study("renamed", storage) as joined:
        assert joined.spec.name == "renamed"
    with pytest.raises(StudyError, match=r"the study 'renamed' was made with seeds .*--study-name renamed-2"):
        open_study(make_spec(name="renamed", seeds=(5,)), storage)


@pytest.mark.real
@pytest.mark.parametrize("storage_url", ["mysql"], indirect=True)
def test_spec_that_is_too_long_for_mysql_raises_with_the_reason(storage: StudyStorage, make_spec: Make) -> None:
    rows = [{"learning_rate": 1e-6 * (number + 1)} for number in range(3_000)]
    with pytest.raises(StudyError, match=r"study 'a study' have [\d,]+ characters.*too long.*MEDIUMTEXT"):
        open_study(make_spec(params={}, trials=rows), storage)
    assert len(open_study(make_spec(params={}, trials=rows[:10]), storage).spec.trials) == 10


def test_password_is_not_stored_in_the_study(make_spec: Make) -> None:
    with open_storage("memory") as storage:
        storage.label = "postgresql://user:***@host/db"
        open_study(make_spec(storage="postgresql://user:secret@host/db"), storage)
        assert "secret" not in str(storage.optuna.get_all_studies()[0].user_attrs)


class TestStudyLease:
    def test_study_run_by_another_process_raises(self, storage: StudyStorage, make_spec: Make) -> None:
        lease_to_another_process(open_study(make_spec(), storage))
        with pytest.raises(StudyError, match="being run by process 1"):
            open_study(make_spec(), storage)

    def test_closed_recorder_holds_no_leases(self, storage: StudyStorage, make_spec: Make) -> None:
        study = open_study(make_spec(), storage)
        with Recorder(study) as recorder:
            ask = recorder.ask()
            assert ask is not None
            assert storage.leases.held(study.episodes_key).keys() == {STUDY, ask.number}
        assert storage.leases.held(study.episodes_key) == {}

    def test_recorder_of_a_loaded_study_raises(self, storage: StudyStorage, make_spec: Make) -> None:
        open_study(make_spec(), storage)
        with pytest.raises(StudyError, match="for reading only"):
            Recorder(load_study("a study", storage))


def test_range_tests_have_no_best_value(storage: StudyStorage, make_spec: Make) -> None:
    with Recorder(open_study(make_spec(kind="range-test", params={}, n_trials=1), storage)) as recorder:
        recorder.completed(recorder.ask().number, 1.5)  # type: ignore[union-attr]
    (summary,) = list_studies(storage)
    assert (summary.n_complete, summary.best_value) == (1, None)  # its value is the mean of its curve
