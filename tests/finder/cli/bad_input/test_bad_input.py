"""Tests of mistakes: one message on stderr, exit code 2, no traceback, and no file left."""

from __future__ import annotations

import re
from typing import Any

import pytest

PPO = ("ppo", "--env", "CartPole-v1")

MISTAKES = {
    "unknown command": (("lrr",), "Did you mean 'lr'"),
    "no environment": (("lr", "ppo"), "Missing option '--env'"),
    "unknown flag": (("lr", *PPO, "--env-step", "5"), "--env-steps"),
    "unknown agent": (("lr", "pppo", "--env", "CartPole-v1"), "Did you mean ppo"),
    "agent that cannot be imported": (("lr", "nowhere:Agent", "--env", "CartPole-v1"), "nowhere"),
    "unknown environment": (("lr", "ppo", "--env", "CartPol-v1"), "Did you mean CartPole-v1"),
    "environment of a module that is not there": (("lr", "ppo", "--env", "nowhere:X-v0"), "'nowhere'"),
    "environment argument": (("lr", *PPO, "--env-kwargs", '{"colour": 1}'), "colour"),
    "unknown optimizer": (("opt", *PPO, "--optimizer", "adamm"), "Did you mean adam"),
    "unknown optimizer of agents": (("agents", "a2c", *PPO, "--optimizer", "adamm"), "Did you mean adam"),
    "one agent": (("agents", *PPO), "ppo is compared with nothing: give two or more agents"),
    "ends of a range that are no numbers": (
        ("tune", *PPO, "--param", "gamma=a:b"),
        "gamma=a:b: the ends of a range must be numbers",
    ),
    "unknown optimizer to tune": (("tune", *PPO, "--param", "optimizer=adamm,sgd"), "Did you mean adam"),
    "optimizers in one flag": (
        ("opt", *PPO, "--optimizer", "adam,sgd"),
        "give the flag once for each, --optimizer adam",
    ),
    "optimizers of agents in one flag": (("agents", "a2c", *PPO, "--optimizer", "adam, sgd"), "once for each"),
    "optimizer argument": (("opt", *PPO, "--optimizer", "sgd(momentun=0.9)"), "momentum"),
    "unknown sampler": (("tune", *PPO, "--sampler", "tpee"), "Did you mean 'tpe'"),
    "sampler argument": (("tune", *PPO, "--sampler-kwargs", '{"n_startup_trial": 1}'), "n_startup_trials"),
    "unknown scheduler": (
        ("lr", *PPO, "--scheduler", "medain"),
        "there is no scheduler 'medain'. Did you mean 'median'",
    ),
    "scheduler by its other flag": (("lr", *PPO, "--pruner", "medain"), "there is no scheduler 'medain'"),
    "unknown executor": (("lr", *PPO, "--executor", "proces"), "process"),
    "unknown metric": (("lr", *PPO, "--metric", "rewards"), "there is no metric 'rewards'"),
    "greedy episodes": (("lr", *PPO, "--metric", "greedy-return:0"), "a number of episodes from 1 to 1,000"),
    "greedy episodes without an end": (
        ("lr", "ppo", "--env", "fakes:TwoStep-v0", "--metric", "greedy-return"),
        "give it one (--max-episode-steps N; in Python EnvironmentSpec(..., max_episode_steps=N))",
    ),
    "a range test by greedy returns": (
        ("lr", *PPO, "--range-test", "--metric", "greedy-return"),
        "metric must be 'return' (or 'reward') or 'loss', got 'greedy-return'",
    ),
    "a metric twice": (("tune", *PPO, "--metric", "auc", "--metric", "auc"), "'auc' was given more than once"),
    "four metrics": (
        ("tune", *PPO, *(f"--metric={name}" for name in ("return", "auc", "loss", "steps-to:9"))),
        "4 metrics were given (return, auc, loss, steps-to:9): give at most 3",
    ),
    "an unknown second metric": (("tune", *PPO, "--metric=auc", "--metric=retrun"), "there is no metric 'retrun'"),
    "a pruner with several metrics": (
        ("tune", *PPO, "--metric=auc", "--metric=return", "--pruner=median"),
        "scheduler is 'median' with several metrics (auc, return)",
    ),
    "confirmation with several metrics": (
        ("tune", *PPO, "--metric=auc", "--metric=return", "--confirm=2"),
        "confirm is 2 with several metrics (auc, return)",
    ),
    "rates by several metrics": (("lr", *PPO, "--metric=auc", "--metric=return"), "finder lr picks by one"),
    "optimizers by several metrics": (("opt", *PPO, "--metric=auc", "--metric=return"), "finder opt picks by one"),
    "a range test by several metrics": (
        ("lr", *PPO, "--range-test", "--metric=loss", "--metric=return"),
        "--metric was given 2 times (loss, return): give one metric here",
    ),
    "a trial to train without a study": (("train", *PPO, "--trial", "3"), "--trial"),
    "action space": (("lr", "dqn", "--env", "Pendulum-v1"), "discrete actions"),
    "unknown hyperparameter": (("lr", *PPO, "--set", "gama=0.9"), "Did you mean gamma"),
    "hyperparameter out of range": (("lr", *PPO, "--set", "gamma=2"), "gamma must be"),
    "unknown parameter": (("tune", *PPO, "--param", "gama=0.9:0.99"), "Did you mean gamma"),
    "parameter without a range": (("tune", *PPO, "--param", "hidden_sizes"), "search range of its own"),
    "parameter that is fixed": (("tune", *PPO, "--param", "gamma=0.9:0.99", "--set", "gamma=0.9"), "both"),
    "empty range": (("tune", *PPO, "--param", "gamma=0.99:0.9"), "low must be below high"),
    "rates the wrong way round": (("lr", *PPO, "--start-lr", "0.1", "--end-lr", "0.01"), "start_lr must be"),
    "rates that are equal": (("lr", *PPO, "--start-lr", "0.1", "--end-lr", "0.1"), "start_lr must be"),
    "a rate of zero": (("lr", *PPO, "--start-lr", "0"), "start_lr must be > 0"),
    "a range test's rates": (("lr", *PPO, "--range-test", "--start-lr", "1", "--end-lr", "0.1"), "start_lr must be"),
    "a range test's horizon": (("lr", *PPO, "--range-test", "--horizon", "3000"), "--horizon"),
    "a range test's executor": (("lr", *PPO, "--range-test", "--n-jobs", "2"), "--n-jobs"),
    **{
        f"a range test's {option}": (("lr", *PPO, "--range-test", *option.split()), f"{option} is for searches of")
        for option in (
            "--rates 1e-3,1e-2",
            "--confirm 0",
            "--scheduler race",
            "--population 4",
            "--no-extend",
            "--hang-seconds 5",
            "--checkpoint-seconds 0",
            "--callback mine:Own",
        )
    },
    "a horizon of episodes": (("lr", *PPO, "--horizon", "3000", "--episodes", "9"), "the budget is in episodes"),
    "a varied argument without values": (("opt", *PPO, "--vary", "momentum="), "write name=0,0.9"),
    "an argument that none takes": (
        ("opt", *PPO, "--optimizer", "adam", "--vary", "momentum=0,0.9"),
        "'momentum'",
    ),
    "rates twice": (("lr", *PPO, "--rates", "1e-3", "--n-rates", "3"), "either --rates"),
    "rates of optimizers twice": (
        ("opt", *PPO, "--rates", "1e-3", "--n-rates", "3"),
        "n_rates is 3, but the rates are given",
    ),
    "a seed of no sampler": (("lr", *PPO, "--seed", "3"), "no sampler has a seed"),
    "a seed of optimizers": (("opt", *PPO, "--seed", "3"), "No such option: --seed"),
    "a population of single runs": (
        ("lr", *PPO, "--executor", "process", "--population", "4"),
        "population is 4, but with the executor 'process' each run is trained by itself",
    ),
    "a population of agents": (
        ("agents", "ppo", "dqn", "--env", "CartPole-v1", "--population", "4"),
        "No such option: --population",
    ),
    "a population with a strategy": (
        ("lr", *PPO, "--strategy", "one-device", "--population", "4"),
        "with the strategy 'one-device' each run",
    ),
    "no rates": (("lr", *PPO, "--n-rates", "0"), "n_rates must be >= 2"),
    "steps that are no number": (("lr", *PPO, "--env-steps", "many"), "'--env-steps': it should be a whole number"),
    "a part of a step": (("lr", *PPO, "--horizon", "1e-3"), "it should be a whole number, such as 50000 or 5e4"),
    "nothing searched": (("tune", *PPO, "--param", "gamma=0.99"), "gamma has a single value. Give it a range"),
    "nothing searched in a file": (("run", "nothing-searched.toml"), "Nothing is searched: give hyperparameters"),
    "a setting without effect": (
        ("lr", "dqn", "--env", "CartPole-v1", "--set", "priority_alpha=0.9"),
        "priority_alpha has no effect beside the other settings",
    ),
    "a range test's setting without effect": (
        ("lr", "dqn", "--env", "CartPole-v1", "--range-test", "--set", "priority_alpha=0.9"),
        "priority_alpha has no effect beside the other settings",
    ),
    "a hyperparameter and its complement": (
        ("tune", *PPO, "--param", "gamma=0.9:0.999", "--set", "one_minus_gamma=0.05"),
        "gamma and one_minus_gamma set the same hyperparameter",
    ),
    "a complement that is set too": (
        ("lr", *PPO, "--set", "gamma=0.9", "--set", "one_minus_gamma=0.05"),
        "gamma and one_minus_gamma set the same hyperparameter",
    ),
    "an extension of given rates": (("lr", *PPO, "--rates", "1e-4,1e-3", "--extend"), "--rates lists them"),
    "an extension of own rates": (("opt", *PPO, "--rates", "own", "--extend"), "--rates lists them"),
    "a first seed of a list": (
        ("lr", *PPO, "--range-test", "--seeds", "5,6", "--seed", "3"),
        "--seed is the first of several seeds, and --seeds lists them",
    ),
    "a report as another file": (("report", "x", "--output", "x.pdf"), "give a file that ends in .html"),
    "no steps": (("lr", *PPO, "--env-steps", "0"), "'--env-steps': it should be greater than or equal to 1"),
    "negative steps": (("opt", *PPO, "--env-steps", "-5"), "'--env-steps': it should be greater than or equal to 1"),
    "negative episodes": (("lr", *PPO, "--episodes", "-5"), "'--episodes': it should be greater than or equal to 1"),
    "two budgets": (("lr", *PPO, "--env-steps", "5", "--episodes", "5"), "env_steps and episodes"),
    "no trials": (("tune", *PPO, "--n-trials", "0"), "'--n-trials': it should be greater than or equal to 1"),
    "no seeds": (("lr", *PPO, "--seeds", "0"), "seeds: 0 is not a number of seeds"),
    "equal seeds": (("lr", *PPO, "--seeds", "1,1"), "seeds"),
    "no jobs": (("lr", *PPO, "--n-jobs", "0"), "'--n-jobs': it should be greater than or equal to 1"),
    "no name": (("lr", *PPO, "--study-name", ""), "'--study-name': give a name"),
    "no name for a file's study": (("run", "fine.toml", "--study-name", " "), "'--study-name': give a name"),
    "a rate that is no number": (("lr", *PPO, "--rates", "1e-3,nan"), "--rates has nan: a learning rate is"),
    "a rate below zero": (("lr", *PPO, "--rates=-1e-3"), "--rates has -1e-3: a learning rate is"),
    "no rate at all": (("lr", *PPO, "--rates", ","), "--rates is ','"),
    "a rate twice": (("lr", *PPO, "--rates", "1e-3,0.001"), "--rates has 0.001 twice"),
    "an optimizer twice": (("opt", *PPO, "--optimizer", "adam", "--optimizer", "Adam"), "--optimizer has 'Adam' twice"),
    "no closing bracket": (("opt", *PPO, "--optimizer", "sgd(momentum=0.9"), "no closing bracket"),
    "a file without its class": (
        ("lr", "mine.py", "--env", "CartPole-v1"),
        "write mine.py:Class. Agents in it: Mine, Own.",
    ),
    "a class that the file has not": (
        ("lr", "mine.py:Nope", "--env", "CartPole-v1"),
        "mine.py has nothing called 'Nope'. Agents",
    ),
    "a study to remove": (("delete", "nope", "--yes", "--storage", "empty.db"), "there is no study 'nope'"),
    "nobody to ask": (("delete", "nope", "--storage", "empty.db"), "there is no study 'nope'"),
    "several jobs inline": (("lr", *PPO, "--n-jobs", "2", "--executor", "inline"), "process"),
    "agents inline": (("agents", *PPO[:1], *PPO, "--executor", "inline"), "No such option: --executor"),
    "not JSON": (("lr", *PPO, "--env-kwargs", "{a"), "--env-kwargs"),
    "storage in no folder": (("lr", *PPO, "--storage", "nowhere/x.db"), "make the directory"),
    "storage of no kind": (("lr", *PPO, "--storage", "x.txt"), "sqlite:///finder.db"),
    "storage that is no database": (("lr", *PPO, "--storage", "note.db"), "not an SQLite database"),
    "storage that is no database, range test": (("lr", *PPO, "--range-test", "--storage", "note.db"), "not an SQLite"),
    "no file": (("run", "nothing.toml"), "nothing.toml"),
    "unknown key": (("run", "unknown.toml"), "unknown.toml, line 3: unknown key 'env_stepz'. Did you mean 'env_steps'"),
    "mistyped key": (("run", "mistyped.toml"), "mistyped.toml, line 3: env_steps is 'many'"),
    "unknown port": (("dashboard", "--storage", "empty.db", "--port", "99999"), "port is 99999"),
}


@pytest.mark.parametrize(("words", "message"), MISTAKES.values(), ids=MISTAKES.keys())
def test_mistake_is_reported_in_one_message(finder: Any, words: tuple[str, ...], message: str) -> None:
    (finder.folder / "note.db").write_text("this is no database, leave it alone")
    (finder.folder / "empty.db").touch()
    (finder.folder / "mine.py").write_text(
        "import agents\nclass Mine(agents.KerasAgent): pass\nclass Config: pass\nclass Own(Mine): pass\n"
    )
    (finder.folder / "unknown.toml").write_text('name = "x"\nagents = ["ppo"]\nenv_stepz = 5\nenv = "CartPole-v1"\n')
    (finder.folder / "nothing-searched.toml").write_text(
        'name = "x"\nagents = ["ppo"]\nenv_steps = 50\nenv = "CartPole-v1"\n'
    )
    (finder.folder / "mistyped.toml").write_text(
        'name = "x"\nagents = "ppo"\nenv_steps = "many"\nenv = "CartPole-v1"\n'
    )
    ran = finder(*words)
    assert ran.code == 2, ran.err
    assert ran.out == ""
    assert message in ran.err
    assert len(re.findall("^Error: ", ran.err, re.MULTILINE)) == 1
    assert "Traceback" not in ran.err
    assert (finder.folder / "note.db").read_text() == "this is no database, leave it alone"
    storage = finder.folder / "finder.db"
    assert not storage.exists() or finder("studies", "--json").json == []


@pytest.mark.parametrize(("flag", "name"), [("--sampler", "tpee"), ("--scheduler", "medain")])
def test_name_is_checked_before_tensorflow_is_imported(
    finder: Any, monkeypatch: pytest.MonkeyPatch, flag: str, name: str
) -> None:
    def never() -> None:
        raise AssertionError("imported")

    monkeypatch.setattr("finder.cli.session.import_tensorflow", never)
    ran = finder("tune", *PPO, flag, name)
    assert (ran.code, ran.out) == (2, "")
    assert f"{name!r}. Did you mean" in ran.err


def test_unexpected_error_keeps_its_traceback(finder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("studies.analysis.listing.list_studies", fail)
    with pytest.raises(RuntimeError, match="a bug"):
        finder("studies")


@pytest.mark.slow
def test_closed_pipe_prints_no_error(finder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    script = (
        "import sys, studies.analysis.listing\n"
        "def fail(*_): raise BrokenPipeError\n"
        "studies.analysis.listing.list_studies = fail\n"
        "from finder.cli import main; sys.exit(main(['studies']))"
    )
    done = finder.python("-c", script)
    assert (done.returncode, done.stderr) == (1, "")
