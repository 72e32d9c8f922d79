"""Tests of the contract of executors: trials give the same results wherever they run."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import keras
import multiprocess
import pytest
from fakes import SMALL_PPO, RecordingListener, TwoStep
from processes import running, session_members, wait_until_alone

from agents import AgentSpec, ConfigurationError, EnvironmentSpec
from agents.backend.cores import cores
from agents.backend.threads import threads_for, threads_in_use
from agents.contract.pickling import pickled
from agents.distributed import shared
from finder.executors.choice import make_executor
from finder.executors.executor import Executor
from finder.executors.inline import InlineExecutor
from finder.executors.message_broker import BrokerEndedError
from finder.trials.trial import TrialSpec
from studies.database.records import EpisodeRecord
from studies.study.execution import execution_text

AGENT_FILE = """
from dataclasses import dataclass

from agents import hyperparameter
from agents.algorithms.ppo import PPO, PPOConfig


@dataclass(frozen=True, kw_only=True)
class MineConfig(PPOConfig):
    extra: float = hyperparameter(1.0, "Something.", live=True)


class Mine(PPO):
    config_class = MineConfig
"""

ENDLESS = """
from fakes import SMALL_PPO, RecordingListener
from agents import AgentSpec
from finder.executors.choice import make_executor
from finder.trials.trial import TrialSpec


class Printing(RecordingListener):
    def started(self, number, configuration):
        print("training", flush=True)


agent = AgentSpec.of("ppo", "fakes:TwoStep-v0", SMALL_PPO)
trials = iter([TrialSpec(number=0, agent=agent, env_steps=10**9, report_marks=(10**9,), seeds=(0,))])
make_executor("process").run(lambda: next(trials, None), Printing())
"""


OF_ITS_PLACE = """
from pathlib import Path
from fakes import SMALL_PPO, RecordingListener, TwoStep
from agents import AgentSpec
from finder.executors.choice import make_executor
from finder.trials.trial import TrialSpec


class Placed(TwoStep):
    def __init__(self):
        super().__init__()
        assert (Path(__file__).parent / "asset").exists()


class Printing(RecordingListener):
    def started(self, number, configuration):
        print(Path(__file__).name)


agent = AgentSpec.of("ppo", Placed, SMALL_PPO)
trials = iter([TrialSpec(number=0, agent=agent, env_steps=320, report_marks=(320,), seeds=(0,))])
listener = Printing()
make_executor("process").run(lambda: next(trials, None), listener)
print(listener.outcomes[0].state, listener.outcomes[0].reason)
"""


def make_trial(number: int, kwargs: dict[str, Any] | None = None, **fields: Any) -> TrialSpec:
    agent = AgentSpec.of("ppo", EnvironmentSpec.of("fakes:TwoStep-v0", kwargs or {}), SMALL_PPO)
    return TrialSpec(
        **{"number": number, "agent": agent, "env_steps": 320, "report_marks": (160, 320), "seeds": (0,), **fields}
    )


def run(executor: Executor, trials: list[TrialSpec], listener: RecordingListener | None = None) -> RecordingListener:
    listener = listener or RecordingListener()
    waiting = iter(trials)
    executor.run(lambda: next(waiting, None), listener)
    return listener


@pytest.fixture(
    params=[
        ("inline", 1),
        ("population", 1),
        pytest.param(("population", 2), marks=pytest.mark.real),
        pytest.param(("process", 1), marks=pytest.mark.real),
    ],
    ids=lambda param: f"{param[0]}-{param[1]}",
)
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    name, n_jobs = request.param
    made = make_executor(name, n_jobs)
    yield made
    made.close()


def await_end_of_trial(broker: Any) -> None:
    """Wait until a trial has reported its end, and leave all messages in the broker."""
    messages, deadline = [], time.monotonic() + 120
    while not any(kind == "ended" for kind, *_ in messages):
        assert time.monotonic() < deadline, f"the trial has not ended: {messages}"
        time.sleep(0.05)
        messages += broker.drain_events()
    for message in messages:
        broker.post(*message)


def workers() -> set[int]:
    """The worker processes of this process."""
    return {child.pid for child in multiprocess.active_children() if child.name.startswith("worker-")}


@pytest.mark.real
def test_processes_of_populations_are_kept_until_close() -> None:
    executor = make_executor("population", 2)
    try:
        run(executor, [make_trial(number) for number in range(2)])
        first = workers()
        assert len(first) == 2
        run(executor, [make_trial(number) for number in range(2, 4)])
        assert workers() == first
        os.kill(min(first), signal.SIGKILL)
        multiprocess.connection.wait(
            [child.sentinel for child in multiprocess.active_children() if child.pid == min(first)]
        )
        listener = run(executor, [make_trial(number) for number in range(4, 6)])
        assert {outcome.state for outcome in listener.outcomes.values()} == {"complete"}
        assert len(workers()) == 2
        assert max(first) in workers()
    finally:
        executor.close()
    assert not workers()


class TestEveryExecutor:
    def test_every_trial_runs_and_its_end_is_reported_once(self, executor: Executor):
        listener = run(executor, [make_trial(0), make_trial(1, seeds=(1,))])
        assert {number: outcome.state for number, outcome in listener.outcomes.items()} == {
            0: "complete",
            1: "complete",
        }
        assert [at for at, _ in listener.reports[0]] == [160, 320]
        assert len(listener.records[0]) == 64
        assert listener.configurations[1]["seeds"] == [1]

    def test_how_a_trial_was_run_is_recorded(self, executor: Executor, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_prefer_vector_width=256")  # children have the server's
        listener = run(executor, [make_trial(0, seeds=(0, 1)), make_trial(1, seeds=(2, 3))])
        n_jobs = getattr(executor, "n_jobs", 1)
        together = "population" in execution_text(listener.configurations[0]) and n_jobs == 1
        for configuration in listener.configurations.values():
            execution = configuration["execution"]
            assert execution["processes"] == n_jobs
            assert execution["members"] == (4 if together else 2)
            assert execution["cores"] == cores()
            assert execution["threads"] == (threads_in_use() if n_jobs == 1 else threads_for(n_jobs))
            assert execution["jit_compile"] is False  # SMALL_PPO
            if isinstance(executor, InlineExecutor):
                assert execution["xla_flags"] == ["cpu_prefer_vector_width=256"]

    @pytest.mark.slow
    def test_failure_is_reported_with_its_traceback_and_other_trials_continue(self, executor: Executor):
        listener = run(executor, [make_trial(0, {"fail_after": 40}), make_trial(1)])
        assert listener.outcomes[0].state == "failed"
        assert "the arm fell off" in listener.outcomes[0].reason
        assert "in step" in listener.outcomes[0].traceback
        assert listener.outcomes[1].state == "complete"

    def test_pruned_trial_reports_its_last_step_and_value(self, executor: Executor):
        listener = run(executor, [make_trial(0)], RecordingListener(prune_at=160))
        assert listener.outcomes[0].state == "pruned"
        assert (listener.outcomes[0].env_steps, listener.outcomes[0].value) == listener.reports[0][0]

    def test_trial_that_falls_behind_at_its_last_report_is_complete(self, executor: Executor):
        listener = run(executor, [make_trial(0)], RecordingListener(prune_at=320))
        assert [at for at, _ in listener.reports[0]] == [160, 320]
        assert (listener.outcomes[0].state, listener.outcomes[0].env_steps) == ("complete", 320)

    def test_environments_defined_in_a_script_are_used(self, executor: Executor):
        class Louder(gym.RewardWrapper[Any, Any]):
            def reward(self, reward: Any) -> float:
                return 100.0 + reward

        class Loudest(Louder):
            """Inherits from a class of the script whose base is generic."""

        gym.register("Loudest-v0", entry_point=lambda: Loudest(TwoStep()))
        try:
            agent = AgentSpec.of("ppo", "Loudest-v0", SMALL_PPO)
            listener = run(executor, [make_trial(0, agent=agent)])
        finally:
            del gym.registry["Loudest-v0"]
        assert listener.outcomes[0].state == "complete", listener.outcomes[0].reason
        assert listener.outcomes[0].value >= 500

    def test_optimizers_defined_in_a_script_are_used(self, executor: Executor, monkeypatch: pytest.MonkeyPatch):
        class Mine(keras.optimizers.SGD):
            pass

        Mine.__module__, Mine.__qualname__ = "__main__", "Mine"
        monkeypatch.setattr(sys.modules["__main__"], "Mine", Mine, raising=False)
        agent = make_trial(0).agent.with_params({"optimizer": Mine(0.01)})
        listener = run(executor, [make_trial(0, agent=agent)])
        assert listener.outcomes[0].state == "complete", listener.outcomes[0].reason
        assert listener.configurations[0]["optimizers"]["default"]["class_name"] == "Mine"

    def test_agent_from_a_file_has_its_own_config(self, executor: Executor, tmp_path: Path):
        file = tmp_path / "mine.py"
        file.write_text(AGENT_FILE)
        agent = AgentSpec.of(f"{file}:Mine", "fakes:TwoStep-v0", {**SMALL_PPO, "extra": 2.0})
        listener = run(executor, [make_trial(0, agent=agent)])
        assert listener.outcomes[0].state == "complete", listener.outcomes[0].reason
        assert listener.configurations[0]["config"]["extra"] == 2.0

    @pytest.mark.slow
    def test_hanging_trial_fails_and_other_trials_continue(self, executor: Executor):
        listener = run(executor, [make_trial(0, {"hang_after": 60}, hang_seconds=3.0), make_trial(1, hang_seconds=3.0)])
        assert listener.outcomes[0].state == "failed"
        assert "HungError: step() of 'fakes:TwoStep-v0' (copy 0) did not return for 3 s." in listener.outcomes[0].reason
        assert listener.outcomes[0].failure == "hung"
        assert "in step" in listener.outcomes[0].traceback
        assert listener.outcomes[1].state == "complete"

    @pytest.mark.slow
    def test_member_waits_for_one_copy_when_all_copies_hang(self, executor: Executor):
        counter = f"steps of copies that hang {uuid.uuid4()}"
        kwargs = {"hang_after": 21, "counter": counter}
        listener = run(executor, [make_trial(n, kwargs, hang_seconds=4.0, seeds=(0, 1)) for n in range(2)])
        for number, outcome in listener.outcomes.items():
            assert outcome.state == "failed"
            assert "HungError: step() of 'fakes:TwoStep-v0' (copy 0) did not return for " in outcome.reason
            assert [record.episode for record in listener.records[number] if record.seed == 0] == list(range(8))
        # Two trials with two seeds with two copies: each copy made 20 steps, and one copy of each seed one more.
        assert shared(counter).value() == 8 * 20 + 4

    def test_ctrl_c_ends_every_trial_as_interrupted(self, executor: Executor):
        class Interrupting(RecordingListener):
            def started(self, number: int, configuration: dict[str, Any]) -> None:
                raise KeyboardInterrupt

        listener = Interrupting()
        with pytest.raises(KeyboardInterrupt):
            run(executor, [make_trial(0, env_steps=10_000_000, report_marks=(10_000_000,))], listener)
        assert listener.outcomes[0].state == "interrupted"


def test_inline_executor_does_not_query_the_share_of_other_workers():
    class Unasked(RecordingListener):
        @property
        def share(self) -> None:  # type: ignore[override]
            raise AssertionError("the storage would be asked for it")

    assert run(make_executor("inline"), [make_trial(0)], Unasked()).outcomes[0].state == "complete"


@pytest.mark.real
class TestProcesses:
    def test_process_executor_gives_the_same_records_as_inline(self):
        trials = [make_trial(0, seeds=(0, 1))]
        inline, process = run(make_executor("inline"), trials), run(make_executor("process"), trials)
        assert inline.reports == process.reports

        def episodes_of(listener: RecordingListener) -> list[tuple[int, int, int, float]]:
            """Sorted, because the order of seeds depends on when a process sends its new episodes."""
            records = listener.records[0]
            return sorted((record.seed, record.episode, record.env_steps, record.episode_return) for record in records)

        assert episodes_of(inline) == episodes_of(process)

    @pytest.mark.parametrize("name", ["process", "population"])
    def test_repeatedly_killed_process_loses_only_its_own_trial(self, name: str):
        trials = [make_trial(0, {"kill_after": 60}), make_trial(1), make_trial(2, seeds=(2,))]
        listener = run(make_executor(name, n_jobs=3), trials)
        assert listener.outcomes[0].state == "failed"
        assert "was killed by signal 9 (SIGKILL) (out of memory, perhaps), 3 times" in listener.outcomes[0].reason
        assert listener.outcomes[0].failure == "killed"
        assert [listener.outcomes[number].state for number in (1, 2)] == ["complete", "complete"]

    @pytest.mark.parametrize("name", ["process", "population"])
    def test_trials_of_a_killed_process_resume_from_their_checkpoint(self, name: str, tmp_path: Path):
        mark = tmp_path / "killed"
        kept = {"checkpoints": str(tmp_path / "kept"), "checkpoint_seconds": 1e-9}
        trials = [make_trial(n, {"kill_once": (250, str(mark))}, **kept, env_steps=640) for n in range(3)]
        listener = run(make_executor(name, n_jobs=2), trials)
        assert mark.exists()
        assert [listener.outcomes[number].state for number in range(3)] == ["complete"] * 3
        whole = run(make_executor("inline"), [make_trial(n, env_steps=640) for n in range(3)])
        for number in range(3):
            assert listener.outcomes[number].seed_values == whole.outcomes[number].seed_values

    @pytest.mark.parametrize("name", ["process", "population"])
    def test_process_that_hangs_in_compiled_code_is_killed_and_its_trial_fails(self, name: str):
        kwargs = {"hang_after": 41, "deaf": True}
        trials = [make_trial(0, kwargs, hang_seconds=4.0), make_trial(1, hang_seconds=4.0)]
        listener = run(make_executor(name, n_jobs=2), trials)
        assert listener.outcomes[0].state == "failed"
        assert listener.outcomes[0].reason.startswith(
            "HungError: step() of 'fakes:TwoStep-v0' (copy 0) did not return for 4 s."
        )
        assert "Its process was killed" in listener.outcomes[0].reason
        assert len(listener.records[0]) == 16, "the record must contain all episodes that had ended"
        assert listener.outcomes[1].state == "complete"

    def test_trial_that_cannot_be_unpickled_fails_with_its_traceback(self):
        class Unlucky(dict[str, Any]):
            def __reduce__(self) -> Any:
                return int, ("no number",)

        agent = AgentSpec.of("ppo", EnvironmentSpec("fakes:TwoStep-v0", Unlucky()), SMALL_PPO)
        listener = run(make_executor("process"), [make_trial(0, agent=agent)])
        assert listener.outcomes[0].state == "failed"
        assert "ValueError" in listener.outcomes[0].reason
        assert "no number" in listener.outcomes[0].traceback

    def test_lost_message_broker_ends_every_trial_as_interrupted(self):
        class Killing(RecordingListener):
            def started(self, number: int, configuration: dict[str, Any]) -> None:
                super().started(number, configuration)
                (manager,) = [child for child in multiprocess.active_children() if "Manager" in child.name]
                os.kill(manager.pid, signal.SIGKILL)
                manager.join()

        listener = Killing()
        trial = make_trial(0, env_steps=10_000_000, report_marks=(10_000_000,))
        with pytest.raises(BrokerEndedError, match="start the study again"):
            run(make_executor("process"), [trial], listener)
        assert listener.outcomes[0].state == "interrupted"
        assert not multiprocess.active_children()

    @pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for left processes in /proc")
    def test_processes_end_when_their_parent_is_killed(self):
        path = str(Path(__file__).parents[2] / "support")
        with running(
            [sys.executable, "-c", ENDLESS],
            stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path},
        ) as parent:  # fmt: skip
            assert parent.stdout.readline() == "training\n"
            assert len(session_members(parent.pid)) > 2
            parent.kill()
            parent.communicate()
            wait_until_alone(parent.pid)

    def test_file_variable_of_a_script_is_defined_in_its_environments(self, tmp_path: Path):
        (tmp_path / "script.py").write_text(OF_ITS_PLACE)
        (tmp_path / "asset").touch()
        done = subprocess.run(
            [sys.executable, tmp_path / "script.py"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2] / "support"), *sys.path])},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.stdout == "script.py\ncomplete \n", done.stdout + done.stderr

    def test_error_in_a_listener_loses_no_messages(self):
        executor = make_executor("process")

        class Failing(RecordingListener):
            failed = False

            def episodes(self, records: Mapping[int, list[EpisodeRecord]]) -> None:
                super().episodes(records)
                if records and not self.failed:
                    self.failed = True
                    await_end_of_trial(executor._workers.broker)
                    raise KeyboardInterrupt

        listener = Failing()
        with pytest.raises(KeyboardInterrupt):
            run(executor, [make_trial(0)], listener)
        assert listener.outcomes[0].state == "complete"
        assert len(listener.records[0]) == 64

    def test_local_classes_can_be_sent_to_processes(self):
        from agents.algorithms.ppo import PPO

        class Louder(PPO):
            def preprocess_batch(self, data: dict[str, Any]) -> dict[str, Any]:
                return super().preprocess_batch({**data, "rewards": data["rewards"] * 10})

        agent = AgentSpec.of(Louder, "fakes:TwoStep-v0", SMALL_PPO)
        listener = run(make_executor("process"), [make_trial(0, agent=agent)])
        assert listener.outcomes[0].state == "complete", listener.outcomes[0].reason
        assert listener.configurations[0]["agent"] == "Louder"


def test_error_names_the_attribute_that_cannot_be_pickled():
    from agents.algorithms.ppo import PPO

    class Locked(PPO):
        door = sqlite3.connect(":memory:")

    agent = AgentSpec.of(Locked, "fakes:TwoStep-v0", SMALL_PPO)
    with pytest.raises(ConfigurationError, match=r"agent\.agent\.door \(a Connection\) cannot be pickled"):
        pickled(agent, make_trial(0, agent=agent))


def test_error_names_the_unpicklable_variable_of_an_environment_function():
    door = sqlite3.connect(":memory:")

    def make_environment() -> Any:
        from fakes import TwoStep

        return TwoStep(door.total_changes or None)

    agent = AgentSpec.of("ppo", make_environment, SMALL_PPO)
    with pytest.raises(ConfigurationError, match="door"):
        pickled(agent, make_trial(0, agent=agent))


def test_unknown_executor_and_invalid_number_of_jobs_are_refused():
    with pytest.raises(ConfigurationError, match="Did you mean process"):
        make_executor("proces")
    with pytest.raises(ConfigurationError, match="one trial at a time"):
        make_executor("inline", n_jobs=2)
    with pytest.raises(ConfigurationError, match=">= 1"):
        make_executor("process", n_jobs=0)


@pytest.mark.parametrize("vectorization", ["sync", pytest.param("async", marks=pytest.mark.real)])
def test_shared_counter_counts_the_steps_of_all_trials(executor: Executor, vectorization: str, request: Any):
    counter = f"steps of {request.node.name}"
    environment = EnvironmentSpec.of("fakes:TwoStep-v0", {"counter": counter})
    agent = AgentSpec.of("ppo", replace(environment, vectorization=vectorization), SMALL_PPO)
    listener = run(executor, [make_trial(number, agent=agent) for number in range(2)])
    assert [outcome.env_steps for outcome in listener.outcomes.values()] == [320, 320]
    assert shared(counter).value() == 640


@pytest.mark.real
def test_killed_process_does_not_leave_a_counter_locked(tmp_path: Path):
    counter = "steps of one that is killed"
    killed = {"counter": counter, "kill_once": (37, f"{tmp_path}/killed")}  # the other copy has made 36 steps then
    listener = run(make_executor("process", 2), [make_trial(0, killed), make_trial(1, {"counter": counter})])
    assert [outcome.state for outcome in listener.outcomes.values()] == ["complete", "complete"]
    assert (tmp_path / "killed").exists()
    assert shared(counter).value() == 37 + 36 + 640


@pytest.mark.real
def test_hanging_environments_in_processes_are_ended():
    trial = make_trial(0, {"hang_after": 60, "deaf": True}, hang_seconds=3.0)
    environment = replace(trial.agent.environment, vectorization="async")
    agent = AgentSpec.of("ppo", environment, SMALL_PPO)
    listener = run(make_executor("inline"), [replace(trial, agent=agent)])
    assert listener.outcomes[0].state == "failed"
    assert "HungError" in listener.outcomes[0].reason
    assert listener.outcomes[0].failure == "hung"
    assert not multiprocess.active_children()
