"""Tests of the range test: the duration of each rate, stopping conditions, errors and suggestions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fakes import SMALL_DQN, SMALL_PPO

import agents
from agents import EnvironmentSpec, Trainer
from agents.contract.agent import UpdateMetrics
from agents.errors import NonFiniteError
from agents.functional.schedules import ExponentialSchedule
from finder import LRFinder
from finder.range_test.divergence import CollapseGuard, DivergenceGuard, RewardScale, steps_per_decade
from finder.range_test.range_test import range_test, read_suggestion
from finder.range_test.sweep import Sweeper
from studies import load_study

ENV = "fakes:TwoStep-v0"
RATES = list(np.geomspace(1e-6, 1.0, 101))
SMALL_TD3 = {"learning_starts": 20, "hidden_sizes": [4], "batch_size": 4, "jit_compile": False}


def small(kind: str = "ppo", env: str | EnvironmentSpec = ENV, **params: Any) -> Any:
    return agents.make(kind, env, **{**(SMALL_PPO if kind == "ppo" else SMALL_DQN), **params})


class TestRateSchedule:
    @pytest.mark.slow
    def test_rate_is_kept_until_an_update_was_made_and_an_episode_ended(self):
        agent, events = small(n_steps=64), []  # 128 steps a rollout, an episode every five steps of a copy
        watch = agents.LambdaCallback(
            on_update_end=lambda trainer, update: events.append(trainer.agent.get_learning_rate()),
        )
        with Trainer(agent, callbacks=[watch]) as trainer:
            result = range_test(trainer, 1e-5, 1e-2, 12)
        assert result.reason == "every rate was tried"
        assert events == pytest.approx(result.curve()[0], rel=1e-6), "the sweep must make one update per learning rate"

    def test_episodes_are_assigned_the_rate_of_the_preceding_update(self):
        agent, updates = small(n_steps=64), []
        watch = agents.LambdaCallback(
            on_update_end=lambda trainer, update: updates.append((trainer.env_steps, trainer.agent.get_learning_rate()))
        )
        with Trainer(agent, callbacks=[watch]) as trainer:
            result = range_test(trainer, 1e-5, 1e-2, 12)
        for rate, steps in zip(result.rewards.rates, result.rewards.env_steps, strict=True):
            before = [its for made, its in updates if made < steps]
            assert rate == pytest.approx(before[-1], rel=1e-6)

    def test_agent_with_an_update_per_step_gets_a_new_rate_every_episode(self):
        agent = small("dqn", train_freq=1)
        with Trainer(agent) as trainer:
            result = range_test(trainer, 1e-5, 1e-2, 12)
        assert len(result.rewards.rates) == len(set(result.rewards.rates)) == 13


class TestReadSuggestion:
    @pytest.mark.parametrize("kind", ["ppo", "dqn"])
    @pytest.mark.parametrize("metrics", ["reward", "loss"])
    @pytest.mark.slow
    def test_rates_without_effect_give_no_suggestion(self, kind: str, metrics: Any):
        for seed in range(3):
            result = LRFinder(small(kind, seed=seed)).find(1e-12, 1e-10, N=60, metrics=metrics, storage=None)
            assert result.best is None
            assert "nothing can be read from this curve" in result.suggestion.reason
            assert "smaller rates" not in result.suggestion.reason

    def test_noise_gives_no_suggestion_and_a_fall_gives_its_rate(self):
        noise = np.random.default_rng(0).normal(20.0, 8.0, 101)
        assert read_suggestion(RATES, list(noise), "loss").rate is None
        fall = noise - np.where(np.arange(101) >= 50, 30.0, 0.0)  # from 1e-3 on
        assert read_suggestion(RATES, list(fall), "loss").rate == pytest.approx(1e-3, rel=0.5)

    @pytest.mark.parametrize(
        ("first", "reason"), [(10, "first rates, up to 3.98e-06: test smaller ones"), (91, "last")]
    )
    def test_rates_at_the_edges_are_never_suggested(self, first: int, reason: str):
        noise = np.random.default_rng(0).normal(0.0, 0.1, 101)
        suggestion = read_suggestion(RATES, list(noise - np.where(np.arange(101) >= first, 30.0, 0.0)), "loss")
        assert suggestion.rate is None
        assert reason in suggestion.reason

    def test_suggestion_from_returns_is_a_tenth_of_the_best_rate(self):
        # Ten averaged: best of indices 70 to 79, whose middle is at most half a place from 74: 1e-6 * 10^4.44.
        returns = [20.0 + k % 3 for k in range(50)] + [60.0] * 20 + [200.0] * 10 + [15.0] * 21
        suggestion = read_suggestion(RATES, returns, "reward")
        assert suggestion.index == 74
        assert suggestion.rate == pytest.approx(RATES[74] / 10)
        assert suggestion.reason == f"a tenth of {RATES[74]:.3g}, where the returns are best"

    def test_returns_that_are_best_at_an_edge_give_no_suggestion(self):
        rising = [20.0 + k % 3 for k in range(50)] + [60.0 + k for k in range(51)]
        assert "best at the last rates" in read_suggestion(RATES, rising, "reward").reason
        early = [20.0, 21.0] * 5 + [200.0] * 10 + [15.0, 14.0] * 40 + [15.0]
        assert "test smaller rates, from below a tenth" in read_suggestion(RATES, early, "reward").reason
        noise = list(np.random.default_rng(0).normal(20.0, 8.0, 101))
        assert "nothing can be read" in read_suggestion(RATES, noise, "reward").reason

    @pytest.mark.slow
    def test_skipped_points_are_not_used_for_the_suggestion(self):
        finder = LRFinder(small("dqn"))
        result = finder.find(1e-6, 1.0, N=100, metrics="loss", seeds=1, storage=None)
        rates, values = result.curve()
        sources = result.losses.sources()
        assert len(sources) == len(rates)
        assert result.read(20, 10) == read_suggestion(rates[20:-10], values[20:-10], "loss", sources=sources[20:-10])


class TestErrors:
    def broken(self, **kwargs: Any) -> Any:
        return small(n_envs=1, env=EnvironmentSpec.of(ENV, kwargs))

    @pytest.mark.slow
    def test_points_before_an_error_are_kept(self, storage: str):
        finder = LRFinder(self.broken(fail_after=300))
        with pytest.raises(RuntimeError, match="the arm fell off") as error:
            finder.find(1e-5, 1e-1, N=500, storage=storage)
        n_points = len(finder.result.curve()[0])
        assert n_points > 5
        assert error.value.__notes__ == [
            f"The range test was ended by this after {n_points} points; it is recorded as the study "
            f"{finder.study_name}."
        ]
        assert finder.result.best is None
        assert "ended by an error, RuntimeError: the arm fell off" in finder.result.suggestion.reason
        with load_study(finder.study_name, storage) as study:
            (trial,) = study.trials()
            assert trial.state.name == "FAIL"
            assert trial.user_attrs["reason"] == "RuntimeError: the arm fell off"
            assert 'raise RuntimeError("the arm fell off")' in trial.user_attrs["traceback"]
            assert len(trial.user_attrs["range_test"]["rates"]) == n_points

    def test_error_without_a_storage_reports_the_number_of_points(self):
        finder = LRFinder(self.broken(fail_after=3))
        with pytest.raises(RuntimeError) as error:
            finder.find(1e-5, 1e-1, N=500, storage=None)
        assert error.value.__notes__ == ["The range test was ended by this after 0 points."]

    @pytest.mark.parametrize("metrics", ["reward", "loss"])
    def test_nan_loss_at_the_first_gradient_step_raises_an_error(self, metrics: Any, monkeypatch: pytest.MonkeyPatch):
        agent = small("dqn")
        finder = LRFinder(agent)
        sound = type(agent).loss
        monkeypatch.setattr(
            type(agent), "loss", lambda self, batch: {"default": sound(self, batch)["default"] * float("nan")}
        )
        with pytest.raises(NonFiniteError, match="nan at the very first gradient step"):
            finder.find(1e-5, 1e-1, N=20, metrics=metrics, storage=None)
        assert finder.result.best is None

    def test_range_test_without_an_update_reports_the_reason(self):
        result = LRFinder(small("dqn")).find(1e-5, 1e-1, N=20, env_steps=20, storage=None)
        assert result.suggestion.reason == "no update was made within 20 environment steps: give more (--env-steps)"
        result = LRFinder(small("dqn")).find(1e-5, 1e-1, N=20, episodes=1, storage=None)
        assert result.suggestion.reason.endswith("environment steps: give more (--episodes)")


class TestGuards:
    def test_returns_that_rise_and_fall_back_have_collapsed(self):
        guard = CollapseGuard()
        # Ten of 19 and 21: they begin at 20 with a spread of 1. 40 is a clear rise, a mean of ten at 20 its end.
        rise = [19.0, 21.0] * 5 + [40.0] * 10
        assert not any(guard.collapsed(value) for value in rise)
        fall = [guard.collapsed(0.0) for _ in range(5)]
        # Means of the last ten: 36, 32, 28, 24, 20.
        assert fall == [False, False, False, False, True]

    def test_returns_that_never_rise_have_not_collapsed(self):
        guard = CollapseGuard()
        assert not any(guard.collapsed(value) for value in [19.0, 21.0] * 30)

    def test_negative_loss_diverges_when_it_leaves_its_range(self):
        guard = DivergenceGuard(delay=20)
        falling = [-0.1 * k for k in range(60)]
        assert not any(guard.diverged(loss, 1.0) for loss in falling)
        assert any(guard.diverged(100.0, 1.0) for _ in range(10))

    def test_noisy_negative_loss_has_not_diverged(self):
        guard = DivergenceGuard(delay=20)
        noise = np.random.default_rng(0).normal(-5.0, 1.0, 500)
        assert not any(guard.diverged(float(loss), 1.0) for loss in noise)

    def test_loss_that_falls_exponentially_has_diverged(self):
        guard = DivergenceGuard(delay=20)
        exploding = [-(1.2**k) for k in range(80)]  # the actor's loss when the critic overestimates
        assert any(guard.diverged(loss, 1.0) for loss in exploding)

    @pytest.mark.parametrize("sign", [1.0, -1.0])
    def test_actor_loss_that_grows_with_the_values_has_not_diverged(self, sign: float):
        # Minus the value by a new critic, near 0; within a decade of rates that of 60 steps of reward 1.
        level = np.concatenate([np.full(150, 0.3), np.linspace(0.3, 60.0, 50), np.full(100, 60.0)])
        noise = np.random.default_rng(0).normal(0.0, 0.05, 300)
        guard = DivergenceGuard(delay=50)
        assert not any(guard.diverged(float(sign * loss), 100.0) for loss in level + noise)
        assert any(guard.diverged(sign * 1e3, 100.0) for _ in range(10))

    def test_loss_that_returns_to_its_initial_level_has_not_diverged(self):
        # A critic fits its first targets at once, and its errors rise again as the values move away from them.
        errors = np.concatenate([np.geomspace(90.0, 0.2, 150), np.geomspace(0.2, 90.0, 150)])
        guard = DivergenceGuard(delay=50)
        assert not any(guard.diverged(float(error), 1.0) for error in errors)

    def test_single_large_minibatch_loss_is_not_a_divergence(self):
        guard = DivergenceGuard(delay=20)
        spiky = np.where(np.arange(300) % 50 == 49, 20.0, 1.0)
        assert not any(guard.diverged(float(loss), 1.0) for loss in spiky)

    def test_loss_raised_by_gradient_steps_has_diverged(self):
        # A tenth of the largest value allowed, but ten times what it was a decade of rates before.
        guard = DivergenceGuard(delay=20)
        assert not any(guard.diverged(1.0 + 0.1 * (k % 2), 100.0, -0.01) for k in range(60))
        assert any(guard.diverged(10.0, 100.0, 2.0) for _ in range(10))

    def test_loss_that_rises_while_steps_lower_it_has_not_diverged(self):
        guard = DivergenceGuard(delay=20)  # a target network has been updated
        assert not any(guard.diverged(1.0 + 0.1 * (k % 2), 100.0, -0.01) for k in range(60))
        assert not any(guard.diverged(10.0, 100.0, -0.5) for _ in range(60))

    def test_loss_raised_by_less_than_its_variation_has_not_diverged(self):
        guard = DivergenceGuard(delay=20)
        assert not any(guard.diverged(1.0 + 0.5 * (k % 2), 100.0, 0.2) for k in range(200))

    def test_single_step_that_raises_the_loss_is_not_a_divergence(self):
        guard = DivergenceGuard(delay=20)
        assert not any(guard.diverged(1.0 + 0.1 * (k % 2), 100.0, -0.01) for k in range(60))
        assert not any(guard.diverged(10.0, 100.0, 5.0 if k == 3 else -0.5) for k in range(20))

    def test_steps_of_unknown_effect_are_judged_by_the_range_of_the_loss(self):
        guard = DivergenceGuard(delay=20)
        assert not any(guard.diverged(1.0, 100.0) for _ in range(60))
        assert not any(guard.diverged(50.0, 100.0) for _ in range(30))

    def test_reward_scale_follows_rewards_and_discount(self):
        scale = RewardScale(0.9)
        assert scale.largest_value == pytest.approx(10.0)
        scale.add(np.array([-3.0, 2.0]))
        scale.add(np.array([0.5, 0.5]))
        assert scale.largest_value == pytest.approx(30.0)
        undiscounted = RewardScale(1.0)
        for _ in range(7):
            undiscounted.add(np.array([2.0]))
        assert undiscounted.largest_value == pytest.approx(14.0)

    @pytest.mark.parametrize(
        ("n_increases", "delay"),
        [(300, 50), (100, 17), (12, 10), (1, 10)],  # over six decades
    )
    def test_loss_is_compared_with_that_of_a_decade_of_rates_before(self, n_increases: int, delay: int):
        assert steps_per_decade(1e-6, 1.0, n_increases) == delay

    def test_sweep_of_less_than_a_decade_compares_within_the_sweep(self):
        assert steps_per_decade(1e-4, 2e-4, 300) == 100


class TestLossesOfSeveralOptimizers:
    def swept(self, optimizer: str | None, losses: dict[str, list[float]]) -> Sweeper:
        """Return a sweeper after rates from 1e-6 to 1 over gradient steps with these losses, one value each."""
        agent: Any = SimpleNamespace(
            optimizers=dict.fromkeys(losses),
            config=SimpleNamespace(gamma=0.99),
            set_learning_rate=lambda rate, optimizer: None,
        )
        trainer: Any = SimpleNamespace(env_steps=0, stop=lambda reason: None)
        sweeper = Sweeper(agent, ExponentialSchedule(1e-6, 1.0, 100), 100, "loss", optimizer)
        for k in range(101):
            step = {name: np.array([values[k]]) for name, values in losses.items()}
            sweeper.on_update_end(trainer, UpdateMetrics(step, {}))
        return sweeper

    def test_losses_of_other_optimizers_are_ignored(self):
        exploding = [1.3**k for k in range(101)]
        losses = {"critic": [1.0] * 101, "actor": exploding, "temperature": exploding}
        result = self.swept("critic", losses)
        assert (result.diverged, result.reason) == (False, "every rate was tried")

    @pytest.mark.parametrize("optimizer", [None, "actor"])
    def test_divergence_of_the_swept_optimizer_ends_the_sweep(self, optimizer: str | None):
        exploding = [1.3**k for k in range(101)]
        result = self.swept(optimizer, {"critic": [1.0] * 101, "actor": exploding, "temperature": [0.0] * 101})
        assert result.diverged
        assert result.reason.startswith("the loss of actor diverged at a learning rate of ")

    @pytest.mark.parametrize("broken", [float("nan"), float("inf"), -float("inf")])
    def test_non_finite_loss_of_any_optimizer_ends_the_sweep(self, broken: float):
        losses = {"critic": [1.0] * 101, "actor": [1.0] * 60 + [broken] * 41, "temperature": [0.0] * 101}
        result = self.swept("critic", losses)
        assert result.diverged
        assert result.reason == f"the loss of actor became {broken} at a learning rate of 0.00398"
        assert len(result.losses.rates) == 60


@pytest.mark.slow
class TestRateOfOneOptimizer:
    # From 1e-5 to 1e-2 in six increases: half a decade each.
    RATES = tuple(1e-5 * 10 ** (k / 2) for k in range(7))

    def rates_at_updates(self, optimizer: str | None) -> list[tuple[float, float]]:
        """Return the rates of the critic and of the actor at every update of a range test."""
        agent = agents.make("td3", "Pendulum-v1", **SMALL_TD3, learning_rate=3e-4)
        seen: list[tuple[float, float]] = []
        watch = agents.LambdaCallback(
            on_update_end=lambda trainer, update: seen.append(
                (trainer.agent.get_learning_rate("critic"), trainer.agent.get_learning_rate("actor"))
            ),
        )
        with Trainer(agent, callbacks=[watch]) as trainer:
            result = range_test(trainer, 1e-5, 1e-2, 6, metric="loss", optimizer=optimizer)
        assert result.optimizer == (optimizer or "all")
        assert result.losses.rates == pytest.approx(self.RATES)
        return seen

    def test_rate_of_the_named_optimizer_alone_grows(self):
        critic, actor = zip(*self.rates_at_updates("critic"), strict=True)
        assert critic == pytest.approx(self.RATES, rel=1e-6)
        assert actor == pytest.approx([3e-4] * 7, rel=1e-6)

    def test_without_a_name_all_rates_grow(self):
        critic, actor = zip(*self.rates_at_updates(None), strict=True)
        assert critic == pytest.approx(self.RATES, rel=1e-6)
        assert actor == pytest.approx(self.RATES, rel=1e-6)


@pytest.mark.slow
def test_critic_loss_of_sac_diverges_only_beyond_usual_rates():
    result = LRFinder("sac", "Pendulum-v1").find(
        1e-5, 10.0, N=120, metric="loss", optimizer="critic", seeds=1, storage=None
    )
    assert result.reason.startswith("the loss of critic diverged at a learning rate of ")
    assert result.losses.rates[-1] > 1e-2, result.reason
