"""Tests of the effect of each option of a search."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

WATCH = '''
import json
import os
import time
from pathlib import Path

import agents
from gymnasium.envs.classic_control import CartPoleEnv
from gymnasium.wrappers import TimeLimit

HERE = Path(__file__).parent


def note(name, value):
    with (HERE / name).open("a") as file:
        file.write(json.dumps(value) + "\\n")


class Watch(agents.Callback):
    """Records the process and the runs of each training."""

    of_members = True

    def on_train_begin(self, trainer):
        agent = trainer.agent
        note("began", {
            "process": os.getpid(), "runs": len(trainer.runs),
            "strategy": type(getattr(agent, "strategy", None)).__name__,
        })

    def on_episode_end(self, trainer, episode):
        kept = HERE / "kept"
        note("files", len([*kept.rglob("*")]) if kept.exists() else 0)


class Place(CartPoleEnv):
    """Records the process of the environment."""

    def reset(self, **options):
        note("stepped", os.getpid())
        return super().reset(**options)


def place():
    return TimeLimit(Place(), 30)


def train(run, learning_rate: float = 1e-2, gain: float = 1.0):
    """Reports its gain; waits for a second process if the folder `together` exists."""
    note("began", {"process": os.getpid(), "seed": run.seed, "learning_rate": learning_rate, "gain": gain})
    together = HERE / "together"
    if together.exists():
        (together / str(os.getpid())).touch()
        for _ in range(6000):
            if len([*together.iterdir()]) > 1:
                break
            time.sleep(0.01)
    while True:
        run.report(gain + learning_rate + run.seed / 1000, length=10)
'''

FUNCTION = ("watch.py:train", "--env", "CartPole-v1", "--executor", "inline")
SHORT = ("--env-steps", "200", "--seeds", "1")
PPO = ("ppo", "--env", "watch.py:place", "--callback", "watch.py:Watch", "--confirm", "0", "--pruner", "none")


@pytest.fixture
def watched(finder: Any) -> Any:
    (finder.folder / "watch.py").write_text(WATCH)
    return finder


def noted(finder: Any, name: str) -> list[Any]:
    """Return the recorded values in order, and remove them."""
    path: Path = finder.folder / name
    values = [json.loads(line) for line in path.read_text().splitlines()]
    path.unlink()
    return values


class TestOptionsOfAllSearches:
    @pytest.mark.slow
    def test_callback_runs_in_trials(self, watched: Any) -> None:
        ran = watched.small("lr", *PPO, "--rates", "1e-3", "--executor", "inline")
        assert ran.code == 0, ran.err
        assert [each["process"] for each in noted(watched, "began")] == [os.getpid()]

    @pytest.mark.slow
    def test_population_limits_the_runs_trained_together(self, watched: Any) -> None:
        words = ("lr", *PPO, "--rates", "1e-4,1e-3,1e-2", "--n-jobs", "1", "--storage", "memory")
        for population, together in ((1, [1, 1, 1]), (2, [2, 1])):
            ran = watched.small(*words, "--population", str(population))
            assert ran.code == 0, ran.err
            assert [each["runs"] for each in noted(watched, "began")] == together

    @pytest.mark.real
    def test_n_jobs_sets_the_number_of_processes(self, watched: Any) -> None:
        (watched.folder / "together").mkdir()  # each of two processes waits for the other one
        words = ("lr", *FUNCTION, *SHORT, "--executor", "process", "--confirm", "0", "--no-extend")
        ran = watched(*words, "--rates", "1e-3,1e-2", "--n-jobs", "2")
        assert ran.code in (0, 1), ran.err
        assert len([*(watched.folder / "together").iterdir()]) == 2
        assert len({each["process"] for each in noted(watched, "began")} - {os.getpid()}) == 2

    @pytest.mark.real
    def test_strategy_reaches_the_agents_of_trials(self, watched: Any) -> None:
        ran = watched.small("lr", *PPO, "--rates", "1e-3", "--strategy", "one-device")
        assert ran.code == 0, ran.err
        assert [each["strategy"] for each in noted(watched, "began")] == ["OneDeviceStrategy"]

    @pytest.mark.real
    def test_vectorization_selects_the_processes_of_environments(self, watched: Any) -> None:
        words = ("lr", *PPO, "--rates", "1e-3", "--executor", "inline", "--storage", "memory")
        for vectorization, elsewhere in (("sync", False), ("async", True)):
            ran = watched.small(*words, "--vectorization", vectorization)
            assert ran.code == 0, ran.err
            trained, stepped = {each["process"] for each in noted(watched, "began")}, {*noted(watched, "stepped")}
            assert trained == {os.getpid()}
            assert trained.isdisjoint(stepped) == elsewhere

    @pytest.mark.slow
    def test_checkpoint_seconds_sets_the_checkpoint_interval(
        self, watched: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("FINDER_CHECKPOINTS", str(watched.folder / "kept"))
        words = ("lr", *PPO, "--rates", "1e-3", "--executor", "inline", "--storage", "new.db")
        for seconds, some in (("0", False), ("0.000001", True)):
            ran = watched.small(*words, "--checkpoint-seconds", seconds, "--study-name", f"every {seconds}")
            assert ran.code == 0, ran.err
            assert (max(noted(watched, "files")) > 0) == some

    @pytest.mark.slow
    def test_hang_seconds_fails_a_hanging_trial(self, watched: Any) -> None:
        hangs = ("lr", "ppo", "--env", "fakes:TwoStep-v0", "--env-kwargs", '{"hang_after": 40}', "--rates", "1e-3")
        ran = watched.small(*hangs, "--hang-seconds", "1", "--executor", "inline", "--json")
        assert ran.code == 1
        assert ran.json["trials"] == {"complete": 0, "pruned": 0, "failed": 1}
        [trial] = watched("show", ran.json["study"], "--json").json["trials"]
        assert trial["state"] == "failed"
        assert "1 s" in trial["reason"]

    def test_seed_makes_proposals_reproducible(self, watched: Any) -> None:
        words = ("tune", *FUNCTION, *SHORT, "--param", "gain=0.0:1.0", "--n-trials", "3", "--sampler", "random")
        drawn = []
        for seed in ("0", "1", "1"):
            ran = watched(*words, "--seed", seed, "--confirm", "0", "--pruner", "none", "--storage", "memory")
            assert ran.code == 0, ran.err
            drawn.append([each["gain"] for each in noted(watched, "began")])
        assert drawn[0] != drawn[1] == drawn[2]

    def test_episodes_sets_the_budget(self, watched: Any) -> None:
        words = ("lr", *FUNCTION, "--rates", "1e-3", "--seeds", "1", "--confirm", "0", "--no-extend")
        ran = watched(*words, "--episodes", "7", "--json")
        shown = watched("show", ran.json["study"], "--json").json
        assert (shown["study"]["episodes"], shown["study"].get("env_steps")) == (7, None)
        assert [trial["env_steps"] for trial in shown["trials"]] == [70]

    @pytest.mark.slow
    def test_confirm_seeds_sets_the_number_of_seeds(self, watched: Any) -> None:
        words = ("tune", *FUNCTION, *SHORT, "--param", "gain=1.0,2.0", "--sampler", "grid", "--pruner", "none")
        ran = watched(*words, "--confirm", "1", "--confirm-seeds", "4", "--json")
        assert ran.code == 0, ran.err
        assert [(each["gain"], each["seed"]) for each in noted(watched, "began")[-4:]] == [
            (2.0, seed) for seed in (1, 2, 3, 4)
        ]
        assert ran.json["pick"]["value"] == pytest.approx(2.0125)

    def test_confirm_env_steps_lengthens_the_runs_of_finalists(self, watched: Any) -> None:
        words = ("tune", *FUNCTION, *SHORT, "--param", "gain=1.0,2.0", "--sampler", "grid", "--pruner", "none")
        ran = watched(*words, "--confirm", "2", "--confirm-seeds", "2", "--confirm-env-steps", "300", "--json")
        assert ran.code == 0, ran.err
        shown = watched("show", ran.json["study"], "--json").json
        assert shown["study"]["confirm_env_steps"] == 300
        assert ran.json["pick"]["value_env_steps"] == 300
        assert ran.json["pick"]["env_steps"] == shown["study"]["env_steps"] < 300

    def test_pruner_kwargs_reach_the_pruner(self, watched: Any) -> None:
        words = ("tune", *FUNCTION, *SHORT, "--param", "gain=1.0,2.0,3.0", "--sampler", "grid", "--confirm", "0")
        for lower, pruned in (("1.5", 1), ("2.5", 2)):
            least = ("--pruner", "threshold", "--pruner-kwargs", f'{{"lower": {lower}}}')
            ran = watched(*words, *least, "--storage", "memory", "--json")
            assert ran.code == 0, ran.err
            assert ran.json["trials"] == {"complete": 3 - pruned, "pruned": pruned, "failed": 0}

    @pytest.mark.slow
    def test_horizon_is_the_length_of_the_long_run(self, watched: Any) -> None:
        """Runs are as long as the long run if that is affordable; otherwise the rate is corrected for it."""
        words = ("lr", *FUNCTION, "--seeds", "1", "--rates", "1e-3,1e-2", "--confirm", "0", "--no-extend", "--json")
        ran = watched(*words, "--horizon", "300")
        shown = watched("show", ran.json["study"], "--json").json
        assert (shown["study"]["horizon"], shown["study"]["env_steps"]) == (300, 300)
        assert ran.json["pick"]["rate"]["suggested"] == ran.json["pick"]["rate"]["tested"] == 1e-2
        ran = watched(*words, "--horizon", "20000", "--env-steps", "200", "--study-name", "short")
        rate = ran.json["pick"]["rate"]
        assert (rate["horizon"], rate["env_steps"], rate["tested"]) == (20_000, 200, 1e-2)
        assert rate["suggested"] < 1e-3


class TestOptionsOfTune:
    @pytest.mark.slow
    def test_sampler_kwargs_reach_the_sampler(self, watched: Any) -> None:
        words = ("tune", *FUNCTION, *SHORT, "--param", "gain=0.0:1.0", "--n-trials", "4", "--confirm", "0")
        halton = '{"qmc_type": "halton", "scramble": false}'
        ran = watched(*words, "--sampler", "qmc", "--sampler-kwargs", halton, "--pruner", "none")
        assert ran.code == 0, ran.err
        drawn = [each["gain"] for each in noted(watched, "began")]
        assert {0.5, 0.25} <= {*drawn}  # the sequence of van der Corput

    @pytest.mark.parametrize(("sampler", "package"), [("cmaes", "cmaes"), ("gp", "torch")])
    def test_sampler_with_a_missing_package_is_refused_before_the_search(
        self, watched: Any, monkeypatch: pytest.MonkeyPatch, sampler: str, package: str
    ) -> None:
        import importlib.util

        there = importlib.util.find_spec
        monkeypatch.setattr(importlib.util, "find_spec", lambda name, *_: None if name == package else there(name))
        ran = watched("tune", *FUNCTION, *SHORT, "--param", "gain=0.0:1.0", "--sampler", sampler)
        assert (ran.code, ran.out) == (2, "")
        assert f"the sampler '{sampler}' needs the package '{package}', which is not installed: " in ran.err
        assert f"pip install {package}." in ran.err
        assert not (watched.folder / "began").exists()


class TestOptionsOfRates:
    @pytest.mark.slow
    def test_optimizer_name_selects_the_optimizer_of_the_rate(self, watched: Any) -> None:
        small = ("--set", "learning_starts=20", "--set", "hidden_sizes=[4]", "--set", "batch_size=4", *SHORT)
        words = ("lr", "td3", "--env", "Pendulum-v1", "--rates", "1e-4,1e-2", "--confirm", "0", "--no-extend", *small)
        ran = watched(*words, "--set", "jit_compile=false", "--optimizer-name", "critic", "--pruner", "none", "--json")
        assert ran.code == 0, ran.err
        shown = watched("show", ran.json["study"], "--json").json
        assert [trial["params"] for trial in shown["trials"]] == [{"critic.learning_rate": r} for r in (1e-4, 1e-2)]

    @pytest.mark.slow
    def test_vary_adds_arguments_of_optimizers(self, watched: Any) -> None:
        words = ("opt", "ppo", "--env", "CartPole-v1", "--optimizer", "sgd", "--optimizer", "adam", "--rates", "1e-3")
        ran = watched.small(*words, "--vary", "momentum=0,0.9", "--confirm", "0", "--pruner", "none", "--json")
        assert ran.code == 0, ran.err
        shown = watched("show", ran.json["study"], "--json").json
        assert [trial["params"]["optimizer"] for trial in shown["trials"]] == ["sgd", "sgd(momentum=0.9)", "adam"]

    @pytest.mark.parametrize("extends", [True, False])
    @pytest.mark.slow
    def test_no_extend_keeps_the_range_of_opt(
        self, watched: Any, extends: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        further = {"optimizer": "sgd", "learning_rate": 0.5}
        monkeypatch.setattr(
            "studies.judging.range_extension.RangeExtension.__call__",
            lambda _, study: [further] if len(study.trials()) == 2 else [],
        )
        words = ("opt", "ppo", "--env", "CartPole-v1", "--optimizer", "sgd", "--confirm", "0", "--pruner", "none")
        ran = watched.small(*words, "--n-rates", "2", *(() if extends else ("--no-extend",)), "--json")
        assert ran.json["trials"] == {"complete": 2 + extends, "pruned": 0, "failed": 0}

    @pytest.mark.slow
    @pytest.mark.parametrize("extends", [True, False])
    def test_no_extend_keeps_the_range_of_lr(self, watched: Any, extends: bool) -> None:
        (watched.folder / "better.py").write_text(
            "def train(run, learning_rate: float = 1e-3):\n"
            "    while True:\n"
            "        run.report(learning_rate + run.seed / 1e6, length=10)\n"
        )
        words = (
            "lr",
            "better.py:train",
            "--env",
            "CartPole-v1",
            "--env-steps",
            "200",
            "--seeds",
            "3",
            "--confirm",
            "0",
        )
        rates = ("--start-lr", "1e-4", "--end-lr", "1e-2", "--n-rates", "3", *(() if extends else ("--no-extend",)))
        ran = watched(*words, *rates, "--pruner", "none", "--executor", "inline", "--json")
        shown = watched("show", ran.json["study"], "--json").json
        highest = max(trial["params"]["learning_rate"] for trial in shown["trials"])
        assert (highest > 1e-2) == extends

    @pytest.mark.real
    def test_optimizer_assigns_one_optimizer_per_agent(self, watched: Any) -> None:
        words = ("agents", "ppo", "a2c", "--env", "CartPole-v1", "--optimizer", "sgd", "--optimizer", "rmsprop")
        ran = watched(*words, *SHORT, "--set", "jit_compile=false", "--set", "n_steps=8", "--json")
        shown = watched("show", ran.json["study"], "--json").json
        assert [trial["configuration"]["config"]["optimizer"] for trial in shown["trials"]] == ["sgd", "rmsprop"]


STUDY = """
name = "watched"
agents = ["{agent}"]
env = "{env}"
env_steps = 200
seeds = 1
n_trials = 2
sampler = "random"
pruner = "none"
confirm = 0
{more}

[params]
learning_rate = "1e-4:1e-2:log"
"""
FUNCTIONS = {"agent": "watch.py:train", "env": "CartPole-v1", "more": 'executor = "process"'}
MEMBERS = {
    "agent": "ppo",
    "env": "watch.py:place",
    "more": 'callbacks = ["watch.py:Watch"]\n[fixed]\njit_compile = false\nn_steps = 16\nn_epochs = 1',
}


class TestOptionsOfExistingStudies:
    """Options of `finder run` and `finder worker`, which override where the trials of a study run."""

    @pytest.fixture(params=["run", "worker"])
    def begin(self, request: pytest.FixtureRequest, watched: Any) -> Any:
        def begin(study: dict[str, str], *words: str) -> Any:
            (watched.folder / "study.toml").write_text(STUDY.format(**study))
            if request.param == "run":
                ran = watched("run", "study.toml", *words)
            else:
                assert watched("submit", "study.toml", "--study-name", "another").code == 0
                ran = watched("worker", "another", "--allow-module", "watch.py", *words)
            assert ran.code == 0, ran.err
            return ran

        return begin

    @pytest.mark.real
    def test_n_jobs_overrides_the_study(self, begin: Any, watched: Any) -> None:
        (watched.folder / "together").mkdir()
        begin(FUNCTIONS, "--n-jobs", "2")
        assert len({each["process"] for each in noted(watched, "began")}) == 2

    @pytest.mark.slow
    def test_population_overrides_the_study(self, begin: Any, watched: Any) -> None:
        begin(MEMBERS, "--population", "1", "--n-jobs", "1")
        assert [each["runs"] for each in noted(watched, "began")] == [1, 1]

    def test_executor_and_quiet_override_the_study(self, begin: Any, watched: Any) -> None:
        ran = begin(FUNCTIONS, "--executor", "inline", "--quiet")
        assert {each["process"] for each in noted(watched, "began")} == {os.getpid()}
        assert ran.err == ""
