"""Tests of --dry-run, --minutes and --total-env-steps."""

from __future__ import annotations

from typing import Any

import pytest

from finder.budgets import estimating
from finder.trials.speed import Speed

LR = ("lr", "ppo", "--env", "CartPole-v1", "--rates", "1e-3,1e-2", "--n-jobs", "1")
SETTINGS = ("--set=jit_compile=false", "--set=n_steps=32", "--set=n_epochs=1", "--seeds=1", "--confirm=0")
STUDY = """
name = "from a file"
agents = ["ppo"]
env = "CartPole-v1"
env_steps = 600
seeds = [0]
n_trials = 2
confirm = 0
params = {learning_rate = "1e-3:1e-2:log"}
fixed = {jit_compile = false, n_steps = 32, n_epochs = 1}
"""


@pytest.fixture(autouse=True)
def _speed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace measurements: a step of each run takes 50 ms."""

    def measure(trials: Any, **_: Any) -> dict[str, Speed]:
        each = Speed(n_runs=2, start_seconds=1.0, shared_seconds=0.0, run_seconds=0.05 / 1.05)
        return {trial.label: each for trial in trials}

    monkeypatch.setattr(estimating, "measure", measure)


def test_dry_run_prints_the_plan_and_writes_nothing(finder: Any) -> None:
    ran = finder(*LR, *SETTINGS, "--env-steps", "600", "--dry-run")
    assert ran.code == 0
    assert "Which learning rate of ppo on CartPole-v1?" in ran.out
    assert "2 planned, 1 seed each" in ran.out
    assert "1,200 environment steps at most" in ran.out
    assert "about 1:01 min (start and compilation 1 s, search " in ran.out
    assert "Nothing was written" in ran.err
    assert sorted(path.name for path in finder.folder.iterdir()) == ["cli_envs.py"]


@pytest.mark.parametrize("budget", [("--minutes", "1"), ("--minutes", "1", "--dry-run"), ("--dry-run",)])
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--set", "gamma=7"), "gamma must be >= 0 and <= 1"),
        (("--param", "hidden_sizes=64,128"), "hidden_sizes must be a list of whole numbers"),
        (("--scheduler", "no-such"), "no-such"),
        (("--scheduler-kwargs", '{"no_such": 1}'), "no_such"),
    ],
)
def test_mistakes_are_told_before_the_measurement(finder: Any, budget: Any, words: Any, message: str) -> None:
    ran = finder("tune", "ppo", "--env", "CartPole-v1", "--param", "learning_rate=1e-3,1e-2", *words, *budget)
    assert ran.code == 2
    assert message in ran.err
    assert "Measuring" not in ran.err


def test_measurement_is_told(finder: Any) -> None:
    assert "Measuring the speed" in finder(*LR, *SETTINGS, "--env-steps", "600", "--dry-run").err


def test_dry_run_as_json(finder: Any) -> None:
    plan = finder(*LR, *SETTINGS, "--env-steps", "600", "--dry-run", "--json").json
    assert plan["study"] == "lr-ppo-CartPole-v1"
    assert plan["total_env_steps"] == {"most": 1_200, "expected": 1_200}
    assert plan["seconds"]["search_seconds"] == pytest.approx(60)


@pytest.mark.parametrize(
    ("words", "question", "trials"),
    [
        (("opt", "ppo", "--optimizer", "adam", "--optimizer", "sgd"), "Which optimizer of ppo", "10 planned"),
        (("agents", "ppo", "a2c"), "Which of ppo, a2c", "2 planned"),
        (("tune", "ppo", "--param", "gamma", "--n-trials", "3"), "Which hyperparameters", "3 from the sampler tpe"),
    ],
)
def test_every_search_has_a_plan(finder: Any, words: tuple[str, ...], question: str, trials: str) -> None:
    ran = finder(*words, "--env", "CartPole-v1", "--env-steps", "600", "--seeds", "1", "--dry-run", "--quiet")
    assert ran.code == 0
    assert question in ran.out
    assert trials in ran.out
    assert ran.err == ""


def test_dry_run_of_a_file(finder: Any) -> None:
    (finder.folder / "study.toml").write_text(STUDY)
    ran = finder("run", "study.toml", "--dry-run")
    assert "2 from the sampler tpe, 1 seed each" in ran.out
    assert not (finder.folder / "finder.db").exists()


@pytest.mark.slow
def test_minutes_choose_the_steps_of_each_run(finder: Any) -> None:
    ran = finder(*LR, *SETTINGS, "--minutes", "1.5", "--dry-run", "--json").json
    assert ran["minutes"] == 1.5
    assert 700 < ran["env_steps"] <= 845  # 85.5 s less 1 s, for two runs of 50 ms a step
    ran = finder(*LR, *SETTINGS, "--minutes", "1.5")
    assert ran.code == 0, ran.err
    assert "1.5 minutes: 2 trials of 1 seed, " in ran.err
    assert "2 trials: 2 complete" in ran.err


def test_minutes_of_the_command_replace_the_steps_of_a_file(finder: Any) -> None:
    (finder.folder / "study.toml").write_text(STUDY)
    ran = finder("run", "study.toml", "--n-jobs", "1", "--minutes", "1.5", "--dry-run", "--json").json
    assert 700 < ran["env_steps"] <= 845
    assert ran["trials"] == 2
    ran = finder("run", "study.toml", "--total-env-steps", "2000", "--dry-run", "--json").json
    assert ran["env_steps"] == 1_000


@pytest.mark.slow
def test_total_steps_choose_the_steps_of_each_run(finder: Any) -> None:
    ran = finder(*LR, *SETTINGS, "--total-env-steps", "1400")
    assert ran.code == 0, ran.err
    assert "1,400 environment steps in total: 2 trials of 1 seed, 700 environment steps each" in ran.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--minutes", "0.01"), "0.01 minutes are too few: 2 trials of 512 environment steps"),
        (("--minutes", "1", "--env-steps", "600"), "which leaves nothing to choose for it: leave out env_steps"),
        (("--minutes", "1", "--total-env-steps", "600"), "give one of the two"),
        (("--minutes", "1", "--episodes", "6"), "minutes is for runs in environment steps"),
        (("--minutes", "0"), "0 is no time: give minutes above 0"),
        (("--minutes", "inf"), "inf is no time"),
        (("--total-env-steps", "10"), "10 environment steps are too few"),
        (("--range-test", "--minutes", "1"), "--minutes 1 is for searches of several trials"),
        (("--range-test", "--dry-run"), "--dry-run is for searches of several trials"),
    ],
)
def test_mistakes_are_refused_before_anything_is_written(finder: Any, words: tuple[str, ...], message: str) -> None:
    base = tuple(word for word in LR if word not in ("--n-jobs", "1")) if "--range-test" in words else LR
    base = tuple(word for word in base if word not in ("--rates", "1e-3,1e-2")) if "--range-test" in words else base
    ran = finder(*base, *(() if "--range-test" in words else SETTINGS), *words)
    assert ran.code == 2, ran.err
    assert message in " ".join(ran.err.split())
    assert not (finder.folder / "finder.db").exists()
