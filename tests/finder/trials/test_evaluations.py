"""Tests of greedy evaluations of trials: their values, and that the training is as without them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from fakes import SMALL_DQN, SMALL_PPO, RecordingListener

import agents
from agents import AgentSpec, Callback, EnvironmentSpec, Trainer, seeding
from agents.training.run import Budget
from finder.trials import checkpoints
from finder.trials.cohort import run_cohort
from finder.trials.evaluations import evaluation_seed
from finder.trials.trial import TrialSpec

STATES: list[dict[str, Any]] = []

N_STEPS = 320


class Keeps(Callback):
    """Keeps the state of the whole training at its end."""

    of_members = True

    def on_train_end(self, trainer: Trainer) -> None:
        STATES.append(trainer.get_state())


class Signs(gym.Env[np.ndarray, Any]):
    """Episodes of six steps, in which the action that is the sign of the observation is rewarded; partly at random."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space: gym.Space[Any] = gym.spaces.Discrete(2)
    made = 0

    def __init__(self, last: int | None = None, box: bool = False) -> None:
        Signs.made += 1
        self._fails = last is not None and Signs.made > last
        if box:
            self.action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._n, self._seen = 0, self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return self._seen, {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        if self._fails:
            raise RuntimeError("the arm fell off")
        reward = float((np.ravel(action)[0] > 0) == (self._seen[0] > 0)) + 0.1 * np.random.random()
        self._n, self._seen = self._n + 1, self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return self._seen, reward, self._n == 6, False, {}


PARAMS: dict[str, dict[str, Any]] = {
    "ppo": {**SMALL_PPO, "normalize_observations": True, "normalize_rewards": True},
    "ppo with memory": {**SMALL_PPO, "gru_units": 4, "sequence_length": 8},
    "dqn": {**SMALL_DQN, "noisy": True},
    "sac": {"learning_starts": 32, "batch_size": 8, "hidden_sizes": [8], "jit_compile": False, "train_freq": 8},
}


def make_trial(agent: str, number: int = 0, environment: EnvironmentSpec | None = None, **fields: Any) -> TrialSpec:
    kwargs = {"box": True} if agent == "sac" else {}
    where = environment or EnvironmentSpec(Signs, kwargs)
    params = {**PARAMS[agent], "learning_rate": 1e-2 * (1 + number), **fields.pop("params", {})}
    marks = tuple(N_STEPS * k // 10 for k in range(1, 11))
    return TrialSpec(
        **{
            "number": number,
            "agent": AgentSpec.of(agent.split(maxsplit=1)[0], where, params),
            "env_steps": N_STEPS,
            "report_marks": marks,
            "seeds": (0, 1),
            "metric": "greedy-return:4",
            **fields,
        }
    )


def run(*trials: TrialSpec, listener: RecordingListener | None = None) -> RecordingListener:
    listener = listener or RecordingListener()
    run_cohort(trials, listener)
    return listener


def episodes(listener: RecordingListener, number: int) -> list[tuple[Any, ...]]:
    """Return the episodes ordered by seed, without durations and duplicates."""
    records = {(r.seed, r.episode): (r.env_steps, r.episode_return, r.length, r.loss) for r in listener.records[number]}
    return sorted((*key, *values) for key, values in records.items())


def without_times(state: Any) -> Any:
    if isinstance(state, dict):
        left_out = ("wall_seconds", "environments")
        return {key: without_times(value) for key, value in state.items() if key not in left_out}
    if isinstance(state, agents.Episode):
        return tuple(state._replace(wall_seconds=0.0))
    if isinstance(state, list | tuple):
        return [without_times(value) for value in state]
    return state


@pytest.mark.slow
@pytest.mark.parametrize("alone", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["population", "alone"])
@pytest.mark.parametrize("agent", list(PARAMS))
def test_training_is_bit_for_bit_as_without_evaluations(agent: str, alone: bool) -> None:
    common = {"callbacks": (Keeps,), "why_alone": "it is a test." if alone else ""}
    found = []
    for metric in ("return", "greedy-return:4"):
        STATES.clear()
        np.random.seed(5)  # the rewards draw from NumPy's global generator
        found.append((run(*(make_trial(agent, k, metric=metric, **common) for k in range(2))), list(STATES)))
    (plain, before), (evaluated, after) = found
    for number in range(2):
        assert evaluated.outcomes[number].state == "complete"
        assert episodes(evaluated, number) == episodes(plain, number)
        assert evaluated.outcomes[number].env_steps == plain.outcomes[number].env_steps == N_STEPS
        assert evaluated.outcomes[number].value != plain.outcomes[number].value
    assert len(before) == len(after) == (4 if alone else 1)
    np.testing.assert_equal(without_times(after), without_times(before))


def own_mean(agent: Any, environment: EnvironmentSpec, seed: int, env_steps: int, n_episodes: int) -> float:
    """Play greedy episodes one after another, in plain Gymnasium."""
    returns = []
    for reset_seed in seeding.integers(evaluation_seed(seed, env_steps), "environment", n_episodes):
        env = environment.make()
        observation, _ = env.reset(seed=reset_seed)
        returns.append(0.0)
        while True:
            observation, reward, terminated, truncated, _ = env.step(agent.predict(observation))
            returns[-1] += float(reward)
            if terminated or truncated:
                break
        env.close()
    return float(np.mean(returns))


class Plain(Signs):
    """The same without the random part of the reward."""

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        observation, reward, *rest = super().step(action)
        return observation, float(np.floor(reward)), *rest


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["ppo", "dqn"])
def test_value_is_the_mean_of_greedy_episodes_in_the_last_part(agent: str) -> None:
    environment = EnvironmentSpec(Plain)
    listener = run(*(make_trial(agent, k, environment) for k in range(2)))
    for number in range(2):
        spec = make_trial(agent, number, environment).agent
        reports, finals = [], []
        for seed in (0, 1):
            alone = spec.build(seed)
            values = []
            with Trainer(alone, environment) as trainer:
                for reached in trainer.iterate(Budget(env_steps=N_STEPS)):
                    if reached >= N_STEPS // 10 * (len(values) + 1):
                        values.append(own_mean(alone, environment, seed, reached, 4))
            reports.append(values)
            finals.append(float(np.mean(values[-2:])))  # after 288 and 320 of 320 steps
        assert list(listener.outcomes[number].seed_values.values()) == pytest.approx(finals)
        assert listener.outcomes[number].value == pytest.approx(np.mean(finals))
        assert [value for _, value in listener.reports[number]] == pytest.approx(np.mean(reports, axis=0))


@pytest.mark.slow
def test_evaluations_do_not_depend_on_the_other_members() -> None:
    together = run(*(make_trial("ppo", k, EnvironmentSpec(Plain)) for k in range(3)))
    alone = run(make_trial("ppo", 1, EnvironmentSpec(Plain)))
    assert alone.reports[1] == together.reports[1]
    assert alone.outcomes[1].seed_values == together.outcomes[1].seed_values


def test_training_uses_other_episodes() -> None:
    used = {s for seed in range(50) for s in seeding.integers(seed, "environment", 16)}
    evaluated = {
        s
        for seed in range(50)
        for at in range(100, 2_000, 100)
        for s in seeding.integers(evaluation_seed(seed, at), "environment", 10)
    }
    assert not used & evaluated


@pytest.mark.slow
def test_long_rollouts_are_evaluated_once_for_several_reports() -> None:
    """A rollout of 160 steps passes five reports: their value is that of the agent after it."""
    listener = run(make_trial("ppo", params={"n_steps": 80}))
    values = [value for _, value in listener.reports[0]]
    assert values[:5] == [values[0]] * 5
    assert len(values) == 6  # the run is complete after the second rollout
    assert listener.outcomes[0].value == pytest.approx(values[5])


@pytest.mark.slow
def test_budget_in_episodes_ends_with_an_evaluation_of_every_run() -> None:
    trial = make_trial("ppo", env_steps=None, episodes=33, report_marks=(), environment=EnvironmentSpec(Plain))
    listener = run(trial)
    outcome = listener.outcomes[0]
    assert outcome.state == "complete"
    assert len(episodes(listener, 0)) == 66
    for seed in (0, 1):
        [end] = {r.env_steps for r in listener.records[0] if r.seed == seed and r.episode == 32}
        alone = trial.agent.build(seed)
        with Trainer(alone, trial.agent.environment) as trainer:
            trainer.train(episodes=33, progress=False)
            assert trainer.env_steps >= end
            assert outcome.seed_values[seed] == own_mean(alone, trial.agent.environment, seed, trainer.env_steps, 4)


@pytest.mark.slow
def test_reports_that_a_resumed_study_adds_are_not_evaluated_with_later_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first half has reports at 80 and 160 steps, its continuation every 40."""
    monkeypatch.setattr(checkpoints, "MAX_COST", 1e9)
    saving: dict[str, Any] = {"checkpoints": str(tmp_path), "checkpoint_seconds": 1e-9}
    environment = EnvironmentSpec("CartPole-v1")

    class Stopping(RecordingListener):
        def rung(self, env_steps: int, values: Any) -> Any:
            if env_steps == 160:
                raise KeyboardInterrupt
            return super().rung(env_steps, values)

    first = make_trial("ppo", environment=environment, report_marks=(80, 160, 320), **saving)
    with pytest.raises(KeyboardInterrupt):
        run(first, listener=Stopping())
    again = run(make_trial("ppo", environment=environment, report_marks=(*range(40, 321, 40),), **saving))
    at = [step for step, _ in again.reports[0]]
    assert 40 not in at
    assert at[-1] == 320


class Stops(Callback):
    """Stops the run of seed 0 after 100 steps."""

    of_members = True

    def on_step_end(self, trainer: Trainer) -> None:
        if trainer.env_steps == 100:
            trainer.stop("enough", 0)


def test_run_that_a_callback_stops_is_evaluated_at_its_end() -> None:
    listener = run(make_trial("ppo", callbacks=(Stops,), environment=EnvironmentSpec(Plain)))
    outcome = listener.outcomes[0]
    assert outcome.state == "complete"
    assert set(outcome.seed_values) == {0, 1}
    assert np.isfinite(list(outcome.seed_values.values())).all()


@pytest.mark.parametrize("alone", [False, True], ids=["population", "alone"])
def test_error_of_an_evaluation_environment_fails_its_trial_only(alone: bool) -> None:
    """The copies of the evaluations fail, of which the good trial has none that do."""
    Signs.made = 0
    bad = EnvironmentSpec(Signs, {"last": 8})  # seeds 0 and 1 of two trials, each in two copies
    fields: dict[str, Any] = {"why_alone": "it is a test."} if alone else {}
    listener = run(make_trial("ppo", 0, bad, **fields), make_trial("ppo", 1, bad, **fields))
    for number in range(2):
        assert listener.outcomes[number].state == "failed"
        assert listener.outcomes[number].failure == "environment"
        assert "the arm fell off" in listener.outcomes[number].reason


@pytest.mark.slow
def test_members_that_diverged_leave_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rate of 1e30 gives outputs that are infinite before, or in, an evaluation."""
    trials = [make_trial("ppo", 0, EnvironmentSpec(Plain)), make_trial("ppo", 1, EnvironmentSpec(Plain))]
    wild = make_trial("ppo", 2, EnvironmentSpec(Plain), params={"learning_rate": 1e30, "max_grad_norm": None})
    listener = run(*trials, wild)
    assert listener.outcomes[2].state == "failed"
    assert listener.outcomes[2].failure == "diverged"
    assert run(trials[0]).reports[0] == listener.reports[0]


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["ppo", "dqn"])
@pytest.mark.parametrize("killed_at", [32, 160])
def test_killed_trials_resume_with_their_evaluations(
    tmp_path: Path, agent: str, killed_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "MAX_COST", 1e9)
    monkeypatch.setattr("finder.trials.cohort.FLUSH_SECONDS", 0.0)

    class KilledError(BaseException):
        pass

    class Killing(RecordingListener):
        def rung(self, env_steps: int, values: Any) -> Any:
            if env_steps == killed_at:
                raise KilledError
            return super().rung(env_steps, values)

    environment = EnvironmentSpec("CartPole-v1")
    saving: dict[str, Any] = {"checkpoints": str(tmp_path), "checkpoint_seconds": 1e-9}
    whole = run(*(make_trial(agent, k, environment) for k in range(2)))
    trials = [make_trial(agent, k, environment, **saving) for k in range(2)]
    with pytest.raises(KilledError):
        run(*trials, listener=Killing())
    again = run(*trials)
    for number in range(2):
        assert again.reports[number] == whole.reports[number]
        assert again.outcomes[number].seed_values == whole.outcomes[number].seed_values
        assert episodes(again, number) == episodes(whole, number)
