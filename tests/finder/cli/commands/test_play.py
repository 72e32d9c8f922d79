"""Tests of `finder play` and `finder plot`."""

from __future__ import annotations

import os
import re
import shlex
import signal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import agents
from agents.callbacks.history_file import EPISODES_SCHEMA
from agents.demonstrations.writing import DatasetWriter
from agents.errors import ConfigurationError
from agents.playing.play import PlayedEpisode
from finder.cli.playing.messages import summary_of
from finder.long_run.histories import histories_data, plot_losses, plot_returns, plot_runs
from finder.long_run.run_folder import RunFolder, RunSettings

PPO = (
    "train", "ppo", "--env", "CartPole-v1", "--set", "jit_compile=false", "--set", "n_steps=16",
    "--set", "hidden_sizes=[8]", "--quiet",
)  # fmt: skip


@pytest.fixture
def trained(finder: Any) -> Any:
    assert finder(*PPO, "--steps", "256", "--folder", "run", "--evaluate-every", "128").code == 0
    return finder


PLAIN = """
import gymnasium as gym
import numpy as np


class Plain(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (2,))
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.n_steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.n_steps += 1
        return np.zeros(2, np.float32), 1.0, self.n_steps == 5, False, {}


class Noisy(Plain):
    metadata = {"render_modes": None}

    def __init__(self):
        print("a licence is checked")
"""
"""Environments that draw nothing; one of them prints, and has no list of render modes."""


class TestPlay:
    def test_environment_without_pictures_is_played_for_its_returns(
        self, finder: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (finder.folder / "plain.py").write_text(PLAIN)
        words = ("train", "ppo", "--env", "plain.py:Plain", *PPO[4:-1], "--steps", "3.2e1", "--folder", "run")
        trained = finder(*words)
        assert trained.code == 0, trained.err
        assert "Next  finder play run --episodes 10" in trained.err
        assert "--video" not in trained.err
        monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")  # as if there were a screen
        ran = finder("play", "run")
        assert (ran.code, ran.out) == (0, "episode 1   return 5   5 steps\n"), ran.err
        assert "plain.py:Plain is not shown, as it has no render mode 'human'." in " ".join(ran.err.split())
        assert "--video" not in ran.err

    def test_suggestion_after_a_run_prints_nothing_of_the_environment(self, finder: Any) -> None:
        (finder.folder / "plain.py").write_text(PLAIN)
        trained = finder(
            "train", "ppo", "--env", "plain.py:Noisy", *PPO[4:-1], "--steps", "32", "--folder", "run", "--json"
        )
        assert trained.code == 0, trained.err
        assert trained.json["env_steps"] == 32
        assert "Next  finder play run --episodes 10" in trained.err

    @pytest.mark.slow
    def test_play_prints_returns_to_stdout(self, trained: Any) -> None:
        ran = trained("play", "run", "--episodes", "2", "--max-steps", "9", "--video", "out.gif", "--frames", "frames")
        assert ran.code == 0, ran.err
        first, second, mean = ran.out.splitlines()
        assert first == "episode 1   return 9   9 steps   cut off"
        assert second.startswith("episode 2   return ")
        assert re.fullmatch(r"mean return \S+   95% interval .*   2 episodes, [12] of them cut off", mean)
        assert "Playing PPO on CartPole-v1, trained for 256 environment steps · run/checkpoints/" in ran.err
        assert "written to out.gif" in ran.err
        assert (trained.folder / "out.gif").read_bytes().startswith(b"GIF")
        assert len(list((trained.folder / "frames").glob("*.png"))) >= 19

    @pytest.mark.slow
    def test_json_output_of_play(self, trained: Any) -> None:
        checkpoint = next((trained.folder / "run" / "checkpoints").glob("*256.checkpoint"))
        ran = trained("play", str(checkpoint), "--frames", "frames", "--explore", "--json")
        [episode] = ran.json["episodes"]
        assert episode["episode_return"] == episode["length"]
        assert ran.json["checkpoint"] == str(checkpoint)

    def test_play_opens_a_window(self, trained: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
        ran = trained("play", "run", "--max-steps", "2")
        assert (ran.code, ran.out) == (0, "episode 1   return 2   2 steps   cut off\n")

    def test_suggested_command_repeats_the_options(self, trained: Any) -> None:
        kwargs, other = ("--env-kwargs", '{"sutton_barto_reward": false}'), ("--max-steps", "2", "--seed", "7")
        ran = trained("play", "run", "--headless", "--explore", *other, *kwargs)
        command = shlex.join(["finder", "play", "run", "--explore", *kwargs, *other, "--video", "out.gif"])
        assert f"To see it  {command}" in ran.err

    @pytest.mark.parametrize("flags", [(), ("--headless",)])
    @pytest.mark.slow
    def test_play_without_a_display_reports_the_returns(
        self, trained: Any, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...]
    ) -> None:
        for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
            monkeypatch.delenv(name, raising=False)
        if flags:
            monkeypatch.setenv("DISPLAY", ":77")  # this display does not exist and is not opened
        ran = trained("play", "run", "--episodes", "30", *flags)
        assert ran.code == 0, ran.err
        match = re.fullmatch(r"mean return (\S+)   95% interval (\S+) to (\S+)   30 episodes\n", ran.out)
        assert match is not None, ran.out
        mean, low, high = map(float, match.groups())
        assert low < mean < high <= 500
        assert "To see it  finder play run --video out.gif" in ran.err
        both = trained("play", "run", "--episodes", "30", "--json", *flags).json
        assert [both["low"], both["mean_return"], both["high"]] == pytest.approx([low, mean, high], abs=1)
        assert len(both["episodes"]) == 30

    def test_env_kwargs_change_the_environment(self, trained: Any) -> None:
        ran = trained("play", "run", "--env-kwargs", '{"max_episode_steps": 3}', "--frames", "frames")
        assert ran.out == "episode 1   return 3   3 steps\n"

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (("nowhere", "--frames", "f"), "no such file or folder"),
            (("note.txt", "--frames", "f"), "note.txt is not a complete checkpoint"),
            (("run", "--video", "out.avi"), "ends in .gif or .mp4"),
            (("run", "--video", "nowhere/out.gif"), "make its folder first"),
            (("run", "--frames", "full"), "'full' is not empty"),
            (("run", "--episodes", "0", "--frames", "f"), "'--episodes'"),
            (("run", "--headless", "--video", "out.gif"), "--headless draws nothing"),
            (("run", "--frames", "f", "--env-kwargs", '{"colour": 1}'), "cannot be made with {'colour': 1"),
        ],
    )
    def test_mistake_in_play_is_reported(
        self, trained: Any, words: Any, message: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
            monkeypatch.delenv(name, raising=False)
        (trained.folder / "note.txt").write_text("no checkpoint")
        (trained.folder / "full").mkdir()
        (trained.folder / "full" / "holiday.png").touch()
        ran = trained("play", *words)
        assert (ran.code, ran.out) == (2, "")
        assert message in ran.err
        assert len(re.findall("^Error: ", ran.err, re.MULTILINE)) == 1


class TestRecord:
    @pytest.fixture(autouse=True)
    def datasets(self, trained: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
        pytest.importorskip("minari", reason="minari is not installed")
        folder: Path = trained.folder / "datasets"
        monkeypatch.setenv("MINARI_DATASETS_PATH", str(folder))
        return folder

    @pytest.mark.slow
    def test_recorded_episodes_are_demonstrations(self, trained: Any, datasets: Path) -> None:
        ran = trained("play", "run", "--record", "CartPole/expert", "--episodes", "2")
        assert ran.code == 0, ran.err
        returns = [int(text) for text in re.findall(r"^episode \d   return (\d+) ", ran.out, re.M)]
        folder = datasets / "CartPole" / "expert-v0"
        assert f"2 episodes ({sum(returns)} steps) written to the dataset CartPole/expert-v0 in {folder}" in ran.err
        assert "Next  finder lr ppo --env CartPole-v1 --expert CartPole/expert-v0" in ran.err
        assert "To see it" not in ran.err
        agent = agents.load_agent(trained.folder / "run")
        found = agents.load_demonstrations("CartPole/expert", agent.interface, agent.environment)
        assert found.returns.tolist() == returns

    @pytest.mark.slow
    def test_record_next_to_a_video(self, trained: Any) -> None:
        words = ("--video", "out.gif", "--max-steps", "4", "--env-kwargs", '{"sutton_barto_reward": true}')
        ran = trained("play", "run", "--record", "expert", "--episodes", "1", "--explore", "--seed", "5", *words)
        assert ran.out == "episode 1   return 0   4 steps   cut off\n"
        assert (trained.folder / "out.gif").exists()
        assert "1 episode (4 steps) written to the dataset expert-v0 in " in ran.err
        assert """lr ppo --env CartPole-v1 --env-kwargs '{"sutton_barto_reward": true}' --expert expert-v0""" in ran.err

    @pytest.mark.slow
    def test_ten_episodes_without_a_screen_by_default(self, trained: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("DISPLAY", ":77")  # this display does not exist and is not opened
        for version in (0, 1):
            ran = trained("play", "run", "--record", "expert", "--max-steps", "2", "--headless", "--json")
            assert ran.code == 0, ran.err
            assert len(ran.json["episodes"]) == 10
            assert ran.json["dataset"] == f"expert-v{version}"
            assert Path(ran.json["dataset_folder"]) == trained.folder / "datasets" / f"expert-v{version}"
            assert "Next" not in ran.err

    @pytest.mark.usefixtures("usual_signals")
    def test_ctrl_c_keeps_the_complete_episodes(self, trained: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        add = DatasetWriter.add

        def interrupted(self: DatasetWriter, episode: Any) -> None:
            add(self, episode)
            if self.n_episodes == 3:
                os.kill(os.getpid(), signal.SIGINT)

        monkeypatch.setattr(DatasetWriter, "add", interrupted)
        ran = trained("play", "run", "--record", "expert", "--max-steps", "2")
        assert ran.code == 130
        assert "3 episodes (6 steps) written to the dataset expert-v0 in " in ran.err
        assert "Next" not in ran.err
        agent = agents.load_agent(trained.folder / "run")
        assert len(agents.load_demonstrations("expert", agent.interface).lengths) == 3

    @pytest.mark.slow
    def test_without_a_complete_episode_there_is_no_dataset(
        self, trained: Any, datasets: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fails(*_: Any) -> None:
            raise RuntimeError("the robot fell off the table")

        monkeypatch.setattr(DatasetWriter, "add", fails)
        ran = trained("play", "run", "--record", "expert", "--max-steps", "2")
        assert (ran.code, ran.out) == (1, "")
        assert "cannot be played: RuntimeError: the robot fell off the table" in ran.err
        assert "no episode was complete: no dataset was written" in ran.err
        assert list(datasets.iterdir()) == []


@pytest.mark.parametrize(
    ("returns", "expected"),
    [
        ([1.0, 2.0, 3.0], (2.0, -0.484, 4.484)),  # 4.303 * 1 / sqrt(3)
        ([500.0, 500.0, 500.0, 400.0], (475.0, 395.4, 500.0)),  # the maximum is a reward of 1 for each of 500 steps
        ([7.0, 7.0], (7.0, 7.0, 7.0)),
    ],
)
def test_interval_of_the_mean_return_is_limited_to_possible_returns(
    returns: list[float], expected: tuple[float, ...]
) -> None:
    a_reward_a_step = max(returns) > 100
    played = [PlayedEpisode(each, int(each) if a_reward_a_step else 10, False) for each in returns]
    assert summary_of(played, 500 if a_reward_a_step else None) == pytest.approx(expected, abs=0.05)


def history(folder: Path, rows: list[tuple[int, float, float | None]]) -> Path:
    folder.mkdir(parents=True)
    records = [
        {"episode": index, "env_steps": steps, "return": value, "length": 1, "loss": loss}
        for index, (steps, value, loss) in enumerate(rows)
    ]
    pq.write_table(pa.Table.from_pylist(records, EPISODES_SCHEMA), folder / "history.parquet")
    return folder


class TestPlot:
    @pytest.mark.slow
    def test_plot_compares_runs(self, trained: Any) -> None:
        assert trained(*PPO, "--steps", "128", "--folder", "other").code == 0
        ran = trained("plot", "run", "other", "--output", "runs.html")
        assert ran.code == 0, ran.err
        assert ran.out.strip() == str(trained.folder / "runs.html")
        page = (trained.folder / "runs.html").read_text()
        assert page.startswith("<!doctype html>")
        assert "<h1>2 runs</h1>" in page
        assert 'data-figure="runs"' in page
        figure = plot_returns([trained.folder / "run", trained.folder / "other"])
        assert [trace.name for trace in figure.data] == ["run", "run, evaluated", "other"]
        assert plot_returns(histories_data([trained.folder / "run", trained.folder / "other"])) == figure

    def test_histories_are_smoothed_and_drawn(self, tmp_path: Path) -> None:
        run = history(tmp_path / "a", [(10, 1.0, None), (20, 3.0, 0.5), (30, 5.0, float("nan")), (40, 7.0, 1.5)])
        data = histories_data([run], window=2)
        assert data.runs[0].steps == [10, 20, 30, 40]
        assert data.runs[0].returns == [1.0, 2.0, 4.0, 6.0]
        assert (data.runs[0].loss_steps, data.runs[0].losses) == ([20, 40], [0.5, 1.0])
        assert data.runs[0].n_episodes == 4
        assert list(plot_losses(data).data[0].y) == [0.5, 1.0]
        assert plot_returns(run, window=2).data[0].y == (1.0, 2.0, 4.0, 6.0)
        assert plot_losses([str(run)], window=2) == plot_losses(data)

    def test_mean_is_of_the_episodes_of_the_last_fifth_of_each_run(self, tmp_path: Path) -> None:
        long = history(tmp_path / "long", [(1500 * n, float(n), None) for n in range(1, 41)])
        short = history(tmp_path / "short", [(n, float(n), None) for n in range(1, 2001)])
        data = histories_data([long, short])
        assert [run.window for run in data.runs] == [8, 100]
        assert data.runs[0].returns[-1] == 36.5
        assert plot_returns(data).layout.yaxis.title.text == "return<br>mean of the last 8 to 100 episodes"
        assert plot_returns(long).layout.yaxis.title.text == "return<br>mean of the last 8 episodes"
        assert [run.window for run in histories_data([long, short], window=5).runs] == [5, 5]

    def test_last_fifth_of_a_run_ends_with_its_environment_steps(self, tmp_path: Path) -> None:
        run = history(tmp_path / "run", [(1300 + 1600 * n, float(n), None) for n in range(6)])
        assert histories_data(run).runs[0].window == 2  # since 7,440 of 9,300 steps
        folder = RunFolder(run, RunSettings(agent="ppo", config={}, env="CartPole-v1"), None, ())
        folder.write_result(None)
        assert histories_data(run).runs[0].window == 2  # it still runs
        folder.write_result({"reason": "budget reached", "env_steps": 10_000})
        for place in (run, run / "history.parquet"):
            [drawn] = histories_data(place).runs
            assert (drawn.window, drawn.returns[-1]) == (1, 5.0)  # since 8,000 of 10,000 steps, as in the result

    def test_returns_and_losses_share_the_axis_of_steps(self, tmp_path: Path) -> None:
        runs = [
            history(tmp_path / name, [(10, 1e6, 0.5), (20, 3e6, 0.25), (300 * len(name), 5e6, 0.1)])
            for name in ("a", "another")
        ]
        figure = plot_runs(histories_data(runs))
        assert {trace.xaxis for trace in figure.data} == {None}, "the traces must share one x axis"
        assert [trace.yaxis for trace in figure.data] == [None, None, "y2", "y2"]
        assert [trace.name for trace in figure.data if trace.showlegend is not False] == ["a", "another"]
        assert figure.layout.yaxis.domain[0] > figure.layout.yaxis2.domain[1]

    def test_history_without_losses_draws_only_returns(self, tmp_path: Path) -> None:
        figure = plot_runs(histories_data([history(tmp_path / "a", [(10, 1.0, None)])]))
        assert figure.layout.title.text == "<b>Returns</b>"

    def test_long_histories_are_thinned(self, tmp_path: Path) -> None:
        run = history(tmp_path / "a", [(step, float(step), None) for step in range(1, 2001)])
        [drawn] = histories_data([run], window=1).runs
        assert len(drawn.steps) == 500
        assert (drawn.steps[0], drawn.steps[-1]) == (1, 2000)
        assert drawn.returns == [float(step) for step in drawn.steps]

    def test_runs_of_the_same_name_are_labelled_by_path(self, tmp_path: Path) -> None:
        runs = [history(tmp_path / where / "run", [(1, 1.0, None)]) for where in ("a", "b")]
        assert [run.label for run in histories_data(runs).runs] == [str(run) for run in runs]

    def test_empty_history_is_noted_in_the_plot(self, tmp_path: Path) -> None:
        data = histories_data([history(tmp_path / "a", [])])
        assert plot_returns(data).layout.annotations[0].text == "No episode has ended yet."
        assert plot_losses(data).layout.annotations[0].text == "No episode has ended after an update yet."

    def test_labels_are_escaped_in_html(self, tmp_path: Path) -> None:
        run = history(tmp_path / "<b>bold", [(1, 1.0, 0.1)])
        assert plot_returns(histories_data([run])).data[0].name == "&lt;b&gt;bold"

    def test_same_run_twice_is_refused(self, tmp_path: Path) -> None:
        run = history(tmp_path / "a", [(1, 1.0, None)])
        with pytest.raises(ConfigurationError, match="given twice"):
            histories_data([run, tmp_path / "b" / ".." / "a"])

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (("nowhere",), "There is no history of a training in 'nowhere'"),
            (("empty",), "There is no history of a training in 'empty'"),
            (("run", "--output", "x.svg"), "ends in .html"),
            (("run", "--output", "nowhere/x.html"), "cannot be written"),
            (("run", "--window", "0"), "'--window'"),
            ((), "DIR"),
        ],
    )
    def test_mistake_in_plot_is_reported(self, finder: Any, words: Any, message: str) -> None:
        history(finder.folder / "run", [(1, 1.0, None)])
        (finder.folder / "empty").mkdir()
        ran = finder("plot", *words)
        assert (ran.code, ran.out) == (2, "")
        assert message in ran.err
        assert len(re.findall("^Error: ", ran.err, re.MULTILINE)) == 1
