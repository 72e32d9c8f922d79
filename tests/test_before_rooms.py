"""Stored studies, checkpoints, agents and scripts of the version before the subpackages still work."""

from __future__ import annotations

import importlib
import json
import shutil
import subprocess
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from fakes import SMALL_PPO

import agents
from agents import moved

BEFORE = Path(__file__).parent / "support" / "before_rooms"


def finder(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from finder.cli import main; raise SystemExit(main())", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(BEFORE, tmp_path / "before")
    (tmp_path / "before" / "key").chmod(0o600)
    monkeypatch.setenv("FINDER_KEY_FILE", str(tmp_path / "before" / "key"))
    return tmp_path / "before"


@pytest.mark.slow
def test_old_study_is_read(before: Path) -> None:
    storage = f"sqlite:///{before / 'study.sqlite'}"
    ran = finder("best", "before", "--storage", storage, "--json")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["params"]["learning_rate"] == 1e-3
    assert "learning_rate 1e-3; the best rate lies between 3.15e-4 and 2.99e-3 (95%)" in ran.stdout


@pytest.mark.slow
def test_old_run_resumes_from_its_checkpoint(before: Path) -> None:
    ran = finder("train", "--resume", str(before / "run"), "--env-steps", "2200", "--quiet")
    assert ran.returncode == 0, ran.stderr
    assert "2,200 steps" in ran.stdout
    episodes = agents.read_history(before / "run")["env_steps"].to_pylist()
    assert episodes == sorted(episodes)
    assert episodes[-1] > 2_000


def test_old_agent_is_loaded(before: Path) -> None:
    agent = agents.load_agent(before / "run")
    assert agent.env_steps == 2_000
    assert agent.predict([0.0, 0.0, 0.0, 0.0]) in (0, 1)


@pytest.mark.parametrize("old", sorted(moved.MOVED))
def test_old_module_name_is_importable_with_a_warning(old: str) -> None:
    sys.modules.pop(f"agents.{old}", None)
    with pytest.warns(DeprecationWarning, match="has moved: import agents"):
        found = importlib.import_module(f"agents.{old}")
    now = importlib.import_module(f"agents.{moved.MOVED[old]}")
    public = getattr(now, "__all__", None) or [name for name in vars(now) if not name.startswith("_")]
    assert {name: getattr(found, name) for name in public} == {name: getattr(now, name) for name in public}


def test_old_module_names_do_not_change_the_new_packages() -> None:
    code = """
import warnings
warnings.simplefilter("ignore")
import agents.pool.collector, agents.replay.join
import agents.buffers, agents.collection.collector
assert callable(agents.buffers.join), agents.buffers.join
assert agents.collection.collector.__name__ == "agents.collection.collector", agents.collection.collector
from agents.replay import Memory, RolloutMemory, UniformReplay
from agents.plateaus import EarlyStop
assert (EarlyStop.__name__, Memory.__name__, RolloutMemory.__name__) == ("EarlyStopping", "Buffer", "RolloutBuffer")
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_old_public_names_are_importable_with_a_warning() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        from agents.returns import discounted_returns

        from agents import Checkpoints, EarlyStop, RolloutMemory, shared
        from agents.callbacks import Callback, Episode, LambdaCallback
        from agents.networks import of_actions
    assert Checkpoints is agents.Checkpoint
    assert EarlyStop is agents.EarlyStopping
    assert RolloutMemory is agents.RolloutBuffer
    assert (Callback, Episode, LambdaCallback) == (agents.Callback, agents.Episode, agents.LambdaCallback)
    assert all(map(callable, (shared, of_actions, discounted_returns)))
    assert {str(each.message).partition(" ")[0] for each in caught} >= {"agents.EarlyStop", "agents.shared"}


@pytest.mark.slow
def test_agent_hooks_with_old_names_are_called() -> None:
    with pytest.warns(DeprecationWarning, match="name it preprocess_batch"):

        class Scaled(agents.PPO):
            """PPO with hooks under their old names."""

            def prepare(self, data: dict[str, Any]) -> dict[str, Any]:
                called.append("prepare")
                return super().prepare(data)  # type: ignore[misc, no-any-return]

            def whole(self, batch: dict[str, Any]) -> dict[str, Any]:
                called.append("whole")
                return super().whole(batch)  # type: ignore[misc, no-any-return]

            def extra_state(self) -> Mapping[str, Any]:
                return super().extra_state()

    called: list[str] = []
    with agents.Trainer(agents.make(Scaled, "fakes:TwoStep-v0", **SMALL_PPO)) as trainer:
        trainer.train(env_steps=128)
    assert set(called) == {"prepare", "whole"}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*name it:DeprecationWarning")
def test_hooks_of_a_mixin_with_old_names_are_called() -> None:
    class Mixin:
        def prepare(self, data: dict[str, Any]) -> dict[str, Any]:
            return {**super().prepare(data), "mixed_in": data["rewards"]}  # type: ignore[misc]

    class Mixed(Mixin, agents.PPO):
        turns_of_a_game = turns = 3  # an attribute that is no method, and so not `optimizer_steps`

        def preprocess_batch(self, data: dict[str, Any]) -> dict[str, Any]:
            prepared = super().preprocess_batch(data)
            seen.append("mixed_in" in prepared)
            return prepared

    seen: list[bool] = []
    with agents.Trainer(agents.make(Mixed, "fakes:TwoStep-v0", **SMALL_PPO)) as trainer:
        trainer.train(env_steps=64)
    assert seen == [True, True]


@pytest.mark.filterwarnings("ignore:.*name it:DeprecationWarning")
def test_hooks_set_after_class_creation_are_called() -> None:
    class Unpickled(agents.PPO):
        """A class that gets its methods after its creation, as from `cloudpickle`."""

    def prepare(self: Any, data: dict[str, Any]) -> dict[str, Any]:
        called.append("prepare")
        return super(Unpickled, self).preprocess_batch(data)

    called: list[str] = []
    Unpickled.prepare = prepare  # type: ignore[attr-defined]
    with agents.Trainer(agents.make(Unpickled, "fakes:TwoStep-v0", **SMALL_PPO)) as trainer:
        trainer.train(env_steps=64)
    assert called
