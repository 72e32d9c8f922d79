"""Tests of the effects of options of `finder train`, `play` and `plot`."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import agents
from agents.checkpoints import file as checkpoint_file
from agents.playing import play as playing
from agents.state_files.header import header_of, list_checkpoints
from finder.cli.training.settings import environment_settings
from studies.words import spread_text

WATCH = '''
import json
import os
from pathlib import Path

import agents
from gymnasium.envs.classic_control import CartPoleEnv
from gymnasium.wrappers import TimeLimit

HERE = Path(__file__).parent


def note(name, value):
    with (HERE / name).open("a") as file:
        file.write(json.dumps(value) + "\\n")


class Watch(agents.Callback):
    """Records the process and the episodes of a training."""

    def on_train_begin(self, trainer):
        note("began", [os.getpid(), type(getattr(trainer.agent, "strategy", None)).__name__])

    def on_episode_end(self, trainer, episode):
        note("episodes", episode.episode_return)


class Place(CartPoleEnv):
    """Records the process of the environment."""

    def reset(self, **options):
        note("stepped", os.getpid())
        return super().reset(**options)


def place():
    return TimeLimit(Place(), 30)


class Fading(CartPoleEnv):
    """Rewards grow with the number of steps of this process, and are zero after 250 steps."""

    n_steps = 0

    def step(self, action):
        type(self).n_steps += 1
        observation, _, terminated, truncated, info = super().step(action)
        reward = type(self).n_steps / 100 if type(self).n_steps <= 250 else 0.0
        return observation, reward, terminated, truncated, info


def fading():
    return TimeLimit(Fading(), 10)
'''
SMALL = (
    "--set", "jit_compile=false", "--set", "n_steps=16", "--set", "n_epochs=2", "--set", "n_envs=2",
    "--set", "batch_size=16", "--set", "hidden_sizes=[8]",
)  # fmt: skip
PPO = ("train", "ppo", "--env", "watch.py:place", *SMALL, "--steps", "96", "--folder", "run", "--quiet")


@pytest.fixture
def watched(finder: Any) -> Any:
    (finder.folder / "watch.py").write_text(WATCH)
    return finder


def noted(finder: Any, name: str) -> list[Any]:
    """Return the recorded values in order."""
    return [json.loads(line) for line in (finder.folder / name).read_text().splitlines()]


def weights(agent: Any) -> list[np.ndarray[Any, Any]]:
    return [np.array(weight.numpy()) for network in agent.networks.values() for weight in network.weights]


class TestTrain:
    def test_callback_receives_the_training(self, watched: Any) -> None:
        ran = watched(*PPO, "--callback", "watch.py:Watch", "--callback", "agents:Callback")
        assert ran.code == 0, ran.err
        assert noted(watched, "began") == [[os.getpid(), "NoneType"]]
        returns = [row["return"] for row in agents.read_history(watched.folder / "run").to_pylist()]
        assert noted(watched, "episodes") == returns
        assert returns
        settings = json.loads((watched.folder / "run" / "run.json").read_text())["settings"]
        assert settings["callbacks"] == [f"{watched.folder}/watch.py:Watch", "agents:Callback"]

    def test_wrappers_are_found_from_other_folders(
        self, watched: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        Path("own.py").write_text("def scaled(env, function):\n    return env\n")
        rest = "name=some.py:thing"
        wrappers = (f"own:scaled:function=own.py:rule,{rest}", 'own.py:scaled:function="own.py:rule"')
        monkeypatch.syspath_prepend(tmp_path)
        settings = environment_settings(agents.EnvironmentSpec("CartPole-v1", wrappers=wrappers))
        own = f"{tmp_path}/own.py"
        assert settings["wrappers"] == (f"own:scaled:function={own}:rule,{rest}", f'{own}:scaled:function="{own}:rule"')

    @pytest.mark.real
    def test_pool_steps_environments_in_other_processes(self, watched: Any) -> None:
        assert watched(*PPO, "--pool", "2").code == 0
        stepping = {*noted(watched, "stepped")}
        assert len(stepping) == 2
        assert os.getpid() not in stepping

    @pytest.mark.real
    @pytest.mark.parametrize(("vectorization", "processes"), [("sync", 0), ("async", 2)])
    def test_vectorization_sets_the_processes_of_environments(
        self, watched: Any, vectorization: str, processes: int
    ) -> None:
        assert watched(*PPO, "--vectorization", vectorization).code == 0
        assert len({*noted(watched, "stepped")} - {os.getpid()}) == processes

    @pytest.mark.slow
    @pytest.mark.parametrize(("strategy", "name"), [("none", "NoneType"), ("one-device", "OneDeviceStrategy")])
    def test_strategy_is_that_of_the_agent(self, watched: Any, strategy: str, name: str) -> None:
        assert watched(*PPO, "--callback", "watch.py:Watch", "--strategy", strategy).code == 0
        assert noted(watched, "began") == [[os.getpid(), name]]


class TestCheckpoints:
    """Checkpoints of a run that improves and then gets worse."""

    WORDS = ("--steps", "300", "--evaluate-every", "50", "--evaluate-episodes", "1", "--folder", "run", "--quiet")

    @pytest.fixture
    def faded(self, watched: Any) -> Any:
        assert watched("train", "ppo", "--env", "watch.py:fading", *SMALL, *self.WORDS, "--keep", "2").code == 0
        return watched

    @pytest.mark.slow
    def test_best_option_plays_the_best_checkpoint(self, faded: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        evaluations = agents.read_evaluations(faded.folder / "run").to_pylist()
        best = max(evaluations, key=lambda row: row["mean_return"])["env_steps"]
        assert 0 < best < evaluations[-1]["env_steps"]
        played = []
        play = playing.play
        monkeypatch.setattr(
            "agents.playing.play.play", lambda agent, *a, **k: (played.append(agent), play(agent, *a, **k))
        )
        for flags, env_steps in (((), 300), (("--best",), best)):
            ran = faded("play", "run", "--headless", "--max-steps", "3", "--json", *flags)
            assert ran.code == 0, ran.err
            path = Path(ran.json["checkpoint"])
            header = header_of(faded.folder / path)
            assert header.env_steps == env_steps
            assert f"trained for {env_steps:,} environment steps" in ran.err
            kept = checkpoint_file.load_agent(faded.folder / path)
            for ours, theirs in zip(weights(played[-1]), weights(kept), strict=True):
                np.testing.assert_array_equal(ours, theirs)
        assert any((a != b).any() for a, b in zip(*map(weights, played), strict=True))

    @pytest.mark.slow
    def test_best_only_writes_better_checkpoints(self, watched: Any) -> None:
        words = ("train", "ppo", "--env", "watch.py:fading", *SMALL, *self.WORDS, "--best-only")
        assert watched(*words).code == 0
        evaluations = agents.read_evaluations(watched.folder / "run").to_pylist()
        best = [(row["env_steps"], row["mean_return"]) for row in evaluations if row["is_best"]]
        assert 1 < len(best) < len(evaluations)
        headers = list_checkpoints(watched.folder / "run" / "checkpoints").values()
        written = [(header.env_steps, header.value) for header in headers if header.value is not None]
        assert written == [*best[-2:], (300, evaluations[-1]["mean_return"])]  # the final state is always written


def test_result_of_a_run_has_its_last_evaluation(watched: Any) -> None:
    words = ("--steps", "60", "--evaluate-every", "50", "--evaluate-episodes", "2", "--folder", "run")
    ran = watched("train", "ppo", "--env", "watch.py:fading", *SMALL, *words)
    assert ran.code == 0, ran.err
    last = agents.read_evaluations(watched.folder / "run").to_pylist()[-1]
    evaluated = spread_text(last["mean_return"], last["std_return"])
    after = "" if last["env_steps"] == 60 else f" after {last['env_steps']:,} steps"
    assert re.fullmatch(
        rf"return \S+   mean of the last \d+ episodes   evaluated {evaluated}{after}   60 .*\n", ran.out
    )
    again = watched("train", "--resume", "run", "--json")
    assert again.json["evaluation"] == {name: last[name] for name in again.json["evaluation"]}
    assert again.json["mean_of_100"] is None


class TestPlay:
    @pytest.fixture
    def trained(self, watched: Any) -> Any:
        assert watched(*PPO).code == 0
        return watched

    def returns(self, finder: Any, *words: str) -> list[float]:
        ran = finder("play", "run", "--headless", "--episodes", "8", "--json", *words)
        assert ran.code == 0, ran.err
        return [episode["episode_return"] for episode in ran.json["episodes"]]

    @pytest.mark.slow
    def test_seed_makes_played_episodes_reproducible(self, trained: Any) -> None:
        first = self.returns(trained, "--seed", "1")
        assert self.returns(trained, "--seed", "1") == first
        assert self.returns(trained, "--seed", "2") != first

    @pytest.mark.slow
    def test_explore_draws_actions(self, trained: Any) -> None:
        """An untrained agent that acts greedily drops the pole at once."""
        plain = self.returns(trained, "--seed", "1")
        drawn = self.returns(trained, "--seed", "1", "--explore")
        assert drawn != plain
        assert self.returns(trained, "--seed", "1") == plain


def test_window_smooths_plots(watched: Any) -> None:
    assert watched(*PPO).code == 0
    pages = {}
    for window in ("1", "3"):
        assert watched("plot", "run", "--window", window, "--output", f"{window}.html").code == 0
        pages[window] = (watched.folder / f"{window}.html").read_text()
    returns = [row["return"] for row in agents.read_history(watched.folder / "run").to_pylist()]
    means = [float(np.mean(returns[max(0, i - 2) : i + 1])) for i in range(len(returns))]
    assert returns != means
    assert json.dumps(returns).replace(" ", "") in pages["1"].replace(" ", "")
    assert json.dumps(means).replace(" ", "") in pages["3"].replace(" ", "")
