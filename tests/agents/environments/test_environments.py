"""Tests of environments as specs and as batches: names, conversion of spaces, and ends of episodes."""

import pickle
import re

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

import agents
from agents.collection.collector import Collector
from agents.environments import Environments, EnvironmentSpec
from agents.environments.transforms import action_transform
from agents.errors import ConfigurationError, NonFiniteError, ObservationError


class Counter(gym.Env):
    """Environment whose observation is the number of steps; episodes end after `length`, terminated or truncated."""

    def __init__(self, *, observation_space=None, action_space=None, length=3, truncates=False, reward=1.0, start=0):
        self.observation_space = observation_space or spaces.Box(-1e6, 1e6, (1,), np.float64)
        self.action_space = action_space or spaces.Discrete(2)
        self.length, self.truncates, self.reward = length, truncates, reward
        self.base = start
        self.actions = []

    def _observation(self):
        value = self.base + self.t
        if isinstance(self.observation_space, spaces.Discrete):
            return self.observation_space.start + value
        return np.full(self.observation_space.shape, value, self.observation_space.dtype)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self._observation(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.actions.append(action)
        self.t += 1
        end = self.t >= self.length
        return self._observation(), self.reward, end and not self.truncates, end and self.truncates, {}


def counters(n_envs=2, **kwargs):
    return Environments(EnvironmentSpec(Counter, kwargs), n_envs)


def test_counter_passes_environment_checker():
    check_env(Counter(), skip_render_check=True)


# --- specs


def test_spec_of_ids_classes_and_functions():
    spec = EnvironmentSpec.of("CartPole-v1", {"sutton_barto_reward": True})
    assert (spec.label, spec.kwargs) == ("CartPole-v1", {"sutton_barto_reward": True})
    assert EnvironmentSpec.of(spec) is spec
    assert EnvironmentSpec.of(spec, {}).kwargs == {}
    assert EnvironmentSpec.of(Counter).label == "Counter"
    assert EnvironmentSpec.of(lambda: Counter(length=2)).label == "<lambda>"
    assert pickle.loads(pickle.dumps(spec)) == spec


def test_arguments_are_passed_to_environment():
    assert EnvironmentSpec(Counter, {"length": 9}).make().length == 9
    assert EnvironmentSpec("CartPole-v1", {"sutton_barto_reward": True}).make().unwrapped._sutton_barto_reward


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ("CartPol-v1", r"Unknown environment 'CartPol-v1'\. Did you mean CartPole-v1"),
        ("cartpole-v1", "Did you mean CartPole-v1"),
        ("CARTPOLE-V1", "Did you mean CartPole-v1"),
        ("CartPole", "CartPole-v1"),
        ("CartPole-v9", "CartPole-v1"),
        ("LunarLander-v2", "LunarLander-v3"),
        ("nowhere:CartPole-v1", "module 'nowhere' cannot be imported"),
        ("", "Unknown environment ''"),
        (3, "id or a function, got 3"),
        (None, "id or a function, got None"),
    ],
)
def test_unknown_environments_are_refused(environment, message):
    with pytest.raises(ConfigurationError, match=message):
        EnvironmentSpec.of(environment)


def test_environment_instance_is_refused():
    with pytest.raises(ConfigurationError, match=r"id or a function that makes it, not .*copies of their own"):
        EnvironmentSpec.of(Counter())


def failing():
    raise RuntimeError("no such level")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            EnvironmentSpec("CartPole-v1", {"gravity": 3}),
            r"'CartPole-v1' cannot be made with \{'gravity': 3\}: TypeError",
        ),
        (EnvironmentSpec(Counter, {"depth": 3}), "'Counter' cannot be made with .*depth"),
        (EnvironmentSpec(failing), "'failing' cannot be made with .*RuntimeError: no such level"),
        (EnvironmentSpec(dict), "'dict' must make a gymnasium.Env, or an environment of PettingZoo, it made {}"),
    ],
)
def test_errors_of_construction_are_reported(spec, message):
    with pytest.raises(ConfigurationError, match=message):
        spec.make()


def test_number_of_copies_below_one_is_refused():
    with pytest.raises(ConfigurationError, match="n_envs must be >= 1, got 0"):
        counters(0)


# --- observation spaces


def test_vectors_become_float32():
    environments = counters()
    assert environments.observation_space == spaces.Box(-1e6, 1e6, (1,), np.float32)
    observations = environments.reset([0, 1])
    assert (observations.dtype, observations.tolist()) == (np.float32, [[0.0], [0.0]])


def test_bounds_beyond_float32_become_infinite():
    largest = np.finfo(np.float64).max
    space, _ = EnvironmentSpec(Counter, {"observation_space": spaces.Box(-largest, largest, (1,), np.float64)}).spaces()
    assert np.isinf(space.low).all()
    assert np.isinf(space.high).all()


@pytest.mark.parametrize("start", [0, -3])
def test_discrete_observations_become_one_hot(start):
    environments = counters(observation_space=spaces.Discrete(4, start=start), length=2)
    assert environments.observation_space == spaces.Box(0.0, 1.0, (4,), np.float32)
    assert environments.reset([0, 1]).tolist() == [[1, 0, 0, 0]] * 2
    assert environments.step(np.zeros(2, np.int64)).successors.tolist() == [[0, 1, 0, 0]] * 2
    step = environments.step(np.zeros(2, np.int64))
    assert step.successors.tolist() == [[0, 0, 1, 0]] * 2  # final observations
    assert step.observations.tolist() == [[1, 0, 0, 0]] * 2  # first observations of the next episode


def test_binary_observations_become_float_vectors():
    environments = counters(observation_space=spaces.MultiBinary((2, 2)), length=2)
    assert environments.reset([0, 1]).tolist() == [[0.0] * 4] * 2
    assert environments.step(np.zeros(2, np.int64)).observations.tolist() == [[1.0] * 4] * 2


def test_images_stay_uint8():
    image = spaces.Box(0, 255, (4, 4, 3), np.uint8)
    environments = counters(observation_space=image, start=7)
    assert environments.observation_space == image
    observations = environments.reset([0, 1])
    assert (observations.dtype, observations.shape, observations.max()) == (np.uint8, (2, 4, 4, 3), 7)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Dict({"a": spaces.Tuple([spaces.Text(3)]), "b": spaces.Discrete(2)}),
        spaces.Text(3),
        spaces.Sequence(spaces.Discrete(2)),
    ],
)
def test_unsupported_observation_spaces_are_refused(space):
    with pytest.raises(ConfigurationError, match=r"Counter.* has the observation space .*Wrap the environment"):
        EnvironmentSpec(Counter, {"observation_space": space}).spaces()


# --- action spaces


@pytest.mark.parametrize("start", [0, 5, -1])
def test_discrete_actions_start_at_zero_for_agent(start):
    environments = counters(action_space=spaces.Discrete(2, start=start))
    assert environments.action_space == spaces.Discrete(2)
    environments.reset([0, 1])
    environments.step(np.array([0, 1]))
    assert [int(env.actions[0]) for env in environments._copies._environments] == [start, start + 1]


def test_box_actions_are_scaled_to_bounds():
    low, high = np.array([-2.0, 0.0], np.float32), np.array([6.0, 0.5], np.float32)
    environments = counters(4, action_space=spaces.Box(low, high))
    assert environments.action_space == spaces.Box(-1.0, 1.0, (2,), np.float32)
    environments.reset(range(4))
    environments.step(np.array([[-1, -1], [1, 1], [0, 0], [-99, 99]], np.float32))
    taken = [env.actions[0].tolist() for env in environments._copies._environments]
    assert taken == [[-2, 0], [6, 0.5], [2, 0.25], [-2, 0.5]]


bounds = st.floats(-1e6, 1e6, width=32)


@settings(max_examples=50, deadline=None)
@given(ends=st.tuples(bounds, bounds), action=st.floats(-10, 10, width=32))
def test_actions_stay_within_bounds(ends, action):
    space = spaces.Box(np.float32(min(ends)), np.float32(max(ends)), (1,))
    environments = counters(1, action_space=space)
    environments.reset([0])
    environments.step(np.array([[action]], np.float32))  # the environment checks the action against its space


def test_unbounded_actions_are_unchanged():
    environments = counters(1, action_space=spaces.Box(-np.inf, np.inf, (1,), np.float32))
    assert environments.action_space == spaces.Box(-np.inf, np.inf, (1,), np.float32)
    environments.reset([0])
    environments.step(np.array([[123.0]], np.float32))
    assert environments._copies._environments[0].actions[0].tolist() == [123.0]


def test_actions_with_one_bound_are_clipped_to_it():
    space = spaces.Box(np.array([0.0], np.float32), np.array([np.inf], np.float32))
    environments = counters(2, action_space=space)
    environments.reset([0, 1])
    environments.step(np.array([[-5.0], [50.0]], np.float32))
    assert [env.actions[0].item() for env in environments._copies._environments] == [0.0, 50.0]


def test_actions_of_several_axes_keep_dtype():
    environments = counters(1, action_space=spaces.Box(0.0, 1.0, (2, 3), np.float64))
    environments.reset([0])
    environments.step(np.full((1, 2, 3), 1.0, np.float32))
    assert environments._copies._environments[0].actions[0].dtype == np.float64


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(0, 5, (1,), np.int64),
        spaces.Tuple([spaces.Discrete(2)]),
    ],
)
def test_unsupported_action_spaces_are_refused(space):
    with pytest.raises(ConfigurationError, match=r"'Counter' has the action space .*MultiBinary and Box"):
        EnvironmentSpec(Counter, {"action_space": space}).spaces()


# --- the end of an episode


@pytest.mark.parametrize("truncates", [False, True])
def test_successor_is_final_observation_and_next_episode_begins(truncates):
    environments = counters(2, truncates=truncates, length=2, start=10)
    environments.reset([0, 1])
    first = environments.step(np.zeros(2, np.int64))
    assert first.successors is first.observations or (first.successors == first.observations).all()
    assert not (first.terminated | first.truncated).any()
    last = environments.step(np.zeros(2, np.int64))
    assert last.successors.tolist() == [[12.0], [12.0]]
    assert last.observations.tolist() == [[10.0], [10.0]]
    assert (last.terminated.tolist(), last.truncated.tolist()) == ([not truncates] * 2, [truncates] * 2)
    assert environments.step(np.zeros(2, np.int64)).successors.tolist() == [[11.0], [11.0]]  # no step is lost


def test_copies_end_independently():
    environments = counters(2, length=3)
    environments.reset([0, 1])
    environments._copies._environments[0].t = 1
    environments.step(np.zeros(2, np.int64))
    step = environments.step(np.zeros(2, np.int64))
    assert step.terminated.tolist() == [True, False]
    assert step.successors.tolist() == [[3.0], [2.0]]
    assert step.observations.tolist() == [[0.0], [2.0]]


def test_step_results_are_not_overwritten():
    """The vector environment reuses its arrays; returned steps must not change."""
    environments = counters(1, length=100)
    environments.reset([0])
    steps = [environments.step(np.zeros(1, np.int64)) for _ in range(3)]
    assert [step.observations.item() for step in steps] == [1.0, 2.0, 3.0]
    environments._copies._environments[0].length = 4
    environments.step(np.zeros(1, np.int64))
    assert [step.terminated.item() for step in steps] == [False, False, False]
    assert [step.rewards.item() for step in steps] == [1.0, 1.0, 1.0]


class Strange(Counter):
    """Environment with an observation outside of its declared space, at its reset or from a step on."""

    def __init__(self, *, observation, at_step, **kwargs):
        super().__init__(observation_space=spaces.Box(-1, 1, (4,), np.float32), length=3, **kwargs)
        self.strange, self.at_step = observation, at_step

    def _observation(self):
        return self.strange if self.t >= self.at_step else np.zeros(4, np.float32)


@pytest.mark.parametrize("vectorization", ["sync", "async"])
@pytest.mark.parametrize("strange", [np.ones(1, np.float32), np.ones((4, 1), np.float32), 1.0, [1.0, 2.0]])
def test_observation_of_wrong_shape_is_reported(strange, vectorization):
    """NumPy would broadcast such an observation without an error."""
    problem = f"an observation of shape {np.shape(strange)}, where its observation_space declares (4,)"
    environments = Environments(EnvironmentSpec(Strange, {"observation": strange, "at_step": 2}, vectorization), 2)
    environments.reset([0, 1])
    assert environments.step(np.zeros(2, np.int64)).errors == {}
    errors = environments.step(np.zeros(2, np.int64)).errors
    assert [str(errors[i]) for i in (0, 1)] == [
        f"Environment 'Strange' gave {problem} (copy {i}, step 2)." for i in (0, 1)
    ]
    environments.close()
    environments = Environments(EnvironmentSpec(Strange, {"observation": strange, "at_step": 0}, vectorization), 1)
    with pytest.raises(ObservationError, match=re.escape(f"'Strange' gave {problem} (at its first reset).")):
        environments.reset([0])
    environments.close()


NUMBERED = [
    (spaces.Discrete(3, start=1), 0),  # would select the last entry
    (spaces.Discrete(3), 3),
    (spaces.MultiDiscrete([2, 3]), np.array([2, 0])),  # would select the first entry of the second number
    (spaces.MultiDiscrete([2, 3], start=[0, 5]), np.array([0, 4])),
    (spaces.Dict({"place": spaces.Discrete(2), "flag": spaces.Discrete(2)}), {"place": 2, "flag": 0}),
]


class Numbered(gym.Env):
    """Environment with samples of its space and, in the second step of one episode, a value outside of it."""

    def __init__(self, space, strange, end=""):
        self.observation_space, self.action_space = space, spaces.Discrete(2)
        self.strange, self.end = strange, end

    def reset(self, *, seed=None, options=None):
        self.t, self.breaks = 0, seed == 1
        return self.observation_space.sample(), {}

    def step(self, action):
        self.t += 1
        breaks = self.breaks and self.t == 2
        end = self.end if breaks else ""
        seen = self.strange if breaks else self.observation_space.sample()
        return seen, 0.0, end == "terminates", end == "truncates", {}


@pytest.mark.parametrize("end", ["", "truncates"])
@pytest.mark.parametrize(("space", "strange"), NUMBERED)
def test_discrete_observation_out_of_range_is_reported(space, strange, end):
    environments = Environments(EnvironmentSpec(Numbered, {"space": space, "strange": strange, "end": end}, "sync"), 2)
    environments.reset([0, 1])
    assert environments.step(np.zeros(2, np.int64)).errors == {}
    step = environments.step(np.zeros(2, np.int64))
    assert {i: type(error) for i, error in step.errors.items()} == {1: ObservationError}
    assert re.search(
        r"'Numbered' gave the observation .*, which is not in (Multi)?Discrete\(.* \(copy 1, step 2\)",
        str(step.errors[1]),
    )
    assert step.observations[0].any()
    assert not step.successors[1].any()


def test_terminal_observation_out_of_range_is_ignored():
    """Nothing follows a terminal observation, as with observations of nan."""
    kwargs = {"space": spaces.Discrete(3), "strange": 3, "end": "terminates"}
    environments = Environments(EnvironmentSpec(Numbered, kwargs, "sync"), 2)
    environments.reset([0, 1])
    environments.step(np.zeros(2, np.int64))
    step = environments.step(np.zeros(2, np.int64))
    assert step.errors == {}
    assert (step.terminated[1], step.successors[1].any(), step.observations[1].any()) == (True, False, True)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_non_finite_observation_is_reported(value):
    strange = np.array([0, value, 0, value], np.float32)
    environments = Environments(EnvironmentSpec(Strange, {"observation": strange, "at_step": 2}, "sync"), 2)
    environments.reset([0, 1])
    environments.step(np.zeros(2, np.int64))
    step = environments.step(np.zeros(2, np.int64))
    assert isinstance(step.errors[1], NonFiniteError)
    assert str(step.errors[1]) == (
        f"Environment 'Strange' gave an observation with {value} in 2 of 4 places (copy 1, step 2)."
    )
    assert (step.observations == 0).all()  # the other copies of a population continue


def test_non_finite_first_observation_fails_with_next_step():
    """The reset itself does not fail, because other members of a population continue."""
    strange = np.full(4, np.nan, np.float32)
    environments = Environments(EnvironmentSpec(Strange, {"observation": strange, "at_step": 0}, "sync"), 1)
    assert (environments.reset([0]) == 0).all()
    assert "with nan in 4 of 4 places (copy 0, at its first reset)" in str(
        environments.step(np.zeros(1, int)).errors[0]
    )


def test_error_of_first_observation_follows_its_copy():
    class Third(Strange):
        made = 0

        def __init__(self):
            super().__init__(observation=np.full(4, np.nan, np.float32), at_step=0 if Third.made == 2 else 99)
            Third.made += 1

    environments = Environments(EnvironmentSpec(Third, {}, "sync"), 4)
    environments.reset(range(4))
    environments.select([1, 2])  # other copies have left before the first step
    errors = environments.step(np.zeros(2, int)).errors
    assert {i: "(copy 2, at its first reset)" in str(error) for i, error in errors.items()} == {1: True}


def test_huge_observations_are_accepted_without_warning():
    """Warnings are errors in these tests."""
    huge = np.full(4, 1e30, np.float32)
    environments = Environments(EnvironmentSpec(Strange, {"observation": huge, "at_step": 1}, "sync"), 2)
    environments.reset([0, 1])
    step = environments.step(np.zeros(2, int))
    assert step.errors == {}
    np.testing.assert_array_equal(step.observations, [huge, huge])


@pytest.mark.parametrize("truncates", [False, True])
def test_non_finite_final_observation_is_an_error_only_if_truncated(truncates):
    class Last(Counter):
        def _observation(self):
            return np.full(1, np.nan if self.t == self.length else 1.0)

    environments = Environments(EnvironmentSpec(Last, {"length": 1, "truncates": truncates}, "sync"), 1)
    environments.reset([0])
    step = environments.step(np.zeros(1, np.int64))
    assert (0 in step.errors) == truncates
    assert step.successors.tolist() == [[0.0]]


@pytest.mark.parametrize("what", ["shape", "number"])
def test_training_raises_observation_errors(what):
    strange = np.ones(1, np.float32) if what == "shape" else np.full(4, np.nan, np.float32)
    agent = agents.make("ppo", EnvironmentSpec(Strange, {"observation": strange, "at_step": 2}), n_envs=2, n_steps=8)
    with (
        agents.Trainer(agent) as trainer,
        pytest.raises((ObservationError, NonFiniteError), match=r"'Strange'.*step 2"),
    ):
        trainer.train(env_steps=32)


@pytest.mark.parametrize("reward", [float("nan"), float("inf"), -float("inf")])
def test_non_finite_rewards_are_reported(reward):
    environments = counters(2, reward=reward)
    environments.reset([0, 1])
    errors = environments.step(np.zeros(2, np.int64)).errors
    assert set(errors) == {0, 1}
    assert isinstance(errors[0], NonFiniteError)
    assert str(errors[0]) == f"Environment 'Counter' gave the reward {reward} (copy 0)."


class OldForm(Counter):
    """Environment that returns from `step` or `reset` what Gymnasium's interface does not have."""

    def __init__(self, *, stepped=None, started=None):
        super().__init__()
        self.stepped, self.started = stepped, started

    def reset(self, **arguments):
        began = super().reset(**arguments)
        return began if self.started is None else self.started

    def step(self, action):
        result = super().step(action)
        return result if self.stepped is None else self.stepped


@pytest.mark.parametrize("vectorization", ["sync", pytest.param("async", marks=pytest.mark.real)])
@pytest.mark.parametrize(
    ("stepped", "problem"),
    [
        ((0, 1.0, False, {}), "4 results from step, which must return five: observation, reward, terminated, "),
        (3.0, "one result from step, which must return five"),
        ((np.zeros(1, np.float32), "1", False, False, {}), "the reward '1', which is not a number"),
        ((np.zeros(1, np.float32), None, False, False, {}), "the reward None, which is not a number"),
        (
            (np.zeros(1, np.float32), np.zeros(2), False, False, {}),
            r"the reward array([0., 0.]), which is not a number",
        ),
    ],
)
def test_results_of_another_form_are_reported(stepped, problem, vectorization):
    environments = Environments(EnvironmentSpec(OldForm, {"stepped": stepped}, vectorization), 4, of_member=2)
    environments.reset(range(4))
    errors = environments.step(np.zeros(4, np.int64)).errors
    assert str(errors[3]).startswith(f"Environment 'OldForm' gave {problem}")
    assert str(errors[3]).endswith("(copy 1, step 1).")  # of its member
    environments.close()


@pytest.mark.parametrize("vectorization", ["sync", pytest.param("async", marks=pytest.mark.real)])
def test_too_few_results_are_reported_behind_wrappers(vectorization):
    spec = EnvironmentSpec(OldForm, {"stepped": (0, 1.0, False, {})}, vectorization, max_episode_steps=9)
    environments = Environments(spec, 1)
    environments.reset([0])
    assert str(environments.step(np.zeros(1, np.int64)).errors[0]) == (
        "Environment 'OldForm' gave 4 results from step, which must return five: observation, reward, terminated, "
        "truncated, info (copy 0, step 1)."
    )
    environments.close()


class Parts(Counter):
    """Environment whose observation lacks a part from a step on, or is none of parts."""

    def __init__(self, *, later):
        parts = spaces.Dict({"place": spaces.Box(-1, 1, (2,), np.float32), "load": spaces.Discrete(2)})
        super().__init__(observation_space=parts, length=9)
        self.later = later

    def _observation(self):
        return self.later if self.t else {"place": np.zeros(2, np.float32), "load": 0}


@pytest.mark.parametrize(
    ("later", "given"),
    [({"place": np.zeros(2, np.float32)}, "'place'"), (np.zeros(3, np.float32), "ndarray"), (None, "NoneType")],
)
def test_missing_parts_of_an_observation_are_reported(later, given):
    environments = Environments(EnvironmentSpec(Parts, {"later": later}, "sync"), 1)
    environments.reset([0])
    assert str(environments.step(np.zeros(1, np.int64)).errors[0]) == (
        f"Environment 'Parts' gave an observation of {given}, where its observation_space declares the parts 'load', "
        "'place' (copy 0, step 1)."
    )


@pytest.mark.parametrize("vectorization", ["sync", pytest.param("async", marks=pytest.mark.real)])
@pytest.mark.parametrize("reward", [1, True, np.float32(1), np.array(1.0), np.array([1.0]), np.int64(1)])
def test_numbers_of_any_type_are_rewards(reward, vectorization):
    ends = np.array([False])
    environments = Environments(
        EnvironmentSpec(OldForm, {"stepped": (np.zeros(1, np.float32), reward, ends, False, {})}, vectorization), 1
    )
    environments.reset([0])
    step = environments.step(np.zeros(1, np.int64))
    environments.close()
    assert (step.rewards.tolist(), step.errors) == ([1.0], {})


def test_rewards_that_learners_cannot_represent_are_refused():
    environments = Environments(
        EnvironmentSpec(OldForm, {"stepped": (np.zeros(1, np.float32), -1e39, False, False, {})}, "sync"), 1
    )
    environments.reset([0])
    assert "gave the reward -1e+39" in str(environments.step(np.zeros(1, np.int64)).errors[0])


def test_scaled_actions_are_within_the_bounds_of_the_environment():
    space = spaces.Box(-0.1, 0.3, (1,), np.float64)  # -0.1 + 0.4 is more than 0.3
    transform = action_transform(space, "it")
    for actions in (np.ones((2, 1), np.float32), np.ones(2, np.float32)):
        scaled = transform(actions)
        assert scaled.shape == (2, 1)
        assert all(space.contains(action) for action in scaled)


@pytest.mark.parametrize("vectorization", ["sync", pytest.param("async", marks=pytest.mark.real)])
def test_reset_without_info_is_reported(vectorization):
    two = np.zeros(2, np.float32)  # would be taken for the pair
    environments = Environments(EnvironmentSpec(OldForm, {"started": two}, vectorization), 1)
    with pytest.raises(ObservationError, match="'OldForm' gave no info at a reset: reset must return the observation"):
        environments.reset([0])
    environments.close()


def test_first_observations_outside_of_their_bounds_are_warned_of_once(caplog):
    class Far(Strange):
        pass

    far = {"observation": np.full(4, 7.0, np.float32), "at_step": 0}
    for _ in range(2):
        Environments(EnvironmentSpec(Far, far, "sync"), 2).reset([0, 1])
    assert [record.getMessage() for record in caplog.records] == [
        "Environment 'Far' begins with 7 in place 0 of its observation, which it declares to be from -1 to 1: training "
        "goes on, but one of both is wrong."
    ]


# --- seeds and state


def test_copies_and_runs_have_distinct_seeds():
    seeds = [Collector(EnvironmentSpec(Counter), 8, [seed])._seeds[0] for seed in range(20)]
    assert len({seed for run in seeds for seed in run}) == 8 * 20
    assert Collector(EnvironmentSpec(Counter), 8, [0, 1])._seeds == seeds[:2]
    # more copies keep the seeds of the first copies
    assert Collector(EnvironmentSpec(Counter), 9, [0])._seeds[0][:8] == seeds[0]


def test_restored_copies_continue_identically():
    environments = Environments(EnvironmentSpec("CartPole-v1"), 2)
    environments.reset([0, 1])
    rng = np.random.default_rng(0)
    state = environments.get_state()
    actions = rng.integers(0, 2, (60, 2))
    runs = []
    for _ in range(2):
        environments.set_state(state)
        runs.append([environments.step(action) for action in actions])
    assert any(step.terminated.any() for step in runs[0])  # random generators of the next episodes are restored too
    for one, other in zip(*runs, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
    environments.close()


def test_get_state_returns_none_for_lunar_lander():
    """A deep copy of LunarLander is a new environment without the state of the episode."""
    environments = Environments(EnvironmentSpec("LunarLander-v3"), 1)
    environments.reset([0])
    assert environments.get_state() is None
    environments.close()


def test_get_state_returns_none_for_environment_with_uncopyable_part():
    class Around(gym.Env):
        def __init__(self):
            self.inner = [gym.make("LunarLander-v3")]
            self.observation_space, self.action_space = self.inner[0].observation_space, self.inner[0].action_space

        def reset(self, *, seed=None, options=None):
            return self.inner[0].reset(seed=seed)

        def step(self, action):
            return self.inner[0].step(action)

    environments = Environments(EnvironmentSpec(Around), 1)
    environments.reset([0])
    assert environments.get_state() is None
    environments.close()


class Uncopyable(Counter):
    def __deepcopy__(self, memo):
        raise TypeError("a socket")


def test_get_state_returns_none_if_deepcopy_raises():
    environments = Environments(EnvironmentSpec(Uncopyable), 1)
    environments.reset([0])
    assert environments.get_state() is None


def test_id_may_name_module_that_registers_it(monkeypatch, tmp_path):
    (tmp_path / "registers_counter.py").write_text(
        "import gymnasium\nfrom gymnasium.envs.classic_control import CartPoleEnv\n"
        "gymnasium.register('Counter-v3', CartPoleEnv)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    try:
        spec = EnvironmentSpec.of("registers_counter:Counter-v3")
        assert spec.make().spec.id == "Counter-v3"
        with pytest.raises(ConfigurationError, match=r"Unknown environment 'Counter-v4'.*Counter-v3"):
            EnvironmentSpec.of("registers_counter:Counter-v4")
    finally:
        gym.registry.pop("Counter-v3", None)
