"""Tests of searches: proposed trials, records, resuming and stopping."""

from __future__ import annotations

import functools
import re
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import trainings
from fakes import SMALL_PPO

from agents import AgentSpec, ConfigurationError
from agents.contract.registry import ALGORITHMS, IMITATION, MULTI_AGENT
from agents.environments.vector import batch
from finder import run_file, run_search, tune
from finder.executors import choice
from finder.executors.choice import make_executor
from finder.finders.declared_spaces import default_space, parse_spaces
from finder.finders.first_trials import current_params
from finder.results.table import trial_table
from finder.search.object_resolver import ObjectResolver
from finder.search.search import Search
from finder.search.search_listener import SearchListener
from finder.trials.trial import Outcome
from studies import StudySpec
from studies.database.records import Ask, EpisodeRecord
from studies.errors import StudyError
from studies.recording.opening import open_study
from studies.recording.recorder import Recorder
from studies.spaces.spaces import Choice, FloatRange, IntRange
from studies.storage.storage import open_storage
from studies.study.checkpoint_folder import checkpoint_folder

ENV = "fakes:TwoStep-v0"
QUICK: dict[str, Any] = {"env_steps": 160, "seeds": 1, "executor": "inline", "fixed": SMALL_PPO}


def make_spec(**changes: Any) -> StudySpec:
    fields: dict[str, Any] = {
        "name": "a study",
        "storage": "memory",
        "agents": ("ppo",),
        "env": ENV,
        "env_steps": 160,
        "seeds": (0,),
        "executor": "inline",
        "fixed": SMALL_PPO,
        "params": {"learning_rate": "1e-4:1e-1:log"},
        "n_trials": 3,
    }
    return StudySpec(**{**fields, **changes})


@pytest.mark.slow
def test_searched_hyperparameters_reach_the_agent(storage: str):
    space = {"gamma": "0.9:0.999", "learning_rate": None, "optimizer": "adam,sgd", "clip_range": [0.1, 0.2]}
    result = tune("ppo", ENV, space, n_trials=4, storage=storage, **QUICK)
    table = result.table()
    assert list(table.state) == ["COMPLETE"] * 4
    for trial in result.study.trials():
        config = trial.user_attrs["configuration"]["config"]
        params = result.study.params(trial)
        assert {name: config[name] for name in params} == params
        assert config["n_steps"] == 16


def test_trial_of_a_killed_process_has_the_steps_of_its_episodes():
    with open_storage("memory") as storage:
        spec = make_spec(seeds=(0, 1))
        study = open_study(spec, storage)
        search = Search(study, ObjectResolver.of(spec), make_executor("inline"))
        ask = search.recorder.ask()
        assert ask is not None
        for seed, steps in ((0, 100), (1, 90), (0, 200)):
            record = EpisodeRecord(
                seed=seed, episode=steps // 100, env_steps=steps, episode_return=1.0, length=10, loss=None,
                wall_seconds=steps / 100,
            )  # fmt: skip
            search.listener.episodes({ask.number: [record]})
        search.listener.ended(ask.number, Outcome(state="failed", reason="its process was killed by SIGKILL"))
        [row] = trial_table(study).to_dict("records")
        assert (row["state"], row["env_steps"], row["wall_seconds"]) == ("FAIL", 90, 2.0)
        search.recorder.close()


def test_executor_is_closed_although_the_recorder_cannot_be_closed(monkeypatch: pytest.MonkeyPatch):
    closed: list[str] = []
    with open_storage("memory") as storage:
        spec = make_spec()
        search = Search(open_study(spec, storage), ObjectResolver.of(spec), make_executor("inline"))
        close = search.recorder.close

        def fail() -> None:
            close()
            raise OSError("no space left")

        def run(*_: Any) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(search.recorder, "close", fail)
        monkeypatch.setattr(search._executor, "run", run)
        for name in ("_executor", "_checkpoints"):
            monkeypatch.setattr(getattr(search, name), "close", functools.partial(closed.append, name))
        with pytest.raises(OSError, match="no space left"):
            search.run()
    assert closed == ["_checkpoints", "_executor"]


@pytest.mark.slow
def test_optimizer_arguments_can_be_searched():
    space = {"optimizer": ["sgd"], "optimizer.momentum": "0.0:0.9"}
    result = tune("ppo", ENV, space, n_trials=2, storage=None, **QUICK)
    assert len(result.study.trials()) == 2
    for trial in result.study.trials():
        serialised = trial.user_attrs["configuration"]["optimizers"]["default"]
        assert serialised["class_name"] == "SGD"
        assert serialised["config"]["momentum"] == result.study.params(trial)["optimizer.momentum"]


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if name not in IMITATION])
def test_default_space_of_every_agent_contains_its_defaults(name: str):
    environment = "Pendulum-v1" if name in ("ddpg", "sac", "td3") else "CartPole-v1"
    several = "agents.environments.multi_agent.games:TwoStepGame"
    agent = AgentSpec.of(name, several if name in MULTI_AGENT else environment)
    agent.build()
    spaces = parse_spaces(agent, default_space(agent))
    row = current_params(agent, spaces)
    assert {"learning_rate", "optimizer", "one_minus_gamma"} <= set(row) == set(spaces)
    rate, discount = spaces["learning_rate"], spaces["one_minus_gamma"]
    assert isinstance(rate, FloatRange)
    assert isinstance(discount, FloatRange)
    assert (rate.log, discount.log, discount.low, discount.high) == (True, True, 1e-4, 0.1)
    own, first = agent.config.to_dict(), agent.config.replace(row).to_dict()
    if own.get("ent_coef") == 0.0:  # an entropy weight of 0 has no place on a logarithmic scale
        assert first.pop("ent_coef") == 1e-8 > own.pop("ent_coef")
    assert first == own


@pytest.mark.parametrize("name", ["ppo", "a2c", "trpo"])
def test_default_space_has_the_scaling_of_observations_and_rewards(name: str) -> None:
    agent = AgentSpec.of(name, "CartPole-v1")
    spaces = parse_spaces(agent, default_space(agent))
    assert spaces["normalize_observations"] == spaces["normalize_rewards"] == Choice((False, True))
    of_populations = default_space(agent, only_live=True)
    assert not {"normalize_observations", "normalize_rewards"} & set(of_populations)


def test_ends_of_a_range_have_the_type_of_the_hyperparameter() -> None:
    spaces = parse_spaces(
        AgentSpec.of("ppo", "CartPole-v1"),
        {
            "gae_lambda": "0:1",
            "max_grad_norm": "1:2",
            "n_steps": "16.0:64",
            "actor.learning_rate": "1:2",
            "optimizer": "adam",
        },
    )
    assert spaces["gae_lambda"] == FloatRange(0.0, 1.0)
    assert spaces["n_steps"] == IntRange(16, 64)
    assert all(isinstance(spaces[name], FloatRange) for name in ("max_grad_norm", "actor.learning_rate"))
    with pytest.raises(StudyError, match=r"n_steps: 16\.5 is not whole"):
        parse_spaces(AgentSpec.of("ppo", "CartPole-v1"), {"n_steps": "16.5:64"})


def test_ends_of_a_range_of_a_function_are_whole_where_they_are_written_so() -> None:
    def train(run: Any, width=8, rate: float = 1e-3) -> None:
        """Do nothing."""

    spaces = parse_spaces(AgentSpec.of(train, "CartPole-v1"), {"width": "0:4", "rate": "0:1"})
    assert spaces == {"width": IntRange(0, 4), "rate": FloatRange(0.0, 1.0)}


def test_default_space_depends_on_fixed_hyperparameters():
    agent = AgentSpec.of("dqn", "agents.environments.bit_flip:BitFlip-v0", {"replay": "hindsight", "noisy": True})
    names = set(default_space(agent))
    assert {"n_sampled_goal", "noisy_sigma"} <= names
    assert not {"n_step", "exploration_final_eps", "priority_alpha"} & names
    result = tune("ppo", ENV, n_trials=1, storage=None, **QUICK)
    assert not set(result.study.params(result.study.trials()[0])) & {"n_envs", "n_steps"}


@pytest.mark.slow
def test_first_trial_has_the_defaults_of_the_agent(storage: str):
    space = {"learning_rate": None, "one_minus_gamma": None}
    result = tune("ppo", ENV, space, n_trials=3, storage=storage, **QUICK)
    params = [result.study.params(trial) for trial in result.study.trials()]
    assert params[0] == {"learning_rate": 3e-4, "one_minus_gamma": 0.01}
    assert all(other != params[0] for other in params[1:])
    again = tune("ppo", ENV, space, n_trials=4, storage=storage, **QUICK)
    assert sum(again.study.params(trial) == params[0] for trial in again.study.trials()) == 1
    for trial in again.study.trials():
        config = trial.user_attrs["configuration"]["config"]
        assert config["gamma"] == pytest.approx(1 - again.study.params(trial)["one_minus_gamma"])


@pytest.mark.slow
def test_samplers_and_pruners_are_chosen_by_name():
    result = tune("ppo", ENV, sampler="random", pruner="hyperband", n_trials=2, storage=None, **QUICK)
    assert len(result.table()) == 2
    for name in ("sampler", "pruner"):
        with pytest.raises(StudyError, match=f"(?i){name}"):
            tune("ppo", ENV, n_trials=2, storage=None, **{**QUICK, name: "rndom"})


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"optimizer.momentum": "0.0:0.9"}, "optimizer 'adam'"),
        ({"optimizer": ["adam", "sgd"], "optimizer.momentum": "0.0:0.9"}, "0:0.9@optimizer=NAME"),
        ({"optimizer": ["sgd"], "optimizer.beta_1": "0.0:0.9"}, "optimizer 'sgd'"),
    ],
)
def test_argument_that_some_optimizer_of_the_search_lacks_is_refused(params: dict[str, Any], message: str):
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        tune("ppo", ENV, params, n_trials=2, storage=None, **QUICK)


def test_three_failures_in_a_row_stop_a_study():
    spec = make_spec(env_kwargs={"fail_after": 40}, n_trials=10)
    study, stopped = run_search(spec)
    assert [trial.state.name for trial in study.trials()] == ["FAIL"] * 3
    assert stopped is not None
    assert "the arm fell off" in str(study.trials()[0].user_attrs)
    assert "RuntimeError" in study.trials()[0].user_attrs["traceback"]


def test_invalid_combination_fails_only_its_own_trial():
    rows = ({"optimizer": "adam", "optimizer.momentum": 0.5}, {"optimizer": "sgd", "optimizer.momentum": 0.5})
    study, stopped = run_search(make_spec(params={}, trials=rows, n_trials=2))
    assert [trial.state.name for trial in study.trials()] == ["FAIL", "COMPLETE"]
    assert "momentum" in study.trials()[0].user_attrs["reason"]
    assert stopped is None


@pytest.mark.slow
def test_trials_that_fall_behind_are_pruned():
    rows = tuple({"learning_rate": rate} for rate in (0.01, 0.01, 0.01, 0.01, 1e-9, 1e-9))
    spec = make_spec(params={}, trials=rows, n_trials=6, env_steps=1600, pruner_kwargs={"n_warmup_steps": 800})
    study, _ = run_search(spec)
    states = [trial.state.name for trial in study.trials()]
    assert states[:4] == ["COMPLETE"] * 4
    assert states[4:] == ["PRUNED"] * 2
    assert all(trial.user_attrs["pruned_at"] < 1600 for trial in study.trials()[4:])


@pytest.mark.slow
def test_restarted_study_resumes_without_repeating_trials(storage: str):
    first, _ = run_search(make_spec(storage=storage, n_trials=2, sampler="random"))
    first.close()
    study, _ = run_search(make_spec(storage=storage, n_trials=5, sampler="random"))
    rates = [trial.params["learning_rate"] for trial in study.trials()]
    assert len(rates) == 5
    assert len(set(rates)) == 5


@pytest.mark.slow
def test_study_resumes_under_an_alias_of_its_vectorization(storage: str):
    names = ["dummy", "sync", "dummy"]
    for n_trials, name in enumerate(names, start=1):
        study, _ = run_search(make_spec(storage=storage, n_trials=n_trials, sampler="random", vectorization=name))
        vectorizations = [trial.user_attrs["configuration"]["vectorization"] for trial in study.trials()]
        assert vectorizations == ["sync"] * n_trials
        study.close()


@pytest.mark.slow
def test_study_resumes_under_another_spelling_of_its_strategy(storage: str):
    for n_trials, spelled in enumerate(["none", "None"], start=1):
        study, _ = run_search(make_spec(storage=storage, n_trials=n_trials, sampler="random", strategy=spelled))
        strategies = [trial.user_attrs["configuration"]["strategy"] for trial in study.trials()]
        assert strategies == ["none"] * n_trials
        study.close()


@pytest.mark.slow
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("stops", [True, False])
def test_files_being_written_by_other_workers_are_kept(storage: str, shared: bool, stops: bool):
    spec = make_spec(storage=storage, n_trials=4, confirm=0, env_kwargs={"fail_after": 40} if stops else {})
    with open_storage(storage) as opened:
        opened.shared = shared
        with open_study(spec, opened) as study:
            folder = checkpoint_folder(opened.url, study.episodes_key)
        assert folder is not None
        folder.mkdir(parents=True)
        half = folder / ".half.new"
        half.write_bytes(b"half of a checkpoint")
        with open_study(spec, opened) as study:
            assert (Search(study, ObjectResolver.of(spec), make_executor("inline")).run() is not None) == stops
        assert half.exists() == (shared and stops)


@pytest.mark.slow
def test_interrupted_study_keeps_its_trials_and_reports_them(
    storage: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    ended = SearchListener.ended

    def interrupt_after_two(self: SearchListener, number: int, outcome: Any) -> None:
        ended(self, number, outcome)
        if number == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(SearchListener, "ended", interrupt_after_two)
    with pytest.raises(KeyboardInterrupt):
        run_search(make_spec(storage=storage))
    assert "Interrupted: 2 of 3 trials are recorded in" in capsys.readouterr().err
    monkeypatch.undo()
    study, _ = run_search(make_spec(storage=storage))
    assert [trial.state.name for trial in study.trials()] == ["COMPLETE"] * 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"agents": ("pppo",)}, "Did you mean ppo"),
        ({"env": "CartPole-v7"}, "CartPole-v1"),
        ({"params": {"optimizer": ["adam", "adamm"]}}, "Did you mean adam"),
        ({"params": {"gama": "0.9:0.99"}}, "gamma"),
        ({"params": {"gamma": "0.9:1.5"}}, "gamma must be"),
        ({"params": {"actr.learning_rate": "0.1:0.2"}}, "Unknown optimizer 'actr' of PPO"),
        ({"fixed": {"n_steps": "many"}}, "n_steps"),
        ({"agents": ("dqn",), "env": "Pendulum-v1", "fixed": {}}, "discrete actions"),
    ],
)
def test_invalid_settings_are_refused_before_anything_is_written(changes: dict[str, Any], message: str, tmp_path: Path):
    path = tmp_path / "s.db"
    with pytest.raises(ConfigurationError, match=message):
        run_search(make_spec(storage=f"sqlite:///{path}", **changes))
    assert not path.exists()


@pytest.mark.slow
def test_study_runs_from_a_file(tmp_path: Path):
    text = f"""
name = "from a file"
storage = "sqlite:///{tmp_path}/file.db"
agents = "ppo"
env = "{ENV}"
env_steps = 160
seeds = [0]
n_trials = 2
executor = "inline"

[params]
learning_rate = {{low = 1e-4, high = 1e-2, log = true}}

[fixed]
n_envs = 2
n_steps = 16
batch_size = 16
hidden_sizes = [8]
jit_compile = false
"""
    path = tmp_path / "study.toml"
    path.write_text(text)
    assert len(run_file(path).table()) == 2
    assert len(run_file(path, n_trials=3).table()) == 3


@pytest.mark.slow
@pytest.mark.skipif(find_spec("envpool") is None, reason="the extra envpool is not installed")
def test_study_of_an_older_version_keeps_its_implicit_envpool(storage: str, monkeypatch: pytest.MonkeyPatch):
    make_copies = batch._make_copies
    asked: dict[str, Any] = {"storage": storage, "study_name": "earlier", **QUICK}
    with monkeypatch.context() as earlier:  # versions in which "auto" chose EnvPool
        pooled = lambda spec, n, infos: make_copies(replace(spec, vectorization="envpool"), n, infos)  # noqa: E731
        earlier.setattr(batch, "_make_copies", pooled)
        first = tune("ppo", "Acrobot-v1", {"learning_rate": None}, n_trials=1, **asked)
        first.study.close()
    again = tune("ppo", "Acrobot-v1", {"learning_rate": None}, n_trials=2, **asked)
    vectorizations = [trial.user_attrs["configuration"]["vectorization"] for trial in again.study.trials()]
    # No episode ends within so short a run: the failed trial is replaced by another one.
    assert vectorizations == ["envpool"] * 3
    assert again.study.vectorization == "envpool"
    again.study.close()


@pytest.mark.slow
def test_interrupted_batch_is_completed_before_new_trials_are_proposed(storage: str, monkeypatch: pytest.MonkeyPatch):
    """The sampler knows the same finished trials as in an uninterrupted search."""
    monkeypatch.setattr(choice, "TRIALS_AT_ONCE", 3)
    ask, ended = Recorder.ask, SearchListener.ended
    known: dict[int, int] = {}

    def noted(self: Recorder) -> Ask | None:
        n_known = sum(trial.state.is_finished() for trial in self._study.trials())
        if (found := ask(self)) is not None:
            known[found.number] = n_known
        return found

    def interrupted(self: SearchListener, number: int, outcome: Any) -> None:
        ended(self, number, outcome)
        if number == 4 and outcome.state != "interrupted":  # the second trial of the second batch
            raise KeyboardInterrupt

    def search() -> None:
        tune(
            trainings.train, "CartPole-v1", {"learning_rate": "1e-4:1:log"}, env_steps=1_000, n_trials=9, seeds=1,
            executor="population", storage=storage, study_name="s", confirm=0, pruner="none",
        )  # fmt: skip

    monkeypatch.setattr(Recorder, "ask", noted)
    monkeypatch.setattr(SearchListener, "ended", interrupted)
    with pytest.raises(KeyboardInterrupt):
        search()
    assert known == {0: 0, 1: 0, 2: 0, 3: 3, 4: 3, 5: 3}
    monkeypatch.setattr(SearchListener, "ended", ended)
    search()
    assert {number: known[number] for number in (6, 7, 8)} == {6: 6, 7: 6, 8: 6}
