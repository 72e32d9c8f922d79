"""Tests of `on_trajectory`: callbacks rewrite the rewards of trajectories before the agent learns from them."""

from __future__ import annotations

import pickle
import threading
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import agents
from agents import AgentSpec, Callback, ConfigurationError, LambdaCallback, NonFiniteError, Trainer, Trajectory
from agents.buffers import Buffer, HindsightReplay, PrioritizedReplay, RewritingBuffer, RolloutBuffer, UniformReplay
from agents.buffers.join import SideBySide
from agents.contract.agent import Agent, UpdateMetrics
from agents.environments import EnvironmentSpec
from agents.environments.goals import Goals
from agents.population import Population


class Late(gym.Env[np.ndarray, int]):
    """Environment without rewards: `info` has the worth of each step. Copy i has episodes of `lengths[i]` steps.

    An observation is the episode and the step; step t of episode e is worth 10 e + t + 1.
    """

    observation_space = spaces.Box(-1e4, 1e4, (2,), np.float32)
    action_space = spaces.Discrete(2)
    made = 0

    def __init__(self, lengths: tuple[int, ...] = (3,), truncates: bool = False) -> None:
        self.length, self.truncates = lengths[Late.made % len(lengths)], truncates
        Late.made += 1
        self.episode = -1

    def _seen(self) -> np.ndarray:
        return np.array([self.episode, self.t], np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.episode += 1
        self.t = 0
        return self._seen(), {"worth": -1.0}

    def step(self, action: int) -> Any:
        self.t += 1
        info = {"worth": 10.0 * self.episode + self.t}
        end = self.t == self.length
        return self._seen(), 0.0, end and not self.truncates, end and self.truncates, info


@pytest.fixture(autouse=True)
def _count_from_zero() -> None:
    Late.made = 0


class RewardsFromFuture(Callback):
    """Callback that rewards each step with the worth of all steps from it on."""

    def __init__(self) -> None:
        self.seen: list[Trajectory] = []

    def on_trajectory(self, trainer: Trainer, trajectory: Trajectory) -> None:
        worth = [info["worth"] for info in trajectory.infos]
        trajectory.rewards += np.cumsum(worth[::-1], dtype=np.float32)[::-1]
        self.seen.append(trajectory)


def worth_from(episode: int, t: int, end: int) -> float:
    """Return the worth of the steps of an episode from t to `end`."""
    return float(sum(10 * episode + k + 1 for k in range(int(t), int(end))))


class Scripted(Agent):
    """Agent without networks that records the minibatches it learns from."""

    def __init__(self, n_envs: int, buffer: Any, seed: int = 0) -> None:
        super().__init__(Late.observation_space, Late.action_space, Agent.config_class(n_envs=n_envs), seed=seed)
        self.buffer = buffer
        self.learned: list[dict[str, np.ndarray]] = []
        self.taken: list[dict[str, np.ndarray]] = []
        self.prioritizes = False

    def act(self, observations, explore=True):
        return self.rng.integers(0, 2, len(observations))

    def make_buffer(self, n_envs, rng):
        return self.buffer(n_envs, rng)

    def preprocess_batch(self, data):
        self.taken.append(data)
        return data

    def update(self, batches):
        self.learned += [{name: values[row] for name, values in batches.data.items()} for row in batches.indices]
        self.gradient_steps += len(batches.indices)
        found = np.ones(batches.indices.shape) if self.prioritizes else None
        return UpdateMetrics({"default": np.ones(len(batches.indices))}, {}, priorities=found)

    optimizers: Any = {}  # noqa: RUF012 - it has none

    def get_learning_rate(self, optimizer="default"):
        return 1.0

    def set_learning_rate(self, learning_rate, optimizer=None):
        pass

    def set_hyperparameter(self, name, value, position=None):
        pass

    def reset(self, seed, values=None):
        pass

    def get_state(self):
        return {"rng": self.rng.bit_generator.state, "steps": self.gradient_steps}

    def set_state(self, state):
        self.rng.bit_generator.state, self.gradient_steps = state["rng"], state["steps"]


def replay(kind: Any = UniformReplay, **own: Any) -> Any:
    params = {"buffer_size": 400, "batch_size": 4, **own}
    return lambda n_envs, rng: kind(**params, n_envs=n_envs, rng=rng)


def rollout(n_steps: int = 4) -> Any:
    return lambda n_envs, rng: RolloutBuffer(n_steps=n_steps, rng=rng)


def trainer_of(
    buffer: Any, lengths: tuple[int, ...] = (3,), callbacks: Any = None, *, seed: int = 0, **env: Any
) -> Trainer:
    agent = Scripted(len(lengths), buffer, seed)
    agent.prioritizes = isinstance(buffer(1, np.random.default_rng(0)), PrioritizedReplay)
    callbacks = [RewardsFromFuture()] if callbacks is None else callbacks
    return Trainer(agent, EnvironmentSpec(Late, {"lengths": lengths, **env}), callbacks=callbacks)


# --- rewritten rewards


@pytest.mark.parametrize("kind", [UniformReplay, PrioritizedReplay])
def test_rewritten_rewards_are_stored_in_replay(kind: Any):
    trainer = trainer_of(replay(kind))
    trainer.train(env_steps=8)  # two episodes, and two steps that wait
    inner = trainer.buffer.buffer
    assert inner._added == 6
    np.testing.assert_array_equal(inner._arrays["rewards"][:6, 0], [1 + 2 + 3, 2 + 3, 3, 11 + 12 + 13, 12 + 13, 13])
    assert trainer.history.returns == [0.0, 0.0]  # returns of the environment's rewards


@pytest.mark.parametrize("kind", [UniformReplay, PrioritizedReplay])
@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize(("lengths", "truncates"), [((3,), False), ((2, 5), False), ((5, 2, 3), True)])
def test_replay_draws_only_rewritten_rewards(kind: Any, n_step: int, lengths: tuple[int, ...], truncates: bool):
    gamma = 0.5
    trainer = trainer_of(replay(kind, n_step=n_step, gamma=gamma), lengths, truncates=truncates)
    trainer.train(env_steps=60 * len(lengths))
    assert len(trainer.agent.learned) > 40
    rows = 0
    for batch in trainer.agent.learned:
        for (episode, t), reward, (_, following), steps in zip(
            batch["observations"], batch["rewards"], batch["next_observations"], batch["lengths"], strict=True
        ):
            ends = [length for length in lengths if following <= length and (following == length or steps == n_step)]
            sums = [sum(gamma**k * worth_from(episode, t + k, length) for k in range(int(steps))) for length in ends]
            assert reward in np.array(sums, np.float32)
            rows += 1
    assert rows > 160


def test_rollout_gives_parts_of_episodes():
    callback = RewardsFromFuture()
    trainer = trainer_of(rollout(4), (3, 6), [callback])
    trainer.train(env_steps=2 * 8)
    first, second = (data["rewards"] for data in trainer.agent.taken)  # [T, N]
    np.testing.assert_array_equal(first[:, 0], [6, 5, 3, 11])  # an episode, and the first step of the next one
    np.testing.assert_array_equal(first[:, 1], [10, 9, 7, 4])  # four of six steps
    np.testing.assert_array_equal(second[:, 0], [25, 13, 21 + 22, 22])
    np.testing.assert_array_equal(second[:, 1], [11, 6, 11 + 12, 12])
    received = [(one.environment, len(one.rewards), one.begins, one.ends) for one in callback.seen]
    assert received == [
        *((0, 3, True, True), (0, 1, True, False), (1, 4, True, False)),
        *((0, 2, False, True), (1, 2, False, True), (0, 2, True, False), (1, 2, True, False)),
    ]


def test_trajectory_contains_recorded_steps():
    callback = RewardsFromFuture()
    trainer = trainer_of(replay(), (3, 2), [callback], truncates=True)
    trainer.train(env_steps=12)
    assert [(one.environment, len(one.rewards)) for one in callback.seen] == [(1, 2), (0, 3), (1, 2), (0, 3), (1, 2)]
    one = callback.seen[3]
    np.testing.assert_array_equal(one.observations, [[1, 0], [1, 1], [1, 2]])
    np.testing.assert_array_equal(one.next_observations, [[1, 1], [1, 2], [1, 3]])
    assert one.truncated.tolist() == [False, False, True]
    assert not one.terminated.any()
    assert one.infos == [{"worth": 11.0}, {"worth": 12.0}, {"worth": 13.0}]  # without the info of the reset
    assert (one.begins, one.ends, one.member) == (True, True, 0)
    assert one.actions.shape == (3,)
    for name in ("observations", "actions", "next_observations", "terminated", "truncated"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(one, name)[0] = 0


def test_on_trajectory_precedes_on_episode_end_and_updates():
    log: list[str] = []
    recorder = LambdaCallback(
        on_trajectory=lambda trainer, one: log.append(f"trajectory at {trainer.env_steps}"),
        on_episode_end=lambda trainer, episode: log.append("episode"),
        on_update_begin=lambda trainer: log.append("update"),
    )
    trainer_of(replay(), (2,), [recorder]).train(env_steps=4)
    assert log == [
        *("trajectory at 2", "episode", "update", "update", "trajectory at 4", "episode", "update", "update"),
    ]


def test_rewards_may_be_replaced_by_several_callbacks_in_turn():
    def others(_: Trainer, trajectory: Trajectory) -> None:
        trajectory.rewards = [1, 2, 3]

    def doubled(_: Trainer, trajectory: Trajectory) -> None:
        trajectory.rewards = 2.0 * np.asarray(trajectory.rewards, np.float64)

    trainer = trainer_of(rollout(3), (3,), [LambdaCallback(on_trajectory=f) for f in (others, doubled)])
    trainer.train(env_steps=3)
    assert sorted(trainer.agent.learned[0]["rewards"].tolist()) == [2, 4, 6]
    assert trainer.agent.learned[0]["rewards"].dtype == np.float32


# --- number and order of updates


@pytest.mark.parametrize("lengths", [(3,), (5, 2)])
@pytest.mark.parametrize("train_freq", [1, 3])
def test_number_of_updates_is_unchanged_by_rewriting(lengths: tuple[int, ...], train_freq: int):
    n = len(lengths)
    buffer = replay(learning_starts=7, train_freq=train_freq, gradient_steps=2)
    without, rewriting = (trainer_of(buffer, lengths, callbacks) for callbacks in ([], None))
    for trainer in (without, rewriting):
        trainer.train(env_steps=60 * n)  # all episodes end at this step
    assert rewriting.buffer.buffer._added == without.buffer._added == 60
    assert rewriting.agent.gradient_steps == without.agent.gradient_steps > 30


def test_updates_see_same_number_of_steps_as_without_rewriting():
    """The replay receives a step only after the previous update."""
    sizes: dict[bool, list[int]] = {}
    for rewrites in (False, True):
        own = sizes.setdefault(rewrites, [])
        size_recorder = LambdaCallback(
            on_update_begin=lambda t, own=own: own.append(getattr(t.buffer, "buffer", t.buffer)._added)
        )
        trainer = trainer_of(replay(train_freq=2), (6,), [size_recorder, *([RewardsFromFuture()] if rewrites else [])])
        trainer.train(env_steps=30)
    assert sizes[True] == sizes[False] == list(range(2, 31, 2))


def test_priorities_are_updated_before_next_addition():
    trainer = trainer_of(replay(PrioritizedReplay, buffer_size=8, train_freq=1), (4,))
    calls: list[str] = []
    inner = trainer.buffer.buffer

    def recording(name: str, call: Any) -> Any:
        return lambda *arguments: (calls.append(name), call(*arguments))[1]

    for name in ("add", "sample", "update_priorities"):
        setattr(inner, name, recording(name, getattr(inner, name)))
    trainer.train(env_steps=8)
    assert calls == ["add", "sample", "update_priorities"] * 8


def test_replay_is_not_wrapped_without_on_trajectory():
    trainer = trainer_of(replay(), callbacks=[LambdaCallback(on_step_end=lambda _: None)])
    trainer.train(env_steps=4)
    assert isinstance(trainer.buffer, UniformReplay)
    assert trainer.collector.step(trainer.agent).infos is None


@pytest.mark.parametrize("stops_at", [1, 3])
def test_pending_updates_are_made_by_next_train(stops_at: int):
    def stop(trainer: Trainer, _: Any) -> None:
        if trainer.agent.gradient_steps == stops_at:
            trainer.stop("enough")

    trainer = trainer_of(replay(), (6,), [RewardsFromFuture(), LambdaCallback(on_update_end=stop)])
    trainer.train(env_steps=6)
    assert trainer.agent.gradient_steps == stops_at
    trainer.train(env_steps=6)
    assert trainer.agent.gradient_steps == 12


# --- populations


@pytest.mark.slow
def test_training_resumes_correctly_after_callback_error():
    class Once(RewardsFromFuture):
        raised = False

        def on_trajectory(self, trainer: Trainer, trajectory: Trajectory) -> None:
            if len(self.seen) == 2 and not self.raised:
                self.raised = True
                raise RuntimeError("once")
            super().on_trajectory(trainer, trajectory)

    def training(callback: RewardsFromFuture) -> Trainer:
        Late.made = 0
        params = {"learning_starts": 8, "batch_size": 4, "hidden_sizes": [4], "train_freq": 2, "jit_compile": False}
        return Trainer(agents.make("dqn", EnvironmentSpec(Late, {"lengths": (3,)}), **params), callbacks=[callback])

    expected, trainer = training(RewardsFromFuture()), training(Once())
    expected.train(env_steps=24)
    with pytest.raises(RuntimeError, match="once"):
        trainer.train(env_steps=24)
    assert len(trainer.history.returns) == 3
    again = training(RewardsFromFuture())
    again.set_state(trainer.get_state())
    again.train(env_steps=24 - again.env_steps)
    assert [each[:4] for each in again.history.episodes] == [each[:4] for each in expected.history.episodes]
    np.testing.assert_array_equal(
        again.buffer.buffer._arrays["rewards"][:24], expected.buffer.buffer._arrays["rewards"][:24]
    )


def test_population_members_have_their_own_trajectories():
    callback = RewardsFromFuture()
    params = {
        "learning_starts": 8,
        "batch_size": 8,
        "hidden_sizes": [4],
        "train_freq": 2,
        "jit_compile": False,
        "n_envs": 2,
    }
    spec = AgentSpec.of("dqn", EnvironmentSpec(Late, {"lengths": (3, 2, 4, 1)}), params)
    population = Population(spec, [{"seed": 0}, {"seed": 1}])
    Late.made, lengths = 0, (3, 2, 4, 1)
    trainer = Trainer(population, callbacks=[callback])
    trainer.train(env_steps=2 * 24)
    of = {(one.member, one.environment, len(one.rewards)) for one in callback.seen}
    assert of == {(i // 2, i % 2, length) for i, length in enumerate(lengths)}
    inner = trainer.buffer.buffer
    assert inner._added == 24
    stored = inner._arrays
    for column, length in enumerate(lengths):
        seen = stored["observations"][:24, column]
        np.testing.assert_array_equal(stored["rewards"][:24, column], [worth_from(e, t, length) for e, t in seen])


def test_member_leaves_while_steps_wait():
    def stop(trainer: Trainer) -> None:
        if trainer.env_steps == 8 and len(trainer.present) == 2:
            trainer.stop("enough", 0)

    params = {"learning_starts": 8, "batch_size": 8, "hidden_sizes": [4], "jit_compile": False, "n_envs": 1}
    spec = AgentSpec.of("dqn", EnvironmentSpec(Late, {"lengths": (100, 3)}), params)
    callback = RewardsFromFuture()
    population = Population(spec, [{"seed": 0}, {"seed": 1}])
    Late.made = 0
    trainer = Trainer(population, callbacks=[callback, LambdaCallback(on_step_end=stop)])
    trainer.train(env_steps=12)
    inner = trainer.buffer.buffer
    assert inner._added == 12  # nothing was passed on during the episode of the first member
    assert {one.member for one in callback.seen} == {1}
    np.testing.assert_array_equal(inner._arrays["rewards"][:12, 0], [6, 5, 3, 36, 25, 13, 66, 45, 23, 96, 65, 33])


def test_member_with_nan_rewards_fails_alone():
    def set_invalid_rewards(_: Trainer, trajectory: Trajectory) -> None:
        if trajectory.member == 1:
            trajectory.rewards[1] = np.nan

    params = {"n_envs": 2, "n_steps": 8, "batch_size": 8, "n_epochs": 1, "hidden_sizes": [4], "jit_compile": False}
    spec = AgentSpec.of("ppo", EnvironmentSpec(Late), params)
    trainer = Trainer(
        Population(spec, [{"seed": 0}, {"seed": 1}, {"seed": 2}]),
        callbacks=[LambdaCallback(on_trajectory=set_invalid_rewards)],
    )
    trainer.train(env_steps=64)
    assert trainer.present == (0, 2)
    assert isinstance(trainer.runs[1].error, NonFiniteError)
    assert "on_trajectory" in str(trainer.runs[1].error)
    assert trainer.env_steps == 64
    assert trainer.agent.gradient_steps == 8  # two minibatches for each rollout of two members


class Plain(Buffer):
    """Buffer of a user that gives all rows in one minibatch."""

    off_policy = True
    member_axis = 0

    def __init__(self) -> None:
        self.rows: list[Any] = []

    def add(self, transition: Any) -> None:
        self.rows.append(transition)

    @property
    def due(self) -> bool:
        return False

    def take(self) -> Any:
        raise AssertionError

    def batches(self, data: Any) -> Any:
        raise AssertionError

    def get_state(self) -> Any:
        return {"rows": self.rows}

    def set_state(self, state: Any) -> None:
        self.rows = state["rows"]


def test_custom_buffer_receives_rewritten_rewards():
    trainer = trainer_of(lambda n, rng: Plain(), (3, 2))
    trainer.train(env_steps=14)
    rows = trainer.buffer.buffer.rows
    assert [row.rewards.tolist() for row in rows] == [[6, 3], [5, 2], [3, 23], [36, 12], [25, 43], [13, 22]]
    assert SideBySide([Plain(), Plain()]).off_policy


# --- states


def parts(value: Any, path: str = "") -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [leaf for key in sorted(value, key=str) for leaf in parts(value[key], f"{path}.{key}")]
    if isinstance(value, list | tuple):
        return [leaf for i, item in enumerate(value) for leaf in parts(item, f"{path}[{i}]")]
    return [] if "wall_seconds" in path or path.startswith((".runs", ".collector.environments")) else [(path, value)]


def assert_same(one: Any, other: Any) -> None:
    pairs = list(zip(parts(one), parts(other), strict=True))
    assert len(pairs) > 10
    for (path, a), (where, b) in pairs:
        assert path == where
        assert np.array_equal(a, b), path


DQN = {"learning_starts": 8, "batch_size": 8, "hidden_sizes": [4], "jit_compile": False, "n_envs": 2, "buffer_size": 60}
PPO = {"n_envs": 2, "n_steps": 8, "batch_size": 8, "n_epochs": 1, "hidden_sizes": [4], "jit_compile": False}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "params"),
    [("dqn", DQN), ("dqn", {**DQN, "replay": "prioritized", "n_step": 3, "train_freq": 3}), ("ppo", PPO)],
)
@pytest.mark.parametrize("steps", [26, 30])
def test_resumed_run_equals_uninterrupted_run(algorithm: str, params: dict[str, Any], steps: int):
    def begun(seed: int = 3) -> Trainer:
        Late.made = 0
        environment = EnvironmentSpec(Late, {"lengths": (7, 4)})
        return Trainer(AgentSpec.of(algorithm, environment, params).build(seed), callbacks=[RewardsFromFuture()])

    straight, stopped = begun(), begun()
    straight.train(env_steps=80)
    stopped.train(env_steps=steps)
    assert stopped.buffer._slots
    state = pickle.loads(pickle.dumps(stopped.get_state()))
    resumed = begun(seed=0)
    resumed.set_state(state)
    resumed.train(env_steps=80 - steps)
    assert resumed.agent.gradient_steps > stopped.agent.gradient_steps
    assert_same(straight.get_state(), resumed.get_state())
    received = [
        [(one.environment, one.begins, one.ends, one.rewards.tolist()) for one in run.callbacks.callbacks[0].seen]
        for run in (straight, stopped, resumed)
    ]
    assert received[0] == received[1] + received[2]


def test_waiting_steps_are_truncated_when_environments_restart():
    trainer = trainer_of(replay(), (7, 5))
    trainer.train(env_steps=2 * 4)
    state = trainer.get_state(environments=False)
    callback = RewardsFromFuture()
    other = trainer_of(replay(), (7, 5), [callback])
    other.set_state(state)
    assert not callback.seen  # not yet: a resume restores the state of callbacks after this
    other.train(env_steps=2)
    assert [(one.environment, len(one.rewards), one.begins, one.ends) for one in callback.seen] == [
        *((0, 4, True, True), (1, 4, True, True)),
    ]
    assert callback.seen[0].truncated.tolist() == [False, False, False, True]
    np.testing.assert_array_equal(other.buffer.buffer._arrays["rewards"][:4], [[10, 10], [9, 9], [7, 7], [4, 4]])
    assert other.buffer.buffer._arrays["truncated"][3].all()
    other.train(env_steps=2 * 4)
    assert (callback.seen[2].environment, callback.seen[2].begins, len(callback.seen[2].rewards)) == (1, True, 5)


def test_mark_truncated_without_waiting_steps_reaches_inner_buffer():
    handed: list[Trajectory] = []
    inner = UniformReplay(buffer_size=20, batch_size=2, n_envs=2, rng=np.random.default_rng(0), learning_starts=99)
    buffer = RewritingBuffer(RolloutLike(inner), 1, 2, handed.append)
    buffer.add(step(0.0))
    assert not buffer._slots
    buffer.mark_truncated([1])
    assert inner._arrays["truncated"][0].tolist() == [False, True]
    buffer.add(step(1.0))
    assert [(one.environment, one.begins) for one in handed] == [(0, True), (1, True), (0, False), (1, True)]


class RolloutLike(RewritingBuffer):
    """Buffer that takes steps one by one although it is not off-policy."""

    off_policy = False

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer

    computes_rewards = False
    steps_until_ready = 1

    def add(self, transition: Any, infos: Any = ()) -> None:
        self.buffer.add(transition)

    def cut(self, environments: Any = None) -> None:
        self.buffer.mark_truncated(environments)


def step(value: float) -> Any:
    nothing = np.zeros(2, bool)
    observations = np.full((2, 2), value, np.float32)
    return agents.buffers.Transition(
        observations, np.zeros(2, np.int64), np.zeros(2, np.float32), observations, nothing, nothing
    )


def test_state_with_waiting_steps_is_refused_without_rewriting():
    trainer = trainer_of(replay())
    trainer.train(env_steps=2)
    with pytest.raises(ConfigurationError, match="training rewrote trajectories"):
        trainer_of(replay(), callbacks=[]).set_state(trainer.get_state())
    other = trainer_of(replay(), callbacks=[])
    other.train(env_steps=2)
    rewriting = trainer_of(replay())
    rewriting.set_state(other.get_state())  # rewrites from the next step on
    rewriting.train(env_steps=4)
    np.testing.assert_array_equal(rewriting.buffer.buffer._arrays["rewards"][:6, 0], [0, 0, 3, 36, 25, 13])


def test_infos_that_cannot_be_pickled_are_refused():
    trainer = trainer_of(replay(), callbacks=[RewardsFromFuture()])
    trainer.train(env_steps=1)
    trainer.buffer._slots[0].infos[0]["lock"] = threading.Lock()
    with pytest.raises(ConfigurationError, match=r"info cannot be pickled"):
        trainer.get_state()


# --- validation errors


@pytest.mark.parametrize(
    ("rewards", "error", "message"),
    [
        ([1.0, 2.0], ConfigurationError, r"on_trajectory must leave one reward per step.*\(3,\); it left \(2,\)"),
        (np.zeros((3, 1)), ConfigurationError, r"it left \(3, 1\)"),
        (["a", "b", "c"], ConfigurationError, "are not numbers"),
        ([1.0, np.nan, 2.0], NonFiniteError, r"on_trajectory left the reward nan \(step 1 of 3"),
        ([1.0, 1e300, 2.0], NonFiniteError, "on_trajectory left the reward inf"),
    ],
)
@pytest.mark.parametrize("buffer", [replay(), rollout(3)])
def test_invalid_rewards_are_refused(buffer: Any, rewards: Any, error: type[Exception], message: str):
    def set_invalid_rewards(_: Trainer, trajectory: Trajectory) -> None:
        trajectory.rewards = rewards

    trainer = trainer_of(buffer, callbacks=[LambdaCallback(on_trajectory=set_invalid_rewards)])
    with pytest.raises(error, match=message):
        trainer.train(env_steps=6)
    assert not trainer.agent.learned


def test_hindsight_replay_is_refused_with_on_trajectory():
    def buffer(n_envs: int, rng: Any) -> Any:
        goals = Goals(slice(0, 1), slice(1, 2), lambda a, b: (a[:, 0], b[:, 0] > 0))
        return HindsightReplay(goals=goals, buffer_size=10, batch_size=2, n_envs=n_envs, rng=rng)

    with pytest.raises(ConfigurationError, match="HindsightReplay computes the rewards"):
        trainer_of(buffer)


def test_pool_is_refused_with_on_trajectory():
    with pytest.raises(ConfigurationError, match=r"on_trajectory.*train without a pool"):
        Trainer(AgentSpec.of("dqn", "CartPole-v1", DQN).build(0), callbacks=[RewardsFromFuture()], pool=2)


def test_later_callback_with_on_trajectory_is_refused():
    trainer = trainer_of(replay(), callbacks=[])
    with (
        pytest.raises(ConfigurationError, match="passed to the trainer's constructor"),
        trainer.with_listeners(RewardsFromFuture()),
    ):
        pass
    with trainer_of(replay()) as listening, listening.with_listeners(RewardsFromFuture()):
        listening.train(env_steps=3)  # both callbacks add to the rewards
    np.testing.assert_array_equal(listening.buffer.buffer._arrays["rewards"][:3, 0], [12, 10, 6])


# --- training


@pytest.mark.real
def test_async_environments_give_same_trajectories():
    runs = []
    for kind in ("sync", "async"):
        callback = RewardsFromFuture()
        environment = EnvironmentSpec(Late, {"lengths": (4,)}, kind)
        with Trainer(AgentSpec.of("ppo", environment, PPO).build(1), callbacks=[callback]) as trainer:
            trainer.train(env_steps=48)
            runs.append((trainer.agent.get_state()["networks"], [one.rewards.tolist() for one in callback.seen]))
    assert runs[0][1] == runs[1][1]
    assert_same({"networks": runs[0][0], "more": list(range(10))}, {"networks": runs[1][0], "more": list(range(10))})


class DelayedInfo(gym.Env[np.ndarray, int]):
    """Environment whose best action is the observation; `info` gives the correct actions after all ten steps."""

    observation_space = spaces.Discrete(3)
    action_space = spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.right: list[bool] = []
        self.shown = self.np_random.integers(3)
        return self.shown, {}

    def step(self, action: int) -> Any:
        self.right.append(bool(action == self.shown))
        self.shown = self.np_random.integers(3)
        over = len(self.right) == 10
        return self.shown, 0.0, over, False, {"right": self.right} if over else {}


def add_delayed_rewards(_: Trainer, trajectory: Trajectory) -> None:
    trajectory.rewards += np.asarray(trajectory.infos[-1]["right"], np.float32)


@pytest.mark.slow
@pytest.mark.learns
def test_dqn_learns_from_delayed_rewards():
    shares = []
    params = {
        "learning_starts": 200,
        "hidden_sizes": [32],
        "learning_rate": 3e-3,
        "gamma": 0.0,
        "exploration_steps": 800,
    }
    for callbacks in ([], [LambdaCallback(on_trajectory=add_delayed_rewards)]):
        agent = AgentSpec.of("dqn", DelayedInfo, {**params, "jit_compile": False}).build(0)
        Trainer(agent, callbacks=callbacks).train(env_steps=2000)
        shown = np.eye(3, dtype=np.float32)
        shares.append(float(np.mean(agent.act(shown, explore=False) == np.arange(3))))
    assert shares[0] < 0.9
    assert shares[1] == 1.0
