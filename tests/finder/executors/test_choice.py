"""Tests of the choice of the executor of a study."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fakes import SMALL_DQN, SMALL_PPO

from agents import AgentSpec, ConfigurationError
from agents.algorithms.ppo import PPO
from agents.config.work import relative_work
from finder.executors import choice
from finder.executors.batches import split_into_batches
from finder.executors.choice import choose_executor
from finder.executors.executor import Executor
from finder.finders.lr import LRFinder
from finder.search.study_file import read_study
from finder.trials.trial import TrialSpec
from studies import StudyError, StudySpec
from studies.spec.attributes import seed_values


class Alone(PPO):
    """An agent that cannot be a member of a population."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)


def spec_of(**fields: Any) -> StudySpec:
    fields = {"trials": tuple({"learning_rate": 10.0**-k} for k in range(1, 5)), "env_steps": 1_000, **fields}
    return StudySpec(name="s", storage="memory", agents=("a",), env="CartPole-v1", **fields)


def chosen(agent: Any = "ppo", settings: dict[str, Any] = SMALL_PPO, **fields: Any) -> Executor:
    return choose_executor(spec_of(**fields), {"a": AgentSpec.of(agent, "CartPole-v1", settings)})


@pytest.fixture(autouse=True)
def four_cores_and_much_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "cores", lambda: 4)
    monkeypatch.setattr(choice, "free_memory", lambda: 64_000_000_000)


@pytest.mark.parametrize(
    ("fields", "description"),
    [
        ({}, "populations of up to 64 runs"),  # too little work for processes: 12,000 steps
        ({"env_steps": 50_000}, "populations of up to 64 runs in 3 processes"),  # 600,000 steps
        ({"env_steps": 500_000}, "populations of up to 64 runs in 4 processes"),
        ({"n_jobs": 2, "population": 5}, "populations of up to 5 runs in 2 processes"),
        ({"executor": "process"}, "a trial each in 4 processes"),
        ({"executor": "process", "n_jobs": 1}, "a trial each in 1 process"),
        ({"executor": "inline"}, "inline"),
    ],
)
def test_work_determines_processes_and_members(fields: dict[str, Any], description: str):
    executor = chosen(**fields)
    assert executor.description == description
    assert not executor.notes


def test_large_updates_are_worth_processes_at_fewer_steps():
    # 12,000 steps with 256 rows of 256-256 networks at each: some 70 s of one core, not 0.3 s
    executor = choose_executor(spec_of(), {"a": AgentSpec.of("sac", "Pendulum-v1", {"hidden_sizes": [256, 256]})})
    assert executor.description == "populations of up to 64 runs in 4 processes"


def test_agent_that_cannot_be_a_member_runs_in_processes_with_a_note():
    executor = chosen(Alone)
    assert executor.description == "a trial each in 4 processes"
    assert len(executor.notes) == 1
    assert "a cannot be trained in a population (a process a trial instead): Alone has an __init__" in executor.notes[0]


def test_population_is_reduced_to_fit_memory_with_a_note(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(choice, "free_memory", lambda: 75_000_000)
    executor = chosen("dqn", {**SMALL_DQN, "buffer_size": 100_000}, population=50)
    # 0.8 * 75 = 60 MB for replays of 100,000 transitions of 47 bytes: this process has imported TensorFlow already
    assert executor.description == "populations of up to 12 runs"
    assert executor.notes == [
        "a run takes about 5 MB, so 12 are trained at the same time in each process instead of 50"
    ]


def test_further_processes_need_memory_before_they_train(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(choice, "free_memory", lambda: 2_400_000_000)
    executor = chosen("dqn", {**SMALL_DQN, "buffer_size": 100_000}, population=50, n_jobs=2)
    # 0.8 * 2,400 / 2 - 900 = 60 MB in each process
    assert executor.description == "populations of up to 12 runs in 2 processes"


@pytest.mark.parametrize(
    ("gigabytes", "n_jobs"),
    [(8.0, 4), (3.0, 2), (0.1, 1)],  # of 0.9 GB and 5 MB each, within 80%
)
def test_default_number_of_processes_fits_into_memory(gigabytes: float, n_jobs: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(choice, "free_memory", lambda: int(gigabytes * 1e9))
    dqn = ("dqn", {**SMALL_DQN, "buffer_size": 100_000})
    assert max(1, chosen(*dqn, env_steps=5_000_000).n_processes) == n_jobs
    assert chosen(*dqn, executor="process").n_processes == n_jobs
    assert chosen(Alone).n_processes == n_jobs
    assert chosen(*dqn, executor="process", n_jobs=3).n_processes == 3
    assert chosen(strategy="mirrored").n_processes == min(2, n_jobs)


def test_adaptive_sampler_proposes_few_trials_at_a_time():
    searched = {"trials": (), "n_trials": 40, "params": {"learning_rate": "1e-5:1e-1:log"}, "seeds": (0,)}
    assert chosen(**searched, sampler="tpe").trials_at_once(1) == choice.TRIALS_AT_ONCE
    assert chosen(**searched, sampler="random").trials_at_once(1) == 64


def test_several_inline_jobs_are_refused():
    with pytest.raises(ConfigurationError, match="one trial at a time"):
        chosen(executor="inline", n_jobs=2)


def test_trials_are_split_evenly_and_grouped_by_structure():
    def trial(number: int, hidden: int, n_seeds: int = 2) -> TrialSpec:
        agent = AgentSpec.of("ppo", "CartPole-v1", {"hidden_sizes": [hidden]})
        return TrialSpec(number=number, agent=agent, seeds=tuple(range(n_seeds)), env_steps=10)

    trials = [trial(number, hidden=4 + 4 * (number % 2)) for number in range(8)]
    assert [[t.number for t in batch] for batch in split_into_batches(trials, 2)] == [[0, 4, 2, 6], [1, 5, 3, 7]]
    assert [[t.number for t in batch] for batch in split_into_batches(trials[:3], 2)] == [[0, 2], [1]]
    assert [[t.number for t in batch] for batch in split_into_batches(trials[:1], 3)] == [[0]]
    alike = [trial(number, hidden=4) for number in range(6)]
    assert [[t.number for t in batch] for batch in split_into_batches(alike, 2)] == [
        [0, 2, 4],
        [1, 3, 5],
    ]
    assert split_into_batches([], 2) == []


def test_trials_of_similar_hyperparameters_are_separated():
    # The order of a plan halves the range again and again, so that every second trial has a rate of the upper half.
    rates = [1e-5, 1e-3, 1e-4, 1e-2, 3e-5, 3e-3, 3e-4, 3e-2]
    trials = [
        TrialSpec(
            number=number,
            agent=AgentSpec.of("ppo", "CartPole-v1", {"learning_rate": rate}),
            seeds=(0, 1),
            env_steps=10,
        )
        for number, rate in enumerate(rates)
    ]
    batches = split_into_batches(trials, 2)
    best = {number for number, rate in enumerate(rates) if 1e-4 <= rate <= 3e-3}
    assert [len(best.intersection(trial.number for trial in batch)) for batch in batches] == [2, 2]


def test_hyperparameters_of_any_kind_are_ordered():
    choices: list[Any] = [None, 0.5, None, 2.0]
    lists = [{"actor": "adam"}, {}, {"critic": "sgd"}, {}]
    trials = [
        TrialSpec(
            number=number,
            agent=AgentSpec.of("sac", "Pendulum-v1", {"max_grad_norm": choices[number], "optimizers": lists[number]}),
            seeds=(0,),
            env_steps=10,
        )
        for number in range(4)
    ]
    assert sorted(t.number for batch in split_into_batches(trials, 2) for t in batch) == [0, 1, 2, 3]


def test_batches_take_about_equally_long():
    def trial(number: int, **params: int) -> TrialSpec:
        agent = AgentSpec.of("sac", "Pendulum-v1", {"hidden_sizes": [256, 256], **params})
        return TrialSpec(number=number, agent=agent, seeds=(0, 1), env_steps=10)

    trials = [trial(0), trial(1, batch_size=512), trial(2, batch_size=512, gradient_steps=4), trial(3, batch_size=64)]
    batches = split_into_batches(trials, 2)
    assert [[t.number for t in batch] for batch in batches] == [[2], [1, 0, 3]]  # 2048 and 512 + 256 + 64 rows a step


@pytest.mark.parametrize("hidden_sizes", [[], [8]])
def test_every_network_takes_some_time(hidden_sizes: list[int]):
    assert relative_work(AgentSpec.of("ppo", "CartPole-v1", {"hidden_sizes": hidden_sizes}).config) > 0


class TestStrategies:
    def test_trials_with_a_strategy_run_in_processes(self):
        executor = chosen(strategy="mirrored")
        assert executor.description == "a trial each in 2 processes"
        assert "strategy mirrored:2" in executor.notes[0]

    @pytest.mark.parametrize("executor", ["inline", "population"])
    def test_incompatible_strategy_and_executor_are_refused(self, executor: str):
        with pytest.raises(StudyError, match=f"with the executor '{executor}', but .*: use the executor 'process'"):
            spec_of(strategy="mirrored", executor=executor)

    def test_unknown_strategy_is_reported_when_a_file_is_read(self, tmp_path: Path):
        path = tmp_path / "study.toml"
        path.write_text(
            'name = "s"\nagents = ["ppo"]\nenv = "CartPole-v1"\nenv_steps = 100\nstrategy = "miror"\n'
            '[params]\nlearning_rate = "1e-4:1e-2:log"\n'
        )
        with pytest.raises(StudyError, match=r"line 5.*strategy.*Did you mean mirrored"):
            read_study(path)

    @pytest.mark.real
    def test_strategy_does_not_change_results_and_is_recorded(self, tmp_path: Path):
        values = {}
        strategies = ("none", "mirrored", "multi-worker-mirrored", "parameter-server")
        for strategy in strategies:
            result = LRFinder("ppo", "CartPole-v1").grid(
                1e-3, 1e-2, 2, env_steps=256, seeds=2, confirm=0, pruner="none", executor="process", n_jobs=1,
                strategy=strategy, storage=f"sqlite:///{tmp_path}/{strategy}.db",
                params={**SMALL_PPO, "jit_compile": False},
            )  # fmt: skip
            values[strategy] = [seed_values(trial) for trial in result.study.trials()]
            recorded = {trial.user_attrs["configuration"]["strategy"] for trial in result.study.trials()}
            assert recorded == {"none" if strategy == "none" else f"{strategy}:2"}
            result.close()
        assert all(values[strategy] == values["none"] for strategy in strategies)
