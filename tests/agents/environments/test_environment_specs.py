"""Tests of environment specs: files and classes, wrappers by name, step limits, and their storage."""

import copyreg
import functools
import pickle

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import FrameStackObservation, TimeLimit

import agents
from agents.environments import Environments, EnvironmentSpec
from agents.environments.time_limits import time_limit
from agents.environments.wrappers import NamedWrapper, wrapper_text
from agents.errors import ConfigurationError
from agents.state_files.header import find, header_of

SOURCE = '''
import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import register


class Endless(gym.Env):
    """Never ends by itself."""

    def __init__(self, reward=1.0, render_mode=None):
        self.observation_space, self.action_space = spaces.Box(-1, 1, (2,)), spaces.Discrete(2)
        self.reward = reward

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.zeros(2, np.float32), self.reward, False, False, {}


class Doubled(gym.RewardWrapper):
    def __init__(self, env, by=2.0):
        super().__init__(env)
        self.by = by

    def reward(self, reward):
        return self.by * reward


NOTHING = 3
register("OfAFile-v0", Endless)
'''


@pytest.fixture
def source(tmp_path, monkeypatch):
    (tmp_path / "my_env.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    yield tmp_path / "my_env.py"
    gym.registry.pop("OfAFile-v0", None)


def first_episode(spec, **reset):
    """Return the return and the length of one episode."""
    environment = spec.make()
    environment.reset(seed=0, **reset)
    total, length, over = 0.0, 0, False
    while not over:
        _, reward, terminated, truncated, _ = environment.step(environment.action_space.sample())
        total, length, over = total + reward, length + 1, terminated or truncated
    environment.close()
    return total, length


# --- files and classes


@pytest.mark.parametrize("id", ["my_env.py:Endless", "my_env.py:OfAFile-v0"])
def test_environment_is_loaded_from_file(source, id):
    spec = EnvironmentSpec.of(id, {"reward": 3.0})
    assert spec.label == id
    assert first_episode(EnvironmentSpec(id, {"reward": 3.0}, max_episode_steps=5)) == (15.0, 5)
    assert pickle.loads(pickle.dumps(spec)) == spec


def test_environment_is_loaded_from_module():
    spec = EnvironmentSpec.of("gymnasium.envs.classic_control:CartPoleEnv")
    assert isinstance(spec.make(), gym.envs.classic_control.CartPoleEnv)
    assert EnvironmentSpec.of("gymnasium:CartPole-v1").make().spec.id == "CartPole-v1"


@pytest.mark.parametrize(
    ("id", "message"),
    [
        ("my_env.py", r"names no class: write my_env.py:Class. Environments in it: Endless"),
        ("my_env.py:Endles", r"nothing called 'Endles'. Environments in it: Endless"),
        ("my_env.py:NOTHING", r"neither a class nor a function: 3"),
        ("none.py:Endless", r"cannot be imported: .*no Python file 'none.py'"),
        ("gymnasium:CartPoleEnvv", "Unknown environment"),
        ("no_such_module:X", "cannot be imported"),
    ],
)
def test_missing_environments_are_refused(source, id, message):
    with pytest.raises(ConfigurationError, match=message):
        EnvironmentSpec.of(id)


def test_error_of_environment_file_is_reported(source):
    source.write_text("1 / 0")
    with pytest.raises(ConfigurationError, match="cannot be imported: ZeroDivisionError"):
        EnvironmentSpec.of("my_env.py:Endless")


# --- step limits


@pytest.mark.parametrize("n", [1, 16])
def test_step_limit_replaces_registered_limit(n):
    """For one copy (sync) and for many (native)."""
    environments = Environments(EnvironmentSpec("CartPole-v1", max_episode_steps=4), n)
    assert environments.kind == ("sync" if n == 1 else "native")
    environments.reset(range(n))
    steps = [environments.step(np.zeros(n, np.int64)) for _ in range(4)]
    assert [step.truncated.all() for step in steps] == [False, False, False, True]


def test_step_limit_may_exceed_registered_limit():
    spec = EnvironmentSpec("Pendulum-v1", max_episode_steps=250)
    assert first_episode(spec)[1] == 250


def test_step_limit_of_numpy_becomes_a_number_of_python():
    limit = EnvironmentSpec("CartPole-v1", max_episode_steps=np.int64(40)).max_episode_steps
    assert (limit, type(limit)) == (40, int)


@pytest.mark.parametrize("limit", [0, -1, 2.5, True, "40", np.float64(40), np.bool_(True)])
def test_invalid_step_limits_are_refused(limit):
    with pytest.raises(ConfigurationError, match="max_episode_steps must be a whole number >= 1"):
        EnvironmentSpec("CartPole-v1", max_episode_steps=limit)


# --- wrappers


@pytest.mark.parametrize(
    ("text", "place", "arguments"),
    [
        ("FrameStackObservation:stack_size=4", "FrameStackObservation", {"stack_size": 4}),
        ("AtariPreprocessing", "AtariPreprocessing", {}),
        ("a.b:C", "a.b:C", {}),
        ("a.b:C:x=1,y=[1,2],z=name", "a.b:C", {"x": 1, "y": [1, 2], "z": "name"}),
        ("/x/y.py:C:flag=true,other=False,no=null", "/x/y.py:C", {"flag": True, "other": False, "no": None}),
        ('TimeLimit:max_episode_steps=7,about={"a": 1}', "TimeLimit", {"max_episode_steps": 7, "about": {"a": 1}}),
    ],
)
def test_wrapper_texts_are_parsed(text, place, arguments):
    assert NamedWrapper.of(text) == NamedWrapper(place, arguments)


def test_wrappers_are_applied_in_order(source):
    wrappers = ("TimeLimit:max_episode_steps=3", "my_env.py:Doubled:by=5", "FrameStackObservation:stack_size=2")
    spec = EnvironmentSpec("my_env.py:Endless", wrappers=wrappers)
    made = spec.make()
    assert type(made) is FrameStackObservation
    assert made.observation_space.shape == (2, 2)
    assert first_episode(spec) == (15.0, 3)


def test_wrappers_may_be_partial_functions():
    spec = EnvironmentSpec("CartPole-v1", wrappers=[functools.partial(TimeLimit, max_episode_steps=2)])
    assert first_episode(spec)[1] == 2
    assert spec.described["wrappers"] == ("gymnasium.wrappers.common:TimeLimit:max_episode_steps=2",)
    again = EnvironmentSpec("CartPole-v1", wrappers=spec.described["wrappers"])
    assert first_episode(again)[1] == 2
    with pytest.raises(ConfigurationError, match="has no name"):
        wrapper_text(lambda environment: environment)
    assert wrapper_text(functools.partial(TimeLimit, max_episode_steps=np.int64(2))).endswith(":max_episode_steps=2")
    with pytest.raises(ConfigurationError, match=r"must be numbers, texts or lists of these .ufunc cannot be stored"):
        wrapper_text(functools.partial(TimeLimit, max_episode_steps=np.sign))
    with pytest.raises(ConfigurationError, match="must have its arguments by name"):
        wrapper_text(functools.partial(TimeLimit, 2))


def test_limits_of_wrappers_are_known(source):
    """Classes have no registration; a limit around a registered environment may be the second one."""
    limited = EnvironmentSpec("my_env.py:Endless", wrappers=("TimeLimit:max_episode_steps=5000",))
    assert time_limit(limited) == 5000
    assert time_limit(EnvironmentSpec("my_env.py:Endless")) is None
    assert time_limit(EnvironmentSpec("CartPole-v1", wrappers=("TimeLimit:max_episode_steps=7",))) == 7


@pytest.mark.parametrize(
    ("wrapper", "message"),
    [
        ("FrameStack:stack_size=4", "Unknown wrapper 'FrameStack'. Did you mean FrameStackObservation"),
        ("my_env.py:Missing", "The wrapper 'my_env.py:Missing' cannot be loaded: .*nothing called"),
        ("my_env.py:NOTHING", "neither a class nor a function"),
        (3, "must be a name such as"),
    ],
)
def test_missing_wrappers_are_refused(source, wrapper, message):
    with pytest.raises(ConfigurationError, match=message):
        EnvironmentSpec("CartPole-v1", wrappers=[wrapper])


@pytest.mark.parametrize(
    "wrapper", ["FrameStackObservation", "FrameStackObservation:stacksize=4", "AtariPreprocessing"]
)
def test_unsuitable_wrapper_is_refused_with_its_cause(wrapper):
    with pytest.raises(ConfigurationError, match=f"wrapper '{wrapper}' cannot be put around 'CartPole-v1': .*"):
        EnvironmentSpec("CartPole-v1", wrappers=[wrapper]).make()


def test_wrapper_without_environment_is_refused():
    with pytest.raises(ConfigurationError, match=r"must return a gymnasium\.Env, it returned 3"):
        EnvironmentSpec("CartPole-v1", wrappers=[lambda environment: 3]).make()


# --- storage


def test_pickled_specs_of_versions_before_wrappers_are_loaded():
    spec = EnvironmentSpec("CartPole-v1", {"sutton_barto_reward": True})
    state = {name: value for name, value in spec.__getstate__().items() if name in {"id", "kwargs", "vectorization"}}
    old = copyreg.__newobj__(EnvironmentSpec)
    old.__setstate__({**state, "registration": None})
    assert old == spec


@pytest.mark.slow
def test_checkpoint_contains_wrappers_and_limit(tmp_path, source):
    spec = EnvironmentSpec("my_env.py:Endless", {}, "sync", ["my_env.py:Doubled"], 4)
    agent = agents.make("ppo", spec, n_envs=2, n_steps=8, batch_size=8, n_epochs=1, hidden_sizes=(4,))
    with agents.Trainer(agent, callbacks=[agents.Checkpoint(tmp_path / "kept", every=16)]) as trainer:
        trainer.train(env_steps=16)
        assert trainer.history.returns[0] == 8.0
    header = header_of(find(tmp_path / "kept"))
    assert (header.wrappers, header.max_episode_steps) == (["my_env.py:Doubled"], 4)
    loaded = agents.load_agent(tmp_path / "kept")
    assert loaded.environment == spec
    assert agents.play(loaded)[0].length == 4
    other = agents.make(
        "ppo", EnvironmentSpec("my_env.py:Endless"), **{"n_envs": 2, "n_steps": 8, "hidden_sizes": (4,)}
    )
    with (
        agents.Trainer(other) as trainer,
        pytest.raises(ConfigurationError, match=r"another environment's wrappers: it has \['my_env.py:Doubled'\]"),
    ):
        agents.checkpoints.file.resume(trainer, tmp_path / "kept")


def test_described_contains_study_settings():
    spec = EnvironmentSpec("CartPole-v1", wrappers="TimeLimit:max_episode_steps=3", max_episode_steps=9)
    assert spec.described == {
        "env": "CartPole-v1", "env_kwargs": {}, "wrappers": ("TimeLimit:max_episode_steps=3",), "max_episode_steps": 9,
    }  # fmt: skip


def test_spaces_are_of_wrapped_environment():
    observation, _ = EnvironmentSpec("CartPole-v1", wrappers=["FrameStackObservation:stack_size=3"]).spaces()
    assert isinstance(observation, spaces.Box)
    assert observation.shape == (3, 4)


def test_arguments_of_a_partial_function_remain_beside_others():
    made = EnvironmentSpec.of(functools.partial(gym.make, "CartPole-v1", max_episode_steps=7))
    assert made.described["env"] == "make"
    assert time_limit(made) == 7
    assert time_limit(EnvironmentSpec.of(made, {"sutton_barto_reward": True})) == 7


def test_partial_function_with_other_arguments_has_the_name_of_its_function():
    wrapped = functools.partial(gym.make, gym.spec("CartPole-v1"))
    assert EnvironmentSpec.of(wrapped).label == EnvironmentSpec(wrapped).label == "make"
    assert EnvironmentSpec.of(functools.partial(wrapped, max_episode_steps=7)).make().spec.id == "CartPole-v1"
