"""Tests of all spaces of Gymnasium with every algorithm: each space is learned, or refused with advice.

Learned agents act in a plain Gymnasium loop with `predict` exactly as in `agents.play`.
"""

import importlib
import json
import re
import struct
import zlib

import cloudpickle
import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector.utils import concatenate, create_empty_array

import agents
from agents.contract.pickling import pickled, spec_of
from agents.contract.registry import ALGORITHMS, IMITATION, MULTI_AGENT
from agents.environments import EnvironmentSpec
from agents.environments.plain_space import plain_space, space_of_plain
from agents.environments.transforms import space_text
from agents.errors import ConfigurationError
from agents.state_files.header import find, header_of
from agents.state_files.plain_state import joined, split

SINGLE_AGENT = [name for name in ALGORITHMS if name not in (*MULTI_AGENT, *IMITATION)]

WIDE = np.float32
CONVOLUTIONS = [[4, 4, 4]]

VECTORS = {
    "box": spaces.Box(-1, 1, (3,)),
    "discrete": spaces.Discrete(3, start=2),
    "multi-discrete": spaces.MultiDiscrete([2, 3], start=[1, 5]),
    "multi-binary": spaces.MultiBinary(3),
    "dict": spaces.Dict({"a": spaces.Box(-1, 1, (2,)), "b": spaces.Discrete(2), "c": spaces.MultiBinary(2)}),
    "goal": spaces.Dict({name: spaces.Box(-1, 1, (2,)) for name in ("observation", "achieved_goal", "desired_goal")}),
    "tuple": spaces.Tuple([spaces.Discrete(2), spaces.Box(-1, 1, (2, 2)), spaces.Dict({"x": spaces.Discrete(3)})]),
    "integers": spaces.Box(0, 9, (3,), np.int64),
}
SEVERAL_AXES = {
    "2-D": spaces.Box(-1, 1, (3, 4)),
    "3-D": spaces.Box(-1, 1, (2, 3, 2)),
    "board": spaces.Box(0, 3, (4, 4), np.uint8),
}
IMAGES = {
    "channels last": spaces.Box(0, 255, (12, 14, 3), np.uint8),
    "channels first": spaces.Box(0, 255, (4, 12, 14), np.uint8),
    "grey": spaces.Box(0, 255, (40, 36), np.uint8),
    "frames in colour": spaces.Box(0, 255, (2, 40, 36, 3), np.uint8),
    "image in a dict": spaces.Dict({"pixels": spaces.Box(0, 255, (12, 14, 3), np.uint8)}),
}
NO_OBSERVATIONS = {
    "text": spaces.Text(4),
    "sequence": spaces.Sequence(spaces.Box(-1, 1, (2,))),
    "graph": spaces.Graph(spaces.Box(-1, 1, (2,)), None),
    "image among others": spaces.Dict({"pixels": spaces.Box(0, 255, (12, 12, 3), np.uint8), "a": spaces.Discrete(2)}),
}
DISCRETE = {"discrete": spaces.Discrete(3), "discrete from 1": spaces.Discrete(2, start=1)}
BOUNDED = {
    "box": spaces.Box(-1, 1, (2,)),
    "unequal": spaces.Box(np.array([-2, 0], WIDE), np.array([2, 0.5], WIDE)),
    "two axes": spaces.Box(-3, 1, (2, 2), np.float64),
}
UNBOUNDED = {"unbounded": spaces.Box(-np.inf, np.inf, (2,)), "half bounded": spaces.Box(0, np.inf, (1,))}
SEVERAL = {
    "multi-discrete": spaces.MultiDiscrete([2, 4, 3], start=[1, 0, -1]),
    "multi-binary": spaces.MultiBinary((2, 2)),
}
NO_ACTIONS = {
    "dict": spaces.Dict({"a": spaces.Discrete(2)}),
    "tuple": spaces.Tuple([spaces.Discrete(2), spaces.Box(-1, 1, (1,))]),
    "integers": spaces.Box(0, 5, (1,), np.int64),
}
OBSERVATIONS = {**VECTORS, **SEVERAL_AXES, **IMAGES}
ACTIONS = {**DISCRETE, **BOUNDED, **UNBOUNDED, **SEVERAL}

ON_POLICY = ("a2c", "ppo", "trpo")
TAKES = {name: {*DISCRETE, *BOUNDED, *UNBOUNDED, *SEVERAL} for name in ON_POLICY}
TAKES |= {name: set(DISCRETE) for name in ("acer", "dqn", "rainbow")}
TAKES |= {name: set(BOUNDED) for name in ("ddpg", "sac", "td3")}
USUAL = {name: "discrete" if "discrete" in takes else "box" for name, takes in TAKES.items()}
LENGTH = 7


class Kinds(gym.Env):
    """Environment with sampled observations that checks and records its actions."""

    log: list = []  # noqa: RUF012 - of all copies

    def __init__(self, observations, actions):
        self.observation_space, self.action_space = observations, actions

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(int(self.np_random.integers(1_000)))
        self.t = 0
        self.log.append(("reset", seed))
        return self.observation_space.sample(), {}

    def step(self, action):
        assert self.action_space.contains(action), (action, self.action_space)
        self.log.append(("step", np.array(action)))
        self.t += 1
        return self.observation_space.sample(), float(np.sum(action)), False, self.t >= LENGTH, {}

    def compute_reward(self, achieved, desired, info):
        return -float(np.abs(achieved - desired).sum())


def where(observations, actions):
    return EnvironmentSpec(Kinds, {"observations": observations, "actions": actions}, "sync")


def tiny(algorithm, environment, image=False, **params):
    small = {"n_envs": 2, "hidden_sizes": [8], "jit_compile": False}
    if image:
        small["convolutions"] = CONVOLUTIONS
    if algorithm in ON_POLICY:
        small |= {"n_steps": 8}
    else:
        small |= {"learning_starts": 8, "buffer_size": 200}
        small |= {"n_steps": 8} if algorithm == "acer" else {"batch_size": 8}
    if algorithm in ("ppo", "trpo"):
        small |= {"batch_size": 8}
    return agents.make(algorithm, environment, **small, **params)


def assert_predict_is_play(agent, spec, **how):
    """Assert that a plain loop with `predict` takes the same actions as `agents.play`."""
    explore = how.get("explore", False)
    state = agent.get_state()
    Kinds.log.clear()
    agents.play(agent, spec, n_episodes=2, **how)
    played = list(Kinds.log)
    agent.set_state(state)
    Kinds.log.clear()
    environment = spec.make_plain()
    observation, _ = environment.reset(seed=played[0][1])
    for _ in range(2):
        over = False
        while not over:
            action = agent.predict(observation, deterministic=not explore)
            observation, _, terminated, truncated, _ = environment.step(action)
            over = terminated or truncated
        observation, _ = environment.reset()
    assert [kind for kind, _ in Kinds.log] == [kind for kind, _ in played]
    for (_, ours), (kind, theirs) in zip(Kinds.log, played, strict=True):
        if kind == "step":
            np.testing.assert_array_equal(ours, theirs)
            assert ours.dtype == theirs.dtype


# --- observations


@pytest.mark.parametrize("kind", OBSERVATIONS)
@pytest.mark.parametrize("algorithm", SINGLE_AGENT)
def test_every_algorithm_acts_on_every_observation_space(algorithm, kind):
    spec = where(OBSERVATIONS[kind], ACTIONS[USUAL[algorithm]])
    agent = tiny(algorithm, spec, image=kind in IMAGES)
    assert_predict_is_play(agent, spec)
    batch = [spec.make_plain().reset(seed=seed)[0] for seed in range(3)]
    space = OBSERVATIONS[kind]
    together = agent.predict(concatenate(space, batch, create_empty_array(space, 3)))
    for one, several in zip(batch, together, strict=True):
        np.testing.assert_allclose(agent.predict(one), several, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["box", "tuple", "2-D", "channels first"])
@pytest.mark.parametrize(
    "algorithm", [a if a in ("dqn", "ppo", "ddpg") else pytest.param(a, marks=pytest.mark.slow) for a in SINGLE_AGENT]
)
def test_every_algorithm_trains_on_observation_spaces(algorithm, kind):
    spec = where(OBSERVATIONS[kind], ACTIONS[USUAL[algorithm]])
    agent = tiny(algorithm, spec, image=kind in IMAGES)
    with agents.Trainer(agent) as trainer:
        trainer.train(env_steps=48)
    assert agent.gradient_steps >= 2
    assert_predict_is_play(agent, spec)


@pytest.mark.parametrize("kind", NO_OBSERVATIONS)
def test_unsupported_observation_spaces_are_refused(kind):
    with pytest.raises(ConfigurationError, match="Environment 'Kinds' has ") as refused:
        where(NO_OBSERVATIONS[kind], ACTIONS["discrete"]).spaces()
    assert_advice_exists(str(refused.value))


@pytest.mark.parametrize(
    ("space", "wrapper"),
    [
        (spaces.Text(4), "FlattenObservation"),
        (NO_OBSERVATIONS["image among others"], 'FilterObservation:filter_keys=["pixels"]'),
        (NO_OBSERVATIONS["image among others"], 'FilterObservation:filter_keys=["a"]'),
    ],
)
def test_advised_wrappers_make_spaces_usable(space, wrapper):
    spec = EnvironmentSpec(Kinds, {"observations": space, "actions": ACTIONS["discrete"]}, "sync", [wrapper])
    agent = tiny("dqn", spec, image="pixels" in wrapper)
    assert_predict_is_play(agent, spec)


# --- actions


@pytest.mark.slow
@pytest.mark.parametrize("kind", ACTIONS)
@pytest.mark.parametrize("algorithm", SINGLE_AGENT)
def test_every_algorithm_takes_or_refuses_every_action_space(algorithm, kind):
    spec = where(VECTORS["box"], ACTIONS[kind])
    if kind not in TAKES[algorithm]:
        with pytest.raises(ConfigurationError, match=re.escape(space_text(ACTIONS[kind]))) as refused:
            tiny(algorithm, spec)
        assert "\n" not in str(refused.value)
        named = re.search(r"; ([\w, ]+) take these", str(refused.value))[1]
        advised = set(re.split(", | and ", named))
        assert advised == {name for name, takes in TAKES.items() if kind in takes}
        return
    agent = tiny(algorithm, spec)
    with agents.Trainer(agent) as trainer:
        trainer.train(env_steps=48)
    assert agent.gradient_steps >= 2
    assert_predict_is_play(agent, spec)
    assert_predict_is_play(agent, spec, explore=True)


@pytest.mark.parametrize("kind", NO_ACTIONS)
def test_unsupported_action_spaces_are_refused(kind):
    with pytest.raises(ConfigurationError, match="Environment 'Kinds' has the action space") as refused:
        where(VECTORS["box"], NO_ACTIONS[kind]).spaces()
    assert_advice_exists(str(refused.value))


def assert_advice_exists(message):
    """Assert that every name which a message advises can be imported."""
    assert "\n" not in message
    names = re.findall(r"gymnasium\.wrappers\.(\w+)", message)
    assert names, message
    for name in names:
        assert hasattr(importlib.import_module("gymnasium.wrappers"), name)


# --- predict


def test_predict_refuses_invalid_observations():
    agent = tiny("ppo", where(VECTORS["dict"], ACTIONS["discrete"]))
    good = agent.environment.make_plain().reset(seed=0)[0]
    for bad, message in [
        ({**good, "a": np.zeros(3)}, r"shape \(2,\) in 'a', or a batch of them, \('N', 2\); got \(3,\)"),
        ({"a": good["a"], "b": good["b"]}, r"has the part 'c'"),
        ({**good, "a": np.zeros((5, 2))}, r"do not fit together: 'a' is a batch, 'b' is one"),
    ]:
        with pytest.raises(ConfigurationError, match=message):
            agent.predict(bad)


def test_predict_normalises_observations():
    spec = where(VECTORS["box"], ACTIONS["unequal"])
    agent = tiny("ppo", spec, normalize_observations=True)
    with agents.Trainer(agent) as trainer:
        trainer.train(env_steps=64)
    assert_predict_is_play(agent, spec)


@pytest.mark.slow
def test_loaded_agent_predicts_from_stacked_frames(tmp_path):
    spec = EnvironmentSpec("Pendulum-v1", {}, "sync", ["FrameStackObservation:stack_size=3"], 5)
    agent = tiny("sac", spec)
    with agents.Trainer(agent, callbacks=[agents.Checkpoint(tmp_path, every=8)]) as trainer:
        trainer.train(env_steps=24)
    loaded = agents.load_agent(tmp_path)
    environment = gym.wrappers.FrameStackObservation(gym.make("Pendulum-v1", max_episode_steps=5), 3)
    observation, _ = environment.reset(seed=3)
    action = loaded.predict(observation)
    assert environment.action_space.contains(action)
    np.testing.assert_allclose(action, 2.0 * agent.act(observation[None])[0], rtol=1e-6)  # [-1, 1] spans [-2, 2]


def test_agent_of_old_checkpoint_takes_spaces_from_environment(tmp_path, monkeypatch):
    agent = tiny("ppo", where(VECTORS["discrete"], ACTIONS["discrete from 1"]))
    with agents.Trainer(agent, callbacks=[agents.Checkpoint(tmp_path, every=16)]) as trainer:
        trainer.train(env_steps=16)
    path, spec = find(tmp_path), spec_of(agent)
    header = {"kind": "training", "format": 1, **vars(header_of(path))}
    payload = cloudpickle.dumps({"spec": pickled(spec, spec), "trainer": trainer.get_state(environments=False)})
    encoded = json.dumps({**header, "crc": zlib.crc32(payload), "size": len(payload)}).encode()
    path.write_bytes(payload + encoded + struct.pack(">I8s", len(encoded), b"finder1\n"))
    assert agents.load_agent(path, trust=True).predict(2) in (1, 2)


@pytest.mark.parametrize("name", [*VECTORS, *SEVERAL_AXES, *ACTIONS])
def test_spaces_round_trip_as_plain_values(name):
    space = {**VECTORS, **SEVERAL_AXES, **ACTIONS}[name]
    parts = split(plain_space(space))
    arrays = iter(parts.arrays)
    again = space_of_plain(joined(json.loads(json.dumps(parts.tree)), lambda *_: next(arrays), []))
    assert (again, repr(again), parts.objects) == (space, repr(space), [])


def test_user_defined_space_is_not_plain():
    class Mine(spaces.Box):
        pass

    assert plain_space(spaces.Tuple([spaces.Discrete(2), Mine(-1, 1, (2,))])) is None


def test_agent_without_environment_predicts_in_its_own_spaces():
    agent = agents.contract.registry.agent_class("ppo")(spaces.Box(-1, 1, (3,)), spaces.Discrete(2))
    assert agent.predict(np.zeros(3, np.float32)) in (0, 1)
    assert agent.predict(np.zeros((4, 3), np.float32)).shape == (4,)


@pytest.mark.parametrize("made_for", [None, where(VECTORS["box"], ACTIONS["box"])], ids=["nothing", "another"])
def test_agent_predicts_in_spaces_of_training_environment(made_for, tmp_path):
    spec = where(VECTORS["dict"], ACTIONS["unequal"])
    like = tiny("ppo", spec)
    agent = type(like)(like.observation_space, like.action_space, like.config, environment=made_for)
    with agents.Trainer(agent, spec, callbacks=[agents.Checkpoint(tmp_path)]) as trainer:
        trainer.train(env_steps=16)
    assert_predict_is_play(agent, spec)
    assert_predict_is_play(agents.load_agent(tmp_path), spec)
