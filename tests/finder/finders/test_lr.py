"""Tests of `LRFinder`: the grid and the range test."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from fakes import SMALL_DQN, SMALL_PPO

import agents
from agents import AgentSpec, ConfigurationError, Trainer
from finder import LRFinder
from finder.range_test.range_test import normalized, range_test, read_suggestion
from finder.range_test.suggestion import Suggestion
from finder.range_test.sweep import Sweep
from studies import best_optimizer, load_study
from studies.errors import StudyError

ENV = "fakes:TwoStep-v0"


def small_agent(kind: str = "ppo", **params: Any) -> Any:
    return agents.make(kind, ENV, **{**(SMALL_PPO if kind == "ppo" else SMALL_DQN), **params})


def assert_same(before: Any, after: Any, path: str = "state") -> None:
    """Assert that two states are equal, bit for bit."""
    assert type(before) is type(after), path
    if isinstance(before, dict):
        assert before.keys() == after.keys(), path
        for key in before:
            assert_same(before[key], after[key], f"{path}.{key}")
    elif isinstance(before, list | tuple):
        assert len(before) == len(after), path
        for index, (one, other) in enumerate(zip(before, after, strict=True)):
            assert_same(one, other, f"{path}[{index}]")
    elif isinstance(before, np.ndarray):
        assert before.dtype == after.dtype, path
        assert before.tobytes() == after.tobytes(), path
    elif isinstance(before, gym.Space):
        assert before == after, path
    elif isinstance(before, gym.Env):
        assert_same(before.unwrapped.__dict__, after.unwrapped.__dict__, path)
    elif not isinstance(before, np.random.Generator):
        assert before == after or (np.isnan(before) and np.isnan(after)), path
    else:
        assert before.bit_generator.state == after.bit_generator.state, path


class TestRangeTest:
    @pytest.mark.slow
    def test_rates_grow_geometrically_to_exactly_the_last_one(self):
        result = LRFinder(small_agent()).find(1e-5, 1e-1, N=20, storage=None)
        expected = [1e-5 * (1e-1 / 1e-5) ** (k / 20) for k in range(21)]
        assert result.curve()[0] == pytest.approx(expected)
        assert result.rewards.rates[0] == 1e-5
        assert result.rewards.rates[-1] == 1e-1
        assert result.reason == "every rate was tried"

    def test_loss_is_recorded_at_every_gradient_step(self):
        result = LRFinder(small_agent()).find(1e-6, 1e-3, N=30, metric="loss", seeds=1, storage=None)
        assert len(result.losses.values) == 31
        assert result.losses.rates[-1] == 1e-3

    def test_recorded_rate_is_the_rate_of_the_agent(self):
        agent = small_agent()
        seen = []
        watch = agents.LambdaCallback(
            on_update_end=lambda trainer, update: seen.append(trainer.agent.get_learning_rate())
        )
        with Trainer(agent, callbacks=[watch]) as trainer:
            result = range_test(trainer, 1e-5, 1e-2, 12, metric="loss")
        assert seen[:13] == pytest.approx(result.losses.rates, rel=1e-6)

    def test_episodes_before_the_first_gradient_step_are_ignored(self):
        agent = small_agent("dqn", learning_starts=100)
        with Trainer(agent) as trainer:
            result = range_test(trainer, 1e-5, 1e-2, 5)
        assert min(result.rewards.env_steps) > 100

    @pytest.mark.slow
    def test_range_test_stops_when_the_loss_diverges(self):
        agent = small_agent(max_grad_norm=None, optimizer="sgd")
        result = LRFinder(agent).find(1e-3, 1e12, N=200, metric="loss", storage=None)
        assert result.reason != "every rate was tried"
        assert "learning rate of" in result.reason or "NaN" in result.reason or "nan" in result.reason
        assert len(result.losses.rates) < 201

    def test_smaller_budget_ends_the_range_test(self):
        result = LRFinder(small_agent()).find(1e-5, 1e-1, N=500, episodes=40, seeds=1, storage=None)
        assert result.reason == "budget reached"
        assert len(result.rewards.rates) <= 40

    @pytest.mark.slow
    @pytest.mark.parametrize("kind", ["ppo", "dqn"])
    @pytest.mark.parametrize("metrics", ["reward", "loss"])
    def test_agent_is_restored_bit_for_bit(self, kind: str, metrics: Any):
        agent = small_agent(kind)
        with Trainer(agent) as trainer:
            trainer.train(env_steps=150)
            before = trainer.get_state()
            LRFinder(trainer).find(1e-4, 1.0, N=15, metrics=metrics, storage=None)
            assert_same(before, trainer.get_state())
            rates = agent.get_learning_rate()
            assert rates == pytest.approx(agent.config.learning_rate)

    def test_agent_is_restored_after_an_error(self, monkeypatch: pytest.MonkeyPatch):
        agent = small_agent("dqn")
        with Trainer(agent) as trainer:
            trainer.train(env_steps=150)
            before = trainer.get_state()
            monkeypatch.setattr(type(agent), "loss", lambda self, batch: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                LRFinder(trainer).find(1e-4, 1.0, N=15, storage=None)
            assert_same(before, trainer.get_state())

    @pytest.mark.slow
    def test_range_test_starts_from_the_replay_of_the_trainer(self):
        agent = small_agent("dqn", learning_starts=100)
        with Trainer(agent) as trainer:
            trainer.train(env_steps=150)
            result = LRFinder(trainer).find(1e-5, 1e-2, N=5, storage=None)
        assert min(result.rewards.env_steps) < 50, "learning must start at once from a filled replay buffer"

    @pytest.mark.slow
    def test_strategy_reaches_the_copy_and_changes_no_loss(self, monkeypatch: pytest.MonkeyPatch):
        built: list[Any] = []
        build = AgentSpec.build
        monkeypatch.setattr(AgentSpec, "build", lambda *given: built.append(build(*given)) or built[-1])
        plain, on_device = (
            LRFinder(AgentSpec.of("ppo", ENV, SMALL_PPO)).find(
                1e-5, 1e-2, N=6, metric="loss", seeds=1, strategy=strategy, storage=None
            )
            for strategy in (None, "one-device")
        )
        assert [type(agent.strategy).__name__ for agent in built[-1:]] == ["OneDeviceStrategy"]
        assert type(built[0].strategy).__name__ != "OneDeviceStrategy"
        assert len(plain.losses.values) == 7
        np.testing.assert_allclose(on_device.losses.values, plain.losses.values, rtol=1e-5)

    def test_return_is_normalized_by_the_preceding_ones(self):
        # Window of 3. At 4: mean of 1, 2, 4 is 7/3, their variance 14/9; (4 - 7/3) / sqrt(14/9) = 5 / sqrt(14).
        assert normalized([1.0, 2.0, 4.0, 4.0, 4.0], 3) == pytest.approx([0.0, 1.0, 5 / 14**0.5, 1 / 2**0.5, 0.0])

    def test_unknown_optimizer_name_is_refused(self):
        with pytest.raises(ConfigurationError, match="Unknown optimizer 'actor' of PPO"):
            LRFinder(small_agent()).find(optimizer="actor", storage=None)

    @pytest.mark.parametrize(
        ("start", "end", "more", "message"),
        [
            (1e-2, 1e-3, {}, "smaller than end_lr"),
            (1e-3, 1e-3, {}, "smaller than end_lr"),
            (0.0, 1e-3, {}, "> 0"),
            (1e-5, float("nan"), {}, "nan"),
            (1e-5, 1e-1, {"N": 0}, "N must be >= 1"),
            (1e-5, 1e-1, {"window_size": 0}, "window_size must be >= 1"),
            (1e-5, 1e-1, {"env_steps": 0}, "env_steps must be >= 1"),
            (1e-5, 1e-1, {"episodes": -1}, "episodes must be >= 1"),
            (1e-5, 1e-1, {"metric": "score"}, r"'return' \(or 'reward'\) or 'loss'"),
        ],
    )
    def test_invalid_numbers_are_refused(self, start: float, end: float, more: dict[str, Any], message: str):
        with pytest.raises(ConfigurationError, match=message):
            LRFinder(small_agent()).find(start, end, **more, storage=None)

    @pytest.mark.slow
    def test_plots_show_the_points_that_are_not_skipped(self):
        finder = LRFinder(small_agent())
        result = finder.find(1e-5, 1e-1, N=30, storage=None)
        assert len(finder.plot_reward(2, 3).data[0].x) == 31 - 5
        assert len(finder.plot_reward(normalized=True).data[0].x) == len(result.rewards.rates)
        assert len(finder.plot_reward_change(sma=5, n_skip_beginning=1, n_skip_end=1).data[0].x) == 28
        assert list(finder.plot_reward_change(y_lim=(-2, 2)).layout.yaxis.range) == [-2, 2]
        assert finder.plot_loss().data
        assert finder.plot_loss_change(sma=2).data
        with pytest.raises(ConfigurationError, match="leave some of the 31 points"):
            finder.plot_reward(20, 20)

    def test_plot_before_a_range_test_is_refused_with_advice(self):
        with pytest.raises(ConfigurationError, match=r"call find\(\) first"):
            LRFinder(small_agent()).plot_reward()

    def test_best_rate_is_where_losses_fall_fastest(self):
        finder = LRFinder(small_agent())
        result = finder.find(1e-5, 1e-1, N=10, metric="loss", seeds=1, storage=None)
        losses = Sweep(result.losses.rates, [5.0] * 5 + [0.0] * 6, list(range(11)))
        finder.result = replace(result, losses=losses)
        assert finder.get_best_lr() == losses.rates[5]
        finder.result = replace(result, losses=replace(losses, values=[1.0] * 11))
        with pytest.raises(ConfigurationError, match="suggests no learning rate"):
            finder.get_best_lr()

    @pytest.mark.parametrize("sma", [None, 1, 5, 20])
    def test_smoothing_does_not_move_the_suggestion(self, sma: int | None):
        rates = list(np.geomspace(1e-6, 1.0, 121))
        falling = [1.0 / (1.0 + (rate / 1e-3) ** 3) for rate in rates]  # steepest on the log axis at 1e-3
        suggestion = read_suggestion(rates, falling, "loss", sma=sma)
        assert suggestion.rate == pytest.approx(1e-3, rel=0.13)  # one point is a factor of 1.12
        assert suggestion.index == rates.index(suggestion.rate)

    def test_unusable_storage_is_reported_before_the_range_test(self, tmp_path: Any):
        finder = LRFinder(small_agent())
        with pytest.raises(StudyError, match="make the directory"):
            finder.find(1e-5, 1e-1, N=20, storage=f"sqlite:///{tmp_path}/nowhere/s.db")
        assert finder.result is None

    @pytest.mark.slow
    def test_range_test_is_recorded_as_a_study_of_one_trial(self, storage: str):
        finder = LRFinder(small_agent())
        result = finder.find(1e-5, 1e-1, N=20, storage=storage)
        finder.find(1e-5, 1e-1, N=10, storage=storage)
        with load_study("range-test-PPO-fakes:TwoStep-v0", storage) as study:
            (trial,) = study.trials()
            curve = trial.user_attrs["range_test"]
            assert (curve["rates"], curve["values"]) == result.curve()
            assert trial.user_attrs["settings"]["N"] == 20
        with load_study("range-test-PPO-fakes:TwoStep-v0-2", storage) as study:
            assert len(study.trials()) == 1

    @pytest.mark.slow
    def test_pick_of_the_recorded_study_is_the_suggestion(self, storage: str, monkeypatch: pytest.MonkeyPatch):
        suggestion = Suggestion(0.0125, 3, "steepest", "because")
        monkeypatch.setattr("finder.range_test.range_test.read_suggestion", lambda *_, **__: suggestion)
        LRFinder(small_agent()).find(1e-5, 1e-1, N=5, seeds=1, storage=storage, study_name="told")
        assert float(best_optimizer("told", storage).learning_rate) == pytest.approx(0.0125)
        monkeypatch.setattr(
            "finder.range_test.range_test.read_suggestion", lambda *_, **__: suggestion._replace(rate=None)
        )
        LRFinder(small_agent()).find(1e-5, 1e-1, N=5, seeds=1, storage=storage, study_name="silent")
        with pytest.raises(StudyError, match="suggests no learning rate"):
            best_optimizer("silent", storage)


class TestGrid:
    @pytest.mark.slow
    def test_finder_keeps_the_results_of_its_grid(self, storage: str):
        finder = LRFinder(small_agent())
        options: dict[str, Any] = {"seeds": 1, "storage": storage, "executor": "inline", "confirm": 0}
        result = finder.grid(1e-3, 1e-1, 2, env_steps=160, extend=False, pruner="none", **options)
        assert finder.result is result
        assert finder.best_learning_rate == result.best.rate.suggested == finder.get_best_lr()
        assert finder.best_reward == result.best.value == finder.rewards[result.best.params["learning_rate"]]
        assert list(finder.rewards) == list(result.table()["learning_rate"])
        assert (finder.best_loss, finder.losses) == (None, {})
        assert finder.plot_reward() == result.plot()
        assert repr(finder) == f"LRFinder({finder.spec!r})\n{result!r}"
        with pytest.raises(ConfigurationError, match="The last search was a grid"):
            finder.plot_reward_change()
        finder.grid(rates=[1e-3, 1e-2], env_steps=10, study_name="too short", **options)  # without an update
        assert (finder.best_learning_rate, finder.best_reward, finder.rewards) == (None, None, {})
        with pytest.raises(ConfigurationError, match="no pick: no gradient step was made"):
            finder.get_best_lr()

    @pytest.mark.slow
    def test_finder_keeps_losses_when_they_are_the_metric(self, storage: str):
        finder = LRFinder(small_agent())
        options: dict[str, Any] = {"seeds": 1, "storage": storage, "executor": "inline", "confirm": 0}
        result = finder.grid(rates=[1e-3, 1e-2], env_steps=160, metric="loss", pruner="none", **options)
        assert (finder.best_reward, finder.rewards) == (None, {})
        assert finder.best_loss == result.best.value == min(finder.losses.values())

    @pytest.mark.slow
    def test_every_rate_is_trained_afresh_with_the_same_seeds(self, storage: str):
        result = LRFinder("ppo", ENV).grid(
            1e-3,
            1e-1,
            3,
            env_steps=320,
            seeds=2,
            storage=storage,
            executor="inline",
            fixed=SMALL_PPO,
            pruner="none",
            extend=False,
        )
        table = result.table()
        assert list(table.learning_rate) == [0.001, 0.1, 0.01]  # the first ones far apart
        assert list(table.state) == ["COMPLETE"] * 3
        assert result.best.tuning_value in list(table.value)
        assert result.best.seed_values.keys() == {2, 3, 4, 5, 6}  # the seeds of the confirmation
        frame = result.study.storage.episodes.frame(result.study.episodes_key)
        first = frame[frame.env_steps <= 32].groupby(["trial_number", "seed"]).episode_return.sum()
        # Before the first update (32 steps) the runs of one seed are the same at every rate.
        assert first.unstack("trial_number").nunique(axis=1).eq(1).all()

    def test_grid_starts_from_the_weights_of_a_trained_agent(self, storage: str):
        agent = small_agent()
        with Trainer(agent) as trainer:
            trainer.train(env_steps=64)
        spec = LRFinder(agent).spec
        built = spec.build(seed=5)
        for one, other in zip(
            built.get_state()["networks"]["actor"], agent.get_state()["networks"]["actor"], strict=True
        ):
            np.testing.assert_array_equal(one, other)

    @pytest.mark.slow
    def test_searched_rate_replaces_the_own_rate_of_an_optimizer(self, storage: str):
        agent = AgentSpec.of("ppo", ENV, {**SMALL_PPO, "default.learning_rate": 0.5, "default.epsilon": 1e-5})
        result = LRFinder(agent).grid(
            1e-3, 1e-2, 2, env_steps=64, seeds=1, storage=storage, executor="inline", pruner="none"
        )
        for trial, rate in zip(result.study.trials(), (0.001, 0.01), strict=True):
            config = trial.user_attrs["configuration"]["optimizers"]["default"]["config"]
            assert (config["learning_rate"], config["epsilon"]) == (rate, 1e-5)

    @pytest.mark.slow
    def test_different_agent_of_the_same_name_is_another_study(self, storage: str):
        options: dict[str, Any] = {"env_steps": 64, "seeds": 1, "storage": storage, "executor": "inline"}
        LRFinder(small_agent(gamma=0.9)).grid(1e-3, 1e-2, 2, **options)
        assert len(LRFinder(small_agent(gamma=0.9, learning_rate=0.5)).grid(1e-3, 1e-2, 2, **options).table()) == 2
        named = {**options, "study_name": "mine"}
        LRFinder(small_agent(gamma=0.9)).grid(1e-3, 1e-2, 2, **named)
        with pytest.raises(StudyError, match=r"made with PPO's gamma 0.9; now PPO's gamma 0.5"):
            LRFinder(small_agent(gamma=0.5)).grid(1e-3, 1e-2, 2, **named)
        trained = small_agent(gamma=0.9)
        with Trainer(trained) as trainer:
            trainer.train(env_steps=64)
        with pytest.raises(StudyError, match="made with new weights of PPO"):
            LRFinder(trained).grid(1e-3, 1e-2, 2, **named)

    @pytest.mark.slow
    def test_restarted_grid_resumes(self, storage: str):
        options: dict[str, Any] = {
            "env_steps": 64,
            "seeds": 1,
            "storage": storage,
            "executor": "inline",
            "fixed": SMALL_PPO,
        }
        first = LRFinder("ppo", ENV).grid(1e-3, 1e-1, 3, **options)
        again = LRFinder("ppo", ENV).grid(1e-3, 1e-1, 3, **options)
        assert len(again.table()) == 3
        assert first.best.trial == again.best.trial
        other = LRFinder("ppo", ENV).grid(1e-3, 1e-1, 3, **{**options, "env_steps": 128})
        assert other.study.name == f"{first.study.name}-2"
        assert len(first.table()) == 3

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"start_lr": 1.0, "end_lr": 0.1}, "smaller than end_lr"),
            ({"n_rates": 1}, "n_rates must be >= 2"),
            ({"rates": [1e-3, 1e-2], "n_rates": 3}, "give either the rates or their range"),
            ({"rates": []}, "the list of learning rates is empty"),
            ({"fixed": {"gamma": 0.9, "one_minus_gamma": 0.05}}, "set the same hyperparameter"),
            ({"seeds": 0}, "seeds: 0 is not a number of seeds"),
            ({"seeds": "3"}, "seeds: '3' is not a number of seeds"),
            ({"env_steps": 0}, "env_steps"),
            ({"env_steps": -5}, "env_steps"),
            ({"metric": "score"}, "there is no metric 'score'"),
            ({"prunner": "median"}, "Did you mean pruner"),
            ({"pruner": "medain"}, "median"),
            ({"fixed": {"gama": 0.9}}, "gamma"),
            ({"fixed": {"optimizer": "adm"}}, "adam"),
            ({"executor": "inlin"}, "inline"),
        ],
    )
    def test_invalid_input_is_refused_before_anything_is_written(
        self, arguments: dict[str, Any], message: str, storage: str, tmp_path: Any
    ):
        with pytest.raises(ValueError, match=message):
            LRFinder("ppo", ENV).grid(**{"env_steps": 100, "storage": storage, **arguments})
        assert not list(tmp_path.iterdir())

    def test_unknown_names_are_refused_with_suggestions(self):
        with pytest.raises(ConfigurationError, match="Did you mean ppo"):
            LRFinder("pp", "CartPole-v1")
        with pytest.raises(ConfigurationError, match="CartPole-v1"):
            LRFinder("ppo", "CartPol-v1")
        with pytest.raises(ConfigurationError, match="Say which environment"):
            LRFinder("ppo")
        with pytest.raises(ConfigurationError, match="DQN takes discrete actions"):
            LRFinder("dqn", "Pendulum-v1").grid(env_steps=100, storage=None)
