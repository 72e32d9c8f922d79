"""Tests of commands that read files and studies that other users may have written."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from evil import insert_pickle, write_old_format

from agents.trust.signatures import KEY_VARIABLE
from studies.recording.opening import open_study
from studies.spec.spec import StudySpec
from studies.storage.storage import StudyStorage

PPO = (
    "ppo", "--env", "CartPole-v1", "--set", "jit_compile=false", "--set", "n_steps=16", "--set", "hidden_sizes=[8]",
    "--quiet",
)  # fmt: skip
EVIL = """
from pathlib import Path
from gymnasium.envs.classic_control import CartPoleEnv
Path(__file__).with_name("ran").touch()
class Robot(CartPoleEnv): pass
"""


@pytest.fixture
def trained(finder: Any) -> Any:
    assert finder("train", *PPO, "--steps", "256", "--folder", "run").code == 0
    return finder


@pytest.fixture
def evil(finder: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Path of a file that the import of `evil_module` or `evil.py` creates."""
    for name in ("evil_module.py", "evil.py"):
        (finder.folder / name).write_text(EVIL)
    monkeypatch.delitem(sys.modules, "evil_module", raising=False)
    return Path(finder.folder / "ran")


def checkpoint(finder: Any) -> Path:
    [*_, path] = sorted((finder.folder / "run" / "checkpoints").glob("*.checkpoint"))
    return Path(path)


CASES = {
    "play": (("play", "run", "--headless", "--max-steps", "2"), ("spec", "agent")),
    "resume": (("train", "--resume", "run", "--steps", "300", "--quiet"), ("environments", "callbacks", "training")),
    "start-from": (("train", *PPO, "--steps", "32", "--folder", "new", "--start-from", "run"), ("agent",)),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_pickles_of_other_users_are_not_read(trained: Any, case: str) -> None:
    words, sections = CASES[case]
    path, marker = checkpoint(trained), trained.folder / "marker"
    content = path.read_bytes()
    for section in (*sections, "of before"):
        path.write_bytes(content)
        if section == "of before":
            write_old_format(path, marker)
        else:
            insert_pickle(path, section, marker)
        ran = trained(*words)
        assert (ran.code, marker.exists()) == (2, False), (section, ran.err)
        assert "it was not written by Finder here as this user" in " ".join(ran.err.split())
        assert "--trust" in ran.err
    trained(*words, "--trust")
    assert marker.exists()


@pytest.mark.slow
def test_own_runs_resume_and_runs_of_others_need_trust(
    finder: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    copied = ("--vectorization", "sync")  # states of environments are pickled
    assert finder("train", *PPO, *copied, "--steps", "256", "--folder", "run").code == 0
    more = ("train", "--resume", "run", "--quiet")
    assert finder(*more, "--steps", "288").code == 0
    monkeypatch.setenv(KEY_VARIABLE, str(tmp_path / "another"))
    assert finder("play", "run", "--headless", "--max-steps", "2").code == 0
    assert finder("train", *PPO, "--steps", "32", "--folder", "new", "--start-from", "run").code == 0
    assert finder(*more, "--steps", "320").code == 2
    assert finder(*more, "--steps", "320", "--trust").code == 0
    assert finder(*more, "--steps", "352").code == 0  # the checkpoint is the user's own now


def test_play_needs_allow_module_for_environments_of_foreign_checkpoints(
    finder: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    words = ("train", "ppo", "--env", "cli_envs:Slow-v0", *PPO[3:], "--steps", "32", "--folder", "run")
    assert finder(*words).code == 0
    monkeypatch.setenv(KEY_VARIABLE, str(tmp_path / "another"))
    playing = ("play", "run", "--headless", "--max-steps", "2")
    ran = finder(*playing)
    assert (ran.code, ran.out) == (2, "")
    assert "--allow-module cli_envs" in " ".join(ran.err.split())
    ran = finder(*playing, "--allow-module", "cli_envs")
    assert ran.code == 0, ran.err
    assert ran.out.startswith("episode 1   return 2   2 steps")


@pytest.mark.slow
@pytest.mark.parametrize("place", ["evil_module:Robot", "evil.py:Robot"])
@pytest.mark.parametrize("field", ["env", "agent", "callbacks", "wrappers"])
def test_settings_of_a_foreign_run_need_allow_module(trained: Any, evil: Path, place: str, field: str) -> None:
    file = trained.folder / "run" / "run.json"
    content = json.loads(file.read_text())
    content["settings"][field] = place if field in ("env", "agent") else [place]
    file.write_text(json.dumps(content))
    ran = trained("train", "--resume", "run", "--steps", "300", "--quiet")
    assert ran.code == 2
    assert "run/run.json names code in 'evil" in ran.err
    assert f"--allow-module {place.partition(':')[0]}" in " ".join(ran.err.split())
    assert not evil.exists()
    trained("train", "--resume", "run", "--steps", "300", "--quiet", "--allow-module", place.partition(":")[0])
    assert evil.exists()


@pytest.fixture
def study(finder: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """A study with a pick, in a storage that other users may write to."""
    words = ("lr", "ppo", "--env", "cli_envs:Loud-v0", "--n-rates", "2", "--seeds", "1", "--confirm", "0")
    few = (
        "--env-steps",
        "600",
        "--set",
        "jit_compile=false",
        "--set",
        "n_steps=32",
        "--quiet",
        "--study-name",
        "theirs",
    )
    monkeypatch.setattr(StudyStorage, "foreign", property(lambda _: True))
    ran = finder(*words, *few, "--executor", "inline")
    assert ran.code == 0, ran.err  # modules named in the command are allowed
    return "theirs"


@pytest.mark.slow
def test_pick_of_a_foreign_study_needs_allow_module(finder: Any, study: str) -> None:
    words = ("train", "--from", study, "--steps", "32", "--quiet", "--folder")
    ran = finder(*words, "picked")
    assert ran.code == 2
    assert "the study 'theirs' names code in 'cli_envs'" in " ".join(ran.err.split())
    assert not (finder.folder / "picked").exists()
    ran = finder(*words, "picked", "--allow-module", "cli_envs")
    assert ran.code == 0, ran.err
    assert (
        finder("train", "--resume", "picked", "--steps", "64", "--quiet").code == 0
    )  # the settings are the user's own


@pytest.mark.parametrize("command", ["studies", "show", "best", "report", "worker"])
def test_reading_a_study_imports_none_of_its_code(
    finder: Any, evil: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StudyStorage, "foreign", property(lambda _: True))
    spec = StudySpec(
        name="theirs", storage=f"sqlite:///{finder.folder}/finder.db", agents=("evil_module:Agent",),
        env="evil_module:Robot", env_steps=160, seeds=(0,), wrappers=("evil_module:Wrapper",),
        callbacks=("evil_module:Callback",), params={"learning_rate": "1e-4:1e-1:log"}, n_trials=1,
    )  # fmt: skip
    open_study(spec).close()
    ran = finder(*([command] if command == "studies" else [command, "theirs"]))
    assert "Traceback" not in ran.err
    assert not evil.exists()
    assert "evil_module" not in sys.modules
    if command == "worker":
        assert (ran.code, "the study 'theirs' names code in 'evil_module'" in " ".join(ran.err.split())) == (2, True)


def test_trust_and_allow_module_need_other_options(finder: Any) -> None:
    assert "--trust has no effect without --start-from" in finder("train", *PPO, "--trust").err
    assert "--allow-module has no effect without --from" in finder("train", *PPO, "--allow-module", "x").err
