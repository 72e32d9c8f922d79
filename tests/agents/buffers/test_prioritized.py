"""Tests of prioritised replay: draws, importance weights and the update of priorities from losses."""

import numpy as np
import pytest
from gymnasium import spaces

import agents
from agents import AgentSpec, Trainer
from agents.algorithms.dqn import DQN, DQNConfig
from agents.buffers import Batches, PrioritizedReplay, Transition, UniformReplay, join
from agents.buffers.join import SideBySide
from agents.buffers.prioritized import Priorities
from agents.contract.registry import agent_class
from agents.errors import ConfigurationError
from agents.population import Population


def step(t, n_envs=1, terminated=False):
    """Return step t, whose observations and rewards are t."""
    numbers, flags = np.full(n_envs, t, np.float32), np.full(n_envs, terminated)
    actions = np.zeros(n_envs, np.int64)
    return Transition(numbers[:, None], actions, numbers, numbers[:, None] + 1, flags, np.zeros(n_envs, bool))


def replay(n_added=0, seed=0, how=None, **params):
    own = {"buffer_size": 8, "batch_size": 4, "n_envs": 1, "rng": np.random.default_rng(seed), **params}
    buffer = PrioritizedReplay(Priorities(**{"eps": 1e-9, **(how or {})}), **own)
    for t in range(n_added):
        buffer.add(step(t, buffer.n_envs))
    return buffer


def priorities_of(buffer):
    """Return the priority of every stored transition, in the order of slots."""
    return buffer._tree.leaves[0].round(6).tolist()


def prioritize(buffer, values):
    """Set the priorities of the first transitions."""
    buffer._drawn = np.arange(len(values))[None]
    buffer.update_priorities(np.array([values], np.float32))


def shares(buffer, n=20_000):
    drawn = buffer.draw(n)["observations"][:, 0].astype(int)
    return np.bincount(drawn, minlength=buffer.capacity) / n


# --- priorities


def test_new_transitions_get_largest_priority_so_far():
    buffer = replay(2, how={"alpha": 0.5, "initial": 4.0})
    assert priorities_of(buffer)[:3] == [2, 2, 0]
    prioritize(buffer, [1.0, 9.0])
    buffer.add(step(2))
    prioritize(buffer, [0.25, 1.0])
    buffer.add(step(3))
    assert priorities_of(buffer)[:5] == [0.5, 1, 3, 3, 0]  # the largest so far, not the largest that is stored


def test_overwritten_slot_gets_priority_of_new_transitions():
    buffer = replay(8)
    prioritize(buffer, [0.5] * 8)
    buffer.add(step(8))
    assert priorities_of(buffer) == [1, *[round(0.5**0.6, 6)] * 7]


@pytest.mark.parametrize("n_added", [3, 8, 9, 21])
def test_transitions_without_complete_n_step_target_are_not_drawn(n_added):
    buffer = replay(n_added, n_step=3)
    known = buffer.draw(400)["observations"][:, 0].astype(int)
    assert set(known) == set(range(max(0, n_added - 8), n_added - 2))
    assert (buffer._tree.leaves > 0).sum() == len(set(known))


def test_transition_of_zero_error_is_still_drawn():
    buffer = replay(2, how={"alpha": 1.0, "eps": 0.25})
    prioritize(buffer, [0.0, 0.75])
    np.testing.assert_allclose(shares(buffer)[:2], [0.2, 0.8], atol=0.01)


def test_repeated_row_gets_priority_of_its_last_gradient_step():
    buffer = replay(4, gradient_steps=2, how={"alpha": 1.0})
    buffer.sample()
    buffer._drawn = np.array([[0, 1, 2, 3, 3, 3, 2, 2]])
    buffer.update_priorities(np.array([[5, 6, 7, 8], [1, 2, 3, 4]], np.float32))
    assert priorities_of(buffer)[:4] == [5, 6, 4, 2]


def test_priorities_may_be_updated_per_gradient_step():
    together, apart = replay(8, gradient_steps=3), replay(8, gradient_steps=3)
    found = np.random.default_rng(0).random((3, 4)).astype(np.float32)
    together.sample()
    together.update_priorities(found)
    apart.sample()
    for one in found:
        apart.update_priorities(one[None])
    assert priorities_of(together) == priorities_of(apart)


# --- draws and weights


def test_rows_are_drawn_in_proportion_to_priorities():
    buffer = replay(3, how={"alpha": 0.5})
    prioritize(buffer, [1, 4, 25])
    np.testing.assert_allclose(shares(buffer)[:3], np.array([1, 2, 5]) / 8, atol=0.01)


def test_each_segment_of_sum_gives_one_row():
    buffer = replay(4, how={"alpha": 1.0}, gradient_steps=5)
    prioritize(buffer, [1, 1, 1, 1])
    for minibatch in buffer.sample()["observations"].reshape(5, 4):
        assert sorted(minibatch) == [0, 1, 2, 3]


def test_importance_weights_by_hand():
    buffer = replay(3, how={"alpha": 0.5, "beta": 0.5, "beta_steps": 6}, batch_size=64)
    prioritize(buffer, [1, 4, 16])
    assert buffer.beta.tolist() == [0.75]  # half of beta_steps
    data = buffer.sample()
    expected = (1 / np.array([1, 2, 4])) ** 0.75  # the rarest row has weight 1
    np.testing.assert_allclose(data["weights"], expected[data["observations"][:, 0].astype(int)], rtol=1e-6)
    assert data["weights"].dtype == np.float32


def test_weights_are_divided_by_largest_of_their_minibatch():
    buffer = replay(8, how={"alpha": 1.0, "beta": 1.0}, batch_size=1, gradient_steps=20)
    prioritize(buffer, np.arange(1, 9))
    assert buffer.sample()["weights"].tolist() == [1.0] * 20


def test_beta_reaches_one_after_beta_steps():
    buffer = replay(how={"beta": 0.4, "beta_steps": 4}, n_envs=2, buffer_size=16)
    betas = []
    for t in range(3):
        betas.append(buffer.beta.item())
        buffer.add(step(t, 2))
    assert betas == pytest.approx([0.4, 0.7, 1.0])
    assert buffer.beta.item() == 1.0


def test_weighted_means_equal_means_of_uniform_draws():
    buffer = replay(8, how={"alpha": 0.7, "beta": 1.0}, batch_size=20_000)
    prioritize(buffer, np.arange(1, 9) ** 2)
    data = buffer.sample()
    assert data["observations"].mean() > 4.8
    weighted = np.average(data["observations"][:, 0], weights=data["weights"])
    assert weighted == pytest.approx(3.5, abs=0.1)


def test_alpha_0_draws_uniformly():
    buffer = replay(4, how={"alpha": 0.0})
    prioritize(buffer, [1, 10, 100, 1000])
    np.testing.assert_allclose(shares(buffer)[:4], 0.25, atol=0.01)
    assert set(buffer.draw(8)["weights"]) == {1.0}


# --- population members, live hyperparameters, state


def test_joined_replays_draw_as_separate_replays():
    def made():
        return [replay(seed=i, how={"alpha": alpha}, n_envs=2, n_step=2) for i, alpha in enumerate((0.5, 1.0))]

    alone, joined = made(), join(made())
    assert isinstance(joined, PrioritizedReplay)
    rng = np.random.default_rng(0)
    for t in range(12):
        joined.add(step(t, 2 * len(alone)))
        for buffer in alone:
            buffer.add(step(t, 2))
        if t < 2:
            continue
        if t == 8:  # the first replay leaves, between a draw and the update of priorities
            joined.sample()
            joined.select([1])
            alone[0].sample()
            alone[1].sample()
            alone = alone[1:]
        else:
            together, apart = joined.sample(), [buffer.sample() for buffer in alone]
            for name, values in together.items():
                np.testing.assert_array_equal(values, np.concatenate([own[name] for own in apart]))
        found = rng.random((len(alone), 1, 4)).astype(np.float32)
        joined.update_priorities(found)
        for buffer, own in zip(alone, found, strict=True):
            buffer.update_priorities(own)


def test_side_by_side_replays_update_their_priorities():
    class Own(PrioritizedReplay):
        pass

    def made(seed):
        buffer = Own(batch_size=4, buffer_size=8, n_envs=1, rng=np.random.default_rng(seed))
        buffer.add(step(0))
        return buffer

    memories = [made(0), made(1)]
    joined = join(memories)
    assert isinstance(joined, SideBySide)
    joined.sample()
    joined.update_priorities(np.array([[[2.0] * 4], [[3.0] * 4]], np.float32))
    assert [buffer._largest.item() for buffer in memories] == pytest.approx([2, 3])


def test_live_hyperparameters_are_set_per_member_and_saved():
    joined = join([replay(), replay()])
    joined.set_hyperparameter("priority_alpha", 0.25, 1)
    joined.set_hyperparameter("priority_beta", 1.0)
    joined.set_hyperparameter("alpha", 0.9)  # not a hyperparameter of the replay
    assert joined._numbers["alpha"].tolist() == [0.6, 0.25]
    assert joined.beta.tolist() == [1, 1]
    other = join([replay(), replay()])
    other.set_state(joined.get_state())
    assert other._numbers["alpha"].tolist() == [0.6, 0.25]


def test_a_copied_member_has_priorities_up_to_the_largest_of_its_source():
    """The source has alpha 0.5 and a largest priority of 4, so 2 in the tree; those of a diverged member may be NaN."""
    buffer = join([replay(how={"alpha": 0.5, "initial": 4.0}), replay(how={"alpha": 1.0, "initial": 4.0})])
    for t in range(4):
        buffer.add(step(t, 2))
    buffer._drawn = np.array([[0, 1, 2], [0, 1, 2]])
    buffer.update_priorities(np.array([[1.0, 0.25, 1.0], [np.nan, 1.0, 1e30]], np.float32))
    buffer.copy_member(0, 1)
    assert buffer._tree.leaves[:, :5].round(6).tolist() == [[1, 0.5, 1, 2, 0], [2, 1, 2, 2, 0]]
    assert buffer._tree.totals.tolist() == pytest.approx([4.5, 7])
    assert buffer._largest.tolist() == [4, 4]


def test_state_without_priorities_is_refused():
    uniform = UniformReplay(buffer_size=8, batch_size=4, n_envs=1, rng=np.random.default_rng(0))
    with pytest.raises(ConfigurationError, match="without priorities"):
        replay().set_state(uniform.get_state())


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("alpha", 1.5, r"in \[0, 1\]"),
        ("alpha", -0.1, r"in \[0, 1\]"),
        ("beta", 2.0, r"in \[0, 1\]"),
        ("beta_steps", 0, "> 0"),
        ("eps", 0.0, "> 0"),
        ("initial", float("nan"), "> 0"),
    ],
)
def test_priority_values_out_of_range_are_refused(name, value, allowed):
    with pytest.raises(ConfigurationError, match=rf"{name} must be {allowed}, got {value}"):
        Priorities(**{name: value})


# --- agents


@pytest.mark.parametrize("name", ["dqn", "ddpg", "td3", "sac"])
def test_off_policy_agents_have_priority_hyperparameters(name):
    config_class = agent_class(name).config_class
    with pytest.raises(ConfigurationError, match=r"priority_alpha must be >= 0 and <= 1, got 1\.5"):
        config_class(priority_alpha=1.5)
    with pytest.raises(ConfigurationError, match="initial_td_error must be > 0"):
        config_class(initial_td_error=0.0)
    assert {"priority_alpha", "priority_beta", "priority_eps"} <= set(config_class(replay="prioritized").live_values())
    assert not any("priority" in name for name in config_class().live_values())


def test_config_sets_priority_hyperparameters_of_replay():
    agent = agents.make(
        "dqn", "CartPole-v1", replay="prioritized", priority_alpha=0.1, priority_beta=0.2, priority_beta_steps=3,
        priority_eps=0.4, initial_td_error=5.0,
    )  # fmt: skip
    buffer = agent.make_buffer(1, np.random.default_rng(0))
    assert {name: values.item() for name, values in buffer._numbers.items()} == {"alpha": 0.1, "beta": 0.2, "eps": 0.4}
    assert (buffer.beta_steps, buffer._largest.item()) == (3, 5.0)


PLANE = spaces.Box(-10.0, 10.0, (2,), np.float32)
ROWS = {
    "observations": np.ones((3, 2), np.float32),
    "actions": np.array([0, 1, 0], np.int32),
    "rewards": np.ones(3, np.float32),
    "lengths": np.ones(3, np.int32),
    "next_observations": np.zeros((3, 2), np.float32),
    "terminated": np.array([True, True, True]),
    "weights": np.array([1.0, 0.5, 0.25], np.float32),
}


def dqn():
    """Return an agent with values 0 and -1, whose errors are 1 and 2."""
    config = DQNConfig(hidden_sizes=(), jit_compile=False, replay="prioritized", optimizer="sgd", learning_rate=1.0)
    agent = DQN(PLANE, spaces.Discrete(2), config)
    agent.networks["q"].set_weights([np.zeros((2, 2)), np.array([0.0, -1.0])])
    return agent


def test_loss_is_weighted_and_reports_errors():
    update = dqn().update(Batches(ROWS, np.arange(3, dtype=np.int32)[None]))
    assert update.loss == pytest.approx((1.0 * 0.5 + 0.5 * 1.5 + 0.25 * 0.5) / 3)
    np.testing.assert_allclose(update.priorities, [[1, 2, 1]])
    assert set(update.metrics) == {"q_mean", "td_error"}
    assert update.metrics["td_error"].tolist() == pytest.approx([4 / 3])


def test_every_gradient_step_reports_its_errors():
    agent = dqn()
    update = agent.update(Batches(ROWS, np.array([[1, 0], [0, 0]], np.int32)))
    # The bias of action 0 changes by 1 * 1 / 2: an error of 1 becomes 0.5.
    np.testing.assert_allclose(update.priorities[0], [2, 1])
    assert update.priorities.shape == (2, 2)
    assert (update.priorities[1] < 1).all()


class EveryStep(agents.Callback):
    every_gradient_step = True


SMALL = {"hidden_sizes": (8,), "learning_starts": 20, "batch_size": 8, "jit_compile": False, "replay": "prioritized"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dqn", "sac"])
def test_single_gradient_steps_give_same_priorities_and_weights(name):
    leaves, losses = [], []
    for callbacks in ([], [EveryStep()]):
        environment = "CartPole-v1" if name == "dqn" else "Pendulum-v1"
        agent = agents.make(name, environment, **SMALL, gradient_steps=3, train_freq=3)
        with Trainer(agent, callbacks=callbacks) as trainer:
            trainer.train(env_steps=60)
            leaves.append(trainer.buffer._tree.leaves.copy())
            losses.append(agent.networks["q" if name == "dqn" else "critic"].get_weights()[0])
    np.testing.assert_allclose(*leaves, rtol=1e-4)
    np.testing.assert_allclose(*losses, rtol=1e-4, atol=1e-6)
    assert len(np.unique(leaves[0].round(6))) > 20  # priorities differ, so they were updated


@pytest.mark.slow
def test_resumed_training_equals_uninterrupted_training():
    def made():
        return Trainer(agents.make("dqn", "CartPole-v1", **SMALL, n_step=3, n_envs=2, buffer_size=60))

    with made() as straight, made() as first, made() as second:
        straight.train(env_steps=160)
        first.train(env_steps=80)
        second.set_state(first.get_state())
        second.train(env_steps=80)
        np.testing.assert_array_equal(second.buffer._tree.leaves, straight.buffer._tree.leaves)
        for one, other in zip(second.agent.networks["q"].weights, straight.agent.networks["q"].weights, strict=True):
            np.testing.assert_array_equal(one.numpy(), other.numpy())


def test_population_members_use_their_own_priority_alpha():
    members = [{"seed": 0, "priority_alpha": 0.0}, {"seed": 0, "priority_alpha": 1.0}]
    with Trainer(Population(AgentSpec.of("dqn", "CartPole-v1", SMALL), members)) as trainer:
        trainer.train(env_steps=60)
        stored = trainer.buffer._tree.leaves[:, :60]
    assert (stored[0] == 1).all()
    assert len(np.unique(stored[1])) > 20


def test_strategy_is_refused_with_prioritized_replay(monkeypatch):
    agent = agents.make("dqn", "CartPole-v1", **SMALL)
    monkeypatch.setattr(agent, "strategy", object())
    with pytest.raises(ConfigurationError, match="replay is 'prioritized', but a strategy does not bring errors back"):
        Trainer(agent)


def test_strategy_refuses_loss_with_priorities():
    from agents.updates.gradient_steps import GradientSteps

    agent = dqn()
    steps, [turn] = GradientSteps(agent.learnable()), agent.optimizer_steps()
    with pytest.raises(ConfigurationError, match="names 'priorities', which a strategy does not bring back"):
        steps._gradients(turn, ROWS, 0.5)


def test_priorities_of_wrong_shape_are_refused():
    class Wrong(DQN):
        def priorities(self, errors):
            return {"priorities": errors[0]}

    agent = Wrong(PLANE, spaces.Discrete(2), DQNConfig(jit_compile=False, replay="prioritized"))
    with pytest.raises(ConfigurationError, match=r"one number a row for 'priorities'; it gave shape \(\)"):
        agent.update(Batches(ROWS, np.arange(3, dtype=np.int32)[None]))
