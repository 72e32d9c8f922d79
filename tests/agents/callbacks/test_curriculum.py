"""A curriculum moves all copies of an environment through phases, wherever they are stepped."""

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

from agents import AgentSpec, Callback, ConfigurationError, Curriculum, EnvironmentSpec, LambdaCallback, Pool, Trainer
from agents.population import Population

PHASES = ("low", "middle", "high")
DQN = {"learning_starts": 10_000, "hidden_sizes": [4], "jit_compile": False, "n_envs": 2, "buffer_size": 4000}
IN_CHUNKS = {**DQN, "learning_starts": 4, "train_freq": 4}  # which is as much as a pool collects at a time


class Ladder(gym.Env[np.ndarray, int]):
    """Episodes of as many steps as the number of the phase and the copy's own; each gives the phase's number.

    An observation says the phase in which the episode began.
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
    """The phase of each episode, as its return tells it, with the steps at which it began and ended."""

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


def assert_moved_at_the_first_reset_after(curriculum: Curriculum, phases: Phases, ahead: int = 0) -> None:
    """The phase of every episode is the one that was reached before it began."""
    assert [move.phase for move in curriculum.moves] == list(PHASES)
    for _, phase, began, _ in phases.episodes:
        reached = [i for i, move in enumerate(curriculum.moves, 1) if move.env_steps < began or began == 0 == i - 1]
        sure = [i for i, move in enumerate(curriculum.moves, 1) if move.env_steps + ahead < began]
        assert max(sure, default=1) <= phase <= max(reached, default=1)
    assert {phase for _, phase, _, _ in phases.episodes} == {1, 2, 3}


@pytest.mark.parametrize("kind", ["sync", pytest.param("async", marks=pytest.mark.real)])
def test_moves_through_its_phases(kind: str):
    curriculum, phases = trained(kind)
    assert curriculum.phase == "high"
    assert_moved_at_the_first_reset_after(curriculum, phases)
    # Of each phase five episodes were needed, of those that began in it.
    for move, before, phase in zip(curriculum.moves[1:], curriculum.moves, (1, 2), strict=False):
        own = [e for e in phases.episodes if e[1] == phase and e[3] <= move.env_steps]
        assert 5 <= len(own) <= 6  # another copy's episode may have ended with the same step
        assert before.env_steps < move.env_steps
    assert str(curriculum.moves[0]) == "phase 'low' after 0 steps and 0 episodes"
    assert str(curriculum.moves[1]).endswith("episodes, as the mean return was 1")


@pytest.mark.real
@pytest.mark.parametrize("pool", [Pool(2), Pool(2, "async", chunk=3)], ids=lambda pool: pool.updates)
def test_moves_the_environments_of_a_pool(pool: Pool):
    curriculum, phases = trained(pool=pool, promote_at=(0.9, 1.2))
    assert curriculum.phase == "high"
    assert_moved_at_the_first_reset_after(curriculum, phases, ahead=2 * 4 * 2)  # two chunks of steps of two copies
    # None of an earlier phase was among those that were counted, though it ended after the move.
    assert [move.mean_return for move in curriculum.moves[1:]] == pytest.approx([1.0, 2.0])


def test_only_episodes_of_the_present_phase_count():
    """A long episode that began before the move ends after it, with a return that would move on at once."""

    class Late(Ladder):
        made = 0

        def __init__(self) -> None:
            super().__init__()
            self.first = Late.made == 1  # the second copy's
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


def test_a_threshold_that_is_not_reached_holds_it():
    curriculum, phases = trained(promote_at=[1, 2.5])
    assert curriculum.phase == "middle"
    assert phases.episodes[-1][1] == 2
    curriculum, _ = trained(promote_at=1.0, window=10_000)
    assert curriculum.phase == "low"


def test_members_of_a_population_move_each_for_itself():
    class Uneven(Ladder):
        """The second member's copies give nothing."""

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


def test_a_member_whose_environment_cannot_be_moved_fails_alone():
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


# --- going on


def through(stop: int | None, kind: str, environments: bool = True, pool: Any = None) -> tuple[Curriculum, Phases]:
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
def test_a_resumed_training_is_the_one_that_was_never_stopped(stop: int, pool: Any):
    whole, resumed = through(None, "sync", pool=pool), through(stop, "sync", pool=pool)
    assert whole[0].moves == resumed[0].moves
    assert len(whole[0].moves) == 3
    assert whole[1].episodes == resumed[1].episodes


@pytest.mark.parametrize("kind", ["sync", pytest.param("async", marks=pytest.mark.real)])
def test_environments_that_begin_anew_begin_in_the_phase_that_was_reached(kind: str):
    curriculum, phases = through(60, kind, environments=False)
    reached = [i for i, move in enumerate(curriculum.moves, 1) if move.env_steps <= 60]
    assert len(reached) >= 2
    began = {phase for _, phase, began, _ in phases.episodes if began == 60}
    assert began == {max(reached)}


@pytest.mark.real
def test_a_process_that_takes_the_place_of_another_is_in_the_phase_that_was_reached(tmp_path: Path):
    curriculum, phases = trained(pool=2, env_steps=400, dies=("middle", str(tmp_path / "died")))
    assert (tmp_path / "died").exists()
    assert curriculum.phase == "high"
    assert 0 not in {phase for _, phase, _, _ in phases.episodes}
    assert_moved_at_the_first_reset_after(curriculum, phases, ahead=2 * 4 * 2)


def test_a_curriculum_of_others_does_not_go_on():
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


def test_another_training_begins_at_the_first_phase():
    curriculum = Curriculum(PHASES, promote_at=(1, 2), window=5)
    for _ in range(2):
        begun: list[str] = []
        notes = LambdaCallback(on_rollout_begin=lambda _, begun=begun: begun.append(curriculum.phase))
        agent = AgentSpec.of("dqn", Ladder, DQN).build(0)
        Trainer(agent, callbacks=[curriculum, notes]).train(env_steps=200)
        assert begun[0] == "low"
        assert [move.phase for move in curriculum.moves] == list(PHASES)


# --- what is refused


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
def test_a_curriculum_that_is_none(arguments: dict[str, Any], message: str):
    with pytest.raises(ConfigurationError, match=message):
        Curriculum(**{"phases": PHASES, "promote_at": 1.0, **arguments})


def begin(environment: Any, curriculum: Curriculum, **params: Any) -> None:
    agent = AgentSpec.of("dqn", environment, {**DQN, **params}).build(0)
    with Trainer(agent, callbacks=[curriculum]) as trainer:
        trainer.train(env_steps=2)


@pytest.mark.parametrize("kind", ["sync", pytest.param("async", marks=pytest.mark.real)])
def test_wrong_phases_are_refused_at_the_beginning(kind: str):
    with pytest.raises(ConfigurationError, match=r"'wrapped' has no phase 'hihg'; it has 'low', 'middle', 'high'"):
        begin(EnvironmentSpec(wrapped, {}, kind), Curriculum(["low", "hihg"], promote_at=1))
    with pytest.raises(ConfigurationError, match=r"phase 'low': set_phase\(\) raised KeyError: 'no ladder is low'"):
        begin(EnvironmentSpec(wrapped, {"raises_at": "low"}, kind), Curriculum(PHASES, promote_at=1))
    with pytest.raises(ConfigurationError, match=r"no method 'set_level' .*`def set_level\(self, phase\)"):
        begin(EnvironmentSpec(wrapped, {}, kind), Curriculum(PHASES, promote_at=1, method="set_level"))


def test_copies_that_are_stepped_as_one_are_refused():
    with pytest.raises(ConfigurationError, match=r"'native'\): use vectorization='sync'"):
        begin("CartPole-v1", Curriculum(PHASES, promote_at=1), n_envs=8)
    with pytest.raises(ConfigurationError, match="CartPole-v1' has no method 'set_phase'"):
        begin("CartPole-v1", Curriculum(PHASES, promote_at=1))


def test_a_phase_that_fails_later_ends_the_training():
    with pytest.raises(ConfigurationError, match=r"cannot be moved to phase 'middle'.*no ladder is middle"):
        trained(raises_at="middle")
