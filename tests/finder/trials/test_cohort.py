"""Tests of `run_cohort`, by which all trials are run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fakes import SMALL_PPO, RecordingListener

from agents import AgentSpec, EnvironmentSpec, Trainer
from agents.algorithms.ppo import PPO
from agents.population import TemplateCache
from finder.trials.cohort import run_cohort
from finder.trials.trial import INTERRUPTED, Outcome, TrialSpec, Work


def make_trial(kwargs: dict[str, Any] | None = None, params: dict[str, Any] | None = None, **fields: Any) -> TrialSpec:
    environment = EnvironmentSpec.of("fakes:TwoStep-v0", kwargs or {})
    agent = AgentSpec.of("ppo", environment, {**SMALL_PPO, **(params or {})})
    return TrialSpec(
        **{"number": 7, "agent": agent, "env_steps": 320, "report_marks": (160, 320), "seeds": (0, 1), **fields}
    )


def run_trial(trial: TrialSpec, listener: RecordingListener, templates: TemplateCache | None = None) -> Outcome:
    run_cohort([trial], listener, templates)
    return listener.outcomes[trial.number]


def returns_of(listener: RecordingListener, number: int = 7) -> list[tuple[int, float]]:
    """Return the returns ordered by seed, as the order of reports depends on the clock."""
    records = sorted(listener.records[number], key=lambda record: (record.seed, record.episode))
    return [(record.seed, record.episode_return) for record in records]


def test_complete_trial_reports_at_its_marks_and_records_every_episode():
    listener = RecordingListener()
    outcome = run_trial(make_trial(), listener)
    assert outcome.state == "complete"
    assert [at for at, _ in listener.reports[7]] == [160, 320]
    # 320 steps a seed in two copies of five-step episodes: 64 episodes a seed.
    assert [sum(r.seed == seed for r in listener.records[7]) for seed in (0, 1)] == [64, 64]
    assert {record.length for record in listener.records[7]} == {5}


def test_value_is_the_mean_over_seeds_of_the_last_part():
    listener = RecordingListener()
    outcome = run_trial(make_trial(), listener)
    for seed in (0, 1):
        last = [r.episode_return for r in listener.records[7] if r.seed == seed and r.env_steps > 256]
        assert outcome.seed_values[seed] == pytest.approx(np.mean(last))
    assert outcome.value == pytest.approx(np.mean(list(outcome.seed_values.values())))


def test_time_of_training_is_that_of_all_runs_together_after_the_first_report():
    outcome = run_trial(make_trial(), RecordingListener())
    assert (outcome.work.steps, outcome.work.steps_of_all) == (160, 320)  # of two seeds
    assert 0 < outcome.work.seconds < outcome.wall_seconds
    pruned = run_trial(make_trial(), RecordingListener(prune_at=160))
    assert pruned.state == "pruned"
    assert pruned.work == Work()


def test_report_is_the_mean_over_all_seeds_at_the_same_step():
    listener = RecordingListener()
    run_trial(make_trial(), listener)
    means = [
        np.mean([r.episode_return for r in listener.records[7] if r.seed == seed and 128 < r.env_steps <= 160])
        for seed in (0, 1)
    ]
    assert listener.reports[7][0] == (160, pytest.approx(np.mean(means)))


def test_pruned_trial_stops_at_the_report():
    listener = RecordingListener(prune_at=160)
    outcome = run_trial(make_trial(), listener)
    assert outcome.state == "pruned"
    assert outcome.env_steps == 160
    assert outcome.value == listener.reports[7][0][1]


def test_trial_can_be_interrupted_between_reports():
    class Stopping(RecordingListener):
        def episodes(self, records: Any) -> str | None:
            super().episodes(records)
            return INTERRUPTED

    outcome = run_trial(make_trial(), Stopping())
    assert outcome.state == "interrupted"


def test_environment_that_raises_fails_the_trial_with_its_traceback():
    listener = RecordingListener()
    outcome = run_trial(make_trial({"fail_after": 40}), listener)
    assert outcome.state == "failed"
    assert outcome.reason == "RuntimeError: the arm fell off"
    assert outcome.failure == "environment"
    assert "in step" in outcome.traceback
    assert listener.records[7], "episodes before the failure must be kept"


def test_nan_reward_fails_the_trial():
    outcome = run_trial(make_trial({"nan_after": 40}), RecordingListener())
    assert outcome.state == "failed"
    assert "reward nan" in outcome.reason
    assert outcome.failure == "environment"


def test_nan_loss_fails_the_trial():
    outcome = run_trial(make_trial(params={"learning_rate": 1e30, "max_grad_norm": None}), RecordingListener())
    assert outcome.state == "failed"
    assert "learning rate is probably too high" in outcome.reason or "NaN" in outcome.reason
    assert outcome.failure == "diverged"


def test_budget_without_an_episode_is_reported_with_advice():
    outcome = run_trial(make_trial(env_steps=4, report_marks=(4,)), RecordingListener())
    assert outcome.state == "failed"
    assert "(4 environment steps), so the trial has no value. " in outcome.reason
    assert "2 copies of fakes:TwoStep-v0 made 2 steps each" in outcome.reason
    assert "--env-steps 16 (env_steps=16), or n_envs=1" in outcome.reason
    assert outcome.failure == "error"


def test_budget_in_episodes_is_exact():
    listener = RecordingListener()
    outcome = run_trial(make_trial(env_steps=None, episodes=33, report_marks=()), listener)
    assert outcome.state == "complete"
    assert [sum(r.seed == seed for r in listener.records[7]) for seed in (0, 1)] == [33, 33]


def test_losses_can_be_the_metric():
    listener = RecordingListener()
    outcome = run_trial(make_trial(metric="loss"), listener)
    last = [r.loss for r in listener.records[7] if r.seed == 0 and r.env_steps > 256]
    assert outcome.seed_values[0] == pytest.approx(np.mean(last))


def test_configuration_needed_to_repeat_a_trial_is_reported():
    listener = RecordingListener()
    run_trial(make_trial(params={"learning_rate": 0.003}), listener)
    configuration = listener.configurations[7]
    assert configuration["agent"] == "ppo"
    assert configuration["config"]["learning_rate"] == 0.003
    assert configuration["optimizers"]["default"]["config"]["learning_rate"] == 0.003
    assert configuration["seeds"] == [0, 1]
    assert configuration["versions"]["tensorflow"]


@pytest.mark.slow
def test_used_template_cache_gives_the_same_results_as_a_new_one():
    templates, fresh, again = TemplateCache(4), RecordingListener(), RecordingListener()
    run_trial(make_trial(params={"learning_rate": 0.1, "gamma": 0.5}), RecordingListener(), templates)
    run_trial(make_trial(params={"learning_rate": 0.01}), again, templates)
    run_trial(make_trial(params={"learning_rate": 0.01}), fresh, TemplateCache(4))
    assert returns_of(fresh) == returns_of(again)
    assert fresh.reports == again.reports


def test_template_cache_distinguishes_classes_of_the_same_name():
    def make_class(factor: float) -> type[PPO]:
        class Scaled(PPO):
            def prepare(self, data: dict[str, Any]) -> dict[str, Any]:
                return super().prepare({**data, "rewards": factor * data["rewards"]})

        return Scaled

    templates = TemplateCache(4)
    first, second = (AgentSpec.of(make_class(factor), "fakes:TwoStep-v0", SMALL_PPO) for factor in (1.0, 100.0))
    templates.release(templates.acquire(first, 2))
    assert type(templates.acquire(second, 2).agent) is second.agent


def test_error_in_the_listener_is_raised():
    class Full(RecordingListener):
        def episodes(self, records: Any) -> None:
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        run_trial(make_trial(), Full())


def test_trainers_are_closed_when_a_later_agent_cannot_be_built(monkeypatch: pytest.MonkeyPatch):
    closed = []
    close = Trainer.close
    monkeypatch.setattr(Trainer, "close", lambda self: closed.append(self.run.seed) or close(self))

    class Alone(PPO):
        def __init__(self, *args: Any, **kwargs: Any) -> None:  # cannot be a member of a population
            super().__init__(*args, **kwargs)
            if self.seed == 1:
                raise RuntimeError("no more memory")

    agent = AgentSpec.of(Alone, "fakes:TwoStep-v0", SMALL_PPO)
    assert run_trial(make_trial(agent=agent), RecordingListener()).reason == "RuntimeError: no more memory"
    assert closed == [0]


@pytest.mark.slow
def test_template_cache_builds_one_agent_per_structure(monkeypatch: pytest.MonkeyPatch):
    built = []
    build = AgentSpec.build
    monkeypatch.setattr(AgentSpec, "build", lambda self, seed=0: built.append(seed) or build(self, seed))
    templates = TemplateCache(4)
    for rate in (0.1, 0.01, 0.001):
        run_trial(make_trial(params={"learning_rate": rate}), RecordingListener(), templates)
    assert built == [0]


@pytest.mark.slow
def test_trial_equals_a_training_with_the_same_seed():
    listener = RecordingListener()
    spec = make_trial(seeds=(3,))
    run_trial(spec, listener)
    with Trainer(spec.agent.build(3)) as trainer:
        returns = trainer.train(env_steps=320).history.returns
    assert [r.episode_return for r in listener.records[7]] == returns


# --- several trials


def trials_of(rates: list[float], **fields: Any) -> list[TrialSpec]:
    return [make_trial(params={"learning_rate": rate}, number=i, **fields) for i, rate in enumerate(rates)]


@pytest.mark.slow
def test_trial_in_a_cohort_equals_the_trial_alone():
    together = RecordingListener()
    trials = trials_of([0.001, 0.01, 0.1])
    run_cohort(trials, together)
    for trial in trials:
        alone = RecordingListener()
        run_cohort([trial], alone)
        assert returns_of(alone, trial.number) == returns_of(together, trial.number)
        assert alone.reports[trial.number] == together.reports[trial.number]


@pytest.mark.slow
def test_agents_of_different_structure_reach_rungs_together():
    order = []

    class Noting(RecordingListener):
        def rung(self, env_steps: int, values: Any) -> Any:
            order.append((env_steps, sorted(values)))
            return super().rung(env_steps, values)

    trials = [make_trial(number=0), make_trial(number=1, params={"hidden_sizes": [4]}), make_trial(number=2)]
    run_cohort(trials, Noting())
    assert order == [(160, [0, 1, 2]), (320, [0, 1, 2])]


@pytest.mark.slow
def test_members_of_a_pruned_trial_are_not_trained_further():
    class First(RecordingListener):
        def rung(self, env_steps: int, values: Any) -> Any:
            super().rung(env_steps, values)
            return {0: "behind"} if env_steps == 160 else {}

    listener = First()
    run_cohort(trials_of([0.001, 0.01]), listener)
    assert [listener.outcomes[number].state for number in (0, 1)] == ["pruned", "complete"]
    assert max(record.env_steps for record in listener.records[0]) == 160
    alone = RecordingListener()
    run_cohort(trials_of([0.001, 0.01])[1:], alone)
    assert returns_of(listener, 1) == returns_of(alone, 1)


@pytest.mark.slow
@pytest.mark.parametrize("kwargs", [{"fail_after": 60}, {"nan_after": 60}])
def test_environment_failure_of_one_trial_leaves_the_others(kwargs: dict[str, Any]):
    listener = RecordingListener()
    bad = make_trial(number=0, agent=AgentSpec.of("ppo", EnvironmentSpec.of("fakes:TwoStep-v0", kwargs), SMALL_PPO))
    run_cohort([bad, make_trial(number=1)], listener)
    assert [listener.outcomes[number].state for number in (0, 1)] == ["failed", "complete"]
    assert listener.outcomes[0].failure == "environment"


@pytest.mark.slow
def test_diverged_member_leaves_the_others():
    listener, alone = RecordingListener(), RecordingListener()
    trials = [
        make_trial(number=0, params={"learning_rate": 1e30, "max_grad_norm": None}),
        make_trial(number=1, params={"learning_rate": 1e-3, "max_grad_norm": None}),
    ]
    run_cohort(trials, listener)
    assert [listener.outcomes[number].state for number in (0, 1)] == ["failed", "complete"]
    assert listener.outcomes[0].failure == "diverged"
    run_cohort(trials[1:], alone)
    assert returns_of(listener, 1) == returns_of(alone, 1)


@pytest.mark.slow
def test_agent_that_cannot_be_a_member_is_trained_alone():
    class Alone(PPO):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)

    listener, member = RecordingListener(), RecordingListener()
    run_cohort([make_trial(agent=AgentSpec.of(Alone, "fakes:TwoStep-v0", SMALL_PPO))], listener)
    run_cohort([make_trial()], member)
    assert listener.outcomes[7].state == "complete"
    assert returns_of(listener) == returns_of(member)


@pytest.mark.slow
@pytest.mark.parametrize("why_alone", ["", "it is a test"])
def test_agent_that_cannot_be_built_fails_its_own_trial_only(why_alone: str):
    by_momentum = [{"optimizer": "sgd", "optimizer_kwargs": {"momentum": momentum}} for momentum in (0.5, 0.9, 1.2)]
    trials = [make_trial(number=i, params=params, why_alone=why_alone) for i, params in enumerate(by_momentum)]
    listener = RecordingListener()
    run_cohort(trials, listener)
    assert [listener.outcomes[number].state for number in range(3)] == ["complete", "complete", "failed"]
    assert "momentum" in listener.outcomes[2].reason


class UsesNetworksInPrepare(PPO):
    """Cannot be a member of a population, which its first update detects."""

    def prepare(self, data: dict[str, Any]) -> dict[str, Any]:
        self.networks["actor"](data["observations"][0])
        return super().prepare(data)


@pytest.mark.slow
def test_agent_that_fails_as_a_member_is_trained_alone():
    trials = [make_trial(number=number, params={"learning_rate": 10.0**-number}) for number in (2, 3)]
    own = [
        TrialSpec(**{**vars(trial), "agent": AgentSpec.of(UsesNetworksInPrepare, trial.agent.environment, SMALL_PPO)})
        for trial in trials
    ]
    listener = RecordingListener()
    run_cohort(own, listener)
    for trial in own:
        assert listener.outcomes[trial.number].state == "complete", listener.outcomes[trial.number].reason
        with Trainer(trial.agent.build(1)) as single:
            single.train(env_steps=320)
        # Episodes that the population reported before it was given up are reported again.
        returns = {each.episode: each.episode_return for each in listener.records[trial.number] if each.seed == 1}
        assert list(returns.values()) == single.history.returns
