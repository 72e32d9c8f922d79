"""Tests of the range test on the command line."""

from __future__ import annotations

from typing import Any

import pytest

SMALL = ("--range-test", "--set", "jit_compile=false")


class TestRangeTest:
    @pytest.mark.slow
    def test_losses_of_built_in_agents_suggest_a_rate_that_learns(self, finder: Any) -> None:
        for agent, low, high in (("ppo", 5e-4, 1e-2), ("dqn", 1e-4, 3e-3)):
            ran = finder("lr", agent, "--env", "CartPole-v1", *SMALL, "--json", "--storage", "memory")
            assert ran.code == 0, ran.err
            rates = ran.json["curve"]["learning_rate"]
            assert len(rates) == len(ran.json["curve"]["value"])
            assert rates[-1] > 10 * high, "the sweep must reach rates at which training diverges"
            assert low < ran.json["suggestion"] < high

    @pytest.mark.slow
    def test_range_test_without_a_suggestion_advises_a_grid(self, finder: Any) -> None:
        words = ("--env", "CartPole-v1", "--start-lr", "1e-12", "--end-lr", "1e-10", "--storage", "it.db")
        ran = finder("lr", "dqn", *words, *SMALL)
        assert (ran.code, ran.out) == (1, "")
        assert "suggests no learning rate: nothing can be read from this curve" in ran.err
        assert "Train every rate by itself" in ran.err
        assert "finder lr dqn --env CartPole-v1 --storage it.db --set jit_compile=false\n" in ran.err
        for name in ("grid()", "raise N", "smaller rates"):
            assert name not in ran.err
        shown = finder("show", "range-test-dqn-CartPole-v1", "--storage", "it.db").out
        assert "suggested learning_rate" in shown
        assert "mean loss" in shown, "the value of a range test is no result of training"

    @pytest.mark.slow
    def test_metric_option_selects_returns(self, finder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("FINDER_PROGRESS")
        words = ("--env", "CartPole-v1", "--metric", "reward", "--n-rates", "8", "--storage", "memory", "--json")
        ran = finder("lr", "dqn", *words, *SMALL)
        assert ran.code == 1
        assert len(ran.json["curve"]["value"]) == 9
        assert max(ran.json["curve"]["value"]) > 9.0, "the curve must contain returns, not losses"
        assert ran.err.count(" steps/s  mean return ") >= 3, "each run prints its progress where there is no terminal"

    @pytest.mark.slow
    def test_optimizer_name_selects_the_optimizer_whose_rate_grows(
        self, finder: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from finder.range_test.sweep import Sweeper

        seen: list[tuple[float, float]] = []
        whole = Sweeper.on_update_end

        def watched(self: Any, trainer: Any, update: Any) -> None:
            seen.append((trainer.agent.get_learning_rate("critic"), trainer.agent.get_learning_rate("actor")))
            whole(self, trainer, update)

        monkeypatch.setattr(Sweeper, "on_update_end", watched)
        small = ("--set", "learning_starts=20", "--set", "hidden_sizes=[4]", "--set", "learning_rate=3e-4")
        rates = ("--start-lr", "1e-5", "--end-lr", "1e-2", "--n-rates", "6", "--seeds", "1", "--storage", "memory")
        ran = finder("lr", "td3", "--env", "Pendulum-v1", *rates, *small, "--optimizer-name", "critic", *SMALL)
        assert "learning rate" in ran.err, ran.err
        # Six increases by half a decade.
        assert [critic for critic, _ in seen] == pytest.approx([1e-5 * 10 ** (k / 2) for k in range(7)], rel=1e-6)
        assert [actor for _, actor in seen] == pytest.approx([3e-4] * 7, rel=1e-6)

    @pytest.mark.slow
    def test_environment_error_is_reported_without_traceback_and_recorded(self, finder: Any) -> None:
        ran = finder("lr", "ppo", "--env", "cli_envs:Broken-v0", "--env-kwargs", '{"broken_steps": 5}', *SMALL)
        assert (ran.code, ran.out) == (1, "")
        assert "Error: RuntimeError: the robot fell off the table" in ran.err
        assert "Traceback" not in ran.err
        assert "it is recorded as the study range-test-ppo-" in ran.err
        (name,) = (word.rstrip(".") for word in ran.err.split() if word.startswith("range-test-ppo-"))
        shown = finder("show", name, "--trial", "0")
        assert "the robot fell off the table" in shown.out
        assert "Traceback" in shown.out
