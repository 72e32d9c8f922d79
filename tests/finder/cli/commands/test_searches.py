"""Tests of searches on the command line: output, failures and resumed studies."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

import studies

TOML = """
name = "from-toml"
agents = ["ppo"]
env = "CartPole-v1"
env_steps = 600
seeds = [0]
n_trials = 1
sampler = "random"

[params]
gamma = "0.9:0.99"

[fixed]
jit_compile = false
n_steps = 32
n_epochs = 1
"""

FROM_A_FILE = """
name = "from-a-file"
agents = "ppo"
env = "CartPole-v1"
env_steps = 600
seeds = 1
confirm = 0

[params]
learning_rate = "1e-4:1e-2:log"

[fixed]
jit_compile = false
n_steps = 32
n_epochs = 1
"""


class TestLearningRates:
    def test_result_of_a_search_goes_to_stdout_and_messages_to_stderr(self, searched: Any) -> None:
        ran = searched.ran
        assert ran.code == 0, ran.err
        pick, value, certainty = ran.out.splitlines()
        assert pick.startswith("learning_rate ")
        assert "; the best rate lies between " in pick or pick.endswith("; no interval of the best rate is known")
        assert "±" in value
        assert " confirmed over 5 further seeds; expected " in value
        assert certainty.startswith("not safe: "), "runs of 600 steps cannot tell learning rates apart"
        assert "finder train" not in ran.err
        assert " --seeds " in ran.err or " --env-steps " in ran.err
        assert "3 trials × 2 seeds (0, 1) × 600 environment steps" in ran.err
        assert "Confirming 3 finalists on 5 further seeds (2, 3, 4, 5, 6)" in ran.err
        assert "3 trials: 3 complete, 0 pruned, 0 failed · in sqlite:///finder.db as lr-ppo-CartPole-v1" in ran.err
        shown = [line.strip() for line in ran.err.splitlines()]
        for command in ("finder best lr-ppo-CartPole-v1", "finder report lr-ppo-CartPole-v1", "finder dashboard"):
            assert any(line.partition("  ")[0] == command for line in shown)
        assert "--storage" not in ran.err

    def test_complete_study_shows_its_result_again(self, searched: Any) -> None:
        again = searched.finder.small(*searched.words)
        assert (again.code, again.out) == (0, searched.ran.out)
        assert "All trials have ended; this is the result." in again.err
        assert "started" not in again.err

    def test_json_output_of_a_search(self, searched: Any) -> None:
        again = searched.finder.small(*searched.words, "--json", "--quiet")
        assert again.err == ""
        assert again.json["trials"] == {"complete": 3, "pruned": 0, "failed": 0}
        assert again.json["stopped"] is again.json["why_no_pick"] is None
        best = searched.finder("best", searched.study, "--json").json
        assert again.json["pick"] == best
        assert best["complete"] is True
        assert (best["safe"], best["status"]) == (again.json["safe"], again.json["status"]) == (False, "not safe")
        assert len(best["conclusion"]) == 3

    @pytest.mark.slow
    def test_different_settings_under_the_same_name_are_refused(self, searched: Any) -> None:
        named = ("--study-name", "mine")
        assert searched.finder.small(*searched.words, *named).code == 0
        ran = searched.finder.small(*searched.words, *named, "--set", "gamma=0.5")
        assert (ran.code, ran.out) == (2, "")
        assert "was made with gamma not fixed; now gamma fixed to 0.5 is requested." in ran.err
        assert "--study-name mine-2" in ran.err
        assert "finder delete mine)" in ran.err

    @pytest.mark.slow
    def test_different_settings_get_a_new_default_name(self, searched: Any) -> None:
        ran = searched.finder.small(*searched.words, "--set", "gamma=0.5", "--json")
        assert ran.code == 0
        assert ran.json["study"] == "lr-ppo-CartPole-v1-2"
        assert "lr-ppo-CartPole-v1 was made with gamma not fixed, which is another question" in ran.err

    @pytest.mark.slow
    def test_commands_omit_the_storage_of_the_environment_variable(
        self, finder: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OPTUNA_STORAGE", "other.db")
        ran = finder.small("lr", "ppo", "--env", "CartPole-v1", "--rates", "1e-3")
        assert ran.code == 0, ran.err
        assert (finder.folder / "other.db").exists()
        assert "--storage" not in ran.err
        monkeypatch.delenv("OPTUNA_STORAGE")
        again = finder.small("lr", "ppo", "--env", "CartPole-v1", "--rates", "1e-3", "--storage", "other.db")
        assert "finder dashboard --storage other.db" in again.err

    @pytest.mark.slow
    def test_range_test_is_recorded_as_a_study(self, finder: Any) -> None:
        words = ("--range-test", "--n-rates", "8", "--env", "CartPole-v1", "--set", "jit_compile=false")
        ran = finder("lr", "ppo", *words, "--json", "--metric", "loss")
        assert ran.code in (0, 1), ran.err
        assert (ran.code == 0) == (ran.json["suggestion"] is not None)
        assert ran.json["study"] == "range-test-ppo-CartPole-v1"
        best = finder("best", "range-test-ppo-CartPole-v1", "--json")
        assert best.json["learning_rate"] == ran.json["suggestion"]


class TestOtherSearches:
    @pytest.mark.slow
    def test_opt_compares_optimizers(self, finder: Any) -> None:
        words = ("--optimizer", "adam", "--optimizer", "sgd(momentum=0.9)", "--rates", "1e-3", "--storage", "memory")
        ran = finder.small("opt", "ppo", "--env", "CartPole-v1", *words, "--json")
        assert ran.code == 0, ran.err
        assert ran.json["pick"]["params"]["optimizer"] in ("adam", "sgd(momentum=0.9)")
        assert ran.json["trials"]["complete"] == 2

    @pytest.mark.slow
    def test_tune_searches_hyperparameters(self, finder: Any) -> None:
        rates = ("--param", "learning_rate=1e-5:1e-1:log")
        words = ("--param", "gamma=0.9:0.99", *rates, "--n-trials", "4", "--sampler", "random")
        ran = finder.small("tune", "ppo", "--env", "CartPole-v1", *words, "--json")
        assert ran.code == 0, ran.err
        params = ran.json["pick"]["params"]
        assert 0.9 <= params["gamma"] <= 0.99
        assert 1e-5 <= params["learning_rate"] <= 0.1
        assert "sampler random (seed 0)" in ran.err

    @pytest.mark.slow
    def test_flags_override_a_study_file(self, finder: Any) -> None:
        (finder.folder / "study.toml").write_text(TOML)
        first = finder("run", "study.toml")
        assert first.code == 0, first.err
        assert "1 trial × 1 seed (0) × 600 environment steps" in first.err
        more = finder("run", "study.toml", "--n-trials", "2", "--json")
        assert "Resuming: 1 trial is done, 1 left." in more.err
        assert more.json["trials"]["complete"] == 2
        elsewhere = finder("run", "study.toml", "--storage", "b.db", "--study-name", "other", "--quiet")
        assert (elsewhere.code, elsewhere.err) == (0, "")
        assert finder("best", "other", "--storage", "b.db").code == 0

    @pytest.mark.real
    def test_agents_are_compared_in_processes(self, finder: Any) -> None:
        words = ("agents", "ppo", "dqn", "--env", "CartPole-v1", "--env-steps=1500", "--seeds=1")
        ran = finder(*words, "--set=jit_compile=false", "--json")
        assert ran.code == 0, ran.err
        assert ran.json["pick"]["params"]["agent"] in ("ppo", "dqn")
        assert ran.json["trials"] == {"complete": 2, "pruned": 0, "failed": 0}
        assert "a trial each in 2 processes" in ran.err

    def test_an_agent_given_twice_is_refused(self, finder: Any) -> None:
        ran = finder.small("agents", "ppo", "PPO", "--env", "CartPole-v1")
        assert (ran.code, ran.out) == (2, "")
        assert "twice, with the same settings: give each agent once" in ran.err


class TestNoPick:
    """A budget in which nothing was learned: DQN's `learning_starts` is 1,000."""

    @pytest.mark.slow
    def test_budget_without_a_gradient_step_gives_no_pick(self, finder: Any) -> None:
        words = ("--env-steps", "900", "--seeds", "1", "--n-trials", "2", "--set", "jit_compile=false")
        ran = finder("tune", "dqn", "--env", "CartPole-v1", *words)
        assert (ran.code, ran.out) == (1, "")
        assert "Error: there is no pick: no gradient step was made within this budget" in ran.err
        assert "give each run more environment steps" in ran.err


class TestFailures:
    @pytest.mark.slow
    def test_failed_trial_does_not_end_the_study(self, finder: Any) -> None:
        broken = json.dumps({"broken_steps": 1})
        ran = finder.small("lr", "ppo", "--env", "cli_envs:Broken-v0", "--env-kwargs", broken, "--n-rates", "2")
        assert ran.code == 0, ran.err
        assert "✗ #0  environment failed: RuntimeError: the robot fell off the table" in ran.err
        assert "2 trials: 1 complete, 0 pruned, 1 failed (environment failed)" in ran.err
        shown = finder("show", "lr-ppo-cli_envs:Broken-v0")
        assert "RuntimeError: the robot fell off the table" in shown.out
        trial = finder("show", "lr-ppo-cli_envs:Broken-v0", "--trial", "0", "--json").json
        assert trial["state"] == "failed"
        assert "Traceback" in trial["traceback"]
        assert "cli_envs.py" in trial["traceback"]

    @pytest.mark.parametrize("kind", ["raises", "nan"])
    def test_three_failures_in_a_row_stop_the_study(self, finder: Any, kind: str) -> None:
        kwargs = json.dumps({"nan": kind == "nan"})
        ran = finder.small(
            "lr", "ppo", "--env", "cli_envs:Broken-v0", "--env-kwargs", kwargs, "--n-rates", "5", "--json",
            "--executor", "inline",
        )  # fmt: skip
        assert ran.code == 1
        assert ran.json["pick"] is None
        assert ran.json["trials"] == {"complete": 0, "pruned": 0, "failed": 3}
        assert "Error: the study was stopped: 3 trials failed in a row" in ran.err
        assert ("reward nan" if kind == "nan" else "the robot fell") in ran.json["stopped"]
        assert "finder show lr-ppo-cli_envs:Broken-v0" in ran.err

    @pytest.mark.slow
    @pytest.mark.parametrize("command", ["lr", "opt", "tune"])
    def test_search_without_a_complete_trial_fails(self, finder: Any, command: str) -> None:
        few = {"lr": ("--rates", "1e-3"), "opt": ("--optimizer", "sgd", "--rates", "1e-3"), "tune": ("--n-trials", "1")}
        words = (command, "ppo", "--env", "cli_envs:Broken-v0", *few[command])
        ran = finder.small(*words)
        assert (ran.code, ran.out) == (1, "")
        assert "Error: no trial was completed" in ran.err
        assert finder("best", f"{command}-ppo-cli_envs:Broken-v0").code == 1

    @pytest.mark.parametrize("executor", ["inline", pytest.param("process", marks=pytest.mark.real)])
    @pytest.mark.slow
    def test_failed_trials_are_retried_once_the_cause_is_fixed(self, finder: Any, executor: str) -> None:
        (finder.folder / "broken").touch()
        words = ("lr", "ppo", "--env", "cli_envs:Loud-v0", "--rates", "1e-3,1e-2", "--executor", executor, "--json")
        failed = finder.small(*words)
        assert failed.code == 1
        assert "When the cause is fixed, run it again to retry failed trials." in failed.err
        (finder.folder / "broken").unlink()
        again = finder.small(*words)
        assert again.code == 0, again.err
        assert "Retrying 2 failed trials." in again.err
        assert again.json["trials"] == {"complete": 2, "pruned": 0, "failed": 2}
        assert again.json["complete"] is True

    @pytest.mark.slow
    def test_output_of_an_environment_goes_to_stderr(self, finder: Any, capfd: pytest.CaptureFixture[str]) -> None:
        ran = finder.small("lr", "ppo", "--env", "cli_envs:Loud-v0", "--rates", "1e-3", "--json")
        assert ran.json["trials"]["complete"] == 1
        assert "hello from the environment" in ran.err
        out, err = capfd.readouterr()
        assert "and from below" in err
        assert out == ""


class TestResume:
    @pytest.mark.slow
    def test_advised_command_runs(self, finder: Any) -> None:
        """The command advised after a search with one seed runs unchanged."""
        words = ("lr", "ppo", "--env", "CartPole-v1", "--rates=1e-4,1e-3,1e-2", "--set", "n_envs=1", "--confirm=0")
        ran = finder.small(*words)
        assert ran.code == 0, ran.err
        advised = [
            line.partition("finder ")[2].split("   ")[0] for line in ran.err.splitlines() if "finder lr " in line
        ]
        surer = next(line for line in advised if "--study-name" in line)
        assert surer.endswith("--seeds 3 --study-name lr-ppo-CartPole-v1-3-seeds")
        three = finder(*shlex.split(surer))
        assert three.code == 0, three.err
        assert "3 trials × 3 seeds" in three.err

    @pytest.mark.slow
    def test_pick_at_the_edge_of_the_range_is_reported(self, finder: Any) -> None:
        spec = studies.StudySpec(
            name="lr-ppo-CartPole-v1",
            storage=f"sqlite:///{finder.folder}/finder.db",
            kind="lr",
            agents=("ppo",),
            env="CartPole-v1",
            env_steps=600,
            seeds=(0, 1),
            confirm=0,
            trials=tuple({"learning_rate": rate} for rate in (1e-4, 1e-3, 1e-2)),
        )
        with studies.open_study(spec) as study, studies.Recorder(study) as recorder:
            for value in (1.0, 2.0):
                recorder.completed(recorder.ask().number, value, {0: value, 1: value})  # type: ignore[union-attr]
        half = finder("best", spec.name)
        assert half.out.splitlines()[2] == "not safe: 2 of 3 trials done: this may change"
        assert finder("best", spec.name, "--json").json["complete"] is False
        with studies.open_study(spec) as study, studies.Recorder(study) as recorder:
            recorder.completed(recorder.ask().number, 3.0, {0: 3.0, 1: 3.0})  # type: ignore[union-attr]
        for command in ("best", "show"):
            shown = finder(command, spec.name)
            assert "may change" not in shown.out + shown.err
            assert "1e-2 is the highest rate that was tried: higher ones may be better" in shown.out + shown.err
        call = "the same call with rates=[0.1, 1.0], without start_lr, end_lr and n_rates (two rates beyond the edge"
        assert f"to settle it: {call}" in finder("best", spec.name).err

    @pytest.mark.slow
    def test_advice_uses_the_interface_that_started_the_study(self, finder: Any) -> None:
        storage = f"--storage=sqlite:///{finder.folder}/finder.db"
        words = ("lr", "ppo", "--env", "CartPole-v1", "--rates=1e-3,1e-2")
        assert finder.small(*words, "--confirm=0", storage, "--quiet", "--json").code == 0
        assert finder.small(*words, "--confirm=0", "--rates=1e-4").code == 0  # a later one adds a rate
        best = finder("best", "lr-ppo-CartPole-v1")
        surer = next(line for line in best.err.splitlines() if "--study-name" in line)
        assert "finder lr ppo --env CartPole-v1 --confirm=0 --env-steps=600 " in surer
        assert "--rates 1e-4,1e-3,1e-2 --seeds 3 --study-name lr-ppo-CartPole-v1-3-seeds" in surer
        assert "storage" not in surer
        (finder.folder / "study.toml").write_text(FROM_A_FILE)
        assert finder("run", "--n-trials", "2", "study.toml").code == 0
        best = finder("best", "from-a-file")
        assert "finder run study.toml --n-trials 2" in best.err
        assert 'with seeds = 3, name = "from-a-file-3-seeds" in study.toml: 3 seeds each; another study' in best.err

    @pytest.mark.slow
    def test_more_rates_extend_a_study_and_other_optimizers_start_a_new_one(self, finder: Any) -> None:
        assert finder.small("opt", "ppo", "--env", "CartPole-v1", "--optimizer", "adam", "--rates", "1e-3").code == 0
        more = finder.small("opt", "ppo", "--env", "CartPole-v1", "--optimizer", "adam", "--rates", "1e-2", "--json")
        assert more.json["trials"]["complete"] == 2
        assert "The plan grows from 1 to 2 trials." in more.err
        other = finder.small("opt", "ppo", "--env", "CartPole-v1", "--optimizer", "sgd", "--rates", "1e-2", "--json")
        assert other.json["study"] == "opt-ppo-CartPole-v1-2"

    @pytest.mark.slow
    def test_study_without_results_is_replaced(self, finder: Any) -> None:
        (finder.folder / "broken").touch()
        words = ("lr", "ppo", "--env", "cli_envs:Loud-v0", "--rates", "1e-3")
        assert finder.small(*words).code == 1
        (finder.folder / "broken").unlink()
        again = finder.small(*words, "--seeds", "0,1", "--json")
        assert again.code == 0, again.err
        assert "with seeds [0] had nothing to show: a new one takes its place." in again.err
        assert again.json["trials"] == {"complete": 1, "pruned": 0, "failed": 0}
