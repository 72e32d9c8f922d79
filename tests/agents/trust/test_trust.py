"""Tests of trust: files that another user or machine wrote run no code unless they are trusted."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evil import Evil, insert_pickle, write_old_format
from fakes import SMALL_PPO

import agents
from agents import Callback, Checkpoint, ConfigurationError, Trainer, Trajectory, UntrustedFileError
from agents.algorithms.ppo import PPO
from agents.state_files import state_file
from agents.state_files.header import find, header_of
from agents.trust.signatures import (
    KEY_VARIABLE,
    TRUST_VARIABLE,
    from_own_bytes,
    is_signature_of,
    key_file,
    signature_of,
)

OLD = Path(__file__).parents[2] / "support" / "old" / "training-1.checkpoint"


class Doubling(Callback):
    """Callback that doubles the rewards."""

    def on_trajectory(self, trainer: Trainer, trajectory: Trajectory) -> None:
        trajectory.rewards *= 2


class Mine(PPO):
    """User-defined agent."""


def trainer(folder: Path | None = None, agent: Any = "ppo", environment: Any = "CartPole-v1") -> Trainer:
    made = agents.make(agent, environment, **SMALL_PPO)
    return Trainer(made, callbacks=[] if folder is None else [Checkpoint(folder)])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    trainer(tmp_path / "kept").train(env_steps=40)
    return find(tmp_path / "kept")


def use_other_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Give this user a different key from now on."""
    monkeypatch.setenv(KEY_VARIABLE, str(tmp_path / "another-key"))


def manipulated_cases(path: Path, tmp_path: Path) -> list[tuple[str, Callable[[bool], Any], Callable[[Path], None]]]:
    """Return (name, call, harm): what reads a checkpoint, and how the checkpoint was manipulated before."""
    marker = tmp_path / "ran"
    calls: dict[str, tuple[Callable[[bool], Any], tuple[str, ...]]] = {
        "load_agent": (lambda trust: agents.load_agent(path, trust=trust), ("spec", "agent")),
        "load_weights": (lambda trust: agents.load_weights(path, trust=trust), ("agent",)),
        "resume": (
            lambda trust: agents.resume(trainer(), path, trust=trust),
            ("agent", "training", "environments", "callbacks"),
        ),
    }
    found: list[tuple[str, Callable[[bool], Any], Callable[[Path], None]]] = []
    for name, (call, sections) in calls.items():
        for section in sections:
            found.append((f"{name}, {section}", call, lambda file, each=section: insert_pickle(file, each, marker)))
        found.append((f"{name}, of before", call, lambda file: write_old_format(file, marker)))
    return found


@pytest.mark.parametrize("case", range(10))
def test_untrusted_file_runs_no_code(path: Path, tmp_path: Path, case: int, monkeypatch: pytest.MonkeyPatch) -> None:
    name, call, harm = manipulated_cases(path, tmp_path)[case]
    marker = tmp_path / "ran"
    harm(path)
    with pytest.raises(UntrustedFileError, match=r"--trust .*trust=True") as caught:
        call(False)
    assert str(path) in str(caught.value)
    monkeypatch.setenv(TRUST_VARIABLE, "0")
    with pytest.raises(UntrustedFileError):
        call(False)
    assert not marker.exists(), name
    with contextlib.suppress(Exception):  # a marker is not a valid state
        call(True)
    assert marker.exists(), name  # the marker works
    marker.unlink()
    monkeypatch.setenv(TRUST_VARIABLE, "1")
    with contextlib.suppress(Exception):
        call(False)
    assert marker.exists(), name


def test_number_of_cases_is_complete(path: Path, tmp_path: Path) -> None:
    assert len(manipulated_cases(path, tmp_path)) == 10


def test_signed_file_of_another_user_needs_trust(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert state_file.is_signed_here(path)
    use_other_key(monkeypatch, tmp_path)
    assert not state_file.is_signed_here(path)
    with pytest.raises(UntrustedFileError, match=r"a pickle \(environments\)"):
        agents.resume(trainer(), path)
    assert agents.resume(trainer(), path, trust=True).in_episodes


def test_built_in_agent_of_another_user_plays_without_trust(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_other_key(monkeypatch, tmp_path)
    monkeypatch.setattr("cloudpickle.loads", None)
    agent = agents.load_agent(path)
    assert agents.play(agent, n_episodes=1, max_steps=5, render_mode=None)
    assert not key_file().exists()  # reading does not make a key


def test_user_agent_of_another_user_needs_trust(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer(tmp_path / "kept", Mine).train(env_steps=40)
    assert type(agents.load_agent(tmp_path / "kept")).__name__ == "Mine"
    use_other_key(monkeypatch, tmp_path)
    with pytest.raises(UntrustedFileError, match=r"a pickle \(spec\)"):
        agents.load_agent(tmp_path / "kept")
    assert set(agents.load_weights(tmp_path / "kept")) == {"networks", "extra"}
    assert type(agents.load_agent(tmp_path / "kept", trust=True)).__name__ == "Mine"


ROBOT = """
from pathlib import Path
from gymnasium.envs.classic_control import CartPoleEnv
Path(__file__).with_name("ran").touch()
class Robot(CartPoleEnv): pass
"""


@pytest.mark.parametrize("is_replaced", [False, True])
def test_modules_named_by_untrusted_file_need_permission(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_replaced: bool
) -> None:
    robot = tmp_path / "robot.py"
    robot.write_text(ROBOT)
    trainer(tmp_path / "kept", environment=f"{robot}:Robot").train(env_steps=40)
    moved = shutil.copy(robot, tmp_path / "another.py")  # this file is not imported yet
    [path] = (tmp_path / "kept").glob("*.checkpoint")
    signed = path.read_bytes()
    _replace(path, "spec.json", lambda data: data.replace(b"robot.py", b"another.py"))
    if is_replaced:  # by the file with the signature, once it has been read
        read = state_file.read_signed

        def replaced(*arguments: Any, **options: Any) -> Any:
            found = read(*arguments, **options)
            path.write_bytes(signed)
            return found

        monkeypatch.setattr(state_file, "read_signed", replaced)
    (tmp_path / "ran").unlink()
    with pytest.raises(ConfigurationError, match=f"{path} names code in '{moved}'.*not written here.*--allow-module"):
        agents.load_agent(path)
    assert not (tmp_path / "ran").exists()
    if is_replaced:
        return
    assert agents.load_agent(path, allow_modules=[str(moved)]).environment.label == f"{moved}:Robot"
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "place",
    [
        "agents.checkpoints.file:load_agent",
        "agents.trust.loading:module_of",
        "agents:Trainer",
        "gymnasium:make",
        "os:system",
    ],
)
def test_functions_of_finder_are_not_environments(path: Path, place: str) -> None:
    """A function of Finder that is called with arguments from a file could do anything."""
    _replace(path, "spec.json", lambda data: data.replace(b'"id":"CartPole-v1"', f'"id":"{place}"'.encode()))
    with pytest.raises(ConfigurationError, match="not written here by you"):
        agents.load_agent(path)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'"agent":"ppo"', b'"agent":"strange"'), (b'"environment":', b'"room":'), (b'"kind":"Box"', b'"kind":"Ball"'),
        (b'"wrappers":', b'"strings":'), (b'"n":2', b'"n":"x"'),
    ],
)  # fmt: skip
def test_invalid_specs_in_files_are_refused(path: Path, before: bytes, after: bytes) -> None:
    _replace(path, "spec.json", lambda data: data.replace(before, after))
    with pytest.raises(ConfigurationError):
        agents.load_agent(path)


def test_compressed_files_are_refused(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    with pytest.raises(ConfigurationError, match="not a complete checkpoint"):
        agents.load_agent(path)


def test_arrays_in_place_of_bytes_are_refused(tmp_path: Path) -> None:
    """A pickle within a state must not be an array, because arrays are read from any file."""
    marker = tmp_path / "ran"
    packed = pickle.dumps(Evil(marker))
    for other in (np.frombuffer(packed, np.uint8), bytearray(packed), memoryview(packed)):
        with pytest.raises(ValueError, match="in place of bytes"):
            from_own_bytes(other)
    run = Trainer(agents.make("ppo", "CartPole-v1", **SMALL_PPO), callbacks=[Doubling()])
    state = run.buffer.get_state()
    state["rewriting"]["infos"] = np.frombuffer(packed, np.uint8)
    with pytest.raises(ValueError, match="in place of bytes"):
        run.buffer.set_state(state)
    assert not marker.exists()


def test_checkpoints_of_earlier_format_need_trust(tmp_path: Path) -> None:
    with pytest.raises(UntrustedFileError, match="is of an earlier version, a pickle"):
        agents.load_agent(OLD)
    with pytest.raises(UntrustedFileError):
        agents.load_weights(OLD)
    header = header_of(OLD)
    assert (header.env_steps, header.gradient_steps, header.value) == (100, 12, 12.5)
    agent = agents.load_agent(OLD, trust=True)
    assert agent.gradient_steps == 12
    weights = agents.load_weights(OLD, trust=True)["networks"]
    np.testing.assert_array_equal(weights["actor"][0], agent.get_state()["networks"]["actor"][0])
    rest = trainer()
    assert agents.resume(rest, OLD, trust=True).in_episodes
    assert (len(rest.history.episodes), rest.env_steps) == (2, 100)
    rest.train(env_steps=60)
    assert rest.env_steps == 160


def test_damaged_file_of_earlier_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "damaged.checkpoint"
    data = bytearray(OLD.read_bytes())
    data[1000] ^= 1
    path.write_bytes(data)
    with pytest.raises(ConfigurationError, match=r"cannot be read \(ValueError: its checksum is wrong\)"):
        agents.load_agent(path, trust=True)


class TestKey:
    def test_key_is_made_once_and_readable_by_owner_only(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(KEY_VARIABLE, str(tmp_path / "state" / "key"))
        signature = signature_of({"a": 1})
        assert key_file().stat().st_mode & 0o777 == 0o600
        assert [each.name for each in (tmp_path / "state").iterdir()] == ["key"]
        assert signature == signature_of({"a": 1})
        assert is_signature_of(signature, {"a": 1})
        assert not is_signature_of(signature, {"a": 2})
        for other in ("", None, 3, "é", signature[:-1]):
            assert not is_signature_of(other, {"a": 1})

    def test_key_is_in_state_folder_of_user(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv(KEY_VARIABLE)
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
        assert key_file() == tmp_path / "finder" / "key"
        monkeypatch.delenv("XDG_STATE_HOME")
        monkeypatch.setenv("HOME", str(tmp_path))
        assert key_file() == tmp_path / ".local" / "state" / "finder" / "key"

    @pytest.mark.parametrize("harm", ["readable", "short", "folder"])
    def test_unusable_key_is_reported_and_files_stay_unsigned(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        key = tmp_path / f"key-{harm}"
        monkeypatch.setenv(KEY_VARIABLE, str(key))
        signature_of({})
        if harm == "readable":
            key.chmod(0o644)
        elif harm == "short":
            key.write_bytes(b"short")
        else:
            key.unlink()
            key.mkdir()
        trainer(tmp_path / "kept").train(env_steps=40)  # training continues without a key
        assert f"{key} cannot be used" in caplog.text
        assert not state_file.is_signed_here(find(tmp_path / "kept"))
        assert not is_signature_of("", {})


def _replace(path: Path, part: str, change: Callable[[bytes], bytes]) -> None:
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    changed = change(parts[part])
    assert changed != parts[part]
    json.loads(changed)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in {**parts, part: changed}.items():
            archive.writestr(name, data)


@pytest.mark.slow
@pytest.mark.parametrize("place", ["own.py:Own", "package.own:Own"])
def test_code_that_imports_keras_is_loaded_without_the_log_of_tensorflow(tmp_path: Path, place: str) -> None:
    """Its own output stays, and so does that of a module that imports Keras for it."""
    (package := tmp_path / "package").mkdir()
    (package / "networks.py").write_text("import sys\n\nimport keras\n\nprint('own', file=sys.stderr)\n")
    for file in (tmp_path / "own.py", package / "own.py"):
        file.write_text("import package.networks\nfrom agents import PPO\n\n\nclass Own(PPO):\n    pass\n")
    environment = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    code = f"from agents.trust.loading import loaded; print(loaded({place!r}).__name__)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout == "Own\n"
    assert done.stderr == "own\n"
