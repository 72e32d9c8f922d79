"""Tests of the trials that `finder tune` and `finder run` try before those of the sampler."""

from __future__ import annotations

from typing import Any

import pytest

import studies

TRAIN = """
def train(run, learning_rate: float = 1e-2, gain: float = 1.0, kind: str = "a"):
    while True:
        run.report(gain + learning_rate + run.seed / 1000, length=10)
"""
FUNCTION = ("trains.py:train", "--env", "CartPole-v1", "--executor", "inline")
SHORT = ("--env-steps", "200", "--seeds", "1", "--confirm", "0", "--quiet")
SPACE = ("--param", "learning_rate=1e-4:1e-1:log", "--param", "gain=0:2.0", "--param", "kind=a,b")


@pytest.fixture
def trains(finder: Any) -> Any:
    (finder.folder / "trains.py").write_text(TRAIN)
    return finder


def params_of(finder: Any, name: str) -> list[dict[str, Any]]:
    with studies.load_study(name, f"{finder.folder}/finder.db") as study:
        return [study.params(trial) for trial in study.trials()]


@pytest.mark.slow
def test_given_sets_are_the_first_trials_and_the_sampler_completes_them(trains: Any) -> None:
    (trains.folder / "known.toml").write_text("[[first]]\nlearning_rate = 0.05\ngain = 2\nkind = 'b'\n")
    words = ("tune", *FUNCTION, *SHORT, *SPACE, "--study-name", "s", "--sampler", "random")
    first = ("--first", "learning_rate=3e-3,gain=0.5", "--first", "known.toml")
    ran = trains(*words, *first, "--n-trials", "4")
    assert ran.code == 0, ran.err
    one, two, three, four = params_of(trains, "s")
    assert (one["learning_rate"], one["gain"]) == (3e-3, 0.5)
    assert one["kind"] in ("a", "b")
    assert two == {"learning_rate": 0.05, "gain": 2.0, "kind": "b"}
    assert three == {"learning_rate": 1e-2, "gain": 1.0, "kind": "a"}, "the agent with its present values"
    assert four not in (one, two, three)
    assert "\ngain over the baseline (#2, the agent's own settings) in the search: 1.04" in ran.out
    again = trains(*words, *first, "--first", "gain=0.25", "--n-trials", "6")
    assert again.code == 0, again.err
    more = params_of(trains, "s")
    assert more[:4] == [one, two, three, four]
    assert more[4]["gain"] == 0.25, "the set that was not tried before"


def test_file_of_a_study_has_first_trials(trains: Any) -> None:
    (trains.folder / "study.toml").write_text(
        'name = "f"\nagents = "trains.py:train"\nenv = "CartPole-v1"\nenv_steps = 200\nseeds = 1\nconfirm = 0\n'
        'n_trials = 2\nexecutor = "inline"\n[params]\ngain = "0:2.0"\n[[first]]\ngain = 1.25\n'
    )
    ran = trains("run", "study.toml", "--quiet")
    assert ran.code == 0, ran.err
    assert params_of(trains, "f")[0] == {"gain": 1.25}


def test_mistakes_in_first_trials_of_a_file_have_lines(trains: Any) -> None:
    (trains.folder / "study.toml").write_text(
        'name = "f"\nagents = "ppo"\nenv = "CartPole-v1"\nenv_steps = 200\n[params]\ngamma = "0.9:0.99"\n'
        "[[first]]\ngama = 0.95\n"
    )
    ran = trains("run", "study.toml", "--quiet")
    assert ran.code == 2
    assert "study.toml, line 8: " in ran.err
    assert "Did you mean gamma" in ran.err


@pytest.mark.slow
def test_tuned_values_of_the_zoo_are_a_first_trial(finder: Any) -> None:
    words = ("tune", "ppo", "--env", "CartPole-v1", "--executor", "inline", "--confirm", "0", "--n-trials", "2")
    ran = finder.small(*words, "-p", "learning_rate", "-p", "gamma=0.9:0.999", "--first", "zoo", "--study-name", "z")
    assert ran.code == 0, ran.err
    assert params_of(finder, "z")[0] == {"learning_rate": 1e-3, "gamma": 0.98}
    shown = " ".join(ran.err.split())
    assert (
        "First trial: tuned values of rl-baselines3-zoo 2.9.2 for ppo in CartPole-v1, from runs of 100,000 steps"
        in shown
    )
    assert "batch_size=256 (here 64)" in shown


@pytest.mark.slow
def test_default_space_begins_with_tuned_values_unless_they_are_declined(finder: Any) -> None:
    words = ("tune", "ppo", "--env", "MountainCarContinuous-v0", "--dry-run", "--n-trials", "4", "--env-steps", "20000")
    shown = []
    for more in ([], ["--first", "zoo"], ["--first", "none"]):
        ran = finder(*words, *more)
        assert ran.code == 0, ran.err
        shown.append(" ".join((ran.out + ran.err).split()))
    by_default, asked, declined = shown
    assert "normalize_rewards=True" in by_default
    assert "--first none leaves them out" in by_default
    assert "normalize_rewards=True" in asked
    assert "--first none" not in asked
    assert "tuned values" not in declined


@pytest.mark.slow
def test_default_space_begins_without_tuned_values_where_there_are_none_or_something_else_is_first(finder: Any) -> None:
    words = ("tune", "ppo", "--dry-run", "--n-trials", "4", "--env-steps", "20000")
    for more in (
        ["--env", "MountainCarContinuous-v0", "--first", "learning_rate=1e-3"],
        ["--env", "MountainCarContinuous-v0", "--param", "learning_rate"],
        ["--env", "Blackjack-v1"],
    ):
        ran = finder(*words, *more)
        assert ran.code == 0, ran.err
        assert "tuned values" not in ran.out + ran.err


def test_no_first_trials_and_some_contradict_each_other(finder: Any) -> None:
    ran = finder("tune", "ppo", "--env", "CartPole-v1", "--first", "none", "--first", "learning_rate=1e-3")
    assert ran.code == 2
    assert "--first none cannot be combined" in " ".join(ran.err.split())


@pytest.mark.slow
def test_tuned_values_do_not_widen_the_space_of_population_based_training(finder: Any) -> None:
    words = ("tune", "ppo", "--env", "MountainCarContinuous-v0", "--first", "zoo", "--scheduler", "pbt", "--dry-run")
    ran = finder(*words, "--n-trials", "4", "--env-steps", "20000")
    assert ran.code == 0, ran.err
