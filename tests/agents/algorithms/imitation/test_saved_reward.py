"""Tests of rewards that are taken out of a run: by hand, in files, and as the reward of a fresh agent."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("minari")

from experts import balance, record_rule, swing
from parity import assert_resumed_run_equals_uninterrupted_run, members_and_agents_alone

import agents
from agents import AgentSpec, Checkpoint, ConfigurationError, Trainer, learned_reward
from agents.contract.pickling import pickled, unpickled
from agents.contract.registry import built_in_name, is_built_in
from agents.state_files import state_file
from agents.state_files.header import find

pytestmark = pytest.mark.slow

ON_POLICY = {"n_envs": 2, "n_steps": 10, "batch_size": 10, "n_epochs": 2}
OFF_POLICY = {"learning_starts": 20, "batch_size": 8}
SMALL: dict[str, Any] = {"hidden_sizes": (8,), "jit_compile": False}
CART, PENDULUM = "CartPole-v1", "Pendulum-v1"


@pytest.fixture(scope="module", autouse=True)
def experts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Demonstrations on CartPole-v1 and Pendulum-v1."""
    folder = tmp_path_factory.mktemp("datasets")
    with pytest.MonkeyPatch.context() as patch:
        record_rule(folder, CART, balance, patch, name="balance-v0")
        record_rule(folder, PENDULUM, swing, patch, name="swing-v0")
        yield folder


def learner(name: str, environment: str = CART, **params: Any) -> Any:
    """Return an agent that learns its reward from the demonstrations of its environment."""
    expert = "balance" if environment == CART else "swing"
    own = {**SMALL, **ON_POLICY, "reward_hidden_sizes": (4, 3), "expert": expert, **params}
    return agents.make(name, environment, **own)


def train_and_keep(agent: Any, folder: Path, env_steps: int = 40, **options: Any) -> Path:
    with Trainer(agent, callbacks=[Checkpoint(folder, **options)]) as trainer:
        trainer.train(env_steps=env_steps)
    return folder


@pytest.fixture(scope="module")
def runs(experts: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Path]:
    """Folders of short runs of AIRL and GAIL."""
    folder = tmp_path_factory.mktemp("runs")
    return {
        (reward, environment): train_and_keep(learner(f"{reward}-ppo", environment), folder / f"{reward}-{environment}")
        for reward in ("airl", "gail")
        for environment in (CART, PENDULUM)
    }


def rewarded(name: str, environment: str, run: Path, **params: Any) -> Any:
    return agents.make(name, environment, **small(name, run, **params))


def small(name: str, run: Path, **params: Any) -> dict[str, Any]:
    own = OFF_POLICY if name.endswith(("dqn", "rainbow", "sac", "td3")) else ON_POLICY
    own = {"n_envs": 2} if name.endswith("a2c") else own
    return {**SMALL, **own, "reward_from": str(run), **params}


def steps_of(agent: Any, n: int = 6, seed: int = 0) -> dict[str, Any]:
    """Draw steps, the third of which terminates."""
    rng = np.random.default_rng(seed)
    observations = rng.normal(size=(n, *agent.observation_space.shape)).astype(np.float32)
    discrete = not agent.action_space.shape
    actions = rng.integers(0, 2, n) if discrete else rng.uniform(-1, 1, (n, 1)).astype(np.float32)
    steps = {"observations": observations, "actions": actions, "next_observations": observations + 0.1}
    return {**steps, "terminated": np.arange(n) == 2}


# --- by hand


def test_reward_of_airl_by_hand():
    """With kernel (1, 2, 0, 0, 5) and bias 0.5: g(s) of the scaled observation, and of the absorbing state 5.5."""
    agent = learner("airl-ppo", reward_hidden_sizes=(), gamma=0.8)
    agent.networks["reward"].set_weights([np.array([[1.0], [2.0], [0.0], [0.0], [5.0]]), np.array([0.5])])
    reward, steps = learned_reward(agent), steps_of(agent)
    seen = agent.demonstrations.observations
    scaled = np.clip((steps["observations"] - seen.mean(axis=0)) / seen.std(axis=0), -10.0, 10.0)
    expected = scaled[:, 0] + 2.0 * scaled[:, 1] + 0.5
    np.testing.assert_allclose(reward(**steps), expected + steps["terminated"] * 5.5 * 4.0, rtol=1e-5)
    np.testing.assert_allclose(reward(**steps, gamma=0.5), expected + steps["terminated"] * 5.5, rtol=1e-5)
    assert (reward.learned_by, reward.gamma, repr(reward)) == ("airl", 0.8, "SavedReward('airl', 4 observations)")
    np.testing.assert_allclose(reward.scale.mean, seen.mean(axis=0, dtype=np.float64), rtol=1e-6)


@pytest.mark.parametrize(("name", "params"), [("gail-ppo", {}), ("airl-ppo", {"reward_of_actions": True})])
def test_reward_of_actions_by_hand(name: str, params: dict[str, Any]):
    agent = learner(name, reward_hidden_sizes=(2,), gamma=0.8, **params)
    rng = np.random.default_rng(1)
    weights = [rng.normal(size=shape) for shape in ((7, 2), (2,), (2, 1), (1,))]
    agent.networks["reward"].set_weights(weights)
    reward, steps = learned_reward(agent), steps_of(agent)
    seen, (first, bias, second, last) = agent.demonstrations.observations, weights

    def logit(rows: Any) -> Any:
        return (np.tanh(rows @ first + bias) @ second + last)[:, 0]

    scaled = np.clip((steps["observations"] - seen.mean(axis=0)) / seen.std(axis=0), -10.0, 10.0)
    expected = logit(np.concatenate([scaled, np.zeros((6, 1)), np.eye(2)[steps["actions"]]], axis=1))
    expected += steps["terminated"] * 4.0 * logit(np.eye(7)[[4]])
    np.testing.assert_allclose(reward(**steps), expected, rtol=1e-4)
    assert repr(reward) == f"SavedReward('{name[:4]}', 4 observations, Discrete(2))"


@pytest.mark.slow
def test_reward_of_airl_depends_neither_on_shaping_nor_on_policy():
    agent = learner("airl-ppo")
    steps = steps_of(agent)
    before = learned_reward(agent)(**steps)
    for name in ("shaping", "actor", "critic"):
        network = agent.networks[name]
        network.set_weights([weight + 1.0 for weight in network.get_weights()])
    agent.refresh()
    np.testing.assert_array_equal(learned_reward(agent)(**{**steps, "actions": 1 - steps["actions"]}), before)
    network = agent.networks["reward"]
    network.set_weights([weight + 1.0 for weight in network.get_weights()])
    assert not np.allclose(learned_reward(agent)(**steps), before)


@pytest.mark.slow
@pytest.mark.parametrize("environment", [CART, PENDULUM])
def test_reward_of_gail_is_that_of_its_training(environment: str):
    agent = learner("gail-ppo", environment, spectral_norm=True)
    with Trainer(agent) as trainer:
        trainer.train(env_steps=40)
    steps = steps_of(agent)
    if environment == PENDULUM:
        steps["actions"] = 3.0 * steps["actions"]  # beyond the bounds, where they are clipped
    inputs = agent.pairs(*steps.values()).inputs
    expected = agent.infer("reward", inputs)[:, 0]
    expected[2] += 99.0 * agent.infer("reward", agent.absorbing_inputs)[0, 0]
    np.testing.assert_allclose(learned_reward(agent)(**steps), expected, rtol=1e-4, atol=1e-5)


def test_rewards_and_shapes_are_checked():
    reward = learned_reward(learner("gail-ppo"))
    steps = steps_of(learner("gail-ppo"))
    for name in ("observations", "next_observations"):
        with pytest.raises(ConfigurationError, match=rf"{name} must have the shape \[6, 4\], got \[6, 3\]"):
            reward(**{**steps, name: steps[name][:, :3]})
    with pytest.raises(ConfigurationError, match="actions must have 6 rows, as terminated, got 5"):
        reward(**{**steps, "actions": steps["actions"][:5]})


# --- in files


@pytest.mark.parametrize("weights_only", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["airl-ppo", "gail-ppo"])
def test_reward_of_a_checkpoint_is_that_of_its_agent(name: str, weights_only: bool, tmp_path: Path):
    agent = learner(name, PENDULUM, gamma=0.9, spectral_norm=weights_only)
    train_and_keep(agent, tmp_path / "run", weights_only=weights_only)
    steps, expected = steps_of(agent), learned_reward(agent)
    for place in (tmp_path / "run", str(find(tmp_path / "run"))):
        np.testing.assert_array_equal(learned_reward(place)(**steps), expected(**steps))
        assert learned_reward(place).gamma == 0.9


@pytest.mark.slow
def test_checkpoint_from_elsewhere_is_read_without_unpickling(runs: Any, monkeypatch: Any, tmp_path: Path):
    monkeypatch.setenv("FINDER_KEY_FILE", str(tmp_path / "another"))
    path = find(runs["gail", CART])
    assert not state_file.is_signed_here(path)
    assert learned_reward(path).learned_by == "gail"


@pytest.mark.slow
def test_newer_checkpoint_of_a_run_is_read_again(tmp_path: Path):
    agent = learner("airl-ppo")
    steps, folder = steps_of(agent), tmp_path / "run"
    with Trainer(agent, callbacks=[Checkpoint(folder)]) as trainer:
        trainer.train(env_steps=40)
        first = learned_reward(folder)(**steps)
        trainer.train(env_steps=80)
    assert not np.array_equal(learned_reward(folder)(**steps), first)


def test_agent_of_a_checkpoint_keeps_its_reward_when_the_run_is_gone(runs: Any, tmp_path: Path):
    source = tmp_path / "source"
    shutil.copytree(find(runs["airl", CART]).parent, source)
    agent = rewarded("rewarded-ppo", CART, source)
    train_and_keep(agent, tmp_path / "run")
    steps, expected = steps_of(agent), agent.reward(**steps_of(agent))
    shutil.rmtree(source)
    np.testing.assert_array_equal(agents.load_agent(tmp_path / "run").reward(**steps), expected)
    with pytest.raises(agents.ConfigurationError, match="source"):
        rewarded("rewarded-ppo", CART, source)


# --- as the reward of a fresh agent


@pytest.mark.parametrize(("reward", "environment"), [("airl", CART), ("gail", PENDULUM)])
def test_rewards_of_a_rollout_and_of_replayed_steps_are_replaced(
    reward: str, environment: str, runs: Any, monkeypatch: pytest.MonkeyPatch
):
    agent = rewarded("rewarded-ppo", environment, runs[reward, environment], gamma=0.9)
    seen: dict[str, Any] = {}
    monkeypatch.setattr(type(agent).__bases__[-1], "preprocess_batch", lambda self, data: seen.update(data) or data)
    steps = steps_of(agent)
    expected = learned_reward(runs[reward, environment])(**steps, gamma=0.9)
    agent.preprocess_batch({**steps, "rewards": np.full(6, 7.0, np.float32)})
    np.testing.assert_array_equal(seen["rewards"], expected)
    rollout = {name: column.reshape(3, 2, *column.shape[1:]) for name, column in steps.items()}
    agent.preprocess_batch({**rollout, "rewards": np.full((3, 2), 7.0, np.float32)})
    np.testing.assert_array_equal(seen["rewards"], expected.reshape(3, 2))
    assert seen["rewards"].dtype == np.float32
    assert set(seen) == {*steps, "rewards"}


COMBINED = [
    ("rewarded-ppo", "airl", CART, {}),
    ("rewarded-ppo", "gail", PENDULUM, {"normalize_rewards": False}),
    ("rewarded-dqn", "airl", CART, {}),
    ("rewarded-sac", "gail", PENDULUM, {}),
    pytest.param("rewarded-td3", "airl", PENDULUM, {}, marks=pytest.mark.slow),
    pytest.param("rewarded-rainbow", "gail", CART, {"n_step": 1, "n_atoms": 1}, marks=pytest.mark.slow),
    pytest.param("rewarded-a2c", "airl", CART, {}, marks=pytest.mark.slow),
    pytest.param("rewarded-trpo", "gail", CART, {}, marks=pytest.mark.slow),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "reward", "environment", "params"), COMBINED)
def test_population_members_equal_agents_trained_alone(
    name: str, reward: str, environment: str, params: dict[str, Any], runs: Any
):
    own = small(name, runs[reward, environment], **params)
    for member, alone in members_and_agents_alone(name, environment, own):
        assert alone.history.returns == member.history.returns


@pytest.mark.slow
@pytest.mark.parametrize(("name", "reward", "environment", "params"), COMBINED)
def test_resumed_run_equals_uninterrupted_run(
    name: str, reward: str, environment: str, params: dict[str, Any], runs: Any
):
    run = runs[reward, environment]
    assert_resumed_run_equals_uninterrupted_run(
        lambda: Trainer(rewarded(name, environment, run, seed=1, **params)), until=60, at=44
    )


@pytest.mark.slow
def test_resumed_run_keeps_its_reward_when_the_other_run_is_trained_further(tmp_path: Path):
    agent, source = learner("airl-ppo"), tmp_path / "source"
    with Trainer(agent, callbacks=[Checkpoint(source)]) as trainer:
        trainer.train(env_steps=40)
        first = train_and_keep(rewarded("rewarded-ppo", CART, source), tmp_path / "run")
        trainer.train(env_steps=80)
    steps, changed = steps_of(agent), learned_reward(source)
    resumed = agents.load_agent(first)
    assert not np.array_equal(resumed.reward(**steps), changed(**steps))
    np.testing.assert_array_equal(learned_reward(first)(**steps), resumed.reward(**steps))
    np.testing.assert_array_equal(rewarded("rewarded-ppo", CART, source).reward(**steps), changed(**steps))


def test_weights_of_another_agent_do_not_bring_their_reward(runs: Any):
    one, other = runs["airl", CART], runs["gail", CART]
    trained = AgentSpec.of(rewarded("rewarded-ppo", CART, one)).with_params({"reward_from": str(other)})
    state = rewarded("rewarded-ppo", CART, one, seed=5).get_state()
    agent = AgentSpec(trained.agent, trained.environment, trained.config, state).build()
    assert agent.reward.learned_by == "gail"
    np.testing.assert_array_equal(agent.get_state()["networks"]["actor"][0], state["networks"]["actor"][0])


def test_returns_are_those_of_the_environment(runs: Any):
    with Trainer(rewarded("rewarded-ppo", CART, runs["gail", CART])) as trainer:
        trainer.train(env_steps=100)
    assert trainer.history.returns == [float(episode.length) for episode in trainer.history.episodes]


def test_rewards_are_scaled_by_default(runs: Any):
    assert rewarded("rewarded-ppo", CART, runs["gail", CART]).config.normalize_rewards
    assert not agents.PPO.config_class().normalize_rewards


def test_agent_is_data(runs: Any, monkeypatch: pytest.MonkeyPatch):
    agent = rewarded("rewarded-ppo", CART, runs["airl", CART])
    spec = AgentSpec.of(agent)
    again = unpickled(pickled(spec, spec))
    assert (again.config, again.agent) == (spec.config, type(agent))
    assert (built_in_name(type(agent)), type(agent).__name__) == ("rewarded-ppo", "RewardedPPO")
    assert is_built_in("rewarded-ppo")
    monkeypatch.chdir(runs["airl", CART].parent)
    assert agent.config.replace({"reward_from": runs["airl", CART].name}) == agent.config, "paths are absolute"


# --- refused


@pytest.fixture
def refused(runs: Any, tmp_path: Path) -> dict[str, str]:
    """Sources of rewards by name."""
    train_and_keep(agents.make("ppo", CART, **SMALL, **ON_POLICY), tmp_path / "plain")
    before = shutil.copytree(runs["airl", CART], tmp_path / "before")
    path = find(before)
    sections = state_file.read(path, ("agent", "spec"), trust=True)
    header = state_file.read_header(path)
    assert sections is not None
    assert header is not None
    sections["agent"]["extra"].pop("learned_reward")
    state_file.write(path, sections, header)
    damaged = shutil.copytree(runs["airl", CART], tmp_path / "damaged")
    sections["agent"]["extra"] = {"learned_reward": {"learned_by": "airl"}}
    state_file.write(find(damaged), sections, header)
    named = {"plain": tmp_path / "plain", "before": before, "damaged": damaged, "nowhere": tmp_path / "nowhere"}
    named |= {f"{reward}-{environment}": path for (reward, environment), path in runs.items()}
    return {name: str(path) for name, path in named.items()} | {"": ""}


@pytest.mark.parametrize(
    ("name", "environment", "source", "message"),
    [
        ("rewarded-ppo", CART, "", r"set reward_from to its folder \(finder train --reward RUN\)"),
        ("rewarded-ppo", CART, "nowhere", "nowhere': there is no such file or folder"),
        ("rewarded-ppo", CART, "plain", "has no learned reward, as it is of PPO: give a run of airl-ppo, gail-ppo"),
        ("rewarded-ppo", CART, "before", r"without the scale of .* resume the run for some steps"),
        ("rewarded-ppo", CART, "damaged", r"cannot be read \(KeyError"),
        ("rewarded-ppo", PENDULUM, "airl-CartPole-v1", r"observations of 4 numbers; 'Pendulum-v1' has 3"),
        ("rewarded-ppo", "Acrobot-v1", "gail-CartPole-v1", r"observations of 4 numbers; 'Acrobot-v1' has 6"),
        ("rewarded-dqn", CART, "airl-CartPole-v1", "n_step must be 1, got 3"),
        ("rewarded-acer", CART, "airl-CartPole-v1", "ACER replays rollouts with the rewards of their time"),
        ("rewarded-nothing", CART, "airl-CartPole-v1", "'nothing'"),
    ],
)
def test_impossible_rewards_are_refused(name: str, environment: str, source: str, message: str, refused: Any):
    params = {"n_step": 3} if name.endswith("dqn") else {}
    with pytest.raises(ConfigurationError, match=message):
        agents.make(name, environment, reward_from=refused[source], **params).new_buffer(2, [0])


def with_three_actions() -> Any:
    """Return CartPole-v1 with a third action, which is the second one."""
    return gym.wrappers.TransformAction(gym.make(CART), lambda action: min(action, 1), gym.spaces.Discrete(3))


def test_reward_of_states_is_taken_with_other_actions_and_that_of_actions_is_not(runs: Any):
    agent = rewarded("rewarded-ppo", with_three_actions, runs["airl", CART])
    with Trainer(agent) as trainer:
        trainer.train(env_steps=20)
    with pytest.raises(ConfigurationError, match=r"one of actions in Discrete\(2\); those of .* are in Discrete\(3\)"):
        rewarded("rewarded-ppo", with_three_actions, runs["gail", CART])


def test_images_are_refused(runs: Any):
    def images() -> Any:
        return gym.wrappers.AddRenderObservation(gym.make(CART, render_mode="rgb_array"))

    with pytest.raises(ConfigurationError, match=r"need vectors as observations, and .* \[400, 600, 3\]: flatten"):
        rewarded("rewarded-ppo", images, runs["airl", CART])


# --- learning


@pytest.mark.slow
@pytest.mark.learns
@pytest.mark.parametrize(("of_the_end", "least", "most"), [(-1.0, 150.0, 500.0), (1.0, 8.0, 12.0)])
def test_saved_reward_is_learned_from(of_the_end: float, least: float, most: float, tmp_path: Path):
    """A reward of the absorbing state alone: long episodes where it is negative, short ones where it is positive.

    Episodes of random actions have 22 steps on average; those of the best action of an untrained policy may have 9.
    """
    source = learner("airl-ppo", reward_hidden_sizes=())
    source.networks["reward"].set_weights([np.array([[0.0]] * 4 + [[of_the_end]]), np.zeros(1)])
    with Trainer(source, callbacks=[Checkpoint(tmp_path / "run", weights_only=True)]) as trainer:
        trainer.train(env_steps=2)  # no update
    agent = agents.make("rewarded-ppo", CART, seed=0, learning_rate=1e-3, reward_from=str(tmp_path / "run"))
    assert not least <= agents.evaluate(agent, n_episodes=100, explore=True).mean() <= most
    with Trainer(agent) as trainer:
        trainer.train(env_steps=15_000, progress=False)
    assert least <= agents.evaluate(agent, n_episodes=10, explore=True).mean() <= most


@pytest.mark.learns
@pytest.mark.slow
@pytest.mark.parametrize("name", ["airl-ppo", "gail-ppo"])
def test_reward_of_a_long_run_trains_a_fresh_agent(name: str, tmp_path: Path):
    """Long after the learner has stopped to fall: a reward that has forgotten falls ends at returns of 9."""
    source = agents.make(name, CART, seed=0, expert="balance")
    with Trainer(source, callbacks=[Checkpoint(tmp_path / "run")]) as trainer:
        trainer.train(env_steps=100_000, progress=False)
    fresh = agents.make("rewarded-ppo", CART, seed=1, learning_rate=1e-3, reward_from=str(tmp_path / "run"))
    with Trainer(fresh) as trainer:
        trainer.train(env_steps=60_000, progress=False)
    assert agents.evaluate(fresh, n_episodes=20).mean() > 400.0
