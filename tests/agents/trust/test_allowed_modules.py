"""Tests of allowed modules: which code may be named in texts that come from other users."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from agents import EnvironmentSpec
from agents.callbacks.callback import make_callbacks
from agents.config.optimizers import OptimizerSpec
from agents.contract.registry import resolve_agent
from agents.environments.wrappers import NamedWrapper
from agents.errors import ConfigurationError
from agents.trust.allowed_modules import (
    VARIABLE,
    check_config,
    check_module,
    environment_variables,
    only_modules,
    places_in,
    restricted,
    restriction,
)

EVIL = "from pathlib import Path\nPath(__file__).with_name('ran').touch()\nclass Thing: pass\ndef make(): pass\n"


@pytest.fixture
def evil(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a module and a file that write a file when they are imported."""
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    for name in ("evil_module.py", "evil.py"):
        (tmp_path / name).write_text(EVIL)
    monkeypatch.delitem(sys.modules, "evil_module", raising=False)
    return tmp_path


@pytest.mark.parametrize("place", ["evil_module", "evil.py"])
def test_modules_that_are_not_allowed_are_not_imported(evil: Path, place: str) -> None:
    calls: list[Any] = [
        lambda: EnvironmentSpec.of(f"{place}:make"),
        lambda: EnvironmentSpec.of(f"{place}:CartPole-v1"),
        lambda: resolve_agent(f"{place}:Thing"),
        lambda: make_callbacks([f"{place}:Thing"]),
        lambda: NamedWrapper.of(f"{place}:Thing:x=1").find(),
        lambda: OptimizerSpec(name="evil_module:Thing").optimizer_class(),
        lambda: check_config({"config": {"rates": [{"module": "evil_module", "class_name": "Thing"}]}}),
    ]
    with only_modules(["another", "other.py"]):
        for call in calls:
            with pytest.raises(ConfigurationError, match=r"--allow-module evil(_module|\.py)") as caught:
                call()
            assert "FINDER_ALLOW_MODULES" in str(caught.value)
    assert not (evil / "ran").exists()


@pytest.mark.parametrize("place", ["evil_module", "evil.py"])
def test_allowed_modules_are_loaded(evil: Path, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with only_modules([place]):
        assert EnvironmentSpec.of(f"{place}:make").label
    monkeypatch.setenv(VARIABLE, f"other, {place}")
    with only_modules([]):
        check_module(place)
    check_module("anything")  # the restriction has ended


@pytest.mark.parametrize("place", ["evil_module", "evil.py"])
def test_allowed_name_allows_no_other_name_of_its_module(evil: Path, place: str) -> None:
    with only_modules([f"{place}:make"]):
        assert EnvironmentSpec.of(f"{place}:make").label
        with pytest.raises(ConfigurationError, match=r"--allow-module evil(_module|\.py)"):
            resolve_agent(f"{place}:Thing")


@pytest.mark.parametrize("place", ["evil_module", "evil.py"])
@pytest.mark.parametrize("prefix", ["gail", "AIRL"])
def test_place_of_an_agent_that_learns_its_reward_is_allowed(evil: Path, place: str, prefix: str) -> None:
    own = places_in({"agents": [f"{prefix}-{place}:Thing"]})
    assert own == {f"{place}:Thing", f"{prefix}-{place}:Thing"}
    with only_modules(own):
        with pytest.raises(ConfigurationError, match=r"is no agents\.KerasAgent: it cannot learn from demonstrations"):
            resolve_agent(f"{prefix}-{place}:Thing")
        with pytest.raises(ConfigurationError, match=r"--allow-module evil(_module|\.py)"):
            resolve_agent(f"{prefix}-{place}:make")


def test_places_keep_a_prefix_that_is_part_of_the_name_of_a_file() -> None:
    assert "gail-robots.py:Arm" in places_in("gail-robots.py:Arm")
    assert places_in("tall-robots.py:Arm") == {"tall-robots.py:Arm"}


def test_finder_and_gymnasium_modules_are_always_allowed() -> None:
    with only_modules([]):
        assert EnvironmentSpec.of("CartPole-v1").label == "CartPole-v1"
        assert EnvironmentSpec.of("gymnasium.envs.classic_control:CartPoleEnv").label
        assert NamedWrapper.of("TimeLimit:max_episode_steps=5").find()
        assert resolve_agent("agents.algorithms.ppo:PPO").__name__ == "PPO"


@pytest.mark.parametrize(
    "place", ["agents.errors:pickle", "agents.trust.allowed_modules:Path", "finder.cli:main", "os:system"]
)
def test_names_imported_by_finder_modules_are_refused(place: str) -> None:
    with only_modules([]), pytest.raises(ConfigurationError, match="--allow-module"):
        NamedWrapper.of(place).find()


def test_restrictions_of_threads_are_independent() -> None:
    """A block that ends does not end that of another thread, nor leave one behind."""
    entered, left = threading.Event(), threading.Event()
    found: list[str | None] = []

    def restrict_here() -> None:
        with only_modules(["theirs"]):
            entered.set()
            left.wait()
            check_module("theirs")
            with pytest.raises(ConfigurationError):
                check_module("ours")
            found.append(restriction())
        found.append(restriction())

    thread = threading.Thread(target=restrict_here, daemon=True)
    with only_modules(["ours"]):
        thread.start()
        assert entered.wait(60)
        check_module("ours")
        with pytest.raises(ConfigurationError):
            check_module("theirs")
    left.set()
    thread.join()
    assert [each is not None for each in found] == [True, False], "the thread has run to its end"
    assert restriction() is None


def test_threads_started_inside_a_block_are_restricted() -> None:
    found: list[str | None] = []
    with only_modules(["ours"]):
        thread = threading.Thread(target=lambda: found.append(restriction()))
        thread.start()
        thread.join()
        assert found == [restriction()]
        with restricted(None):
            assert restriction() is None


def test_child_processes_are_restricted_too() -> None:
    code = "from agents.trust.loading import loaded\nloaded('os:system')"
    with only_modules([]):
        child = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, check=False
        )
    assert "--allow-module os" in child.stderr


OF_FORK_SERVER = """
from agents.processes.fork_server import await_fork_server, prepare_processes, start_child
from agents.trust.allowed_modules import only_modules

def send(pipe):
    import threading
    from agents.trust.allowed_modules import restricted, restriction

    def send_own():
        pipe.send((restriction() or "").partition("because")[0])
    send_own()
    with restricted(None):  # that of a trial
        thread = threading.Thread(target=send_own)
        thread.start()
        thread.join()

def in_child():
    receiver, sender = context.Pipe(duplex=False)
    child = start_child(context, send, sender, threads=1)
    sender.close()
    found = [receiver.recv(), receiver.recv()]
    child.join()
    return ["ours" in each for each in found], ["theirs" in each for each in found]

with only_modules(["ours"]):
    context = prepare_processes("json")
    await_fork_server(context)
print(*in_child())
with only_modules(["theirs"]):
    print(*in_child())
"""


@pytest.mark.real
def test_children_of_a_fork_server_have_the_restriction_of_their_start() -> None:
    done = subprocess.run(
        [sys.executable, "-c", OF_FORK_SERVER], capture_output=True, text=True, timeout=300, check=False
    )
    unrestricted, theirs = "[False, False] [False, False]", "[False, False] [True, True]"
    assert done.stdout.splitlines() == [unrestricted, theirs], done.stderr


def test_strategies_have_the_restriction_of_their_thread() -> None:
    with only_modules(["ours"]), restricted(None):
        assert not [value for value in environment_variables().values() if "ours" in value]
    with only_modules(["ours"]):
        assert restriction() in environment_variables().values()
