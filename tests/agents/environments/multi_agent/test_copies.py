"""Tests of copies of joint environments: what cannot be copied is refused, and functions of a user's own are copied."""

from __future__ import annotations

import copy
import functools
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pettingzoo")

from gymnasium.utils import EzPickle
from several_agents import Countdown

from agents import EnvironmentSpec
from agents.environments import Environments
from agents.environments.multi_agent.copying import complete_copy
from agents.environments.multi_agent.wrappers import reward_done_func_ma


def a_handle() -> Any:
    """Return an object that cannot be pickled."""
    return (number for number in range(3))


class Drawn(Countdown, EzPickle):
    """Countdown with a window, and with an engine that has a state where `engine` says so."""

    def __init__(self, engine: bool) -> None:
        Countdown.__init__(self, with_state=False)
        EzPickle.__init__(self, engine)
        self.window = a_handle()
        self.engine = {"handle": a_handle()} if engine else None


def test_attributes_that_cannot_be_copied_are_as_the_constructor_makes_them():
    environment = EnvironmentSpec(Drawn, {"engine": False}).make()
    environment.reset(seed=0)
    environment.step(np.array([0, 0]))
    copied = copy.deepcopy(environment)
    assert copied.parallel.time == 1
    assert list(copied.parallel.window) == [0, 1, 2]


def test_parts_that_cannot_be_copied_are_an_error_and_no_hole_in_the_copy():
    environment = Drawn(engine=True)
    environment.reset(seed=0)
    with pytest.raises(TypeError, match="cannot pickle 'generator' object"):
        complete_copy(environment)
    together = Environments(EnvironmentSpec(Drawn, {"engine": True}), 2)
    together.reset([1, 2])
    assert together.get_state() is None


@pytest.mark.slow
def test_environments_of_box2d_begin_new_episodes():
    """A part of its world cannot be pickled: a copy would raise at its first step."""
    pytest.importorskip("Box2D")
    together = Environments(EnvironmentSpec("pettingzoo.sisl.multiwalker_v9:parallel_env"), 1)
    together.reset([1])
    assert together.get_state() is None


def test_environments_with_a_lambda_of_rewards_are_copied():
    own = functools.partial(
        reward_done_func_ma,
        function=lambda rewards, dones: ({agent: 2.0 * reward for agent, reward in rewards.items()}, dones),
    )
    together = Environments(EnvironmentSpec(Countdown, {"lives": (2, 4)}, wrappers=[own]), 2)
    together.reset([1, 2])
    together.step(np.zeros((2, 2), int))
    state = together.get_state()
    assert state is not None
    first = [together.step(np.zeros((2, 2), int)).rewards.tolist() for _ in range(6)]
    together.set_state(state)
    assert first == [together.step(np.zeros((2, 2), int)).rewards.tolist() for _ in range(6)]
    assert first[0] == [6.0, 6.0]
