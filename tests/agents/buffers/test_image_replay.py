"""Tests of image replays: images are stored once, and are drawn as if observations and successors were both stored."""

import numpy as np
import pytest

from agents.buffers import PrioritizedReplay, Transition, UniformReplay
from agents.buffers.frames import StackFinder
from agents.buffers.observations import Observations

SHAPE = (6, 5, 4)


def episodes(n_steps, n_columns, seed=0, length=5):
    """Yield transitions of stacked frames, whose episodes end at random."""
    rng = np.random.default_rng(seed)

    def frames(n):
        return rng.integers(0, 255, (n, *SHAPE[:2]), dtype=np.uint8)

    seen = np.repeat(frames(n_columns)[..., None], SHAPE[-1], axis=-1)
    for _ in range(n_steps):
        following = np.concatenate([seen[..., 1:], frames(n_columns)[..., None]], axis=-1)
        ended = rng.random(n_columns) < 1 / length
        cut = ended & (rng.random(n_columns) < 0.5)
        rewards = rng.random(n_columns).astype(np.float32)
        yield Transition(seen, rng.integers(0, 3, n_columns), rewards, following, ended & ~cut, cut)
        seen = following.copy()
        seen[ended] = frames(int(ended.sum()))[..., None]


def replays(kind=UniformReplay, n_envs=3, **how):
    def make():
        return kind(buffer_size=20 * n_envs, batch_size=8, n_envs=n_envs, rng=np.random.default_rng(1), **how)

    return make(), make()


@pytest.fixture
def fill_like_older_versions(monkeypatch):
    """Return a function that fills a replay and stores observations and successors separately, as older versions."""

    def fill(replay, transitions):
        with monkeypatch.context() as patch:
            patch.setattr("agents.buffers.uniform.are_images", lambda _: False)
            for transition in transitions:
                replay.add(transition)
        return replay

    return fill


def assert_same(ours, theirs, n=64):
    for _ in range(3):
        one, other = ours.draw(n), theirs.draw(n)
        assert set(one) == set(other)
        for name, values in one.items():
            np.testing.assert_array_equal(values, other[name], err_msg=name)
            assert values.dtype == other[name].dtype


@pytest.mark.parametrize("n_steps", [1, 7, 20, 21, 67])
@pytest.mark.parametrize(("kind", "n_step"), [(UniformReplay, 1), (UniformReplay, 3), (PrioritizedReplay, 2)])
def test_draws_equal_those_of_replay_with_stored_successors(fill_like_older_versions, kind, n_step, n_steps):
    ours, theirs = replays(kind, n_step=n_step)
    if n_steps < n_step:
        return
    for transition in episodes(n_steps, 3):
        ours.add(transition)
    fill_like_older_versions(theirs, episodes(n_steps, 3))
    assert ours._images is not None
    assert (ours._images._frames is not None) or n_steps < 30
    assert theirs._images is None
    assert_same(ours, theirs)


def test_draws_are_equal_after_mark_truncated(fill_like_older_versions):
    """New episodes begin in the truncated environments, though no episode has ended."""
    ours, theirs = replays()
    first, second = list(episodes(9, 3)), list(episodes(9, 3, seed=5))
    for transition in first:
        ours.add(transition)
    fill_like_older_versions(theirs, first)
    for replay in (ours, theirs):
        replay.mark_truncated([0, 2])
    for transition in second:
        ours.add(transition)
    fill_like_older_versions(theirs, second)
    assert_same(ours, theirs)


def test_draws_of_remaining_members_are_equal(fill_like_older_versions):
    n_members, n_envs = 3, 2
    makes = [
        [
            UniformReplay(buffer_size=20, batch_size=8, n_envs=n_envs, rng=np.random.default_rng(seed))
            for seed in range(n_members)
        ]
        for _ in range(2)
    ]
    ours, theirs = (UniformReplay.of_members(memories) for memories in makes)
    first = list(episodes(13, n_members * n_envs))
    for transition in first:
        ours.add(transition)
    fill_like_older_versions(theirs, first)
    for replay in (ours, theirs):
        replay.select([2, 0])
    assert_same(ours, theirs)
    second = list(episodes(9, 2 * n_envs, seed=3))
    for transition in second:
        ours.add(transition)
    fill_like_older_versions(theirs, second)
    assert_same(ours, theirs)


@pytest.mark.parametrize("n_steps", [7, 33])
@pytest.mark.parametrize("from_older_state", [False, True])
def test_restored_replay_continues_identically(fill_like_older_versions, n_steps, from_older_state):
    """The state may be that of an older replay, which stored observations and successors."""
    (ours, theirs), (again, _) = replays(), replays()
    first, second = list(episodes(n_steps, 3)), list(episodes(11, 3, seed=5))
    for transition in first:
        ours.add(transition)
    fill_like_older_versions(theirs, first)
    again.set_state((theirs if from_older_state else ours).get_state())
    assert again._images is not None
    assert_same(again, theirs)
    for transition in second:
        again.add(transition)
    fill_like_older_versions(theirs, second)
    assert_same(again, theirs)


def test_images_take_half_of_memory():
    shape, n_envs, n_slots = (84, 84, 4), 2, 100
    replay = UniformReplay(buffer_size=n_slots * n_envs, batch_size=8, n_envs=n_envs, rng=np.random.default_rng(0))
    image = np.zeros((n_envs, *shape), np.uint8)
    flags = np.zeros(n_envs, bool)
    transition = Transition(image, np.zeros(n_envs, int), np.zeros(n_envs, np.float32), image, flags, flags)
    replay.add(transition)
    both = 2 * n_slots * image.nbytes
    assert replay._images.nbytes < 0.52 * both
    assert replay.bytes_when_full(transition) < 0.51 * both


@pytest.mark.parametrize(("n_frames", "channels", "share"), [(4, 1, 0.15), (4, 3, 0.15), (1, 3, 0.55)])
def test_stacked_frames_are_stored_once(n_frames, channels, share):
    """Stacks of four take an eighth of the memory for observations and successors; single colour frames take half."""
    rng, n_slots = np.random.default_rng(0), 400
    replay = UniformReplay(buffer_size=n_slots, batch_size=8, n_envs=1, rng=rng)
    frames = rng.integers(0, 255, (n_slots + n_frames + 1, 20, 20, channels), dtype=np.uint8)
    stacks = [np.concatenate(list(frames[t : t + n_frames]), axis=-1)[None] for t in range(n_slots + 1)]
    for t in range(n_slots):
        over = np.array([t % 200 == 199])
        replay.add(Transition(stacks[t], np.zeros(1, int), np.zeros(1, np.float32), stacks[t + 1], over, ~over & False))
    assert replay._images.nbytes < share * 2 * n_slots * stacks[0].nbytes
    assert (replay._images._frames is not None) == (n_frames > 1)
    assert n_frames == 1 or replay._images._seen.base is None  # a view would keep the memory of all stacks
    rows = np.arange(n_slots)
    np.testing.assert_array_equal(replay._rows("observations", rows), np.concatenate(stacks[:-1]))
    np.testing.assert_array_equal(replay._rows("next_observations", rows), np.concatenate(stacks[1:]))


def test_stack_finder_ignores_constant_images():
    finder = StackFinder(4)
    still = np.zeros((2, 2, 4), np.uint8)
    assert all(finder.add(still, still) is None for _ in range(50))
    assert finder.add(still, np.ones((2, 2, 4), np.uint8)) == 0


def test_separate_successors_are_replaced_with_their_slots():
    store = Observations(3, np.zeros((1, 2, 2, 1), np.uint8))  # a single channel is not a stack
    for t in range(20):  # every successor is stored apart: no later observation equals it
        store.add(t % 3, np.full((1, 2, 2, 1), t, np.uint8), np.full((1, 2, 2, 1), 100 + t, np.uint8))
    assert len(store._apart) == 2
    rows = np.array([0, 1, 2])
    assert store.successors(rows)[:, 0, 0, 0].tolist() == [118, 119, 117]
    assert store.observations(rows)[:, 0, 0, 0].tolist() == [18, 19, 17]


def test_vector_observations_and_successors_are_stored():
    replay = UniformReplay(buffer_size=20, batch_size=4, n_envs=1, rng=np.random.default_rng(0))
    vector, flags = np.zeros((1, 3), np.float32), np.zeros(1, bool)
    replay.add(Transition(vector, np.zeros(1, int), np.zeros(1, np.float32), vector, flags, flags))
    assert replay._images is None
    assert set(replay._arrays) == set(Transition._fields)
