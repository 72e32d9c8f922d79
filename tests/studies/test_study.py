from __future__ import annotations

import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.trial import TrialState

from studies.errors import StudyError
from studies.lease import is_running_elsewhere, sign_of_life
from studies.recorder import Recorder
from studies.records import EpisodeRecord
from studies.spec import StudySpec
from studies.storage import StudyStorage, open_storage
from studies.study import RUNNER_ATTR, SPEC_ATTR, list_studies, load_study, open_study

Make = Callable[..., StudySpec]


class TestEveryStorage:
    def test_a_study_is_made_and_found_again(self, storage: StudyStorage, make_spec: Make) -> None:
        spec = make_spec(params={"learning_rate": "1e-5:1e-1:log", "net": [[64], [32, 32]]})
        made = open_study(spec, storage)
        assert made.study.direction.name == "MAXIMIZE"
        loaded = load_study(storage, "a study")
        assert loaded.spec == spec.model_copy(update={"storage": storage.label})
        (summary,) = list_studies(storage)
        assert (summary.name, summary.kind, summary.env, summary.n_trials) == ("a study", "tune", "CartPole-v1", 5)
        assert (summary.n_complete, summary.best_value, summary.started) == (0, None, None)

    def test_trials_left_running_are_interrupted(self, storage: StudyStorage, make_spec: Make) -> None:
        recorder = Recorder(open_study(make_spec(), storage))
        ask = recorder.ask()
        assert ask is not None
        # The process dies here: no close.
        trials = open_study(make_spec(), storage).trials()
        assert [(trial.state, trial.user_attrs["reason"]) for trial in trials] == [(TrialState.FAIL, "interrupted")]

    def test_summaries_count_states_apart(self, storage: StudyStorage, make_spec: Make) -> None:
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


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("params", {"params": {"learning_rate": "1e-4:1e-1:log"}}),
        ("params", {"params": {"gamma": "0.9:0.99"}}),
        ("env", {"env": "Acrobot-v1"}),
        ("env_kwargs", {"env_kwargs": {"x": 1}}),
        ("agents", {"agents": ("dqn",)}),
        ("metric", {"metric": "loss"}),
        ("seeds", {"seeds": (0, 1)}),
        ("env_steps", {"env_steps": 2000}),
        ("env_steps", {"env_steps": None, "episodes": 1000}),
        ("fixed", {"fixed": {"tau": 0.1}}),
        ("kind", {"kind": "lr"}),
    ],
)
def test_another_study_of_the_same_name_is_refused(
    storage: StudyStorage, make_spec: Make, field: str, changes: dict[str, Any]
) -> None:
    open_study(make_spec(), storage)
    with pytest.raises(StudyError) as error:
        open_study(make_spec(**changes), storage)
    assert f"another {field}" in str(error.value)
    assert "new name" in str(error.value)
    assert load_study(storage, "a study").spec.params == make_spec().params


def test_the_message_shows_only_what_differs(storage: StudyStorage, make_spec: Make) -> None:
    open_study(make_spec(params={"gamma": "0.9:0.99", "learning_rate": "1e-5:1e-1:log"}), storage)
    with pytest.raises(StudyError) as error:
        open_study(make_spec(params={"gamma": "0.9:0.99", "learning_rate": "1e-4:1e-1:log"}), storage)
    assert "learning_rate" in str(error.value)
    assert "0.0001" in str(error.value)
    assert "gamma" not in str(error.value)


def test_what_does_not_change_the_trials_may_change(storage: StudyStorage, make_spec: Make) -> None:
    open_study(make_spec(), storage)
    changes = {"n_trials": 50, "sampler": "random", "pruner": "median", "n_jobs": 2, "executor": "inline", "seed": 3}
    assert load_study(storage, open_study(make_spec(**changes), storage).name).spec.n_trials == 50


def test_a_plans_choices_may_not_change_but_its_range_may_grow(storage: StudyStorage, make_spec: Make) -> None:
    rows = [{"optimizer": "adam", "x": 1.0}, {"optimizer": "sgd", "x": 2.0}]
    open_study(make_spec(params={}, trials=rows), storage)
    open_study(make_spec(params={}, trials=[*rows, {"optimizer": "adam", "x": 50.0}]), storage)
    with pytest.raises(StudyError, match=r"trials \(optimizer\)"):
        open_study(make_spec(params={}, trials=[*rows, {"optimizer": "lion", "x": 1.0}]), storage)


def test_a_study_of_someone_else_is_left_alone(storage: StudyStorage, make_spec: Make) -> None:
    theirs = optuna.create_study(study_name="a study", storage=storage.optuna, direction="maximize")
    theirs.add_trial(optuna.trial.create_trial(value=1.0))
    with pytest.raises(StudyError, match="not made by Finder"):
        open_study(make_spec(), storage)
    with pytest.raises(StudyError, match="not made by Finder"):
        load_study(storage, "a study")
    assert list_studies(storage) == []
    assert SPEC_ATTR not in theirs.user_attrs


def test_a_study_that_died_at_birth_is_taken_over(storage: StudyStorage, make_spec: Make) -> None:
    optuna.create_study(study_name="a study", storage=storage.optuna, direction="maximize")
    assert open_study(make_spec(), storage).name == "a study"


def test_an_unknown_study_names_the_nearest(storage: StudyStorage, make_spec: Make) -> None:
    open_study(make_spec(name="ppo-cartpole"), storage)
    with pytest.raises(StudyError, match=r"'ppo-cartpol'.*'ppo-cartpole'"):
        load_study(storage, "ppo-cartpol")


def test_a_wrong_sampler_argument_creates_nothing(storage: StudyStorage, make_spec: Make) -> None:
    with pytest.raises(StudyError):
        open_study(make_spec(sampler_kwargs={"nonsense": 1}), storage)
    assert list_studies(storage) == []


def test_urls_open_and_close_their_own_storage(tmp_path: Path, make_spec: Make) -> None:
    url = f"sqlite:///{tmp_path}/finder.db"
    with open_study(make_spec(storage=url)) as study:
        assert study.owns_storage
    with load_study(url, "a study") as loaded:
        assert loaded.spec.storage == url
    assert [summary.name for summary in list_studies(url)] == ["a study"]
    for call in (lambda: list_studies(f"{tmp_path}/typo.db"), lambda: load_study(f"{tmp_path}/typo.db", "a study")):
        with pytest.raises(StudyError, match="there is no storage"):
            call()


def test_a_deleted_study_leaves_no_episodes_to_the_next(
    storage: StudyStorage, make_spec: Make, episode: Callable[..., EpisodeRecord]
) -> None:
    with Recorder(open_study(make_spec(), storage)) as recorder:
        recorder.episodes(recorder.ask().number, [episode()])  # type: ignore[union-attr]
    optuna.delete_study(study_name="a study", storage=storage.optuna)
    again = open_study(make_spec(), storage)
    assert storage.episodes.curve(again.episodes_key, 0) == []


def test_a_renamed_study_keeps_its_episodes(
    storage: StudyStorage, make_spec: Make, episode: Callable[..., EpisodeRecord]
) -> None:
    study = open_study(make_spec(), storage)
    with Recorder(study) as recorder:
        recorder.episodes(recorder.ask().number, [episode()])  # type: ignore[union-attr]
    # This is how optuna-dashboard renames.
    renamed = optuna.create_study(study_name="renamed", storage=storage.optuna, direction="maximize")
    for key, value in study.study.user_attrs.items():
        renamed.set_user_attr(key, value)
    optuna.delete_study(study_name="a study", storage=storage.optuna)
    again = open_study(make_spec(), storage)
    assert storage.episodes.curve(again.episodes_key, 0) == []
    loaded = load_study(storage, "renamed")
    assert storage.episodes.curve(loaded.episodes_key, 0) == [episode()]


def test_the_password_is_not_kept_in_the_study(make_spec: Make) -> None:
    with open_storage("memory") as storage:
        storage.label = "postgresql://user:***@host/db"
        open_study(make_spec(storage="postgresql://user:secret@host/db"), storage)
        assert "secret" not in str(storage.optuna.get_all_studies()[0].user_attrs)


class TestLease:
    def test_a_living_run_is_left_alone(self, storage: StudyStorage, make_spec: Make) -> None:
        study = open_study(make_spec(), storage)
        mark = {**sign_of_life(), "pid": 1, "started": None}  # process 1 is always there, and not this one
        study.study.set_user_attr(RUNNER_ATTR, mark)
        with pytest.raises(StudyError, match="being run by process 1"):
            open_study(make_spec(), storage)

    def test_a_closed_run_leaves_no_mark(self, storage: StudyStorage, make_spec: Make) -> None:
        study = open_study(make_spec(), storage)
        with Recorder(study):
            assert study.study.user_attrs[RUNNER_ATTR]["host"] == socket.gethostname()
        assert study.study.user_attrs[RUNNER_ATTR] is None

    def test_who_counts_as_running(self) -> None:
        now = time.time()
        own = sign_of_life()
        assert not is_running_elsewhere(None)
        assert not is_running_elsewhere(own)
        assert not is_running_elsewhere({**own, "pid": 2**22 + 7})  # no such process
        assert is_running_elsewhere({**own, "pid": 1, "started": None, "seen": now})
        assert not is_running_elsewhere({**own, "pid": 1, "started": None, "seen": now - 1e4})
        assert not is_running_elsewhere({**own, "pid": 1, "started": -1, "seen": now})  # the number was given anew
        assert is_running_elsewhere({**own, "host": "elsewhere", "seen": now - 10})
        assert not is_running_elsewhere({**own, "host": "elsewhere", "seen": now - 1e4})
