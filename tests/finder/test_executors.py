"""Executors differ in where, never in what."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest
from fakes import SMALL_PPO, Remembering

from agents import AgentSpec, ConfigurationError, EnvironmentSpec
from finder.executors import Executor, make_executor
from finder.executors.board import Board
from finder.executors.pickling import dumps
from finder.trial import Outcome, TrialSpec
from studies.records import EpisodeRecord


def make_trial(number: int, kwargs: dict[str, Any] | None = None, **fields: Any) -> TrialSpec:
    agent = AgentSpec.of("ppo", EnvironmentSpec.of("fakes:TwoStep-v0", kwargs or {}), SMALL_PPO)
    return TrialSpec(
        **{"number": number, "agent": agent, "env_steps": 320, "report_marks": (160, 320), "seeds": (0,), **fields}
    )


def run(executor: Executor, trials: list[TrialSpec], listener: Remembering | None = None) -> Remembering:
    listener = listener or Remembering()
    waiting = iter(trials)
    executor.run(lambda: next(waiting, None), listener)
    return listener


@pytest.fixture(params=["inline", pytest.param("process", marks=pytest.mark.real)])
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    return make_executor(request.param)


class TestEveryExecutor:
    def test_runs_every_trial_and_tells_its_end_once(self, executor: Executor):
        listener = run(executor, [make_trial(0), make_trial(1, seeds=(1,))])
        assert {number: outcome.state for number, outcome in listener.outcomes.items()} == {
            0: "complete",
            1: "complete",
        }
        assert [at for at, _ in listener.reports[0]] == [160, 320]
        assert len(listener.records[0]) == 64
        assert listener.configurations[1]["seeds"] == [1]

    def test_a_failure_is_told_with_its_traceback_and_the_others_go_on(self, executor: Executor):
        listener = run(executor, [make_trial(0, {"fail_after": 40}), make_trial(1)])
        assert listener.outcomes[0].state == "failed"
        assert "the arm fell off" in listener.outcomes[0].reason
        assert "in step" in listener.outcomes[0].traceback
        assert listener.outcomes[1].state == "complete"

    def test_a_pruned_trial_says_where_it_was_pruned(self, executor: Executor):
        listener = run(executor, [make_trial(0)], Remembering(prune_at=160))
        assert listener.outcomes[0].state == "pruned"
        assert (listener.outcomes[0].env_steps, listener.outcomes[0].value) == listener.reports[0][0]

    def test_ctrl_c_ends_every_trial_as_interrupted(self, executor: Executor):
        class Interrupting(Remembering):
            def started(self, number: int, configuration: dict[str, Any]) -> None:
                raise KeyboardInterrupt

        listener = Interrupting()
        with pytest.raises(KeyboardInterrupt):
            run(executor, [make_trial(0, env_steps=10_000_000, report_marks=(10_000_000,))], listener)
        assert listener.outcomes[0].state == "interrupted"


@pytest.mark.real
class TestProcesses:
    def test_the_same_trial_gives_the_same_record_as_inline(self):
        trials = [make_trial(0, seeds=(0, 1))]
        inline, process = run(make_executor("inline"), trials), run(make_executor("process"), trials)
        assert inline.reports == process.reports
        for one, other in zip(inline.records[0], process.records[0], strict=True):
            assert (one.seed, one.env_steps, one.episode_return) == (other.seed, other.env_steps, other.episode_return)

    def test_a_killed_child_loses_only_its_own_trial(self):
        trials = [make_trial(0, {"kill_after": 60}), make_trial(1), make_trial(2, seeds=(2,))]
        listener = run(make_executor("process", n_jobs=3), trials)
        assert listener.outcomes[0].state == "failed"
        assert "SIGKILL" in listener.outcomes[0].reason
        assert [listener.outcomes[number].state for number in (1, 2)] == ["complete", "complete"]

    def test_classes_that_live_nowhere_can_be_sent(self):
        from agents.algorithms.ppo import PPO

        class Louder(PPO):
            def prepare(self, data: dict[str, Any]) -> dict[str, Any]:
                return super().prepare({**data, "rewards": data["rewards"] * 10})

        agent = AgentSpec.of(Louder, "fakes:TwoStep-v0", SMALL_PPO)
        listener = run(make_executor("process"), [make_trial(0, agent=agent)])
        assert listener.outcomes[0].state == "complete", listener.outcomes[0].reason
        assert listener.configurations[0]["agent"] == "Louder"


def test_what_cannot_be_pickled_is_named():
    from agents.algorithms.ppo import PPO

    class Locked(PPO):
        door = sqlite3.connect(":memory:")

    agent = AgentSpec.of(Locked, "fakes:TwoStep-v0", SMALL_PPO)
    with pytest.raises(ConfigurationError, match=r"agent\.agent\.door \(a Connection\) cannot be pickled"):
        dumps(make_trial(0, agent=agent))


def test_what_cannot_be_pickled_in_an_environment_function_is_named():
    door = sqlite3.connect(":memory:")

    def make_environment() -> Any:
        from fakes import TwoStep

        return TwoStep(door.total_changes or None)

    agent = AgentSpec.of("ppo", make_environment, SMALL_PPO)
    with pytest.raises(ConfigurationError, match="door"):
        dumps(make_trial(0, agent=agent))


def test_unknown_executors_and_numbers_of_jobs_are_refused():
    with pytest.raises(ConfigurationError, match="Did you mean process"):
        make_executor("proces")
    with pytest.raises(ConfigurationError, match="one trial at a time"):
        make_executor("inline", n_jobs=2)
    with pytest.raises(ConfigurationError, match=">= 1"):
        make_executor("process", n_jobs=0)


def episode(episode_return: float, loss: float | None) -> EpisodeRecord:
    return EpisodeRecord(
        seed=0, episode=0, env_steps=1, episode_return=episode_return, length=1, loss=loss, wall_seconds=0.0
    )


def test_the_board_keeps_every_value_and_the_best_means():
    board = Board(keep_values=True)
    assert board.values()["logs"]["best_reward"] == -1e9
    assert board.values()["logs"]["best_loss"] == 1e9
    board.post("episodes", 0, [episode(1.0, None), episode(3.0, 0.5)])
    board.post("episodes", 1, [episode(2.0, 0.1)])
    board.post("episodes", 1, [episode(4.0, 0.3)])
    board.finish(0, "dqn", "adam", Outcome(state="complete", value=2.0))
    board.finish(1, "ppo", "sgd", Outcome(state="complete", value=3.0))
    values = board.values()
    assert values["rewards"] == {0: [1.0, 3.0], 1: [2.0, 4.0]}
    assert values["losses"] == {0: [0.5], 1: [0.1, 0.3]}
    assert values["logs"]["best_reward"] == 3.0
    assert values["logs"]["best_agent"] == "ppo"
    assert values["logs"]["best_loss"] == 0.2
    assert values["logs"]["best_loss_opt"] == "sgd"


def test_a_failed_agent_is_never_the_best():
    board = Board(keep_values=True)
    board.post("episodes", 0, [episode(1000.0, None)])
    board.finish(0, "dqn", "adam", Outcome(state="failed"))
    assert board.values()["logs"]["best_agent"] is None


def test_a_stop_request_is_the_answer_to_what_a_child_tells():
    board = Board()
    assert board.post("episodes", 0, []) is None
    board.stop(0, "enough")
    assert board.post("episodes", 0, []) == "enough"
    assert board.post("episodes", 1, []) is None
