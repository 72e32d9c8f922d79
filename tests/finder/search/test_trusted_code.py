"""Tests of imports of code named by a study that other users may have written."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fakes import SMALL_PPO, RecordingListener, TwoStep

from agents import AgentSpec, Callback, ConfigurationError
from agents.trust.allowed_modules import VARIABLE, only_modules, restriction
from finder import LRFinder, work
from finder.search.search import Recorder
from finder.trials.cohort import run_cohort
from finder.trials.trial import TrialSpec
from studies import StudyError, best_optimizer
from studies.analysis import recommendation
from studies.recording.opening import open_study
from studies.servers.proxy import make_proxy
from studies.spec.spec import StudySpec
from studies.storage.storage import StudyStorage, open_storage

EVIL = "from pathlib import Path\nPath(__file__).with_name('ran').touch()\nclass Thing: pass\ndef make(): pass\n"
FEW: dict[str, Any] = {"env_steps": 160, "seeds": 1, "confirm": 0, "executor": "inline", "pruner": "none"}


@pytest.fixture
def evil(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Path of a file that the import of `evil_module` creates."""
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "evil_module.py").write_text(EVIL)
    monkeypatch.delitem(sys.modules, "evil_module", raising=False)
    return tmp_path / "ran"


@pytest.fixture
def foreign(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat every storage as writable by other users."""
    monkeypatch.setattr(StudyStorage, "foreign", property(lambda _: True))


def test_file_owned_by_the_user_is_not_foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for url in (f"sqlite:///{tmp_path}/a.db", str(tmp_path / "b.log"), "memory"):
        with open_storage(url) as storage:
            assert not storage.foreign
            storage.shared = True
            assert storage.foreign
            storage.shared = False
            with monkeypatch.context() as patched:
                patched.setattr(os, "geteuid", lambda: 12345)
                assert storage.foreign == (url != "memory")


class Counting(Callback):
    """A callback identified by its import path."""


@pytest.mark.usefixtures("foreign")
def test_code_named_in_the_call_is_allowed(storage: str) -> None:
    options: dict[str, Any] = {"storage": storage, "fixed": SMALL_PPO, "callbacks": [Counting], **FEW}
    result = LRFinder("ppo", "fakes:TwoStep").grid(1e-3, 1e-2, n_rates=2, **options)
    assert list(result.table().state) == ["COMPLETE"] * 2


@pytest.mark.usefixtures("foreign")
def test_other_code_named_by_a_stored_trial_is_refused(
    storage: str, evil: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Recorder.ask

    def ask(self: Recorder) -> Any:
        found = asked(self)
        return None if found is None else replace(found, params={**found.params, "optimizer": "evil_module:Thing"})

    monkeypatch.setattr(Recorder, "ask", ask)
    finder = LRFinder("ppo", TwoStep)
    result = finder.grid(1e-3, 1e-2, n_rates=2, storage=storage, fixed=SMALL_PPO, study_name="theirs", **FEW)
    [reason] = set(result.table().reason)
    assert "the study 'theirs' names code in 'evil_module', and others may write to its storage" in reason
    assert "FINDER_ALLOW_MODULES=evil_module" in reason
    assert not evil.exists()


@pytest.mark.usefixtures("foreign")
def test_worker_runs_only_code_named_by_its_caller(storage: str) -> None:
    spec = StudySpec(
        name="theirs", storage=storage, agents=("ppo",), env="fakes:TwoStep", env_steps=160, seeds=(0,),
        executor="inline", params={"learning_rate": "1e-4:1e-1:log"}, fixed=SMALL_PPO, n_trials=1, confirm=0,
        pruner="none",
    )  # fmt: skip
    open_study(spec).close()
    with pytest.raises(ConfigurationError, match=r"the study 'theirs' names code in 'fakes'.*--allow-module fakes"):
        work("theirs", storage)
    result = work("theirs", storage, environment="fakes:TwoStep")
    assert list(result.table().state) == ["COMPLETE"]


def test_worker_on_a_served_file_runs_only_code_named_by_its_caller(storage: str) -> None:
    """Others could write studies into the file while it was served."""
    spec = StudySpec(
        name="theirs", storage=storage, agents=("ppo",), env="fakes:TwoStep", env_steps=160, seeds=(0,),
        executor="inline", params={"learning_rate": "1e-4:1e-1:log"}, fixed=SMALL_PPO, n_trials=1, confirm=0,
        pruner="none",
    )  # fmt: skip
    with open_storage(storage) as opened:
        open_study(spec, opened).close()
        server, _ = make_proxy(opened, "127.0.0.1", 0)
        server.start()
        server.stop(grace=1).wait()
    served = r"the study 'theirs' names code in 'fakes', and .* finder serve served it.*--allow-module fakes"
    with pytest.raises(ConfigurationError, match=served):
        work("theirs", storage)
    result = work("theirs", storage, allow_modules=["fakes"])
    assert list(result.table().state) == ["COMPLETE"]


def test_import_restriction_applies_where_trials_run() -> None:
    """Trials may run in a process with an older environment, or on another machine."""
    agent = AgentSpec.of("ppo", "fakes:TwoStep", SMALL_PPO)
    with only_modules([], "the study 'theirs'"):
        trial = TrialSpec(number=0, agent=agent, seeds=(0,), env_steps=64, only_modules=restriction())
    assert restriction() is None
    listener = RecordingListener()
    run_cohort([trial], listener)
    assert listener.outcomes[0].state == "failed"
    assert "the study 'theirs' names code in 'fakes'" in listener.outcomes[0].reason
    assert restriction() is None


@pytest.mark.usefixtures("foreign")
@pytest.mark.filterwarnings("ignore:no safe suggestion")
def test_stored_optimizer_cannot_name_other_code(storage: str, evil: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finder = LRFinder("ppo", TwoStep)
    finder.grid(1e-3, 1e-2, n_rates=2, storage=storage, fixed=SMALL_PPO, study_name="theirs", **FEW)
    assert type(best_optimizer("theirs", storage)).__name__ == "Adam"
    found = recommendation.best

    def named(study: Any) -> recommendation.Recommendation:
        of = {
            "module": "keras.optimizers",
            "class_name": "Adam",
            "config": {"learning_rate": {"module": "evil_module"}},
        }
        return replace(found(study), optimizers={"default": of})

    monkeypatch.setattr(recommendation, "best", named)
    with pytest.raises(StudyError, match=r"'theirs' names code in 'evil_module', and .*allow_modules="):
        best_optimizer("theirs", storage)
    assert not evil.exists()
    for allow in ({"allow_modules": ["evil_module"]}, {}):
        monkeypatch.setenv(VARIABLE, "" if allow else "evil_module")
        with pytest.raises(ValueError, match="`learning_rate` should be float"):  # Keras deserializes it now
            best_optimizer("theirs", storage, **allow)
