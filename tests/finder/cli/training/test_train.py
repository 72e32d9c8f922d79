"""Tests of `finder train`: new and resumed runs, failures, runs of a study's pick, and mistakes."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fakes
import numpy as np
import pytest
from rich.console import Console

import agents
import studies
from agents.callbacks.loggers.tensorboard import TensorBoard
from agents.checkpoints import file as checkpoint_file
from agents.state_files.header import CheckpointHeader, find, header_of, list_checkpoints
from finder.cli.training.run import _done_text
from finder.long_run.run_folder import RunFolder, RunSettings
from studies.words import number_text

RUN = "import sys; from finder.cli import main; sys.exit(main())"
PPO = (
    "ppo", "--env", "cli_envs:Slow-v0", "--set", "jit_compile=false", "--set", "n_steps=16", "--set", "n_epochs=2",
    "--set", "n_envs=2", "--set", "batch_size=16", "--set", "hidden_sizes=[8]",
)  # fmt: skip
DQN = (
    "dqn", "--env", "cli_envs:Slow-v0", "--set", "jit_compile=false", "--set", "hidden_sizes=[8]",
    "--set", "learning_starts=64", "--set", "batch_size=8", "--set", "buffer_size=300",
)  # fmt: skip
DEADLINE_SECONDS = 1200


def episodes(folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = agents.read_history(folder).to_pylist()
    return [{name: value for name, value in row.items() if name != "wall_seconds"} for row in rows]


def networks(folder: Path) -> list[np.ndarray[Any, Any]]:
    state = checkpoint_file.load_weights(folder)["networks"]
    return [array for name in sorted(state) for array in state[name]]


def found(folder: Path) -> dict[Path, CheckpointHeader]:
    return list_checkpoints(folder / "checkpoints")


def remove_result(folder: Path) -> None:
    """Remove the result, as if the run had been killed before it was written."""
    content = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**content, "result": None}))


def assert_same_run(one: Path, other: Path) -> None:
    assert episodes(one) == episodes(other)
    for a, b in zip(networks(one), networks(other), strict=True):
        np.testing.assert_array_equal(a, b)


def begin(finder: Any, *words: str) -> subprocess.Popen[str]:
    """Start a training whose environment is slow while the file `slow` exists, and wait for its first step."""
    (finder.folder / "slow").touch()
    process: subprocess.Popen[str] = finder.start("train", *words)
    wait_for((finder.folder / "running").exists, process)
    return process


def wait_for(condition: Any, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)


class TestNewRun:
    def test_result_of_a_run_goes_to_stdout_and_messages_to_stderr(self, finder: Any) -> None:
        ran = finder("train", *PPO, "--steps", "400")
        assert ran.code == 0, ran.err
        folder = "runs/ppo-cli_envs-Slow-v0-seed0"
        rows = episodes(finder.folder / folder)
        recent = [row["return"] for row in rows if row["env_steps"] > 320]
        assert 2 <= len(recent) < len(rows)
        headline = f"return {number_text(np.mean(recent))}   mean of the last {len(recent)} episodes"
        assert ran.out == f"{headline}   400 steps, {len(rows)} episodes   {folder}\n"
        assert f"Training ppo on cli_envs:Slow-v0, seed 0, 400 environment steps · in {folder}" in ran.err
        assert re.search(
            r"400 of 400 steps · \d+ episodes · return \d.* \(best \d+\) · .*learning rate 0.0003 · \d+ s\n", ran.err
        )
        assert "budget reached" in ran.err
        assert f"finder play {folder}" in ran.err
        assert f"finder plot {folder}" in ran.err
        path = finder.folder / folder
        content = json.loads((path / "run.json").read_text())
        assert content["settings"]["config"]["n_steps"] == 16
        assert content["result"]["env_steps"] == 400
        assert content["command"][:2] == ["train", "ppo"]
        assert [header.env_steps for header in list_checkpoints(path / "checkpoints").values()] == [
            0,
            400,
        ]
        assert not (path / "tensorboard").exists()

    def test_json_output_of_a_run(self, finder: Any) -> None:
        ran = finder("train", *PPO, "--episodes", "3", "--folder", "mine", "--json", "--quiet")
        assert ran.err == ""
        assert (ran.json["folder"], ran.json["episodes"], ran.json["reason"]) == ("mine", 3, "budget reached")
        rows = episodes(finder.folder / "mine")
        steps = ran.json["env_steps"]
        recent = [row["return"] for row in rows if row["env_steps"] > steps - 0.2 * steps]
        assert ran.json["mean_episodes"] == max(len(recent), len({row["environment"] for row in rows}))
        assert ran.json["mean_return"] == np.mean([row["return"] for row in rows[-ran.json["mean_episodes"] :]])
        assert (ran.json["mean_of_100"], ran.json["evaluation"]) == (None, None)

    @pytest.mark.slow
    def test_run_ends_at_the_target_reward(self, finder: Any) -> None:
        ran = finder("train", *PPO, "--target-reward", "1", "--json")
        assert ran.json["reason"] == "mean return of the last 100 episodes reached 1"
        assert ran.json["episodes"] == 100

    @pytest.mark.slow
    def test_run_beyond_its_target_needs_a_larger_target(self, finder: Any) -> None:
        first = finder("train", *PPO, "--steps", "4000", "--target-reward", "1", "--folder", "run")
        again = finder("train", "--resume", "run")
        assert (again.code, again.out) == (0, first.out)
        assert "a larger --target-reward trains the agent further" in again.err
        longer = finder("train", "--resume", "run", "--steps", "9000")
        assert longer.code == 2
        made = r"and the mean return of the last 100 episodes is \S+\. Give a larger --target-reward, or see its result"
        assert re.search(made, longer.err)
        further = finder("train", "--resume", "run", "--target-reward", "1000", "--json")
        assert (further.json["reason"], further.json["env_steps"]) == ("budget reached", 4000)

    def test_figures_of_a_run_without_a_complete_episode(self, finder: Any) -> None:
        assert finder("train", *PPO, "--steps", "4", "--folder", "run").code == 0
        assert len(agents.read_history(finder.folder / "run")) == 0
        assert finder("plot", "run").code == 0
        assert "No episode has ended yet." in (finder.folder / "finder-runs.html").read_text()

    @pytest.mark.slow
    def test_run_continued_beyond_its_target_and_killed_goes_on(self, finder: Any, monkeypatch: Any) -> None:
        first = finder("train", *PPO, "--steps", "4000", "--target-reward", "1", "--folder", "run", "--json")
        assert first.json["reason"] == "mean return of the last 100 episodes reached 1"

        def killed(*_: Any, **__: Any) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr("agents.training.trainer.Trainer.train", killed)
            finder("train", "--resume", "run", "--target-reward", "1000")
        remove_result(finder.folder / "run")
        again = finder("train", "--resume", "run", "--json")
        assert again.json["reason"] == "budget reached"
        assert again.json["env_steps"] > first.json["env_steps"]

    @pytest.mark.slow
    def test_evaluations_are_reported_and_cut_off_without_a_time_limit(self, finder: Any) -> None:
        words = ("train", "ppo", "--env", "CliffWalking-v1", "--set", "jit_compile=false", "--set", "n_steps=8")
        ran = finder(*words, "--max-steps", "64", "--evaluate-every", "64", "--eval-max-steps", "5", "--folder", "cut")
        assert ran.code == 0, ran.err
        message = "evaluation after 64 steps: return -5 ± 0 over 10 episodes, all of them cut off before their end"
        assert message in ran.err
        [row] = agents.read_evaluations(finder.folder / "cut").to_pylist()
        assert (row["n_episodes"], row["n_cut"]) == (10, 10)
        hint = (
            "8 copies of CliffWalking-v1 made 8 steps each, and episodes are longer: give more, such as --env-steps 256"
        )
        assert f"no episode has ended. {hint}" in " ".join(ran.err.split())

    @pytest.mark.slow
    def test_options_of_train_work_together(self, finder: Any) -> None:
        ran = finder(
            "train", *PPO, "--steps", "600", "--folder", "all", "--seed", "3", "--evaluate-every", "100",
            "--evaluate-episodes", "2", "--checkpoint-every", "200", "--keep", "1", "--plateau", "1",
            "--plateau-factor", "0.5", "--min-learning-rate", "1e-4", "--early-stop", "6", "--patience-from", "100",
            "--tensorboard",
        )  # fmt: skip
        assert ran.code == 0, ran.err
        folder = finder.folder / "all"
        evaluations = agents.read_evaluations(folder).to_pylist()
        assert [row["env_steps"] for row in evaluations][:3] == [100, 200, 300]
        assert {row["n_episodes"] for row in evaluations} == {2}
        found = list_checkpoints(folder / "checkpoints")
        assert 1 <= len(found) <= 2
        assert {header.judged_by for header in found.values()} == {"evaluation"}
        assert (list(found.values())[-1].seed, list(found.values())[-1].config["learning_rate"] < 3e-4) == (3, True)
        assert list((folder / "tensorboard").iterdir())

    @pytest.mark.slow
    def test_run_starts_from_the_weights_of_another_run(self, finder: Any) -> None:
        assert finder("train", *PPO, "--steps", "200", "--folder", "first", "--weights-only").code == 0
        ran = finder("train", *PPO, "--steps", "2", "--folder", "second", "--start-from", "first")
        assert ran.code == 0, ran.err
        for a, b in zip(networks(finder.folder / "first"), networks(finder.folder / "second"), strict=True):
            np.testing.assert_array_equal(a, b)
        again = finder("train", "--resume", "first", "--steps", "400")
        assert again.code == 2
        assert "hold weights only (--weights-only)" in again.err


def test_line_in_a_terminal_is_redrawn_and_the_last_one_stays() -> None:
    from finder.cli.training.progress import LiveTraining
    from finder.long_run.run_folder import RunSettings

    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=150)
    agent = agents.make("dqn", "CartPole-v1", jit_compile=False, hidden_sizes=[8])
    settings = RunSettings(agent="dqn", config={}, env="CartPole-v1", env_steps=200, episodes=100)
    live = LiveTraining(settings, console)
    halves: list[float] = []
    look = agents.LambdaCallback(on_step_end=lambda run: halves.append(live._share(run.run)))
    agents.Trainer(agent, callbacks=[live, look]).train(env_steps=100)
    assert halves[-1] == 0.5
    last = out.getvalue().strip().splitlines()[-1]
    assert re.search(
        r"100 of 200 steps · \d+ episodes · return .* \(best .*\) · ([\d,]+ steps/s · )?learning rate 0\.001 · \d+ s$",
        last,
    )


def test_speed_needs_more_than_a_few_milliseconds() -> None:
    from finder.cli.training.progress import PlainTraining
    from finder.long_run.run_folder import RunSettings

    shown = PlainTraining(RunSettings(agent="dqn", config={}, env="CartPole-v1", env_steps=300))
    shown._marks.extend([(4.0, 0.3, 100), (4.003, 0.6, 200)])
    assert shown._steps_per_second() is None
    shown._marks.append((5.0, 1.0, 300))
    assert shown._steps_per_second() == 200.0


def test_agent_that_cannot_be_built_is_reported_with_its_traceback(finder: Any) -> None:
    (finder.folder / "mine.py").write_text(
        "from agents.algorithms.ppo import PPO\n\n"
        "class Mine(PPO):\n    def __init__(self, *_, **__):\n        raise TypeError('no such layer')\n"
    )
    ran = finder("train", "mine.py:Mine", *PPO[1:], "--steps", "32", "--folder", "run")
    assert (ran.code, ran.out) == (2, "")
    assert 'mine.py", line 5' in ran.err
    assert "Error: the agent cannot be built: TypeError: no such layer" in ran.err
    assert not (finder.folder / "run").exists()


class TestResume:
    @pytest.mark.real
    @pytest.mark.parametrize("agent", [PPO, DQN], ids=["ppo", "dqn"])
    def test_killed_run_resumes_with_identical_results(self, finder: Any, agent: tuple[str, ...]) -> None:
        words = (*agent, "--steps", "3000", "--evaluate-every", "500", "--evaluate-episodes", "2", "--early-stop", "50")
        assert finder("train", *words, "--folder", "whole", "--quiet").code == 0
        (finder.folder / "running").unlink()
        process = begin(finder, *words, "--folder", "killed", "--checkpoint-every", "150")
        checkpoints = finder.folder / "killed" / "checkpoints"
        wait_for(lambda: len(list(checkpoints.glob("*.checkpoint"))) >= 3, process)
        process.kill()
        process.communicate()
        kept = header_of(find(finder.folder / "killed"))
        assert 0 < kept.env_steps < 3000
        (finder.folder / "slow").unlink()
        again = finder("train", "--resume", "killed")
        assert again.code == 0, again.err
        assert f"Resuming after {kept.env_steps:,} environment steps" in again.err
        assert "new episodes" not in again.err
        assert_same_run(finder.folder / "killed", finder.folder / "whole")
        evaluations = [agents.read_evaluations(finder.folder / name).to_pylist() for name in ("killed", "whole")]
        assert evaluations[0] == evaluations[1]

    @pytest.mark.real
    @pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
    def test_interrupted_run_is_saved_and_prints_the_resume_command(self, finder: Any, number: int, code: int) -> None:
        assert finder("train", *PPO, "--steps", "1000", "--folder", "whole", "--quiet").code == 0
        (finder.folder / "running").unlink()
        process = begin(finder, *PPO, "--steps", "1000", "--folder", "my run")
        process.send_signal(number)
        (finder.folder / "slow").unlink()
        out, err = process.communicate(timeout=DEADLINE_SECONDS)
        assert (process.returncode, out) == (code, "")
        assert "Traceback" not in err
        assert "Stopping after this step; Ctrl-C stops at once." in err
        assert re.search(r"Stopped after [\d,]+ of 1,000 environment steps; saved in my run/checkpoints/\d+", err)
        assert "Resume:  finder train --resume 'my run'" in err
        assert finder("train", "--resume", "my run").code == 0
        assert_same_run(finder.folder / "my run", finder.folder / "whole")

    def test_numbers_that_are_not_finite_leave_a_run_as_it_was(self, finder: Any) -> None:
        assert finder("train", *PPO, "--steps", "32", "--folder", "run").code == 0
        before = (finder.folder / "run" / "run.json").read_text()
        for flag, name, value in (
            ("--hang-seconds", "hang_seconds", "inf"),
            ("--target-reward", "target_reward", "nan"),
        ):
            ran = finder("train", "--resume", "run", "--steps", "64", flag, value)
            assert (ran.code, ran.out) == (2, "")
            assert f"{name} is {value}: give a finite number" in ran.err
        assert (finder.folder / "run" / "run.json").read_text() == before

    @pytest.mark.slow
    def test_run_that_a_callback_ended_is_reported_as_unfinished(self, finder: Any) -> None:
        (finder.folder / "enough.py").write_text(
            "from agents import LambdaCallback\n\n\ndef stop():\n"
            "    return LambdaCallback(on_step_end=lambda run: run.env_steps >= 64 and run.stop('enough'))\n"
        )
        words = ("--steps", "200", "--folder", "run")
        assert finder("train", *PPO, *words, "--callback", "enough.py:stop").code == 0
        again = finder("train", "--resume", "run")
        assert again.code == 0
        assert "The run has ended before its budget. This is its result; to train on, give --env-steps" in again.err

    @pytest.mark.slow
    def test_finished_run_is_reported_and_a_larger_budget_extends_it(self, finder: Any) -> None:
        first = finder("train", *PPO, "--steps", "200", "--folder", "run")
        again = finder("train", "--resume", "run")
        assert (again.code, again.out) == (0, first.out)
        assert "Nothing is left to train. This is the result of the run;" in again.err
        less = finder("train", "--resume", "run", "--steps", "50")
        assert less.code == 2
        assert "Nothing is left to train of 50 environment steps: it has made 200 environment steps and" in less.err
        assert finder("train", "--resume", "run").out == first.out
        further = finder("train", "--resume", "run", "--steps", "400", "--json")
        assert further.json["env_steps"] == 400
        assert finder("train", *PPO, "--steps", "400", "--folder", "whole").code == 0
        assert_same_run(finder.folder / "run", finder.folder / "whole")

    @pytest.mark.slow
    def test_run_killed_before_its_second_checkpoint_restarts(self, finder: Any) -> None:
        for name in ("whole", "killed"):
            assert finder("train", *PPO, "--steps", "400", "--folder", name, "--tensorboard").code == 0
        for path in (finder.folder / "killed" / "checkpoints").glob("*[1-9]*.checkpoint"):
            path.unlink()
        (finder.folder / "killed" / "checkpoints" / ".half.new").write_bytes(b"half of a checkpoint")
        remove_result(finder.folder / "killed")
        again = finder("train", "--resume", "killed")
        assert again.code == 0, again.err
        assert "Resuming after 0 environment steps" in again.err
        assert_same_run(finder.folder / "killed", finder.folder / "whole")
        assert not list(finder.folder.glob("killed/**/.*.new"))

    @pytest.mark.slow
    def test_run_killed_after_its_last_checkpoint_reports_its_result(self, finder: Any) -> None:
        words = ("--steps", "192", "--checkpoint-every", "64")  # the last one is written before the last update
        assert finder("train", *PPO, *words, "--folder", "whole", "--quiet").code == 0
        first = finder("train", *PPO, *words, "--folder", "killed", "--json")
        newest = [header.gradient_steps for header in found(finder.folder / "killed").values()]
        assert newest[-2] < newest[-1]
        list(found(finder.folder / "killed"))[-1].unlink()
        remove_result(finder.folder / "killed")
        again = finder("train", "--resume", "killed", "--json")
        assert (again.code, again.json["reason"]) == (0, "budget reached")
        assert again.json["mean_return"] == first.json["mean_return"]
        assert_same_run(finder.folder / "killed", finder.folder / "whole")

    @pytest.mark.slow
    def test_run_that_stopped_early_is_not_trained_further(self, finder: Any) -> None:
        words = ("--steps", "5000", "--evaluate-every", "50", "--evaluate-episodes", "1", "--early-stop", "2")
        first = finder("train", *PPO, *words, "--folder", "run", "--json")
        assert first.json["env_steps"] < 5000
        remove_result(finder.folder / "run")
        again = finder("train", "--resume", "run", "--json")
        assert (again.json["reason"], again.json["env_steps"]) == (first.json["reason"], first.json["env_steps"])

    @pytest.mark.slow
    def test_environments_that_cannot_be_copied_start_new_episodes_with_a_note(self, finder: Any) -> None:
        lander = ("ppo", "--env", "LunarLander-v3", *PPO[3:])
        assert finder("train", *lander, "--steps", "100", "--folder", "run").code == 0
        ran = finder("train", "--resume", "run", "--steps", "200")
        assert ran.code == 0, ran.err
        assert "new episodes begin, so the numbers are not those of a run that was never stopped" in " ".join(
            ran.err.split()
        )

    def test_run_locked_by_another_process_is_refused(self, finder: Any) -> None:
        from finder.long_run.run_folder import RunFolder

        assert finder("train", *PPO, "--steps", "100", "--folder", "run").code == 0
        with RunFolder.open(finder.folder / "run").locked():
            ran = finder("train", "--resume", "run", "--steps", "200")
        assert ran.code == 2
        assert "Another process trains in 'run' at this moment." in ran.err

    def test_unusable_folders_are_refused(self, finder: Any) -> None:
        from agents.errors import ConfigurationError
        from finder.long_run.run_folder import RunFolder

        ran = finder("train", *PPO, "--steps", "100", "--folder", "x" * 300)
        assert (ran.code, "cannot be read: File name too long" in ran.err) == (2, True), ran.err
        (finder.folder / "note.txt").write_text("no run")
        ran = finder("train", "--resume", "note.txt")
        assert (ran.code, "'note.txt' is no folder of a run: it has no run.json" in ran.err) == (2, True), ran.err
        assert finder("train", *PPO, "--steps", "100", "--folder", "run").code == 0
        begun = RunFolder.open(finder.folder / "run")
        (begun.path / ".lock").unlink(missing_ok=True)
        (begun.path / ".lock").mkdir()
        with pytest.raises(ConfigurationError, match="cannot be written to: Is a directory"), begun.locked():
            pass
        (begun.path / "run.json").write_text('{"format": 1, "settings": {')
        ran = finder("train", "--resume", "run")
        assert (ran.code, "is damaged" in ran.err, "--start-from run" in ran.err) == (2, True, True), ran.err


class TestFailures:
    def test_environment_that_raises_fails_the_training(self, finder: Any) -> None:
        broken = ("ppo", "--env", "cli_envs:Broken-v0", *PPO[3:])
        ran = finder("train", *broken, "--steps", "400", "--folder", "run")
        assert ran.code == 1
        assert "Error: the training failed: RuntimeError: the robot fell off the table" in ran.err
        assert "The newest checkpoint, after 0 environment steps, is run/checkpoints/000000000000.checkpoint" in ran.err
        assert "in step" in ran.err  # from the traceback

    @pytest.mark.slow
    def test_environment_that_hangs_fails_the_training(self, finder: Any) -> None:
        hanging = ("ppo", "--env", "fakes:TwoStep-v0", "--env-kwargs", '{"hang_after": 41}', *PPO[3:])
        ran = finder("train", *hanging, "--steps", "400", "--folder", "run", "--hang-seconds", "3")
        assert ran.code == 1
        message = " ".join(ran.err.split())
        assert "HungError: step() of 'fakes:TwoStep-v0' (copy 0) did not return for 3 s." in message
        assert "The newest checkpoint, after 0 environment steps, is run/checkpoints/000000000000.checkpoint" in message
        assert [row["return"] >= 0 for row in episodes(finder.folder / "run")] == [True] * 16
        again = finder("train", "--resume", "run", "--hang-seconds", "4")
        assert "did not return for 4 s." in " ".join(again.err.split())

    @pytest.mark.real
    def test_environment_that_hangs_in_compiled_code_ends_the_process(self, tmp_path: Path) -> None:
        hanging = ("ppo", "--env", "fakes:TwoStep-v0", "--env-kwargs", '{"hang_after": 41, "deaf": true}', *PPO[3:])
        words = ("train", *hanging, "--steps", "400", "--folder", "run", "--hang-seconds", "3")
        path = os.pathsep.join([str(Path(fakes.__file__).parent), str(Path(studies.__file__).parents[1])])
        ran = subprocess.run(
            [sys.executable, "-c", RUN, *words],
            cwd=tmp_path, env={**os.environ, "PYTHONPATH": path},
            capture_output=True, text=True, check=False, timeout=500,
        )  # fmt: skip
        assert ran.returncode == 1, ran.stderr
        message = " ".join(ran.stderr.split())
        assert "step() of 'fakes:TwoStep-v0' (copy 0) did not return for 3 s." in message
        assert "It hung in compiled code" in message
        assert len(episodes(tmp_path / "run")) == 16

    def test_nan_reward_fails_the_training(self, finder: Any) -> None:
        words = ("ppo", "--env", "cli_envs:Broken-v0", "--env-kwargs", '{"nan": true}', *PPO[3:], "--steps", "400")
        ran = finder("train", *words)
        assert ran.code == 1
        assert "Error: the training failed: NonFiniteError: Environment 'cli_envs:Broken-v0' gave the reward" in ran.err
        assert "Traceback" not in ran.err

    def test_training_is_saved_when_a_callback_raises(self, finder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*_: Any) -> None:
            raise OSError("no space left on device")

        monkeypatch.setattr(TensorBoard, "on_episode_end", fail)
        ran = finder("train", *PPO, "--steps", "400", "--folder", "run", "--tensorboard")
        assert ran.code == 1
        path = find(finder.folder / "run")
        assert f"The training is kept in run/checkpoints/{path.name}." in ran.err
        monkeypatch.undo()
        again = finder("train", "--resume", "run")
        assert again.code == 0, again.err


class TestPick:
    @pytest.mark.slow
    def test_pick_is_trained_with_its_exact_settings(self, searched: Any) -> None:
        ran = searched.finder("train", "--from", searched.study, "--steps", "600", "--folder", "picked")
        assert ran.code == 0, ran.err
        pick = searched.finder("best", searched.study, "--json").json
        settings = json.loads((searched.finder.folder / "picked" / "run.json").read_text())["settings"]
        assert (settings["config"], settings["env"], settings["agent"]) == (pick["config"], pick["env"], "ppo")
        assert settings["study"] == {
            "name": searched.study, "storage": "sqlite:///finder.db", "trial": pick["trial"]
        }  # fmt: skip
        assert f"(trial #{pick['trial']} of {searched.study})" in ran.err
        assert "over 5 further seeds" in ran.err  # the certainty of the study
        assert f"learning rate {pick['config']['learning_rate']:.3g}" in ran.err

    def test_training_is_advised_for_a_usable_pick_and_a_remedy_otherwise(self, searched: Any) -> None:
        usable = searched.finder("best", searched.study, "--json").json["status"] in ("safe", "tie")
        for err in (searched.finder("best", searched.study).err, searched.ran.err):
            assert (f"finder train --from {searched.study}" in err) == usable
            assert usable or "finder lr ppo" in err

    @pytest.mark.slow
    def test_study_without_a_pick_is_refused(self, finder: Any) -> None:
        ran = finder.small("lr", "ppo", "--env", "cli_envs:Broken-v0", "--rates", "1e-3", "--confirm", "0")
        assert ran.code == 1
        ran = finder("train", "--from", "lr-ppo-cli_envs:Broken-v0")
        assert (ran.code, ran.out) == (1, "")
        assert "has no pick to train: no trial is complete" in ran.err
        assert "See finder show lr-ppo-cli_envs:Broken-v0" in ran.err
        assert not (finder.folder / "runs").exists()

    @pytest.mark.slow
    def test_agent_of_a_script_needs_its_class_and_its_initial_weights(self, finder: Any) -> None:
        (finder.folder / "mine.py").write_text("from agents.algorithms.ppo import PPO\n\nclass Mine(PPO):\n    pass\n")
        words = ("mine.py:Mine", *PPO[1:])
        assert finder("train", *words, "--steps", "64", "--folder", "before").code == 0
        script = (
            "import sys; sys.path.insert(0, '.')\n"
            "from dataclasses import replace\n"
            "import agents\nfrom finder import LRFinder\nfrom mine import Mine\n"
            "recipe = agents.AgentSpec.of(Mine, 'CartPole-v1', dict(jit_compile=False, n_steps=16, n_epochs=2,"
            " n_envs=2, batch_size=16, hidden_sizes=[8]))\n"
            "recipe = replace(recipe, state=agents.load_weights('before'))\n"
            "LRFinder(recipe).grid(1e-4, 1e-2, n_rates=2, env_steps=200, seeds=1, confirm=0, executor='inline',"
            " study_name='mine')\n"
        )
        done = finder.python("-c", script)
        assert done.returncode == 0, done.stderr
        ran = finder("train", "--from", "mine", "--steps", "10")
        assert ran.code == 2
        assert "give the place of the class, module:Mine or file.py:Mine" in ran.err
        ran = finder("train", "mine.py:Mine", "--from", "mine", "--steps", "10")
        assert ran.code == 2
        assert "started from trained weights: give these" in ran.err
        assert finder("train", *words, "--steps", "64", "--folder", "other", "--seed", "9").code == 0
        ran = finder("train", "mine.py:Mine", "--from", "mine", "--steps", "10", "--start-from", "other")
        assert ran.code == 2
        assert "started from other weights than these" in ran.err
        ran = finder(
            "train", "mine.py:Mine", "--from", "mine", "--steps", "2", "--start-from", "before", "--folder", "x"
        )
        assert ran.code == 0, ran.err
        for a, b in zip(networks(finder.folder / "before"), networks(finder.folder / "x"), strict=True):
            np.testing.assert_array_equal(a, b)
        ran = finder("train", "ppo", "--from", "mine", "--steps", "10", "--start-from", "before")
        assert "is of the agent 'Mine', not 'ppo'" in ran.err

    def test_learning_rate_is_the_one_for_the_long_run(self, searched: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        from dataclasses import replace

        from finder.long_run.recommendation import recommended_agent
        from studies.study.study import load_study

        with load_study(searched.study, f"sqlite:///{searched.finder.folder}/finder.db") as study:
            pick = studies.analysis.recommendation.best(study)
            at = replace(pick, config={**pick.config, "learning_rate": 1.25e-4})
            assert recommended_agent(study, at).config.learning_rate == 1.25e-4


@pytest.mark.parametrize(
    ("result", "means"),
    [
        ({"mean_return": 5.0, "mean_episodes": 7, "mean_of_100": 3.0}, "100 episodes is 3"),
        ({"mean_return": 5.0, "mean_episodes": 7, "mean_of_100": None}, "7 episodes is 5"),
        ({"mean_return": 5.0, "episodes": 40}, "40 episodes is 5"),  # earlier versions
        ({"mean_return": 5.0, "mean_episodes": 1}, "episode is 5"),
        ({"mean_return": None}, ""),
        (None, ""),
    ],
)  # fmt: skip
def test_progress_of_a_run_says_of_which_episodes_the_mean_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, result: dict[str, Any] | None, means: str
) -> None:
    header = SimpleNamespace(env_steps=4000, episodes=180)
    monkeypatch.setattr("finder.cli.training.run._newest", lambda _: (tmp_path, header))
    folder = RunFolder(tmp_path, RunSettings(agent="ppo", config={}, env="CartPole-v1"), result, ())
    text = f", and the mean return of the last {means}" if means else ""
    assert _done_text(folder) == f"it has made 4,000 environment steps and 180 episodes{text}"


@pytest.mark.slow
def test_given_schedule_is_not_stretched_and_its_end_is_named(finder: Any) -> None:
    ran = finder("train", *PPO, "--set", "optimizer=adam(CosineDecay(1e-3, 10))", "--steps", "320", "--folder", "run")
    assert ran.code == 0, ran.err
    assert (
        "the schedule CosineDecay ends after 10 of about 40 gradient steps: the learning rate is 0 from then on."
        in (" ".join(ran.err.split()))
    )
    settings = json.loads((finder.folder / "run" / "run.json").read_text())["settings"]
    assert settings["config"]["learning_rate"]["config"]["decay_steps"] == 10


@pytest.mark.slow
def test_schedule_of_a_pick_is_stretched(finder: Any) -> None:
    small = ("n_steps=16", "n_epochs=2", "n_envs=2", "batch_size=16", "hidden_sizes=[8]", "jit_compile=false")
    words = [word for each in small for word in ("--set", each)]
    ran = finder(
        "opt", "ppo", "--env", "CartPole-v1", *words, "--optimizer", "adam(CosineDecay(1e-3, 10))",
        "--optimizer", "sgd(CosineDecay(1e-9, 10))", "--env-steps", "320", "--seeds", "1", "--confirm", "0",
        "--study-name", "scheduled",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    ran = finder("train", "--from", "scheduled", "--trial", "0", "--steps", "960", "--folder", "run")
    assert ran.code == 0, ran.err
    assert "the schedule CosineDecay is stretched from 320 to 960 environment steps: decay_steps 10 → 30 gradient" in (
        " ".join(ran.err.split())
    )
    settings = json.loads((finder.folder / "run" / "run.json").read_text())["settings"]
    assert settings["config"]["learning_rate"]["config"]["decay_steps"] == 30


MEASURED = """
import gymnasium


class Measured(gymnasium.Wrapper):
    def __init__(self):
        super().__init__(gymnasium.make("CartPole-v1"))

    def step(self, action):
        seen, reward, terminated, truncated, info = super().step(action)
        return seen, reward, terminated, truncated, {**info, "tilt": abs(float(seen[2]))}
"""


@pytest.mark.slow
def test_long_run_records_the_number_that_its_study_was_judged_by(finder: Any) -> None:
    (finder.folder / "measured.py").write_text(MEASURED)
    small = ("n_steps=16", "n_epochs=2", "n_envs=2", "batch_size=16", "hidden_sizes=[8]", "jit_compile=false")
    words = [word for each in small for word in ("--set", each)]
    ran = finder(
        "lr", "ppo", "--env", "measured.py:Measured", *words, "--rates", "1e-3,1e-2", "--env-steps", "320",
        "--seeds", "1", "--confirm", "0", "--metric", "custom:tilt:minimize", "--study-name", "tilting",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    ran = finder("train", "--from", "tilting", "--steps", "320", "--folder", "run", "--json")
    assert ran.code == 0, ran.err
    assert 0.0 < ran.json["custom_metrics"]["tilt"]["mean"] < 1.0
    more = finder("train", "--resume", "run", "--steps", "640")
    assert more.code == 0, more.err
    assert "\ntilt 0." in more.err
    ran = finder("train", "--from", "tilting", "--steps", "32", "--folder", "pooled", "--pool", "2")
    assert "tilt cannot be shown: processes of a pool do not send the info of episodes." in ran.err


MISTAKES = {
    "nothing": ((), "Nothing to train is given: AGENT --env ID, --from STUDY, or --resume DIR."),
    "no environment": (("ppo",), "Nothing to train is given"),
    "unknown agent": (("pppo", "--env", "CartPole-v1"), "Did you mean ppo"),
    "unknown environment": (("ppo", "--env", "CartPol-v1"), "Did you mean CartPole-v1"),
    "environment argument": (("ppo", "--env", "CartPole-v1", "--env-kwargs", '{"colour": 1}'), "colour"),
    "unknown hyperparameter": (("ppo", "--env", "CartPole-v1", "--set", "gama=0.9"), "Did you mean gamma"),
    "action space": (("dqn", "--env", "Pendulum-v1"), "DQN takes discrete actions"),
    "unknown study": (("--from", "nope", "--storage", "empty.db"), "there is no study 'nope'"),
    "a pick and its wrappers": (("--from", "x", "--wrapper", "Autoreset"), "--wrapper: --from trains the study's pick"),
    "no steps": (("ppo", "--env", "CartPole-v1", "--steps", "0"), "'--env-steps'"),
    "no run": (("--resume", "nowhere"), "'nowhere' is no folder of a run: it has no run.json"),
    "a run and its agent": (("ppo", "--resume", "x"), "AGENT: a run resumes with its settings"),
    "a run and its seed": (("--resume", "x", "--seed", "1", "--keep", "2"), "--keep, --seed: a run resumes"),
    "a folder that cannot be made": (("ppo", "--env", "CartPole-v1", "--folder", "empty.db/x"), "cannot be created: "),
    "a folder that is not empty": (("ppo", "--env", "CartPole-v1", "--folder", "full"), "'full' is not empty"),
    "an interval": (("ppo", "--env", "CartPole-v1", "--evaluate-every", "often"), "An interval must be"),
    "another interval": (("ppo", "--env", "CartPole-v1", "--checkpoint-every", "0"), "--checkpoint-every: An interval"),
    "weights of nothing": (("ppo", "--env", "CartPole-v1", "--start-from", "nowhere"), "no such file or folder"),
    "a vectorization": (("ppo", "--env", "CartPole-v1", "--vectorization", "asink"), "Did you mean async"),
    "episodes of no evaluation": (
        ("ppo", "--env", "CartPole-v1", "--evaluate-episodes", "3"),
        "--evaluate-episodes has no effect without --evaluate-every",
    ),
    "a factor of no plateau": (
        ("ppo", "--env", "CartPole-v1", "--plateau-factor", "0.5"),
        "--plateau-factor has no effect without --plateau",
    ),
    "a least rate of no plateau": (
        ("ppo", "--env", "CartPole-v1", "--min-learning-rate", "0.5"),
        "--min-learning-rate has no effect without --plateau",
    ),
    "patience for nothing": (
        ("ppo", "--env", "CartPole-v1", "--patience-from", "5"),
        "--patience-from has no effect without --early-stop or --plateau",
    ),
    "a storage of no study": (
        ("ppo", "--env", "CartPole-v1", "--storage", "x.db"),
        "--storage has no effect without --from",
    ),
    "a factor above one": (
        ("ppo", "--env", "CartPole-v1", "--plateau", "3", "--plateau-factor", "2"),
        "factor must be between 0 and 1, got 2.0",
    ),
    "a stop before any plateau": (
        ("ppo", "--env", "CartPole-v1", "--plateau", "10", "--early-stop", "3"),
        "before the learning rate is ever lowered after 10",
    ),
    "the best of two kinds": (
        ("ppo", "--env", "CartPole-v1", "--best-only", "--evaluate-every", "9", "--checkpoint-every", "9"),
        "leave --checkpoint-every out",
    ),
    "a schedule and a plateau": (
        ("ppo", "--env", "CartPole-v1", "--plateau", "3", "--set", 'learning_rate={"class_name": "CosineDecay", '
         '"config": {"initial_learning_rate": 0.1, "decay_steps": 9}}'),
        "follows a learning-rate schedule, which ReduceOnPlateau cannot lower",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("words", "message"), MISTAKES.values(), ids=MISTAKES.keys())
def test_mistake_is_reported_and_creates_no_run(finder: Any, words: tuple[str, ...], message: str) -> None:
    (finder.folder / "empty.db").touch()
    (finder.folder / "full").mkdir()
    (finder.folder / "full" / "thesis.txt").touch()
    ran = finder("train", *words)
    assert (ran.code, ran.out) == (2, ""), ran.err
    assert message in ran.err
    assert len(re.findall("^Error: ", ran.err, re.MULTILINE)) == 1
    assert "Traceback" not in ran.err
    assert not (finder.folder / "runs").exists()


@pytest.mark.parametrize("content", ["", "[]", '{"settings": {"format": 1}}', '{"format": 2, "settings": {}}'])
def test_folder_with_an_invalid_description_is_refused(finder: Any, content: str) -> None:
    (finder.folder / "run").mkdir()
    (finder.folder / "run" / "run.json").write_text(content)
    ran = finder("train", "--resume", "run")
    assert (ran.code, ran.out) == (2, "")
    assert "run/run.json" in ran.err
