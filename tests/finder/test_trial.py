"""The one way a trial is run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fakes import SMALL_PPO, Remembering

from agents import AgentSpec, EnvironmentSpec, Trainer
from agents.algorithms.ppo import PPO
from finder.trial import INTERRUPTED, AgentPool, TrialSpec, run_trial


def make_trial(kwargs: dict[str, Any] | None = None, params: dict[str, Any] | None = None, **fields: Any) -> TrialSpec:
    environment = EnvironmentSpec.of("fakes:TwoStep-v0", kwargs or {})
    agent = AgentSpec.of("ppo", environment, {**SMALL_PPO, **(params or {})})
    return TrialSpec(
        **{"number": 7, "agent": agent, "env_steps": 320, "report_marks": (160, 320), "seeds": (0, 1), **fields}
    )


def test_a_complete_trial_reports_at_its_marks_and_records_every_episode():
    listener = Remembering()
    outcome = run_trial(make_trial(), listener)
    assert outcome.state == "complete"
    assert [at for at, _ in listener.reports[7]] == [160, 320]
    # 320 steps a seed in two copies of five-step episodes: 64 episodes a seed.
    assert [sum(r.seed == seed for r in listener.records[7]) for seed in (0, 1)] == [64, 64]
    assert {record.length for record in listener.records[7]} == {5}


def test_its_value_is_the_mean_over_seeds_of_the_last_part():
    listener = Remembering()
    outcome = run_trial(make_trial(), listener)
    for seed in (0, 1):
        last = [r.episode_return for r in listener.records[7] if r.seed == seed and r.env_steps > 256]
        assert outcome.seed_values[seed] == pytest.approx(np.mean(last))
    assert outcome.value == pytest.approx(np.mean(list(outcome.seed_values.values())))


def test_a_report_is_the_mean_over_all_seeds_up_to_the_same_step():
    listener = Remembering()
    run_trial(make_trial(), listener)
    means = [
        np.mean([r.episode_return for r in listener.records[7] if r.seed == seed and 128 < r.env_steps <= 160])
        for seed in (0, 1)
    ]
    assert listener.reports[7][0] == (160, pytest.approx(np.mean(means)))


def test_a_pruned_trial_stops_at_the_report():
    listener = Remembering(prune_at=160)
    outcome = run_trial(make_trial(), listener)
    assert outcome.state == "pruned"
    assert outcome.env_steps == 160
    assert outcome.value == listener.reports[7][0][1]


def test_a_trial_can_be_interrupted_between_reports():
    class Stopping(Remembering):
        def episodes(self, number: int, records: list[Any]) -> str | None:
            super().episodes(number, records)
            return INTERRUPTED

    outcome = run_trial(make_trial(), Stopping())
    assert outcome.state == "interrupted"


def test_an_environment_that_raises_fails_the_trial_and_keeps_the_traceback():
    listener = Remembering()
    outcome = run_trial(make_trial({"fail_after": 40}), listener)
    assert outcome.state == "failed"
    assert outcome.reason == "RuntimeError: the arm fell off"
    assert "in step" in outcome.traceback
    assert listener.records[7], "episodes before the failure are kept"


def test_a_nan_reward_fails_the_trial():
    outcome = run_trial(make_trial({"nan_after": 40}), Remembering())
    assert outcome.state == "failed"
    assert "reward nan" in outcome.reason


def test_a_loss_that_becomes_nan_fails_the_trial():
    outcome = run_trial(make_trial(params={"learning_rate": 1e30, "max_grad_norm": None}), Remembering())
    assert outcome.state == "failed"
    assert "learning rate is probably too high" in outcome.reason or "NaN" in outcome.reason


def test_a_budget_without_a_single_episode_says_what_to_do():
    outcome = run_trial(make_trial(env_steps=4, report_marks=(4,)), Remembering())
    assert outcome.state == "failed"
    assert "larger budget" in outcome.reason


def test_a_budget_in_episodes_is_exact():
    listener = Remembering()
    outcome = run_trial(make_trial(env_steps=None, episodes=33, report_marks=()), listener)
    assert outcome.state == "complete"
    assert [sum(r.seed == seed for r in listener.records[7]) for seed in (0, 1)] == [33, 33]


def test_losses_can_be_the_metric():
    listener = Remembering()
    outcome = run_trial(make_trial(metric="loss"), listener)
    last = [r.loss for r in listener.records[7] if r.seed == 0 and r.env_steps > 256]
    assert outcome.seed_values[0] == pytest.approx(np.mean(last))


def test_what_is_needed_to_run_it_again_is_told():
    listener = Remembering()
    run_trial(make_trial(params={"learning_rate": 0.003}), listener)
    told = listener.configurations[7]
    assert told["agent"] == "ppo"
    assert told["config"]["learning_rate"] == 0.003
    assert told["optimizers"]["default"]["config"]["learning_rate"] == 0.003
    assert told["seeds"] == [0, 1]
    assert told["versions"]["tensorflow"]


def test_agents_from_the_pool_do_what_new_ones_do():
    pool, fresh, pooled = AgentPool(), Remembering(), Remembering()
    run_trial(make_trial(params={"learning_rate": 0.1, "gamma": 0.5}), Remembering(), pool)
    run_trial(make_trial(params={"learning_rate": 0.01}), pooled, pool)
    run_trial(make_trial(params={"learning_rate": 0.01}), fresh, AgentPool())
    returns = [[r.episode_return for r in listener.records[7]] for listener in (fresh, pooled)]
    assert returns[0] == returns[1]
    assert fresh.reports == pooled.reports


def test_the_pool_tells_classes_of_one_name_apart():
    def make_class(factor: float) -> type[PPO]:
        class Scaled(PPO):
            def prepare(self, data: dict[str, Any]) -> dict[str, Any]:
                return super().prepare({**data, "rewards": factor * data["rewards"]})

        return Scaled

    pool = AgentPool()
    first, second = (AgentSpec.of(make_class(factor), "fakes:TwoStep-v0", SMALL_PPO) for factor in (1.0, 100.0))
    pool.give_back(first, [pool.take(first, 0)])
    assert type(pool.take(second, 0)) is second.agent


def test_an_error_of_the_listener_is_no_failure_of_the_trial():
    class Full(Remembering):
        def episodes(self, number: int, records: list[Any]) -> None:
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        run_trial(make_trial(), Full())


def test_what_was_opened_is_closed_where_a_later_seed_cannot_be_built(monkeypatch: pytest.MonkeyPatch):
    closed = []
    close = Trainer.close
    monkeypatch.setattr(Trainer, "close", lambda self: closed.append(self.run.seed) or close(self))
    build = AgentSpec.build

    def build_but_one(self: AgentSpec, seed: int = 0) -> Any:
        if seed == 1:
            raise RuntimeError("no more memory")
        return build(self, seed)

    monkeypatch.setattr(AgentSpec, "build", build_but_one)
    assert run_trial(make_trial(), Remembering()).reason == "RuntimeError: no more memory"
    assert closed == [0]


def test_the_pool_builds_nothing_twice_for_the_same_structure(monkeypatch: pytest.MonkeyPatch):
    built = []
    build = AgentSpec.build
    monkeypatch.setattr(AgentSpec, "build", lambda self, seed=0: built.append(seed) or build(self, seed))
    pool = AgentPool()
    for rate in (0.1, 0.01, 0.001):
        run_trial(make_trial(params={"learning_rate": rate}), Remembering(), pool)
    assert built == [0, 1]


def test_a_trial_is_what_a_trainer_does_with_the_same_seed():
    listener = Remembering()
    spec = make_trial(seeds=(3,))
    run_trial(spec, listener)
    with Trainer(spec.agent.build(3)) as trainer:
        returns = trainer.train(env_steps=320).history.returns
    assert [r.episode_return for r in listener.records[7]] == returns
