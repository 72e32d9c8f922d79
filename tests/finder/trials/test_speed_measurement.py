"""Tests of the measurement of speeds, with a clock that is moved by the environment."""

from __future__ import annotations

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
from fakes import SMALL_DQN, SMALL_PPO, TwoStep

from agents.contract.spec import AgentSpec
from agents.environments import EnvironmentSpec
from finder.trials import speed_measurement
from finder.trials.speed_measurement import SpeedError, measure_speed
from finder.trials.trial import TrialSpec

NOW = [0.0]


class Timed(TwoStep):
    """An environment whose steps take 10 ms by the clock of the test."""

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        NOW[0] += 0.01
        return super().step(action)


if "Timed-v0" not in gym.registry:
    gym.register("Timed-v0", entry_point=Timed)


def clock() -> float:
    return NOW[0]


def trials(agent: str, n: int = 1, **params: object) -> list[TrialSpec]:
    spec = AgentSpec.of(agent, EnvironmentSpec.of("Timed-v0"), params)
    return [TrialSpec(number=number, agent=spec, seeds=(0, 1), env_steps=10_000_000) for number in range(n)]


def test_steps_of_environments_are_the_whole_cost() -> None:
    speed = measure_speed(trials("ppo", 3, **SMALL_PPO), clock)
    assert speed.n_runs == 6
    assert speed.run_seconds == pytest.approx(0.01)
    assert speed.shared_seconds == pytest.approx(0.0, abs=1e-9)
    assert speed.step_seconds(6) == pytest.approx(0.06)
    assert speed.first_update == 32  # a rollout of two environments
    assert speed.steps_per_second == pytest.approx(100)
    assert speed.run_bytes > 0


def test_a_single_run_is_measured_beside_two() -> None:
    speed = measure_speed(trials("ppo", **SMALL_PPO), clock)
    assert speed.n_runs == 2
    assert speed.step_seconds(1) == pytest.approx(0.01)
    assert speed.step_seconds(2) == pytest.approx(0.02)


def test_time_before_the_first_update_is_that_of_the_agent() -> None:
    speed = measure_speed(trials("dqn", **{**SMALL_DQN, "learning_starts": 5_000}), clock)
    assert speed.first_update == 5_000
    assert speed.start_share == pytest.approx(1.0)  # updates take no time by this clock
    assert speed.run_seconds == pytest.approx(0.01)


def test_long_rollouts_are_not_measured_to_their_end() -> None:
    spec = trials("ppo", **{**SMALL_PPO, "n_envs": 2, "n_steps": 8_192})
    began = NOW[0]
    speed = measure_speed(spec, clock)
    # 2 seeds x 2 environments x 512 steps of 10 ms are 20.48 s: two rollouts before the measurement, one in it, and
    # two of one run, which take half
    assert NOW[0] - began == pytest.approx(4 * 20.48)
    assert speed.first_update == 16_384
    assert speed.run_seconds == pytest.approx(0.01)
    # the memory is that of the whole rollout, of 32 times as many rows
    assert (
        speed.run_bytes
        > 8 * measure_speed(trials("ppo", **{**SMALL_PPO, "n_envs": 2, "n_steps": 256}), clock).run_bytes
    )


@pytest.mark.slow
def test_sequences_of_a_network_with_memory_remain_whole() -> None:
    spec = trials("ppo", n_envs=64, n_steps=34, gru_units=4, sequence_length=2)
    assert measure_speed(spec, clock).n_runs == 2


def test_agent_alone_is_measured_by_one_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed_measurement, "ALL_SECONDS", 0.5)
    spec = trials("ppo", **SMALL_PPO)[0]
    speed = measure_speed([replace(spec, why_alone="for this test")], clock)
    assert (speed.n_runs, speed.shared_seconds) == (1, 0.0)
    assert speed.run_seconds == pytest.approx(0.01)


@pytest.mark.parametrize("steps", [3, 20], ids=["in the first step of the loop", "later"])
def test_failure_of_a_run_is_an_error(steps: int) -> None:
    environment = EnvironmentSpec("fakes:TwoStep-v0", kwargs={"fail_after": steps})
    spec = AgentSpec.of("ppo", environment, SMALL_PPO)
    with pytest.raises(SpeedError, match=r"^RuntimeError: the arm fell off"):
        measure_speed([TrialSpec(number=0, agent=spec, seeds=(0,), env_steps=1_000)], clock)


def test_run_that_diverges_leaves_the_others() -> None:
    sound, diverging = trials("ppo", **SMALL_PPO)[0], trials("ppo", **SMALL_PPO, learning_rate=1e30)[0]
    speed = measure_speed([sound, replace(diverging, number=1)], clock)
    assert speed.n_runs == 2
    assert speed.run_seconds == pytest.approx(0.01)
