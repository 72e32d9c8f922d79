"""Tests of goal environments, rewards of goal pairs and hindsight replay."""

import copy

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env
from movements import assert_same_movement, values_of

import agents
from agents import AgentSpec, EnvironmentSpec, Trainer, evaluate
from agents.buffers import HindsightReplay, Transition, join
from agents.environments.bit_flip import BitFlip
from agents.environments.goals import Goals, goals_of
from agents.errors import ConfigurationError
from agents.population import Population
from agents.population.saved_values import loaded_values

BITS = "agents.environments.bit_flip:BitFlip-v0"
SMALL = {"hidden_sizes": (8,), "jit_compile": False, "learning_starts": 20, "batch_size": 8, "replay": "hindsight"}


class Parts(gym.Env):
    """Environment with a dictionary observation of all kinds of spaces that can be flattened together."""

    observation_space = spaces.Dict(
        {
            "position": spaces.Box(-2.0, 3.0, (2, 2), np.float64),
            "gear": spaces.Discrete(3, start=1),
            "lamps": spaces.MultiBinary(2),
        }
    )
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return {"position": np.arange(4.0).reshape(2, 2), "gear": 2, "lamps": np.array([1, 0])}, {}

    def step(self, action):
        return self.reset()[0], 0.0, True, False, {}


class Line(gym.Env):
    """Walk on whole numbers from 0 with the unreachable desired goal 100; the reward is minus the distance."""

    action_space = spaces.Discrete(2)
    observation_space = spaces.Dict(
        {
            name: spaces.Box(-np.inf, np.inf, (1,), np.float32)
            for name in ("observation", "achieved_goal", "desired_goal")
        }
    )

    def __init__(self, length=5, single=False):
        self.length, self.single = length, single

    def _seen(self):
        at = np.array([self.at], np.float32)
        return {"observation": at, "achieved_goal": at, "desired_goal": np.array([100.0], np.float32)}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = self.t = 0
        return self._seen(), {}

    def step(self, action):
        self.at += 1 if action else -1
        self.t += 1
        return self._seen(), -abs(100.0 - self.at), False, self.t == self.length, {}

    def compute_reward(self, achieved, desired, info):
        if self.single and np.ndim(achieved) != 1:
            raise TypeError("one pair at a time")
        distance = np.abs(np.asarray(desired) - achieved)[..., 0]
        return -float(distance) if self.single else -distance


def double_distance(achieved, desired):
    """Return minus twice the distance, and terminations at close goals, as a goal function of a user does."""
    distance = np.abs(achieved - desired)[:, 0]
    return -2 * distance, distance < 0.5


def constant_fifty(achieved, desired):
    return np.full(len(achieved), -50.0), np.zeros(len(achieved), bool)


def wrong_shapes(achieved, desired):
    return np.zeros(2), np.zeros(2)


# --- dictionary observations


def test_dict_observation_is_flattened_in_order_of_names():
    environment = EnvironmentSpec(Parts).make()
    assert environment.places == {"gear": slice(0, 3), "lamps": slice(3, 5), "position": slice(5, 9)}
    observation, _ = environment.reset(seed=0)
    np.testing.assert_array_equal(observation, np.array([0, 1, 0, 1, 0, 0, 1, 2, 3], np.float32))
    assert observation.dtype == np.float32
    assert environment.observation_space.contains(observation)
    np.testing.assert_array_equal(environment.observation_space.high, [1] * 5 + [3] * 4)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_agent_trains_on_dict_observations(kind):
    agent = agents.make("ppo", EnvironmentSpec(Parts, {}, kind), n_envs=2, n_steps=8, batch_size=8, jit_compile=False)
    with Trainer(agent) as trainer:
        assert trainer.train(env_steps=32).history.returns
    assert evaluate(agent, n_episodes=2).shape == (2,)


def test_image_within_dict_observation_is_refused():
    class Seeing(Parts):
        observation_space = spaces.Dict({"eye": spaces.Box(0, 255, (36, 36, 3), np.uint8), "arm": spaces.Discrete(2)})

    with pytest.raises(ConfigurationError, match=r"'Seeing' has an image, 'eye', among other parts"):
        EnvironmentSpec(Seeing).make()


# --- goals


def test_goal_pairs_give_rewards_and_terminations():
    environment = EnvironmentSpec(BITS, {"n_bits": 2}).make()
    goals = goals_of(environment, "bits")
    assert (goals.achieved, goals.desired) == (slice(0, 2), slice(2, 4))
    rewards, ended = goals.judge(np.array([[0, 1], [1, 1]]), np.array([[0, 1], [0, 1]]))
    np.testing.assert_array_equal(rewards, [0, -1])
    np.testing.assert_array_equal(ended, [True, False])


@pytest.mark.parametrize("single", [True, False])
def test_compute_reward_takes_single_pairs_or_batches(single):
    goals = goals_of(EnvironmentSpec(Line, {"single": single}).make(), "line")
    rewards, ended = goals.judge(np.array([[1.0], [5.0]]), np.array([[3.0], [5.0]]))
    assert (rewards.tolist(), rewards.dtype) == ([-2, 0], np.float32)
    assert ended.tolist() == [False, False]


def test_custom_goal_function_gives_rewards_and_terminations():
    goals = goals_of(EnvironmentSpec(Line).make(), "line", f"{__name__}:double_distance")
    rewards, ended = goals.judge(np.array([[1.0], [5.0]]), np.array([[3.0], [5.0]]))
    assert (rewards.tolist(), ended.tolist()) == ([-4, 0], [False, True])


def test_goal_function_may_be_the_function_itself():
    config = AgentSpec.of(
        "dqn", EnvironmentSpec(Line), {"replay": "hindsight", "goal_function": double_distance}
    ).config
    assert config.goal_function == f"{__name__}:double_distance"
    agents.make("dqn", EnvironmentSpec(Line), replay="hindsight", goal_function=double_distance)
    with pytest.raises(ConfigurationError, match="has no name that identifies it"):
        AgentSpec.of("dqn", EnvironmentSpec(Line), {"replay": "hindsight", "goal_function": lambda a, d: (a, d)})


def test_environment_without_goals_is_refused_with_missing_parts():
    with pytest.raises(
        ConfigurationError, match=r"'CartPole-v1' has no achieved_goal, no desired_goal, no observation"
    ):
        agents.make("dqn", "CartPole-v1", replay="hindsight")

    class Mute(gym.Env):
        observation_space, action_space = Line.observation_space, Line.action_space

    with pytest.raises(ConfigurationError, match=r"'Mute' has no compute_reward\(achieved_goal.*goal_function"):
        agents.make("dqn", EnvironmentSpec(Mute), replay="hindsight")
    for name, message in (("nowhere:f", "No module"), (f"{__name__}:nothing", "nothing"), ("f", "write module:name")):
        with pytest.raises(ConfigurationError, match=message):
            agents.make("dqn", EnvironmentSpec(Line), replay="hindsight", goal_function=name)
    with pytest.raises(ConfigurationError, match=r"returned shapes \(2,\) and \(2,\)"):
        agents.make("dqn", EnvironmentSpec(Line), replay="hindsight", goal_function=f"{__name__}:wrong_shapes")


def test_goals_of_different_sizes_are_refused():
    class Uneven(Line):
        observation_space = spaces.Dict({**Line.observation_space.spaces, "desired_goal": spaces.Box(-1.0, 1.0, (3,))})

    with pytest.raises(ConfigurationError, match=r"the same size; in 'Uneven', achieved_goal has 1 .* desired_goal 3"):
        agents.make("dqn", EnvironmentSpec(Uneven), replay="hindsight")


def test_bit_flip_environment():
    check_env(BitFlip(3), skip_render_check=True)
    environment = BitFlip(3)
    seen, _ = environment.reset(seed=0)
    wrong_bits = np.flatnonzero(seen["achieved_goal"] != seen["desired_goal"])
    for bit in wrong_bits[:-1]:
        _, reward, terminated, truncated, _ = environment.step(bit)
        assert (reward, terminated, truncated) == (-1, False, False)
    seen, reward, terminated, truncated, info = environment.step(wrong_bits[-1])
    assert (reward, terminated, truncated, info["is_success"]) == (0, True, False, True)
    np.testing.assert_array_equal(seen["achieved_goal"], seen["desired_goal"])
    with pytest.raises(ValueError, match="n_bits must be >= 1"):
        BitFlip(0)


# --- the replay


def add_terminated_episodes(replay):
    """Fill the replay with episodes of three steps that terminate before the desired goal is reached."""
    for t in range(30):
        at = np.float32(t % 3)
        before, after = np.array([[at, at, -1.0]], np.float32), np.array([[at + 1, at + 1, -1.0]], np.float32)
        flags = np.array([t % 3 == 2]), np.array([False])
        replay.add(Transition(before, np.zeros(1, np.int64), np.full(1, -7.0, np.float32), after, *flags))


def never(achieved, desired):
    return judged(achieved, desired)[0], np.zeros(len(achieved), bool)


@pytest.mark.parametrize(
    "goals", ["of ends", "of no ends", "untold"], ids=["terminating goals", "endless goals", "unknown terminations"]
)
def test_termination_unrelated_to_goal_is_kept_after_relabelling(goals):
    judge = judged if goals == "of ends" else never
    replay = replay_of(n_envs=1, goals=Goals(slice(1, 2), slice(2, 3), judge, computes_ends=goals != "untold"))
    add_terminated_episodes(replay)
    data = replay.draw(1_000)
    at, wanted = data["next_observations"][:, 1], data["next_observations"][:, 2]
    assert data["terminated"][at == 3].all()
    early = (at < 3) & (wanted == at)
    assert early.any()
    assert data["terminated"][early].all() == (goals == "of ends")
    assert not data["terminated"][(at < 3) & (wanted != at)].any()


def test_termination_at_goal_is_removed_after_relabelling():
    replay = replay_of(n_envs=1)
    for t in range(30):  # three steps to the goal at 3
        at = np.float32(t % 3)
        before, after = np.array([[at, at, 3.0]], np.float32), np.array([[at + 1, at + 1, 3.0]], np.float32)
        flags = np.array([t % 3 == 2]), np.array([False])
        replay.add(Transition(before, np.zeros(1, np.int64), np.zeros(1, np.float32), after, *flags))
    replay._strategy = "episode"
    data = replay.draw(1_000)
    reached, wanted = data["next_observations"][:, 1], data["next_observations"][:, 2]
    np.testing.assert_array_equal(data["terminated"], reached == wanted)


def test_custom_goal_function_replaces_all_rewards(caplog):
    for rules in (True, False):
        replay = replay_of(goals=Goals(slice(1, 2), slice(2, 3), constant_fifty, rules=rules))
        add_steps(replay, 40)
        for _ in range(3):
            rewards = set(replay.draw(1_000)["rewards"].tolist())
        assert rewards == ({-50.0} if rules else {-50.0, -7.0})
        assert caplog.text.count(
            "Hindsight computes other rewards than the environment gives (-50 where it gave -7"
        ) == (not rules)


def test_later_change_of_rewards_is_logged_once(caplog):
    agreeing = replay_of(goals=Goals(slice(1, 2), slice(2, 3), lambda a, d: (np.full(len(a), -7.0), a[:, 0] < 0)))
    add_steps(agreeing, 40)
    agreeing.draw(100)
    assert not caplog.text
    agreeing._goals = agreeing._goals._replace(judge=constant_fifty)
    for _ in range(64):
        agreeing.draw(10)
    assert caplog.text.count("Hindsight computes other rewards") == 1


def add_steps(replay, n_steps, n_envs=2, length=5, first=0):
    """Add steps at positions 1,000,000 i + 100 * episode + step; episodes of environment i have `length` - i steps."""
    for t in range(first, first + n_steps):
        at, ends = [], []
        for i in range(n_envs):
            episode, step = divmod(t, length - i)
            at.append(1_000_000 * i + 100 * episode + step)
            ends.append(step == length - i - 1)
        before = np.array([[x, x, -1] for x in at], np.float32)
        after = before + np.array([1, 1, 0], np.float32)
        flags = np.array(ends)
        replay.add(
            Transition(
                before, np.zeros(n_envs, np.int64), np.full(n_envs, -7.0, np.float32), after, flags & False, flags
            )
        )


def judged(achieved, desired):
    return -np.abs(achieved - desired)[:, 0], (achieved == desired)[:, 0]


GOALS = Goals(slice(1, 2), slice(2, 3), judged)


def replay_of(**changes):
    settings = {"buffer_size": 200, "batch_size": 4, "n_envs": 2, "rng": np.random.default_rng(0), "goals": GOALS}
    return HindsightReplay(**{**settings, **changes})


@pytest.mark.parametrize("n_stored", [40, 1_003])  # 1,003: the ring of 100 wrapped around within episodes
@pytest.mark.parametrize("strategy", ["future", "final", "episode"])
def test_relabelled_goals_were_achieved_in_same_episode(strategy, n_stored):
    replay = replay_of(strategy=strategy)
    add_steps(replay, n_stored)
    data = replay.draw(4_000)
    at, wanted = data["observations"][:, 0], data["observations"][:, 2]
    other = wanted != -1
    assert other.mean() == pytest.approx(0.8, abs=0.03)
    np.testing.assert_array_equal(data["next_observations"][:, 2], wanted)
    assert (data["rewards"][~other] == -7).all()
    reached = data["next_observations"][:, 1]
    np.testing.assert_array_equal(data["rewards"][other], -np.abs(reached - wanted)[other])
    np.testing.assert_array_equal(data["terminated"][other], (reached == wanted)[other])
    assert not data["terminated"][~other].any()
    # A goal is the position after a step of the same episode: 1 to the episode's length past its beginning.
    environment = at // 1_000_000
    length = np.where(environment == 0, 5, 4)
    episode, step = (at - 1_000_000 * environment) // 100, at % 100
    episode_of_goal, place = (wanted - 1_000_000 * environment) // 100, wanted % 100
    assert (episode_of_goal == episode)[other].all()
    last_episode, done = divmod(n_stored, length)
    last = np.where(episode == last_episode, done, length)  # an episode in progress ends with its newest step
    assert (place <= last)[other].all()
    if strategy == "future":
        assert (place > step)[other].all()
        first = other & (step == 0) & (environment == 0) & (episode < last_episode)
        counts = np.bincount(place[first].astype(int), minlength=6)[1:]
        assert counts.min() > 0.12 * counts.sum()  # the five goals are equally probable
    elif strategy == "final":
        assert (place == last)[other].all()
    else:
        assert (place <= step)[other].any()
        assert (place >= 1)[other].all()


def test_replay_without_relabelling_keeps_goals():
    replay = replay_of(n_sampled_goal=0)
    add_steps(replay, 40)
    assert (replay.draw(100)["observations"][:, 2] == -1).all()


def test_draws_do_not_change_stored_transitions():
    replay = replay_of()
    add_steps(replay, 40)
    before = copy.deepcopy(replay.get_state()["arrays"])
    replay.draw(1000)
    assert {"observations", "actions"} <= {*before}
    for name, values in replay.get_state()["arrays"].items():
        np.testing.assert_array_equal(values, before[name])


def test_mark_truncated_ends_episodes_in_progress():
    replay = replay_of(strategy="final")
    add_steps(replay, 7)
    replay.mark_truncated([0])
    add_steps(replay, 3, first=7)
    data = replay.draw(2_000)
    at, wanted = data["observations"][:, 0], data["observations"][:, 2]
    second = (at >= 100) & (at < 200) & (wanted != -1)  # steps 5, 6 | 7, 8, 9 of environment 0
    assert set(wanted[second & (at <= 101)].tolist()) == {102.0}
    assert set(wanted[second & (at > 101)].tolist()) == {105.0}


def test_restored_replay_draws_identically():
    replay, other = replay_of(), replay_of(rng=np.random.default_rng(5))
    add_steps(replay, 133)
    other.set_state(copy.deepcopy(replay.get_state()))
    for each in (replay, other):
        add_steps(each, 9, first=133)
    ours, theirs = replay.draw(500), other.draw(500)
    assert {"observations", "actions"} <= {*ours}
    for name in ours:
        np.testing.assert_array_equal(ours[name], theirs[name])


def test_joined_replays_draw_as_separate_replays():
    alone = [replay_of(rng=np.random.default_rng(i)) for i in range(3)]
    together = join([replay_of(rng=np.random.default_rng(i)) for i in range(3)])
    for replay in alone:
        add_steps(replay, 123)
    for t in range(123):
        one = replay_of(buffer_size=20)
        add_steps(one, 1, first=t)
        stored = one.get_state()["arrays"]
        together.add(Transition(*(np.concatenate([stored[name][0]] * 3) for name in Transition._fields)))
    for positions in ([0, 1, 2], [2, 0]):
        together.select(positions)
        kept = [alone[i] for i in positions]
        alone = kept
        ours = together.draw(50)
        theirs = [replay.draw(50) for replay in kept]
        for name in ours:
            np.testing.assert_array_equal(ours[name], np.concatenate([each[name] for each in theirs]))


# --- in agents


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"replay": "hindsigt"}, "nearest|Did you mean|hindsight"),
        ({"replay": "hindsight", "n_step": 3}, "n_step must be 1 with replay='hindsight'"),
        ({"replay": "hindsight", "goal_selection_strategy": "past"}, "future"),
        ({"replay": "hindsight", "n_sampled_goal": -1}, "n_sampled_goal must be >= 0"),
        ({"goal_function": "a:b"}, "goal_function needs replay='hindsight'"),
    ],
)
def test_invalid_settings_are_refused(params, message):
    with pytest.raises(ConfigurationError, match=message):
        agents.make("dqn", BITS, **params)


@pytest.mark.slow
def test_population_members_equal_agents_trained_alone():
    spec = AgentSpec.of("dqn", EnvironmentSpec(BITS, {"n_bits": 3}), SMALL)
    population = Population(spec, [{"seed": 3, "learning_rate": 1e-2}, {"seed": 4, "gamma": 0.5}])
    with Trainer(population) as trainer:
        trainer.train(env_steps=80)
        values = loaded_values(population.agent, population.get_state()["values"])
    for position, (seed, own) in enumerate([(3, {"learning_rate": 1e-2}), (4, {"gamma": 0.5})]):
        alone = AgentSpec.of("dqn", EnvironmentSpec(BITS, {"n_bits": 3}), {**SMALL, **own}).build(seed)
        began = values_of(alone.state_variables())
        with Trainer(alone) as trainer:
            trainer.train(env_steps=80)
        assert_same_movement([each[position] for each in values], values_of(alone.state_variables()), began)


@pytest.mark.slow
def test_resumed_run_equals_uninterrupted_run():
    def made():
        return Trainer(AgentSpec.of("dqn", EnvironmentSpec(BITS, {"n_bits": 3}), SMALL).build(0))

    with made() as straight, made() as stopped, made() as resumed:
        straight.train(env_steps=120)
        stopped.train(env_steps=50)
        resumed.set_state(copy.deepcopy(stopped.get_state()))
        resumed.train(env_steps=70)
        for ours, theirs in zip(straight.agent.state_variables(), resumed.agent.state_variables(), strict=True):
            np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


@pytest.mark.learns
@pytest.mark.slow
def test_ten_bits_are_learned_only_with_hindsight():
    """An episode is solved if it ends before its ten steps are over; a random agent solves 1% of the episodes."""
    params = {
        **{"hidden_sizes": (256,), "batch_size": 128, "n_envs": 8, "train_freq": 4, "gradient_steps": 4},
        **{"gamma": 0.98, "tau": 0.05, "target_update_interval": 4, "exploration_final_eps": 0.1},
    }
    solved = {}
    for replay in ("hindsight", "uniform"):
        agent = agents.make("dqn", BITS, seed=0, replay=replay, **params)
        with Trainer(agent) as trainer:
            trainer.train(env_steps=15_000)
        solved[replay] = (evaluate(agent, n_episodes=100) > -10).mean()
    assert solved["hindsight"] >= 0.95
    assert solved["uniform"] <= 0.2


@pytest.mark.learns
@pytest.mark.slow
def test_sac_reaches_goals_with_hindsight():
    class Reach(gym.Env):
        """Point in a square that moves by its action; the goal is within 0.1 of another point after 20 steps."""

        action_space = spaces.Box(-0.2, 0.2, (2,), np.float32)
        observation_space = spaces.Dict(
            {name: spaces.Box(-1.0, 1.0, (2,), np.float32) for name in ("observation", "achieved_goal", "desired_goal")}
        )

        def _seen(self):
            return {"observation": self.at, "achieved_goal": self.at, "desired_goal": self.wanted}

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.at, self.wanted = self.np_random.uniform(-1, 1, (2, 2)).astype(np.float32)
            self.t = 0
            return self._seen(), {}

        def step(self, action):
            self.at = np.clip(self.at + action, -1, 1).astype(np.float32)
            self.t += 1
            return self._seen(), float(self.compute_reward(self.at, self.wanted, {})), False, self.t == 20, {}

        def compute_reward(self, achieved, desired, info):
            return -1.0 * (np.linalg.norm(achieved - desired, axis=-1) > 0.1)

    agent = agents.make(
        "sac", EnvironmentSpec(Reach), replay="hindsight", hidden_sizes=(64, 64), batch_size=128, n_envs=4,
        learning_rate=3e-3, gamma=0.9, tau=0.05, learning_starts=400,
    )  # fmt: skip
    assert evaluate(agent, n_episodes=50, explore=True).mean() < -15  # uniform actions, before learning_starts
    with Trainer(agent) as trainer:
        trainer.train(env_steps=10_000)
    # At 0.2 per step every point is reached within 10 steps; a policy that reaches its goals and stays loses less.
    assert evaluate(agent, n_episodes=50).mean() >= -9
