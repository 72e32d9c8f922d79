"""Tests of `Curriculum`: all copies of an environment move through its phases, in one process or several."""

from __future__ import annotations

import math
import os
import pickle
import signal
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit
from rays import WITH_RAY

from agents import AgentSpec, Callback, ConfigurationError, Curriculum, EnvironmentSpec, LambdaCallback, Pool, Trainer
from agents.population import Population

pytestmark = pytest.mark.usefixtures("one_ray_for_all")

KINDS = [
    "sync",
    pytest.param("async", marks=pytest.mark.real),
    pytest.param("ray", marks=[pytest.mark.real, WITH_RAY]),
]
PHASES = ("low", "middle", "high")
DQN = {"learning_starts": 10_000, "hidden_sizes": [4], "jit_compile": False, "n_envs": 2, "buffer_size": 4000}
IN_CHUNKS = {**DQN, "learning_starts": 4, "train_freq": 4}  # a pool collects four steps at a time


class Ladder(gym.Env[np.ndarray, int]):
    """Environment whose episodes have a random length and return the number of the phase in which they began.

    An observation is the number of this phase.
    """

    observation_space = spaces.Box(-1.0, 100.0, (1,), np.float32)
    action_space = spaces.Discrete(2)
    phases: Any = PHASES

    def __init__(self, raises_at: str | None = None, dies: tuple[str, str] | None = None) -> None:
        self.next_phase, self.phase, self.raises_at, self.dies = 0, 0, raises_at, dies

    def set_phase(self, phase: str) -> tuple[str, int]:
        if phase == self.raises_at:
            raise KeyError(f"no ladder is {phase}")
        self.next_phase = PHASES.index(phase) + 1
        return phase, os.getpid()

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.phase, self.t = self.next_phase, 0
        self.length = int(self.np_random.integers(1, 5))
        return np.array([self.phase], np.float32), {}

    def step(self, action: int) -> Any:
        self.t += 1
        if self.dies is not None and PHASES[self.phase - 1] == self.dies[0] and not Path(self.dies[1]).exists():
            Path(self.dies[1]).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        over = self.t == self.length
        return np.array([self.phase], np.float32), self.phase / self.length, over, False, {}


def wrapped(**arguments: Any) -> gym.Env[Any, Any]:
    return TimeLimit(Ladder(**arguments), 100)


class Phases(Callback):
    """Callback that records the phase of each episode, which is its return, with the steps of its beginning and end."""

    def __init__(self) -> None:
        self.episodes: list[tuple[int, int, int, int]] = []

    def on_episode_end(self, trainer: Trainer, episode: Any) -> None:
        began = episode.env_steps - episode.length * trainer.collector.n_envs
        self.episodes.append((episode.member, round(episode.episode_return), began, episode.env_steps))


def trained(
    kind: str = "sync", env_steps: int = 200, *, pool: Any = None, promote_at: Any = (1, 2), window: int = 5, **env: Any
) -> tuple[Curriculum, Phases]:
    curriculum, phases = Curriculum(PHASES, promote_at=promote_at, window=window), Phases()
    params = DQN if pool is None else IN_CHUNKS
    agent = AgentSpec.of("dqn", EnvironmentSpec(wrapped, env, kind), params).build(0)
    with Trainer(agent, callbacks=[curriculum, phases], pool=pool) as trainer:
        trainer.train(env_steps=env_steps)
    return curriculum, phases


def assert_moved_at_first_reset(curriculum: Curriculum, phases: Phases, ahead: int = 0) -> None:
    """Assert that the phase of every episode is the newest one before the episode began."""
    assert [move.phase for move in curriculum.moves] == list(PHASES)
    for _, phase, began, _ in phases.episodes:
        reached = [i for i, move in enumerate(curriculum.moves, 1) if move.env_steps < began or began == 0 == i - 1]
        sure = [i for i, move in enumerate(curriculum.moves, 1) if move.env_steps + ahead < began]
        assert max(sure, default=1) <= phase <= max(reached, default=1)
    assert {phase for _, phase, _, _ in phases.episodes} == {1, 2, 3}


@pytest.mark.parametrize("kind", KINDS)
def test_curriculum_moves_through_all_phases(kind: str):
    curriculum, phases = trained(kind)
    assert curriculum.phase == "high"
    assert_moved_at_first_reset(curriculum, phases)
    # Each phase needs five episodes, counting those that began in it.
    for move, before, phase in zip(curriculum.moves[1:], curriculum.moves, (1, 2), strict=False):
        own = [e for e in phases.episodes if e[1] == phase and e[3] <= move.env_steps]
        assert 5 <= len(own) <= 6  # an episode of another copy may have ended with the same step
        assert before.env_steps < move.env_steps
    assert str(curriculum.moves[0]) == "phase 'low' after 0 steps and 0 episodes"
    assert str(curriculum.moves[1]).endswith("episodes, as the mean return was 1")


@pytest.mark.real
@pytest.mark.parametrize("pool", [Pool(2), Pool(2, "async", chunk=3)], ids=lambda pool: pool.updates)
def test_curriculum_moves_environments_of_pool(pool: Pool):
    curriculum, phases = trained(pool=pool, promote_at=(0.9, 1.2))
    assert curriculum.phase == "high"
    assert_moved_at_first_reset(curriculum, phases, ahead=2 * 4 * 2)  # two chunks of steps of two copies
    # Episodes of an earlier phase were not counted, even if they ended after the move.
    assert [move.mean_return for move in curriculum.moves[1:]] == pytest.approx([1.0, 2.0])


def test_only_episodes_of_current_phase_are_counted():
    """A long episode begins before the move and ends after it, with a return above the next threshold."""

    class Late(Ladder):
        made = 0

        def __init__(self) -> None:
            super().__init__()
            self.first = Late.made == 1  # only in the second copy
            Late.made += 1

        def step(self, action: int) -> Any:
            observation, reward, over, truncated, info = super().step(action)
            if self.first:
                over = self.t == 20
                self.first = not over
                reward = 100.0
            return observation, reward, over, truncated, info

    agent = AgentSpec.of("dqn", Late, DQN).build(0)
    Late.made = 0
    curriculum = Curriculum(PHASES, promote_at=[1, 50], window=1)
    Trainer(agent, callbacks=[curriculum]).train(env_steps=200)
    assert [move.phase for move in curriculum.moves] == ["low", "middle"]


def test_curriculum_stays_below_unreached_threshold():
    curriculum, phases = trained(promote_at=[1, 2.5])
    assert curriculum.phase == "middle"
    assert phases.episodes[-1][1] == 2
    curriculum, _ = trained(promote_at=1.0, window=10_000)
    assert curriculum.phase == "low"


def test_population_members_move_independently():
    class Uneven(Ladder):
        """Environment without rewards in the copies of the second member."""

        made = 0

        def __init__(self) -> None:
            super().__init__()
            self.worth = 0.0 if Uneven.made in (2, 3) else 1.0
            Uneven.made += 1

        def step(self, action: int) -> Any:
            observation, reward, *rest = super().step(action)
            return observation, reward * self.worth, *rest

    spec = AgentSpec.of("dqn", Uneven, DQN)
    population = Population(spec, [{"seed": 0}, {"seed": 1}, {"seed": 2}])
    Uneven.made = 0
    curriculum = Curriculum(PHASES, promote_at=(1, 2), window=5)

    def leave(trainer: Trainer) -> None:
        if trainer.env_steps == 20:
            trainer.stop("enough", 0)

    trainer = Trainer(population, callbacks=[curriculum, LambdaCallback(on_step_end=leave)])
    trainer.train(env_steps=200)
    assert curriculum.phase_of(2) == "high"
    assert curriculum.phase_of(1) == "low"
    assert trainer.call_environments("get_wrapper_attr", "next_phase") == [1, 1, 3, 3]
    assert trainer.call_environments("get_wrapper_attr", "next_phase", member=2) == [3, 3]
    with pytest.raises(ValueError, match="not in"):
        trainer.call_environments("get_wrapper_attr", "next_phase", member=0)


def test_member_whose_environment_refuses_phase_fails_alone():
    class Uneven(Ladder):
        made = 0

        def __init__(self) -> None:
            super().__init__("middle" if Uneven.made == 0 else None)
            Uneven.made += 1

    population = Population(AgentSpec.of("dqn", Uneven, DQN), [{"seed": 0}, {"seed": 1}])
    Uneven.made = 0
    curriculum = Curriculum(PHASES, promote_at=(1, 2), window=5)
    trainer = Trainer(population, callbacks=[curriculum])
    trainer.train(env_steps=200)
    assert trainer.present == (1,)
    assert "cannot be moved to phase 'middle'" in str(trainer.runs[0].error)
    assert curriculum.phase_of(1) == "high"


# --- resuming


def train_and_resume(
    stop: int | None, kind: str, environments: bool = True, pool: Any = None
) -> tuple[Curriculum, Phases]:
    def begun() -> tuple[Trainer, Curriculum, Phases]:
        curriculum, phases = Curriculum(PHASES, promote_at=(1, 2), window=8), Phases()
        params = DQN if pool is None else IN_CHUNKS
        agent = AgentSpec.of("dqn", EnvironmentSpec(wrapped, {}, kind), params).build(0)
        return Trainer(agent, callbacks=[curriculum, phases], pool=pool), curriculum, phases

    trainer, curriculum, phases = begun()
    if stop is not None:
        trainer.train(env_steps=stop)
        kept = pickle.loads(pickle.dumps((trainer.get_state(environments=environments), trainer.callbacks.get_state())))
        trainer.close()
        before = phases.episodes
        trainer, curriculum, phases = begun()
        trainer.set_state(kept[0])
        trainer.callbacks.set_state(kept[1])
        phases.episodes = before
    with trainer:
        trainer.train(env_steps=120 - (stop or 0))
    return curriculum, phases


@pytest.mark.parametrize("stop", [10, 40, 60])
@pytest.mark.parametrize("pool", [None, pytest.param(2, marks=pytest.mark.real)])
def test_resumed_training_equals_uninterrupted_training(stop: int, pool: Any):
    whole, resumed = train_and_resume(None, "sync", pool=pool), train_and_resume(stop, "sync", pool=pool)
    assert whole[0].moves == resumed[0].moves
    assert len(whole[0].moves) == 3
    assert whole[1].episodes == resumed[1].episodes


@pytest.mark.parametrize("kind", KINDS)
def test_restarted_environments_begin_in_current_phase(kind: str):
    curriculum, phases = train_and_resume(60, kind, environments=False)
    reached = [i for i, move in enumerate(curriculum.moves, 1) if move.env_steps <= 60]
    assert len(reached) >= 2
    began = {phase for _, phase, began, _ in phases.episodes if began == 60}
    assert began == {max(reached)}


@pytest.mark.real
def test_replacement_collector_begins_in_current_phase(tmp_path: Path):
    curriculum, phases = trained(pool=2, env_steps=400, dies=("middle", str(tmp_path / "died")))
    assert (tmp_path / "died").exists()
    assert curriculum.phase == "high"
    assert 0 not in {phase for _, phase, _, _ in phases.episodes}
    assert_moved_at_first_reset(curriculum, phases, ahead=2 * 4 * 2)


def test_state_of_curriculum_with_other_phases_is_refused():
    curriculum, _ = trained()
    state = curriculum.get_state()
    with pytest.raises(ConfigurationError, match=r"in phase 'high', number 3 .* this one has 'low', 'middle'"):
        Curriculum(PHASES[:2], promote_at=1).set_state(state)
    with pytest.raises(ConfigurationError, match=r"in phase 'high', number 3"):
        Curriculum(PHASES[::-1], promote_at=1).set_state(state)
    other = Curriculum(PHASES, promote_at=1)
    other.set_state(pickle.loads(pickle.dumps(state)))
    assert other.phase == "high"
    assert other.moves == curriculum.moves


def test_second_training_begins_in_first_phase():
    curriculum = Curriculum(PHASES, promote_at=(1, 2), window=5)
    for _ in range(2):
        begun: list[str] = []
        recorder = LambdaCallback(on_rollout_begin=lambda _, begun=begun: begun.append(curriculum.phase))
        agent = AgentSpec.of("dqn", Ladder, DQN).build(0)
        Trainer(agent, callbacks=[curriculum, recorder]).train(env_steps=200)
        assert begun[0] == "low"
        assert [move.phase for move in curriculum.moves] == list(PHASES)


# --- validation errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"phases": ["low"]}, "at least two phases"),
        ({"phases": "low"}, "at least two phases"),
        ({"promote_at": [1.0]}, "one for each of the 2 phases before the last"),
        ({"promote_at": math.nan}, "promote_at must be a number"),
        ({"window": 0}, "window must be >= 1, got 0"),
    ],
)
def test_invalid_arguments_are_refused(arguments: dict[str, Any], message: str):
    with pytest.raises(ConfigurationError, match=message):
        Curriculum(**{"phases": PHASES, "promote_at": 1.0, **arguments})


def begin(environment: Any, curriculum: Curriculum, **params: Any) -> None:
    agent = AgentSpec.of("dqn", environment, {**DQN, **params}).build(0)
    with Trainer(agent, callbacks=[curriculum]) as trainer:
        trainer.train(env_steps=2)


@pytest.mark.parametrize("kind", KINDS)
def test_invalid_phases_are_refused_at_first_step(kind: str):
    with pytest.raises(ConfigurationError, match=r"'wrapped' has no phase 'hihg'; it has 'low', 'middle', 'high'"):
        begin(EnvironmentSpec(wrapped, {}, kind), Curriculum(["low", "hihg"], promote_at=1))
    with pytest.raises(ConfigurationError, match=r"phase 'low': set_phase\(\) raised KeyError: 'no ladder is low'"):
        begin(EnvironmentSpec(wrapped, {"raises_at": "low"}, kind), Curriculum(PHASES, promote_at=1))
    with pytest.raises(ConfigurationError, match=r"no method 'set_level' .*`def set_level\(self, phase\)"):
        begin(EnvironmentSpec(wrapped, {}, kind), Curriculum(PHASES, promote_at=1, method="set_level"))


def test_natively_vectorized_environments_are_refused():
    with pytest.raises(ConfigurationError, match=r"'native'\): use vectorization='sync'"):
        begin("CartPole-v1", Curriculum(PHASES, promote_at=1), n_envs=8)
    with pytest.raises(ConfigurationError, match="CartPole-v1' has no method 'set_phase'"):
        begin("CartPole-v1", Curriculum(PHASES, promote_at=1))


def test_error_of_later_phase_ends_training():
    with pytest.raises(ConfigurationError, match=r"cannot be moved to phase 'middle'.*no ladder is middle"):
        trained(raises_at="middle")
