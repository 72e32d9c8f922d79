"""Deleting studies, and the key under which episodes, checkpoints and spools of a study are stored."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import optuna
import pytest
import sqlalchemy as sa
from death import lease_to_another_process
from episode_count import n_episodes

from studies.analysis.listing import list_studies
from studies.coordination import lease_manager
from studies.coordination.lease_manager import STUDY
from studies.coordination.owner import Owner
from studies.database import episodes as episodes_module
from studies.database.records import EpisodeRecord
from studies.errors import StudyError
from studies.recording.opening import delete_study, join_study, open_study
from studies.recording.recorder import Recorder
from studies.recording.spool import Spool
from studies.recording.study_data import create_key
from studies.spec.spec import StudySpec
from studies.storage.storage import StudyStorage, open_storage
from studies.study.checkpoint_folder import checkpoint_folder
from studies.study.study import EPISODES_ATTR, load_study

Make = Callable[..., StudySpec]


def copy_study(storage: StudyStorage, name: str, to: str) -> None:
    """Copy a study within its storage, as other programs do."""
    optuna.copy_study(from_study_name=name, from_storage=storage.optuna, to_storage=storage.optuna, to_study_name=to)


class TestDeleting:
    def test_delete_removes_trials_and_episodes(
        self, storage: StudyStorage, make_spec: Make, episode: Callable[..., EpisodeRecord]
    ) -> None:
        open_study(make_spec(name="another"), storage)
        study = open_study(make_spec(), storage)
        with Recorder(study) as recorder:
            recorder.episodes(recorder.ask().number, [episode()])  # type: ignore[union-attr]
        assert delete_study("a study", storage) == 1
        assert [summary.name for summary in list_studies(storage)] == ["another"]
        assert n_episodes(storage, study.episodes_key) == 0

    def test_lease_from_before_a_reboot_is_watched_before_deletion(
        self, storage: StudyStorage, make_spec: Make, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(lease_manager, "WATCH_SECONDS", 0.5)
        study = open_study(make_spec(), storage)
        assert study.leases is not None
        study.leases.close()
        before = str(Owner.new()._replace(machine="another-start-of-it"))
        for number in (STUDY, 3):
            assert storage.leases.take(study.episodes_key, number, before, -3600.0)
        assert delete_study("a study", storage) == 0
        alive = open_study(make_spec(), storage)
        assert storage.leases.take(alive.episodes_key, 3, before, 60.0)
        with pytest.raises(StudyError, match="being run by process"):
            delete_study("a study", storage)

    def test_copy_of_a_deleted_study_keeps_its_episodes(
        self, storage: StudyStorage, make_spec: Make, episode: Callable[..., EpisodeRecord]
    ) -> None:
        with Recorder(open_study(make_spec(), storage)) as recorder:
            recorder.episodes(recorder.ask().number, [episode()])  # type: ignore[union-attr]
        copy_study(storage, "a study", "a copy")
        delete_study("a study", storage)
        assert storage.episodes.curve(load_study("a copy", storage).episodes_key, 0) == [episode()]

    def test_interrupted_deletion_can_be_repeated(
        self,
        storage: StudyStorage,
        make_spec: Make,
        episode: Callable[..., EpisodeRecord],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(episodes_module, "_DELETED_ROWS", 2)
        study = open_study(make_spec(), storage)
        with Recorder(study) as recorder:
            for _ in range(2):
                number = recorder.ask().number  # type: ignore[union-attr]
                recorder.episodes(number, [episode(episode=each) for each in range(3)])
        deletions: list[str] = []

        def interrupt(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
            if statement.startswith("DELETE FROM finder_episodes"):
                deletions.append(statement)
                if len(deletions) == 2:
                    raise RuntimeError("interrupted")

        engine = storage.episodes.engine  # type: ignore[attr-defined]
        sa.event.listen(engine, "before_cursor_execute", interrupt)
        with pytest.raises(RuntimeError, match="interrupted"):
            delete_study("a study", storage)
        assert n_episodes(storage, study.episodes_key) == 3, "the first of two portions must have been deleted"
        assert delete_study("a study", storage) == 2
        assert n_episodes(storage, study.episodes_key) == 0
        assert list_studies(storage) == []

    def test_unknown_running_or_foreign_study_cannot_be_deleted(self, storage: StudyStorage, make_spec: Make) -> None:
        study = open_study(make_spec(), storage)
        with pytest.raises(StudyError, match=r"'a stady'.*'a study'"):
            delete_study("a stady", storage)
        lease_to_another_process(study)
        with pytest.raises(StudyError, match="being run by process 1"):
            delete_study("a study", storage)
        foreign = optuna.create_study(study_name="theirs", storage=storage.optuna)
        foreign.add_trial(optuna.trial.create_trial(value=1.0))
        with pytest.raises(StudyError, match="not made by Finder"):
            delete_study("theirs", storage)


class TestEveryStorage:
    @pytest.mark.parametrize("first", ["original", "copy", "worker"])
    def test_copy_that_is_run_has_data_of_its_own(
        self, storage: StudyStorage, make_spec: Make, episode: Callable[..., EpisodeRecord], first: str
    ) -> None:
        with Recorder(open_study(make_spec(), storage)) as recorder:
            ended, interrupted = (recorder.ask().number for _ in range(2))  # type: ignore[union-attr]
            recorder.episodes(ended, [episode()])
            recorder.episodes(interrupted, [episode()])
            recorder.completed(ended, 1.0)
        copy_study(storage, "a study", "a copy")
        spec = make_spec(name="a copy")
        if first == "original":
            open_study(make_spec(), storage).close()
        copy = join_study("a copy", storage) if first == "worker" else open_study(spec, storage)
        original = load_study("a study", storage)
        with Recorder(copy) as recorder:
            assert recorder.ask().number == interrupted  # type: ignore[union-attr]
            recorder.started(interrupted, {})
            recorder.episodes(interrupted, [episode(episode_return=9.0)])
        again = load_study("a copy", storage)
        for number, own in ((ended, [episode()]), (interrupted, [episode(episode_return=9.0)])):
            assert storage.episodes.curve(original.episodes_key, number) == [episode()]
            assert storage.episodes.curve(again.episodes_key, number) == own
        delete_study("a copy", storage)
        assert n_episodes(storage, original.episodes_key) == 2


def test_copy_can_be_run_and_deleted_while_the_original_runs(storage: StudyStorage, make_spec: Make) -> None:
    lease_to_another_process(open_study(make_spec(), storage))
    copy_study(storage, "a study", "a copy")
    assert delete_study("a copy", storage) == 0
    copy_study(storage, "a study", "a copy")
    open_study(make_spec(name="a copy"), storage).close()
    with pytest.raises(StudyError, match="being run by process 1"):
        open_study(make_spec(), storage)


class TestKeys:
    @pytest.mark.parametrize("how", ["finder", "optuna", "file"])
    def test_new_study_of_the_same_name_gets_another_key(self, tmp_path: Path, make_spec: Make, how: str) -> None:
        url = f"sqlite:///{tmp_path}/finder.db"
        with open_study(make_spec(), url) as study:
            key = study.episodes_key
            if how == "optuna":
                optuna.delete_study(study_name=study.name, storage=study.storage.optuna)
        if how == "finder":
            delete_study("a study", url)
        if how == "file":
            (tmp_path / "finder.db").unlink()
        with open_study(make_spec(), url) as again, open_study(make_spec(), url) as same:
            assert same.episodes_key == again.episodes_key != key
            for place in (url, "grpc://server:13000"):  # machines keep local files for both kinds of storage
                assert checkpoint_folder(place, again.episodes_key) != checkpoint_folder(place, key)
                assert Spool(place, again.episodes_key).path != Spool(place, key).path

    def test_study_of_an_older_version_keeps_its_key(
        self, storage: StudyStorage, make_spec: Make, episode: Callable[..., EpisodeRecord]
    ) -> None:
        study = open_study(make_spec(), storage)
        study.study.set_user_attr(EPISODES_ATTR, "a study")
        storage.episodes.add("a study", [(0, episode())])
        assert open_study(make_spec(), storage).episodes_key == "a study"
        assert load_study("a study", storage).episodes_key == "a study"
        delete_study("a study", storage)
        assert n_episodes(storage, "a study") == 0

    def test_concurrent_openers_agree_on_one_key(self, tmp_path: Path, make_spec: Make) -> None:
        url = f"sqlite:///{tmp_path}/finder.db"
        with open_storage(url) as storage:
            study = optuna.create_study(study_name="a study", storage=storage.optuna, direction="maximize")
            read, barrier = storage.optuna.get_study_user_attrs, threading.Barrier(2)

            def read_slowly(study_id: int) -> dict[str, Any]:
                found = read(study_id)
                with contextlib.suppress(threading.BrokenBarrierError):
                    barrier.wait(0.3)  # so that both read before either writes
                return found

            storage.optuna.get_study_user_attrs = read_slowly  # type: ignore[method-assign]
            with ThreadPoolExecutor(2) as pool:
                given = [pool.submit(create_key, storage, study._study_id, study.study_name) for _ in range(2)]
                assert len({each.result() for each in given}) == 1
