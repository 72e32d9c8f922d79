"""Copies of an environment give the same, whatever they are made of."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from scipy import stats

from agents.environments import Environments, EnvironmentSpec
from agents.errors import ConfigurationError

EXACT = ["sync", "native", pytest.param("async", marks=pytest.mark.real)]


def environments(kind: str, n: int = 8, id: Any = "CartPole-v1", **kwargs: Any) -> Environments:
    return Environments(EnvironmentSpec(id, kwargs, kind), n)


def play(kind: str, n: int = 8, steps: int = 300, keep: dict[int, list[int]] | None = None, **kwargs: Any) -> list[Any]:
    """What random play gives; at some steps only some copies are kept."""
    made, rng = environments(kind, n, **kwargs), np.random.default_rng(0)
    seen: list[Any] = [made.reset(range(100, 100 + n))]
    for t in range(steps):
        if keep and t in keep:
            made.keep(keep[t])
        step = made.step(rng.integers(0, 2, n)[: made.n_envs])
        assert not step.errors
        seen += [step.rewards, step.terminated, step.truncated, step.successors, step.observations]
    made.close()
    return seen


@pytest.mark.parametrize("kind", EXACT[1:])
@pytest.mark.parametrize("kwargs", [{}, {"sutton_barto_reward": True}])
def test_cartpole_is_the_same_to_the_last_bit(kind: str, kwargs: dict[str, Any]):
    for one, other in zip(play("sync", **kwargs), play(kind, **kwargs), strict=True):
        np.testing.assert_array_equal(one, other)


def test_cartpole_is_cut_off_at_its_time_limit():
    """A pole that is held upright by looking at it lasts for 500 steps."""
    for kind in ("sync", "native"):
        made = environments(kind, 8)
        observations = made.reset(range(8))
        for t in range(1, 501):
            step = made.step((observations[:, 2] + 0.3 * observations[:, 3] > 0).astype(np.int64))
            observations = step.observations
            assert not step.terminated.any()
            assert step.truncated.all() == (t == 500)
        assert np.abs(step.observations).max() < 0.05  # begun anew
        assert np.abs(step.successors).max() > 0.05


@pytest.mark.parametrize("kind", EXACT)
def test_copies_that_stay_do_not_notice_that_others_leave(kind: str):
    everyone = play(kind, 6)
    some = play(kind, 6, keep={50: [5, 1, 2], 120: [2, 0]})
    for t in (60, 150, 299):
        kept = [5, 1, 2] if t < 120 else [2, 5]
        for i in range(1, 6):
            index = 5 * t + i
            assert len(some[index]) == len(kept)
    # The actions of a position change with its copy, so equal play is compared with equal actions.
    made, rng = environments(kind, 3), np.random.default_rng(1)
    full, actions = environments(kind, 3), rng.integers(0, 2, (200, 3))
    made.reset([7, 8, 9])
    full.reset([7, 8, 9])
    for t in range(200):
        if t == 40:
            made.keep([2, 0])
        order = [0, 1, 2] if t < 40 else [2, 0]
        ours, theirs = made.step(actions[t][order]), full.step(actions[t])
        np.testing.assert_array_equal(ours.observations, theirs.observations[order])
        np.testing.assert_array_equal(ours.successors, theirs.successors[order])
    assert len(everyone) == len(some)
    made.close()
    full.close()


@pytest.mark.parametrize("kind", ["sync", "native"])
def test_copies_go_on_from_their_state(kind: str):
    made, rng = environments(kind), np.random.default_rng(0)
    made.reset(range(8))
    for _ in range(20):
        made.step(rng.integers(0, 2, 8))
    state, actions = made.get_state(), rng.integers(0, 2, (100, 8))
    straight = [made.step(action).observations for action in actions]
    other = environments(kind)
    other.set_state(state)
    np.testing.assert_array_equal(straight, [other.step(action).observations for action in actions])


class Raising(gym.Env[np.ndarray, int]):
    """Raises, or leaves by the back door, at its tenth step when its seed is odd."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.odd = bool(seed % 2) if seed is not None else self.odd
        self.t = 0
        return np.zeros(2, np.float32), {}

    def step(self, action: int) -> Any:
        self.t += 1
        if self.odd and self.t == 10:
            if action:
                raise SystemExit("bye")
            raise RuntimeError("the arm fell off")
        return np.full(2, self.t / 100, np.float32), 1.0, False, False, {}


@pytest.mark.parametrize("kind", ["sync", pytest.param("async", marks=pytest.mark.real)])
@pytest.mark.parametrize(("action", "told"), [(0, "the arm fell off"), (1, "sys.exit")])
def test_a_copy_that_raises_does_not_disturb_the_others(kind: str, action: int, told: str):
    made = environments(kind, 3, Raising)
    made.reset([0, 1, 2])
    for t in range(1, 21):
        step = made.step(np.full(3, action))
        assert set(step.errors) == ({1} if t == 10 else set())
        if t == 10:
            assert told in str(step.errors[1])
        np.testing.assert_allclose(step.observations[[0, 2]], t / 100)
        assert not step.terminated.any()
    made.keep([0, 2])
    assert made.step(np.zeros(2, np.int64)).observations.shape == (2, 2)
    made.close()


# --- EnvPool


@pytest.fixture(autouse=True, scope="module")
def _with_envpool() -> None:
    pytest.importorskip("envpool", reason="the extra envpool is not installed")


def episodes(kind: str, id: str, seeds: range, steps: int) -> np.ndarray:
    """Returns of episodes of random play."""
    made, rng = environments(kind, len(seeds), id), np.random.default_rng(0)
    made.reset(seeds)
    returns, ended = np.zeros(len(seeds)), []
    for _ in range(steps):
        n = made.action_space.n if isinstance(made.action_space, gym.spaces.Discrete) else 0
        actions = rng.integers(0, n, len(seeds)) if n else rng.uniform(-1, 1, (len(seeds), *made.action_space.shape))
        step = made.step(actions)
        returns += step.rewards
        for i in np.flatnonzero(step.terminated | step.truncated):
            ended.append(returns[i])
            returns[i] = 0.0
    made.close()
    return np.array(ended)


@pytest.mark.parametrize(
    ("id", "n", "steps"), [("CartPole-v1", 16, 1500), ("Acrobot-v1", 32, 1000), ("LunarLander-v3", 16, 1000)]
)
def test_envpool_plays_the_same_game(id: str, n: int, steps: int):
    """Its episodes are other ones of the same kind: their returns have the same distribution (Kolmogorov-Smirnov)."""
    ours, theirs = episodes("sync", id, range(n), steps), episodes("envpool", id, range(n), steps)
    assert min(len(ours), len(theirs)) > 50
    assert stats.ks_2samp(ours, theirs).pvalue > 0.001


def test_envpool_gives_each_copy_its_own_seed_and_begins_in_the_same_step():
    made, again = environments("envpool", 3), environments("envpool", 2)
    first = made.reset([5, 5, 9])
    np.testing.assert_array_equal(first[0], first[1])
    np.testing.assert_array_equal(again.reset([9, 5]), first[[2, 0]])
    for _ in range(60):
        step = made.step(np.ones(3, np.int64))
        ended = step.terminated | step.truncated
        assert (np.abs(step.observations[ended]) <= 0.05).all()
        assert (np.abs(step.successors[ended][:, 2]) > 0.2).all()
        np.testing.assert_array_equal(step.observations[~ended], step.successors[~ended])


def test_envpool_copies_leave():
    made, full = environments("envpool", 4), environments("envpool", 4)
    made.reset(range(4))
    full.reset(range(4))
    made.keep([3, 1])
    actions = np.random.default_rng(0).integers(0, 2, (100, 4))
    for action in actions:
        ours, theirs = made.step(action[[3, 1]]), full.step(action)
        np.testing.assert_array_equal(ours.observations, theirs.observations[[3, 1]])


# --- which one is taken


@pytest.mark.parametrize(
    ("id", "kwargs", "n", "kind"),
    [
        ("CartPole-v1", {}, 8, "native"),
        ("CartPole-v1", {}, 7, "sync"),
        ("CartPole-v1", {"render_mode": "rgb_array"}, 8, "sync"),
        (lambda: gym.make("CartPole-v1"), {}, 8, "sync"),
        ("Acrobot-v1", {}, 8, "envpool"),
        ("LunarLander-v3", {"continuous": True}, 8, "sync"),
    ],
)
def test_the_fastest_kind_that_can_is_taken(id: Any, kwargs: dict[str, Any], n: int, kind: str):
    made = environments("auto", n, id, **kwargs)
    assert made.kind == kind
    made.close()


def test_a_kind_that_cannot_is_refused():
    with pytest.raises(ConfigurationError, match="CartPole-v1 has one"):
        environments("native", 2, "Acrobot-v1")
    with pytest.raises(ConfigurationError, match="EnvPool cannot step 'Acrobot-v1'"):
        environments("envpool", 2, "Acrobot-v1", render_mode="rgb_array")
    with pytest.raises(ConfigurationError, match="Did you mean sync"):
        environments("synk")


def test_the_kind_travels_with_the_environment():
    import pickle

    spec = EnvironmentSpec("CartPole-v1", {}, "sync")
    assert pickle.loads(pickle.dumps(spec)) == spec
