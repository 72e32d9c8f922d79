"""Contract tests of all buffers, then tests of each buffer."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.buffers import PrioritizedReplay, RolloutBuffer, TrajectoryReplay, Transition, UniformReplay, join
from agents.errors import ConfigurationError

N_ENVS = 2


def transition(t, n_envs=N_ENVS, terminated=(), truncated=()):
    """Return step t of every environment; each number identifies its step and environment."""
    environments = np.arange(n_envs)
    return Transition(
        observations=np.stack([np.full(n_envs, t), environments], axis=1).astype(np.float32),
        actions=environments + 10 * t,
        rewards=(100 * t + environments).astype(np.float32),
        next_observations=np.stack([np.full(n_envs, t + 1), environments], axis=1).astype(np.float32),
        terminated=np.isin(environments, terminated),
        truncated=np.isin(environments, truncated),
    )


class MemoryContract:
    """Contract of every buffer on which the trainer relies."""

    fill = 4  # steps until an update is due

    def make(self, seed=0):
        raise NotImplementedError

    def filled(self, seed=0, steps=None):
        buffer = self.make(seed)
        for t in range(self.fill if steps is None else steps):
            buffer.add(transition(t))
        return buffer

    def test_update_is_due_only_when_buffer_is_full(self):
        buffer = self.make()
        for t in range(self.fill):
            assert not buffer.ready
            buffer.add(transition(t))
        assert buffer.ready
        buffer.sample()
        assert not buffer.ready

    def test_minibatches_contain_added_transitions(self):
        buffer = self.filled()
        batches = buffer.batches(buffer.sample())
        assert batches.indices.dtype == np.int32
        assert batches.indices.ndim == 2
        rows = {name: values[batches.indices.ravel()] for name, values in batches.data.items()}
        t, environments = rows["observations"][:, 0], rows["observations"][:, 1]
        np.testing.assert_array_equal(rows["actions"], environments + 10 * t)
        np.testing.assert_array_equal(rows["rewards"], environments + 100 * t)
        np.testing.assert_array_equal(rows["next_observations"][:, 0], t + 1)

    def test_all_columns_have_the_same_rows(self):
        buffer = self.filled()
        batches = buffer.batches(buffer.sample())
        assert len({len(values) for values in batches.data.values()}) == 1

    def test_same_seed_gives_same_minibatches(self):
        def drawn(seed):
            buffer = self.filled(seed)
            batches = buffer.batches(buffer.sample())
            return batches.data["actions"][batches.indices]

        np.testing.assert_array_equal(drawn(0), drawn(0))
        assert not np.array_equal(drawn(0), drawn(1))

    def test_global_random_generator_is_unchanged(self):
        before = np.random.get_state()[1].copy()
        buffer = self.filled()
        buffer.batches(buffer.sample())
        assert (np.random.get_state()[1] == before).all()

    @pytest.mark.parametrize("steps", [0, 1, 3, 4, 11])
    def test_restored_buffer_gives_same_minibatches(self, steps):
        buffer = self.filled(steps=steps)
        buffer = buffer if steps <= self.fill else self.advanced(buffer)
        state = buffer.get_state()
        runs = []
        for restored in (self.filled(seed=9), buffer):
            restored.set_state(state)
            runs.append(self.continued(restored, steps))
        for one, other in zip(*runs, strict=True):
            assert one.keys() == other.keys()
            for name in one:
                np.testing.assert_array_equal(one[name], other[name])

    def advanced(self, buffer):
        while buffer.ready:
            buffer.sample()
        return buffer

    def continued(self, buffer, t):
        """Return the minibatches of the next updates."""
        result = []
        for further in range(3 * self.fill):
            buffer.add(transition(t + further))
            if buffer.ready:
                batches = buffer.batches(buffer.sample())
                result.append({name: values[batches.indices] for name, values in batches.data.items()})
        assert result
        return result

    def test_state_is_independent_of_later_additions(self):
        buffer = self.filled(steps=3)
        state = buffer.get_state()
        observations = np.concatenate([np.ravel(array) for array in _arrays(state)]).copy()
        for t in range(20):
            buffer.add(transition(50 + t))
            if buffer.ready:
                buffer.sample()
        buffer.set_state(state)
        for t in range(20):
            buffer.add(transition(50 + t))
            if buffer.ready:
                buffer.sample()
        np.testing.assert_array_equal(np.concatenate([np.ravel(array) for array in _arrays(state)]), observations)

    def test_added_arrays_may_be_changed_afterwards(self):
        """Agents and environments may reuse their arrays."""
        buffer = self.make()
        for t in range(self.fill):
            given = transition(t)
            buffer.add(given)
            for array in given:
                array[...] = 0
        assert {0, 1, 2} & set(buffer.sample()["observations"][..., 0].ravel()) - {0}

    def test_unused_hyperparameters_are_ignored(self):
        self.make().set_hyperparameter("clip_range", 1.0)


def _arrays(state):
    if isinstance(state, np.ndarray):
        return [state]
    if isinstance(state, dict):
        return [array for value in state.values() for array in _arrays(value)]
    if isinstance(state, list | tuple):
        return [array for value in state for array in _arrays(value)]
    return []


class TestRollout(MemoryContract):
    def make(self, seed=0):
        return RolloutBuffer(n_steps=4, n_epochs=2, batch_size=3, rng=np.random.default_rng(seed))


class TestUniform(MemoryContract):
    def make(self, seed=0):
        return UniformReplay(
            buffer_size=2 * 10,
            batch_size=5,
            n_envs=N_ENVS,
            rng=np.random.default_rng(seed),
            learning_starts=2 * 3,
            train_freq=2,
            gradient_steps=3,
        )


class TestUniformNStep(MemoryContract):
    def make(self, seed=0):
        return UniformReplay(
            buffer_size=2 * 10, batch_size=5, n_envs=N_ENVS, rng=np.random.default_rng(seed), train_freq=4, n_step=3
        )

    def test_minibatches_contain_added_transitions(self):
        buffer = self.filled()
        data = buffer.sample()
        t, environments = data["observations"][:, 0], data["observations"][:, 1]
        assert set(t) <= {0, 1}  # later steps have no complete n-step target yet
        np.testing.assert_array_equal(data["actions"], environments + 10 * t)
        np.testing.assert_array_equal(data["lengths"], 3)
        np.testing.assert_array_equal(data["next_observations"][:, 0], t + 3)
        expected = sum(0.99**k * (environments + 100 * (t + k)) for k in range(3))
        np.testing.assert_allclose(data["rewards"], expected, rtol=1e-6)


class TestPrioritized(TestUniform):
    def make(self, seed=0):
        return prioritized(seed, learning_starts=2 * 3, train_freq=2, gradient_steps=3)

    def advanced(self, buffer):
        while buffer.ready:
            self.update_priorities_of(buffer, buffer.sample())
        return buffer

    def continued(self, buffer, t):
        """Return the minibatches of the next updates, with priorities computed from them."""
        result = []
        for further in range(3 * self.fill):
            buffer.add(transition(t + further))
            if buffer.ready:
                result.append(buffer.sample())
                self.update_priorities_of(buffer, result[-1])
        assert result
        return result

    def update_priorities_of(self, buffer, data):
        buffer.update_priorities(np.sqrt(1 + data["rewards"]).reshape(-1, buffer.batch_size))


class TestPrioritizedNStep(TestPrioritized, TestUniformNStep):
    def make(self, seed=0):
        return prioritized(seed, train_freq=4, n_step=3)


def prioritized(seed, **params):
    rng = np.random.default_rng(seed)
    return PrioritizedReplay(buffer_size=2 * 10, batch_size=5, n_envs=N_ENVS, rng=rng, **params)


class TestTrajectories(MemoryContract):
    def make(self, seed=0):
        return TrajectoryReplay(
            n_steps=4, buffer_size=2 * 4 * 2, replay_ratio=3, n_envs=N_ENVS, rng=np.random.default_rng(seed)
        )


# --- rollout


def test_rollout_is_in_time_order_and_used_once_per_epoch():
    buffer = RolloutBuffer(n_steps=3, n_epochs=4, batch_size=2, rng=np.random.default_rng(0))
    for t in range(3):
        buffer.add(transition(t))
    data = buffer.sample()
    assert data["observations"].shape == (3, N_ENVS, 2)
    assert data["observations"][:, 0, 0].tolist() == [0, 1, 2]
    indices = buffer.batches(data).indices
    assert indices.shape == (4 * 3, 2)
    epochs = indices.reshape(4, 6)
    assert all(sorted(epoch) == list(range(6)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 4  # each epoch has its own order


SPLITS = [(6, 4, (2, 3)), (6, None, (1, 6)), (6, 100, (1, 6)), (6, 6, (1, 6)), (6, 1, (6, 1))]
UNEVEN_SPLITS = [(127, 64, (2, 64)), (65, 64, (2, 33)), (7, 3, (3, 3)), (1024, 100, (11, 94)), (9, 2, (5, 2))]


@pytest.mark.parametrize(("n_steps", "batch_size", "shape"), SPLITS + UNEVEN_SPLITS)
def test_every_row_is_in_every_epoch(n_steps, batch_size, shape):
    n_steps = n_steps // N_ENVS if (n_steps, batch_size, shape) in SPLITS else n_steps
    buffer = RolloutBuffer(n_steps=n_steps, n_epochs=3, batch_size=batch_size, rng=np.random.default_rng(0))
    one = Transition(*(values[:1] for values in transition(0))) if n_steps * N_ENVS > 6 else transition(0)
    for _ in range(n_steps):
        buffer.add(one)
    indices = buffer.batches(buffer.sample()).indices
    epochs = indices.reshape(3, *shape)
    for epoch in epochs:
        counts = np.bincount(epoch.ravel())
        assert counts.min() == 1
        assert len(counts) == n_steps * len(one.rewards)
        assert (counts - 1).sum() < len(epoch)  # fewer rows are repeated than there are minibatches
        assert all(len(set(minibatch)) == len(minibatch) for minibatch in epoch.tolist())
    assert not (epochs[0] == epochs[1]).all()


@pytest.mark.parametrize("wrong", [{"n_steps": 0}, {"n_epochs": 0}, {"batch_size": 0}])
def test_rollout_sizes_below_one_are_refused(wrong):
    with pytest.raises(ValueError, match="must be >= 1"):
        RolloutBuffer(**{"n_steps": 1, "rng": np.random.default_rng(0), **wrong})


# --- uniform


def uniform(**kwargs):
    return UniformReplay(
        **{"buffer_size": 10, "batch_size": 4, "n_envs": N_ENVS, "rng": np.random.default_rng(0), **kwargs}
    )


def test_newest_transitions_are_kept_and_drawn_uniformly():
    buffer = uniform(buffer_size=2 * 4)
    for t in range(11):
        buffer.add(transition(t))
    assert len(buffer) == 8
    observations = buffer.draw(2000)["observations"]
    counts = {key: (observations == key).all(axis=1).mean() for key in [(t, n) for t in range(7, 11) for n in range(2)]}
    assert sum(counts.values()) == 1.0
    assert all(abs(share - 1 / 8) < 0.03 for share in counts.values())


@pytest.mark.parametrize(
    ("kwargs", "updates"),
    [
        ({"train_freq": 1}, [1, 2, 3, 4, 5, 6]),
        ({"train_freq": 3}, [3, 6]),
        ({"learning_starts": 4}, [3, 4, 5, 6]),  # after 2 steps of 2 environments
        ({"learning_starts": 4, "train_freq": 2}, [3, 5]),
        ({"n_step": 3}, [3, 4, 5, 6]),
    ],
)
def test_updates_are_due_at_train_freq_after_learning_starts(kwargs, updates):
    buffer, due = uniform(**kwargs), []
    for t in range(1, 7):
        buffer.add(transition(t))
        if buffer.ready:
            buffer.sample()
            due.append(t)
    assert due == updates


def test_minibatches_are_consecutive_rows():
    buffer = uniform(gradient_steps=3)
    buffer.add(transition(0))
    batches = buffer.batches(buffer.sample())
    assert batches.indices.shape == (3, 4)
    assert batches.contiguous


@settings(max_examples=60, deadline=None)
@given(
    ends=st.lists(st.sampled_from(["", "", "", "terminated", "truncated"]), min_size=6, max_size=25),
    n_step=st.integers(1, 4),
    seed=st.integers(0, 99),
)
def test_n_step_targets_end_with_their_episode(ends, n_step, seed):
    capacity = 8
    buffer = uniform(buffer_size=capacity * N_ENVS, n_step=n_step, gamma=0.5, rng=np.random.default_rng(seed))
    for t, end in enumerate(ends):
        buffer.add(transition(t, **({end: [0]} if end else {})))  # the episode of the other environment never ends
    data = buffer.draw(50)
    for row in range(50):
        t, environment = (int(x) for x in data["observations"][row])
        assert len(ends) - capacity <= t <= len(ends) - n_step
        total, k, at = 0.0, 0, t
        while True:
            total += 0.5**k * (100 * at + environment)
            k += 1
            if k == n_step or (environment == 0 and ends[at]):
                break
            at += 1
        assert data["rewards"][row] == pytest.approx(total)
        assert data["lengths"][row] == k
        assert data["next_observations"][row, 0] == at + 1
        assert data["terminated"][row] == (environment == 0 and ends[at] == "terminated")  # a truncation bootstraps


def test_live_discount_is_saved_in_state():
    buffer = uniform(n_step=2, gamma=0.5)
    buffer.set_hyperparameter("gamma", 0.25)
    other = uniform(n_step=2, gamma=0.5)
    other.set_state(buffer.get_state())
    assert buffer.gammas.tolist() == other.gammas.tolist() == [0.25]


def test_images_keep_their_dtype():
    buffer = uniform()
    image = np.full((N_ENVS, 4, 4, 1), 200, np.uint8)
    flag = np.zeros(N_ENVS, bool)
    buffer.add(Transition(image, np.zeros(N_ENVS, np.int64), np.zeros(N_ENVS, np.float32), image, flag, flag))
    assert buffer.draw(3)["observations"].dtype == np.uint8


@pytest.mark.parametrize("other", [{"buffer_size": 6}, {"n_envs": 1, "buffer_size": 5}, {"buffer_size": 40}])
def test_state_of_replay_of_different_size_is_refused(other):
    buffer = uniform()
    for t in range(7):
        buffer.add(transition(t))
    with pytest.raises(ConfigurationError, match="of another size"):
        uniform(**other).set_state(buffer.get_state())


def test_replay_too_small_for_n_step_is_refused():
    with pytest.raises(ConfigurationError, match=r"at least n_envs \* \(n_step \+ 1\) = 8, got 6"):
        uniform(buffer_size=6, n_step=3)


def test_n_step_targets_end_at_mark_truncated():
    buffer = UniformReplay(
        buffer_size=40, batch_size=4, n_envs=N_ENVS, rng=np.random.default_rng(0), n_step=3, gamma=1.0
    )
    for t in range(3):
        buffer.add(transition(t, terminated=[1] if t == 2 else []))
    buffer.mark_truncated()
    for t in range(3, 8):
        buffer.add(transition(t))
    drawn = buffer.draw(200)
    t, environment = drawn["observations"][:, 0], drawn["observations"][:, 1]
    expected = np.where(t <= 2, np.minimum(3, 3 - t), 3)
    np.testing.assert_array_equal(drawn["lengths"], expected)
    np.testing.assert_array_equal(drawn["terminated"], (t <= 2) & (environment == 1))
    np.testing.assert_array_equal(drawn["next_observations"][:, 0], t + expected)


def test_mark_truncated_truncates_rollout():
    buffer = RolloutBuffer(n_steps=4, rng=np.random.default_rng(0))
    buffer.mark_truncated()  # the buffer is still empty
    for t in range(2):
        buffer.add(transition(t, terminated=[1] if t == 1 else []))
    buffer.mark_truncated()
    for t in range(2, 4):
        buffer.add(transition(t))
    data = buffer.sample()
    assert data["truncated"].tolist() == [[False, False], [True, False], [False, False], [False, False]]
    assert data["terminated"].tolist() == [[False, False], [False, True], [False, False], [False, False]]


# --- trajectories


def trajectories(seed=0, **kwargs):
    shared = {"n_steps": 3, "buffer_size": 2 * 3 * N_ENVS, "replay_ratio": 2, "n_envs": N_ENVS}
    return TrajectoryReplay(**{**shared, "rng": np.random.default_rng(seed), **kwargs})


def updates_of(buffer, n, add=transition, n_steps=3):
    """Return the minibatches of n rollouts: observations as [K, N, T, 2] each."""
    result = []
    for t in range(n * n_steps):
        buffer.add(add(t))
        if buffer.ready:
            data = buffer.sample()
            batches = buffer.batches({**data, "probabilities": np.repeat(data["rewards"][..., None], 3, axis=2)})
            assert batches.contiguous
            shape = (*batches.indices.shape[:-1], N_ENVS, n_steps)
            result.append(
                {name: v.reshape(*shape, *v.shape[batches.indices.ndim - 1 :]) for name, v in batches.data.items()}
            )
    return result


def test_new_rollout_comes_before_replayed_trajectories():
    updates = updates_of(trajectories(), 5)
    assert len(updates) == 5
    for number, update in enumerate(updates):
        seen = update["observations"]  # [K, N, T, 2]
        assert seen.shape == (3, N_ENVS, 3, 2)
        np.testing.assert_array_equal(
            seen[0, :, :, 1], [[0, 0, 0], [1, 1, 1]]
        )  # the new rollout, environment after environment
        np.testing.assert_array_equal(seen[0, :, :, 0], np.tile(3 * number + np.arange(3), (2, 1)))
        t, environments = seen[..., 0], seen[..., 1]
        np.testing.assert_array_equal(np.diff(t), 1)  # in time order
        np.testing.assert_array_equal(np.diff(environments), 0)
        assert (t[:, :, 0] % 3 == 0).all()
        assert t.min() >= 3 * (number - 1)  # two rollouts are kept
        np.testing.assert_array_equal(update["probabilities"], np.repeat(update["rewards"][..., None], 3, axis=-1))
        np.testing.assert_array_equal(update["rewards"], 100 * t + environments)


def test_trajectories_are_drawn_uniformly():
    drawn = [update["observations"][1:, :, 0] for update in updates_of(trajectories(replay_ratio=500), 3)[1:]]
    assert len(drawn) == 2
    for number, starts in enumerate(drawn):
        keys = [(3 * (number + k), environment) for k in range(2) for environment in range(2)]
        shares = [(starts == key).all(axis=-1).mean() for key in keys]
        np.testing.assert_allclose(shares, 0.25, atol=0.05)


@pytest.mark.parametrize(
    ("kwargs", "minibatches"),
    [
        ({}, [3, 3, 3, 3]),
        ({"learning_starts": 6}, [1, 3, 3, 3]),
        ({"learning_starts": 17}, [1, 1, 3, 3]),
        ({"learning_starts": 18}, [1, 1, 1, 3]),
        ({"replay_ratio": 0}, [1, 1, 1, 1]),
    ],
)
def test_trajectories_are_replayed_after_learning_starts(kwargs, minibatches):
    assert [len(update["rewards"]) for update in updates_of(trajectories(**kwargs), 4)] == minibatches


def test_joined_trajectory_replays_draw_as_separate_replays():
    """Members are removed after two rollouts; the actions identify the member."""
    alone = [updates_of(trajectories(seed), 4) for seed in range(3)]
    buffer = join([trajectories(seed) for seed in range(3)])

    def of(members):
        def add(t):
            parts = [transition(t)._replace(actions=np.full(N_ENVS, member)) for member in members]
            return Transition(*(np.concatenate(fields) for fields in zip(*parts, strict=True)))

        return add

    together = updates_of(buffer, 2, of(range(3)))
    state = buffer.get_state()
    buffer.select([2, 0])
    left = updates_of(buffer, 2, lambda t: of([2, 0])(t + 6))
    assert len(together) == len(left) == 2
    for number, update in enumerate(together):
        for member in range(3):
            np.testing.assert_array_equal(update["observations"][member], alone[member][number]["observations"])
            assert (update["actions"][member] == member).all()
    for number, update in enumerate(left):
        for position, member in enumerate([2, 0]):
            np.testing.assert_array_equal(update["observations"][position], alone[member][2 + number]["observations"])
            assert (update["actions"][position] == member).all()
    again = join([trajectories(9) for _ in range(3)])
    again.set_state(state)
    [update] = updates_of(again, 1, lambda t: of(range(3))(t + 6))
    for member in range(3):
        np.testing.assert_array_equal(update["observations"][member], alone[member][2]["observations"])


@pytest.mark.parametrize("other", [{"buffer_size": 100}, {"n_steps": 2}, {"n_envs": 1}])
def test_state_of_trajectories_of_different_size_is_refused(other):
    buffer = trajectories()
    updates_of(buffer, 5)
    with pytest.raises(ConfigurationError, match="of another size"):
        trajectories(**other).set_state(buffer.get_state())


def test_replay_too_small_for_rollout_is_refused():
    with pytest.raises(ConfigurationError, match=r"at least n_envs \* n_steps = 6, got 5"):
        trajectories(buffer_size=5)


def test_memory_estimate_of_trajectories_is_close():
    buffer = trajectories(buffer_size=6_000, n_actions=3)
    estimate = buffer.bytes_when_full(transition(0))
    updates_of(buffer, 1)
    stored = sum(values.nbytes for values in buffer._ring.values())
    assert stored <= estimate <= 1.5 * stored


def test_mark_truncated_truncates_trajectories():
    buffer = trajectories()
    buffer.add(transition(0))
    buffer.mark_truncated([1])
    for t in (1, 2):
        buffer.add(transition(t))
    truncated = buffer.batches(buffer.sample()).data["truncated"]
    assert truncated[:6].tolist() == [False, False, False, True, False, False]
