"""Tests of the kinds of vectorization: all of them give the same steps."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import traceback
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from rays import ELSEWHERE, RAY, WITH_RAY
from scipy import stats

from agents.collection.collector import Collector
from agents.environments import Environments, EnvironmentSpec
from agents.errors import ConfigurationError

pytestmark = pytest.mark.usefixtures("one_ray_for_all")

WITH_ENVPOOL = pytest.mark.skipif(find_spec("envpool") is None, reason="the extra envpool is not installed")
EXACT = ["sync", "native", *ELSEWHERE]


def environments(kind: str, n: int = 8, id: Any = "CartPole-v1", **kwargs: Any) -> Environments:
    return Environments(EnvironmentSpec(id, kwargs, kind), n)


def play(kind: str, n: int = 8, steps: int = 300, keep: dict[int, list[int]] | None = None, **kwargs: Any) -> list[Any]:
    """Return the steps of random play; `keep` gives the copies that are kept from some steps on."""
    made, rng = environments(kind, n, **kwargs), np.random.default_rng(0)
    seen: list[Any] = [made.reset(range(100, 100 + n))]
    for t in range(steps):
        if keep and t in keep:
            made.select(keep[t])
        step = made.step(rng.integers(0, 2, n)[: made.n_envs])
        assert not step.errors
        seen += [step.rewards, step.terminated, step.truncated, step.successors, step.observations]
    made.close()
    return seen


@pytest.mark.parametrize("kind", EXACT[1:])
@pytest.mark.parametrize("kwargs", [{}, {"sutton_barto_reward": True}])
def test_cartpole_is_identical_in_all_kinds(kind: str, kwargs: dict[str, Any]):
    n = 3 if kind.startswith("ray") else 8  # each actor takes a quarter of a second to start
    for one, other in zip(play("sync", n, **kwargs), play(kind, n, **kwargs), strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype


def test_cartpole_is_truncated_at_time_limit():
    """A simple controller holds the pole upright for all 500 steps."""
    for kind in ("sync", "native"):
        made = environments(kind, 8)
        observations = made.reset(range(8))
        for t in range(1, 501):
            step = made.step((observations[:, 2] + 0.3 * observations[:, 3] > 0).astype(np.int64))
            observations = step.observations
            assert not step.terminated.any()
            assert step.truncated.all() == (t == 500)
        assert np.abs(step.observations).max() < 0.05  # a new episode
        assert np.abs(step.successors).max() > 0.05


def test_variant_of_cartpole_is_not_stepped_as_cartpole(monkeypatch: pytest.MonkeyPatch):
    variant = copy.deepcopy(gym.spec("CartPole-v1"))
    variant.id, variant.entry_point = "HeavyCart-v0", "gymnasium.envs.classic_control.acrobot:AcrobotEnv"
    monkeypatch.setitem(gym.registry, variant.id, variant)
    made = Environments(EnvironmentSpec(variant.id, {}, "auto"), 8)
    assert made.observation_space.shape == (6,)


@pytest.mark.parametrize("kind", EXACT)
def test_remaining_copies_are_unaffected_by_select(kind: str):
    everyone = play("sync", 6)
    some = play(kind, 6, keep={50: [5, 1, 2], 120: [2, 0]})
    for t in (60, 150, 299):
        kept = [5, 1, 2] if t < 120 else [2, 5]
        for i in range(1, 6):
            index = 5 * t + i
            assert len(some[index]) == len(kept)
    # The actions of a position change with its copy, so this compares equal play with equal actions.
    made, rng = environments(kind, 3), np.random.default_rng(1)
    full, actions = environments(kind, 3), rng.integers(0, 2, (200, 3))
    made.reset([7, 8, 9])
    full.reset([7, 8, 9])
    for t in range(200):
        if t == 40:
            made.select([2, 0])
        order = [0, 1, 2] if t < 40 else [2, 0]
        ours, theirs = made.step(actions[t][order]), full.step(actions[t])
        np.testing.assert_array_equal(ours.observations, theirs.observations[order])
        np.testing.assert_array_equal(ours.successors, theirs.successors[order])
    assert len(everyone) == len(some)
    made.close()
    full.close()


@pytest.mark.parametrize("kind", ["sync", "native", RAY[0]])
def test_restored_copies_continue_identically(kind: str):
    made, rng = environments(kind, 4), np.random.default_rng(0)
    made.reset(range(4))
    for t in range(20):
        made.step(rng.integers(0, 2, made.n_envs))
        if t == 10:
            made.select([3, 0, 1])
    state, actions = made.get_state(), rng.integers(0, 2, (100, 3))
    straight = [made.step(action).observations for action in actions]
    other = environments(kind, 3)
    other.set_state(pickle.loads(pickle.dumps(state)))
    np.testing.assert_array_equal(straight, [other.step(action).observations for action in actions])
    made.close()
    other.close()


@pytest.mark.parametrize("kind", ELSEWHERE)
def test_get_state_returns_none_for_uncopyable_environments(kind: str):
    made = environments(kind, 1, "LunarLander-v3" if kind == "ray" else "CartPole-v1")
    made.reset([0])
    assert made.get_state() is None
    made.close()


class Raising(gym.Env[np.ndarray, int]):
    """Environment that raises or calls sys.exit at its tenth step if its seed is odd."""

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


@pytest.mark.parametrize("kind", ["sync", *ELSEWHERE])
@pytest.mark.parametrize(("action", "message"), [(0, "the arm fell off"), (1, "sys.exit")])
def test_error_of_one_copy_does_not_affect_others(kind: str, action: int, message: str):
    made = environments(kind, 3, Raising)
    made.reset([0, 1, 2])
    for t in range(1, 21):
        step = made.step(np.full(3, action))
        assert set(step.errors) == ({1} if t == 10 else set())
        if t == 10:
            assert message in str(step.errors[1])
        np.testing.assert_allclose(step.observations[[0, 2]], t / 100)
        assert not step.terminated.any()
    made.select([0, 2])
    assert made.step(np.zeros(2, np.int64)).observations.shape == (2, 2)
    made.close()


class Interrupting(Raising):
    """Environment that raises `KeyboardInterrupt`."""

    def step(self, action: int) -> Any:
        raise KeyboardInterrupt


@pytest.mark.usefixtures("usual_signals")
def test_interrupt_of_an_environment_is_its_error_where_ctrl_c_is_ignored():
    made = environments("sync", 1, Interrupting)
    made.reset([0])
    with pytest.raises(KeyboardInterrupt):
        made.step(np.zeros(1, np.int64))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # as worker processes do
    assert "raised KeyboardInterrupt" in str(made.step(np.zeros(1, np.int64)).errors[0])
    made.close()


def locked(message: str) -> Exception:
    """Return an error that cannot be pickled."""

    class LicenceError(Exception):
        lock = threading.Lock()

        def __reduce__(self) -> Any:
            return LicenceError, (self.lock,)

    return LicenceError(message)


class Unlicensed(Raising):
    """Environment whose first or second reset fails if its seed is odd; its error and infos cannot be pickled."""

    def __init__(self, episode: int) -> None:
        self.left = episode

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        observation, _ = super().reset(seed=seed)
        self.left -= 1
        if self.odd and not self.left:
            raise locked("the licence has expired")
        return observation, {"lock": threading.Lock()}

    def step(self, action: int) -> Any:
        self.t += 1
        return np.full(2, self.t / 100, np.float32), 1.0, self.t == 3, False, {"lock": threading.Lock()}


@pytest.mark.parametrize("kind", ["sync", *ELSEWHERE])
def test_errors_that_cannot_be_pickled_are_reported(kind: str):
    made = environments(kind, 3, Unlicensed, episode=1)
    with pytest.raises(Exception, match="the licence has expired"):
        made.reset([0, 1, 2])
    made.close()
    made = environments(kind, 3, Unlicensed, episode=2)
    made.reset([0, 1, 2])
    for t in range(1, 7):
        step = made.step(np.zeros(3, np.int64))
        assert set(step.errors) == ({1} if t == 3 else set())
        if t == 3:
            assert "the licence has expired" in str(step.errors[1])
            assert "in reset" in "".join(traceback.format_exception(step.errors[1]))
        assert step.terminated.tolist() == [t % 3 == 0, False, t % 3 == 0]
        np.testing.assert_allclose(step.successors[[0, 2]], (t - 1) % 3 / 100 + 0.01)
    made.close()


class OneArray(gym.Env[np.ndarray, int]):
    """Environment that reuses one array: 1, 2, 3, and -5 at the reset. Every second episode ends with nan."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self) -> None:
        self.seen, self.episode = np.zeros(1, np.float32), -1

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.episode += 1
        self.t = 0
        self.seen[:] = -5.0
        return self.seen, {}

    def step(self, action: int) -> Any:
        self.t += 1
        breaks = self.t == 3 and self.episode % 2 == 1
        self.seen[:] = np.nan if breaks else self.t
        return self.seen, 1.0, breaks, self.t == 3 and not breaks, {}


@pytest.mark.parametrize("kind", ["sync", *ELSEWHERE])
def test_final_observations_are_not_overwritten_by_reset(kind: str):
    """A terminal observation of nan is replaced by 0, because nothing follows it."""
    made = environments(kind, 2, OneArray)
    made.reset([0, 1])
    steps = [made.step(np.zeros(2, np.int64)) for _ in range(6)]
    assert [step.successors.ravel().tolist() for step in steps] == [[x, x] for x in (1, 2, 3, 1, 2, 0)]
    assert [step.observations.ravel().tolist() for step in steps] == [[x, x] for x in (1, 2, -5, 1, 2, -5)]
    assert [step.truncated[0] for step in steps] == [False, False, True, False, False, False]
    assert [step.terminated[0] for step in steps] == [False] * 5 + [True]
    made.close()


@pytest.mark.real
def test_environment_processes_leave_signals_to_their_parent():
    made = environments("async", 2)
    made.reset([0, 1])
    for process in made._copies._vector.processes:  # type: ignore[attr-defined]
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
            os.kill(process.pid, number)
    for _ in range(3):
        assert not made.step(np.zeros(2, np.int64)).errors
    made.close()


NOT_CLOSED = """
from agents.environments import Environments, EnvironmentSpec
made = Environments(EnvironmentSpec("CartPole-v1", {}, "async"), 2)
made.reset([0, 1])
"""


@pytest.mark.real
def test_program_that_does_not_close_its_environment_processes_ends():
    done = subprocess.run([sys.executable, "-c", NOT_CLOSED], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


NOT_REFERENCED = f"""
import gc
{NOT_CLOSED}
other = Environments(EnvironmentSpec("CartPole-v1", {{}}, "async"), 2)  # its processes have inherited the pipes
processes = made._copies._vector.processes
del made
gc.collect()
assert not any(process.is_alive() for process in processes)
other.reset([0, 1])
"""


@pytest.mark.real
def test_environment_processes_end_with_the_last_reference():
    done = subprocess.run(
        [sys.executable, "-c", NOT_REFERENCED], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


class Stuck(gym.Env[np.ndarray, int]):
    """Environment that hangs in a step."""

    observation_space = gym.spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return np.zeros(1, np.float32), {}

    def step(self, action: int) -> Any:
        time.sleep(3600)


@pytest.mark.real
def test_copy_that_hangs_is_killed():
    made = environments("async", 2, Stuck)
    made.reset([0, 1])
    with pytest.raises(TimeoutError, match="it hangs"):
        within(0.3, lambda: made.step(np.array([0, 1])))
    processes = made._copies._vector.processes  # type: ignore[attr-defined]
    within(300, made.close)
    assert not any(process.is_alive() for process in processes)


class Counting(gym.Env[np.ndarray, int]):
    """Environment that counts its steps in a file of its seed, and notes there that it was closed."""

    observation_space = gym.spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)
    file: Path | None = None

    def __init__(self, folder: str, hangs_at_close: bool = False) -> None:
        self.folder, self.hangs_at_close = folder, hangs_at_close

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.file = Path(self.folder) / str(seed)
        self.file.write_text("")
        return np.zeros(1, np.float32), {}

    def step(self, action: int) -> Any:
        assert self.file is not None
        with self.file.open("a") as file:
            file.write("+")
        return np.zeros(1, np.float32), float(action), False, False, {}

    def count(self) -> str:
        assert self.file is not None
        return self.file.read_text()

    def close(self) -> None:
        if self.file is not None:  # not the one whose spaces are read
            with self.file.open("a") as file:
                file.write(" closed")
            if self.hangs_at_close:
                time.sleep(3600)


@pytest.mark.real
def test_processes_of_copies_that_leave_are_closed_and_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("agents.environments.vector.asynchronous.CLOSE_SECONDS", 600.0)
    made = environments("async", 5, Counting, folder=str(tmp_path))
    made.reset(range(5))
    processes = made._copies._vector.processes  # type: ignore[attr-defined]
    for kept, actions in (([0, 1, 2, 3, 4], [0, 1, 0, 1, 1]), ([4, 1, 3], [1, 0, 1]), ([2, 0], [0, 1])):
        made.select(kept)  # in the end copies 3 and 4 in this order
        for _ in range(2):
            assert made.step(np.array(actions)).rewards.tolist() == actions
    assert [process.is_alive() for process in processes] == [False, False, False, True, True]
    written = {"0": "++ closed", "1": "++++ closed", "2": "++ closed", "3": "++++++", "4": "++++++"}
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == written
    answers = made.call("count", [], range(2))
    assert [answers[i].result for i in range(2)] == ["++++++"] * 2
    made.reset([8, 9])
    made.step(np.array([0, 1]))
    assert made.call("count", [], [1])[1].result == "+"
    assert (tmp_path / "9").read_text() == "+"
    made.close()
    assert not any(process.is_alive() for process in processes)
    assert (tmp_path / "8").read_text() == "+ closed"


@pytest.mark.real
def test_copies_that_leave_are_killed_if_they_hang_or_have_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("agents.environments.vector.asynchronous.CLOSE_SECONDS", 0.2)
    made = environments("async", 3, Counting, folder=str(tmp_path), hangs_at_close=True)
    made.reset(range(3))
    processes = made._copies._vector.processes  # type: ignore[attr-defined]
    processes[0].kill()
    processes[0].join()
    within(60, lambda: made.select([2]))
    assert [process.is_alive() for process in processes] == [False, False, True]
    assert made.step(np.array([1])).rewards.tolist() == [1.0]
    processes[2].kill()
    processes[2].join()
    with pytest.raises(RuntimeError, match=r"copy 0 \(exit code -9\)"):
        made.step(np.array([1]))
    made.close()


# --- actors that die, environments of a script


class Deadly(gym.Env[np.ndarray, int]):
    """Environment that is killed at step 10 if its seed is odd; actions 1 and 2 hang, 2 also kills its parent."""

    observation_space = gym.spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = gym.spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.odd, self.t = bool((seed or 0) % 2), 0
        return np.zeros(1, np.float32), {}

    def step(self, action: int) -> Any:
        self.t += 1
        if action == 2:
            os.kill(os.getppid(), signal.SIGKILL)
        if action:
            time.sleep(3600)
        if self.odd and self.t == 10:
            os.kill(os.getpid(), signal.SIGKILL)
        return np.full(1, self.t / 100, np.float32), 1.0, False, False, {}


@WITH_RAY
@pytest.mark.real
@pytest.mark.parametrize(("kind", "dead"), [("ray", {1}), ("ray-subproc", {0, 1, 2})])
def test_dead_actor_ends_its_copies(kind: str, dead: set[int]):
    made = environments(kind, 3, Deadly)
    made.reset([0, 1, 2])
    for t in range(1, 13):
        step = made.step(np.zeros(3, np.int64))
        assert set(step.errors) == (dead if t == 10 else set())
        for error in step.errors.values():
            assert "The Ray actor that stepped this copy of the environment is gone" in str(error)
        alive = [i for i in range(3) if t < 10 or i not in dead]
        np.testing.assert_allclose(step.observations[alive], t / 100)
    assert made.get_state() is None
    made.select([2, 1])
    if kind == "ray":
        np.testing.assert_allclose(made.step(np.zeros(2, np.int64)).observations, [[0.13], [0.0]])
    with pytest.raises(RuntimeError, match="is gone"):
        made.reset([0, 2])
    made.close()


@WITH_RAY
@pytest.mark.real
def test_environments_of_killed_actor_end_with_it():
    """The environments hold connections of the actor open: its death would stay unnoticed while they hang."""
    made = environments("ray-subproc", 3, Deadly)
    made.reset([0, 2, 4])
    assert set(within(300, lambda: made.step(np.array([1, 1, 2]))).errors) == {0, 1, 2}  # they hang for an hour
    made.close()


def raise_timeout(number: int, frame: Any) -> None:
    raise TimeoutError("it hangs")


def within(seconds: float, call: Any) -> Any:
    """Call something that must return within a time limit."""
    before = signal.signal(signal.SIGALRM, raise_timeout)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        return call()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@WITH_RAY
@pytest.mark.real
@pytest.mark.parametrize("kind", ["ray", "ray-subproc"])
def test_waiting_for_hanging_actors_can_be_interrupted(kind: str, monkeypatch: pytest.MonkeyPatch):
    import ray

    made = environments(kind, 2, Deadly)
    made.reset([0, 2])
    with pytest.raises(TimeoutError, match="it hangs"):
        within(0.3, lambda: made.step(np.array([0, 1])))
    waited = []
    monkeypatch.setattr(ray, "wait", lambda *_, **__: waited.append("for actors that do not answer"))
    made.close()
    assert waited == []


@WITH_RAY
@pytest.mark.real
@pytest.mark.parametrize("kind", ["ray", "ray-subproc"])
def test_actors_know_environments_registered_by_script(kind: str):
    class Own(Raising):
        pass

    gym.register(f"OfThisScript-{kind}-v0", entry_point=Own, max_episode_steps=4)
    made = environments(kind, 2, f"OfThisScript-{kind}-v0")
    made.reset([0, 2])
    ended = [made.step(np.zeros(2, np.int64)).truncated.tolist() for _ in range(4)]
    assert ended == [[False, False]] * 3 + [[True, True]]
    made.close()


@WITH_RAY
@pytest.mark.real
def test_environment_that_actors_cannot_make_is_refused():
    with pytest.raises(ConfigurationError, match=r"CartPole-v1.* cannot be made with .*wheels"):
        environments("ray", 1, "CartPole-v1", wheels=4)
    with pytest.raises(ConfigurationError, match="cannot be sent to a Ray actor"):
        environments("ray", 1, "CartPole-v1", wheels=(each for each in ()))


# --- EnvPool


def episodes(kind: str, id: str, seeds: range, steps: int) -> np.ndarray:
    """Return the returns of episodes of random play."""
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


@pytest.mark.slow
@WITH_ENVPOOL
@pytest.mark.parametrize(
    ("id", "n", "steps"), [("CartPole-v1", 16, 1500), ("Acrobot-v1", 32, 1000), ("LunarLander-v3", 16, 1000)]
)
def test_envpool_returns_have_same_distribution(id: str, n: int, steps: int):
    """The episodes differ, but their returns have the same distribution (Kolmogorov-Smirnov)."""
    ours, theirs = episodes("sync", id, range(n), steps), episodes("envpool", id, range(n), steps)
    assert min(len(ours), len(theirs)) > 50
    assert stats.ks_2samp(ours, theirs).pvalue > 0.001


@pytest.mark.slow
@WITH_ENVPOOL
def test_envpool_seeds_copies_and_resets_within_same_step():
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


@WITH_ENVPOOL
def test_remaining_envpool_copies_are_unaffected_by_select():
    made, full = environments("envpool", 4), environments("envpool", 4)
    made.reset(range(4))
    full.reset(range(4))
    made.select([3, 1])
    actions = np.random.default_rng(0).integers(0, 2, (100, 4))
    for action in actions:
        ours, theirs = made.step(action[[3, 1]]), full.step(action)
        np.testing.assert_array_equal(ours.observations, theirs.observations[[3, 1]])


# --- the default kind


@pytest.mark.parametrize(
    ("id", "kwargs", "n", "kind"),
    [
        ("CartPole-v1", {}, 8, "native"),
        ("CartPole-v1", {}, 7, "sync"),
        ("CartPole-v1", {"render_mode": "rgb_array"}, 8, "sync"),
        (lambda: gym.make("CartPole-v1"), {}, 8, "sync"),
        pytest.param("Acrobot-v1", {}, 8, "sync", marks=WITH_ENVPOOL),  # runs with EnvPool cannot be resumed exactly
        ("LunarLander-v3", {"continuous": True}, 8, "sync"),
    ],
)
def test_auto_takes_fastest_kind_with_exact_resume(id: Any, kwargs: dict[str, Any], n: int, kind: str):
    made = environments("auto", n, id, **kwargs)
    assert made.kind == kind
    made.close()


def test_unsuitable_kinds_are_refused():
    with pytest.raises(ConfigurationError, match="CartPole-v1 without wrappers has one"):
        environments("native", 2, "Acrobot-v1")
    with pytest.raises(ConfigurationError, match="Did you mean sync"):
        environments("synk")


@WITH_ENVPOOL
@pytest.mark.parametrize("noted", [True, False])
def test_state_of_envpool_restores_envpool_under_auto(noted: bool):
    pooled = Collector(EnvironmentSpec("Acrobot-v1", {}, "envpool"), 2, [0])
    pooled.start()
    state = pooled.get_state()
    if not noted:  # as in checkpoints of older versions, in which "auto" took EnvPool
        del state["kind"]
    again = Collector(EnvironmentSpec("Acrobot-v1"), 2, [0])
    assert again.environments.kind == "sync"
    again.set_state(state)
    assert again.environments.kind == "envpool"
    asked = Collector(EnvironmentSpec("Acrobot-v1", {}, "sync"), 2, [0])
    asked.set_state(state)
    assert asked.environments.kind == "sync"


@WITH_ENVPOOL
def test_state_of_sync_environments_restores_sync():
    single = Collector(EnvironmentSpec("Acrobot-v1"), 2, [0])
    single.start()
    state = single.get_state()
    for own in (state, {name: value for name, value in state.items() if name != "kind"}):
        again = Collector(EnvironmentSpec("Acrobot-v1"), 2, [0])
        again.set_state(own)
        assert again.environments.kind == "sync"


@WITH_ENVPOOL
def test_environment_unsupported_by_envpool_is_refused():
    with pytest.raises(ConfigurationError, match="EnvPool cannot step 'Acrobot-v1'"):
        environments("envpool", 2, "Acrobot-v1", render_mode="rgb_array")


@pytest.mark.parametrize(("name", "kind"), [("dummy", "sync"), ("subproc", "async")])
def test_alias_of_kind_gives_equal_spec(name: str, kind: str):
    spec = EnvironmentSpec("CartPole-v1", {}, name)
    assert (
        spec == EnvironmentSpec("CartPole-v1", {}, kind) == replace(EnvironmentSpec("CartPole-v1"), vectorization=name)
    )
    assert spec.vectorization == kind


def test_pickled_spec_keeps_vectorization():
    spec = EnvironmentSpec("CartPole-v1", {}, "sync")
    assert pickle.loads(pickle.dumps(spec)) == spec
