"""Tests of pools: collector processes give the same numbers as one process, and a killed process loses nothing."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import cloudpickle
import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from processes import wait_until_alone

from agents import AgentSpec, ConfigurationError, EnvironmentSpec, Pool, Trainer
from agents.algorithms.dqn import DQN
from agents.algorithms.ppo import PPO
from agents.algorithms.rainbow import Rainbow
from agents.buffers import RolloutBuffer, Transition, UniformReplay
from agents.callbacks.callback import LambdaCallback
from agents.collection.engine import ProcessEnded
from agents.collection.pool_collector import _tasks
from agents.collection.shared_arrays import arrays_in, size_of
from agents.collection.worker import CollectorWorker
from agents.population import Population
from agents.processes.hanging import HungError
from agents.shared_objects.ray_connection import _check_address

pytestmark = pytest.mark.real

SMALL = {"hidden_sizes": (8,), "jit_compile": False, "n_envs": 4}
SMALL_PPO = {**SMALL, "n_steps": 16, "batch_size": 32, "n_epochs": 2, "learning_rate": 3e-3}
SMALL_DQN = {**SMALL, "learning_starts": 40, "batch_size": 16, "buffer_size": 400, "target_update_interval": 7}
GREEDY = {"exploration_initial_eps": 0.0, "exploration_final_eps": 0.0}


class GreedyPPO(PPO):
    """PPO without exploration, so that the process which draws the actions makes no difference."""

    def act(self, observations, explore=True):
        return super().act(observations, explore=False)


class Line(gym.Env):
    """Environment with episodes of `length` steps; an observation is the number of steps and the process id."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = spaces.Discrete(2)

    def __init__(self, length=5, raises_at=None, dies_at=None, hangs_at=None):
        self.length, self.raises_at, self.dies_at, self.hangs_at = length, raises_at, dies_at, hangs_at
        self.made = 0

    def _seen(self):
        return np.array([self.t, os.getpid()], np.float64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self._seen(), {}

    def step(self, action):
        self.t += 1
        self.made += 1
        if self.made == self.raises_at:
            raise ZeroDivisionError("the ball fell off the table")
        if self.made == self.dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.made == self.hangs_at:
            time.sleep(3600)
        return self._seen(), 1.0, self.t >= self.length, False, {}


class FailsToStart(Line):
    def __init__(self):
        raise OSError("no licence for the simulator")


class Doubled(gym.RewardWrapper):
    """Wrapper of a script: dill would pickle it without its base class."""

    def reward(self, reward):
        return 2.0 * reward


def doubled():
    return Doubled(Line(length=30))


class Unpicklable(Line):
    def __init__(self):
        super().__init__(length=30)
        self.door = threading.Lock()

    def __deepcopy__(self, memo):
        copied = Unpicklable()
        copied.t, copied.made = self.t, self.made
        return copied


class Nested(Line):
    """Environment that starts child processes, which outlive it until the folder with their ids is removed."""

    def __init__(self, helpers):
        super().__init__()
        self.helpers = Path(helpers)

    def reset(self, *, seed=None, options=None):
        if not self.made:
            helper = os.fork()
            if helper == 0:
                while self.helpers.exists():
                    time.sleep(0.05)
                os._exit(0)
            (self.helpers / str(helper)).touch()
        return super().reset(seed=seed)


def is_alive(pid):
    """Return whether a process of this id exists and has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture(autouse=True, scope="module")
def by_value():
    """Pickle the classes of this file by value, like those of a script."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


def built(agent, params, env="CartPole-v1", seed=0):
    return AgentSpec.of(agent, env, params).build(seed)


def weights(agent):
    return np.concatenate([values.ravel() for values in agent.acting_state()])


def trained(agent, params, pool, *, env_steps=300, env="CartPole-v1", seed=0):
    """Return the weights, returns and gradient steps after training."""
    with Trainer(built(agent, params, env, seed), pool=pool) as trainer:
        trainer.train(env_steps=env_steps)
        return weights(trainer.agent), list(trainer.history.returns), trainer.agent.gradient_steps


@pytest.mark.parametrize(
    ("agent", "params", "env"),
    [
        (DQN, {**SMALL_DQN, **GREEDY, "n_step": 3}, "CartPole-v1"),
        (DQN, {**SMALL_DQN, **GREEDY, "n_step": 3, "replay": "prioritized"}, "CartPole-v1"),
        (GreedyPPO, {**SMALL_PPO, "normalize_observations": True}, "CartPole-v1"),
        (GreedyPPO, SMALL_PPO, "Pendulum-v1"),
    ],
)
def test_greedy_runs_are_equal_for_any_number_of_processes(agent, params, env):
    alone = trained(agent, params, None, env=env)
    assert alone[2] > 10
    for processes in (1, 3):  # 3 processes have 2, 1 and 1 copies
        pooled = trained(agent, params, processes, env=env)
        # A matrix product with another number of rows may round its last bit differently, which continuous actions
        # show.
        np.testing.assert_allclose(pooled[0], alone[0], atol=1e-4 if env == "Pendulum-v1" and processes > 1 else 0)
        assert pooled[2] == alone[2]
        np.testing.assert_allclose(pooled[1], alone[1], rtol=1e-4 if env == "Pendulum-v1" else 0)


@pytest.mark.parametrize("pool", [Pool(2), Pool(2, "async", chunk=5)], ids=lambda pool: pool.updates)
def test_same_seed_gives_same_run(pool):
    one, again, other = (trained(DQN, SMALL_DQN, pool, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one[0], again[0])
    assert one[1:] == again[1:]
    assert not np.array_equal(one[0], other[0])


def test_collectors_explore_differently():
    """The weights are the same and, in this environment, the observations."""
    seen = []
    agent = built(PPO, SMALL_PPO, EnvironmentSpec(Line, {"length": 99}))
    with Trainer(agent, pool=2) as trainer:
        buffer = trainer.buffer
        trainer.callbacks.callbacks.append(LambdaCallback(on_rollout_end=lambda _: seen.append(buffer._steps)))
        trainer.train(env_steps=64)
    actions = np.stack([step.actions for step in seen[0]])  # [T, N]
    assert len({tuple(column) for column in actions.T}) == 4
    assert len(set(seen[0][0].observations[:, 1])) == 2  # processes


def test_async_collectors_act_with_weights_of_previous_chunk():
    """Chunk k + 1 is started when chunk k is returned, so its weights do not include updates from chunk k."""
    params = {**SMALL_DQN, **GREEDY, "learning_starts": 0, "train_freq": 4, "learning_rate": 0.5}
    published_at = []
    agent = built(DQN, params)

    def begin(trainer):
        published_at.append(agent.gradient_steps)

    with Trainer(agent, pool=Pool(2, "async", chunk=8)) as trainer:
        publish = trainer.collector._engine.publish
        trainer.collector._engine.publish = lambda state: (begin(trainer), publish(state))
        trainer.train(env_steps=4 * 8 * 4)
    # chunks of 8 steps with two updates each: the first two start before any update
    assert published_at == [0, 0, 2, 4, 6]


@pytest.mark.parametrize(
    ("agent", "params", "pool"),
    [
        (PPO, {**SMALL_PPO, "normalize_observations": True}, Pool(2)),
        (DQN, SMALL_DQN, Pool(2)),
        (DQN, SMALL_DQN, Pool(2, "async", chunk=7)),
        (Rainbow, SMALL_DQN, Pool(2, "async", chunk=7)),
    ],
    ids=["ppo", "dqn", "dqn-async", "rainbow-async"],
)
def test_resumed_run_equals_uninterrupted_run(agent, params, pool):
    def through(stop):
        trainer = Trainer(built(agent, params), pool=pool)
        trainer.train(env_steps=200)
        if stop:
            state = trainer.get_state()
            trainer.close()
            trainer = Trainer(built(agent, params, seed=0), pool=pool)
            trainer.set_state(state)
        with trainer:
            trainer.train(env_steps=200)
            return weights(trainer.agent), trainer.history.returns

    whole, resumed = through(stop=False), through(stop=True)
    np.testing.assert_array_equal(whole[0], resumed[0])
    assert whole[1] == resumed[1]


@pytest.mark.parametrize("pool", [Pool(2), Pool(2, "async", chunk=6)], ids=lambda pool: pool.updates)
def test_get_state_does_not_change_run(pool):
    def through(looks):
        with Trainer(built(DQN, SMALL_DQN), pool=pool) as trainer:
            for _ in range(4):
                trainer.train(env_steps=68)
                if looks:
                    trainer.get_state()
            return weights(trainer.agent)

    np.testing.assert_array_equal(through(looks=True), through(looks=False))


def test_state_without_environments_begins_new_episodes():
    agent, params = DQN, {**SMALL_DQN, "n_step": 3}
    with Trainer(built(agent, params, EnvironmentSpec(Line)), pool=Pool(2, "async", chunk=7)) as trainer:
        trainer.train(env_steps=4 * 12)
        state = trainer.get_state(environments=False)
    begun = []
    note = LambdaCallback(on_episode_begin=lambda trainer, environment, member: begun.append(environment))
    with Trainer(
        built(agent, params, EnvironmentSpec(Line)), pool=Pool(2, "async", chunk=7), callbacks=[note]
    ) as trainer:
        trainer.set_state(state)
        newest = trainer.buffer._ended[trainer.buffer._added - 1]
        assert newest.all()
        trainer.train(env_steps=4)
        observations = trainer.buffer._arrays["observations"][trainer.buffer._added - 1]
        assert (observations[:, 0] == 0).all()
        assert begun == [0, 1, 2, 3]


def test_exploration_begins_anew_with_new_episodes():
    environment = EnvironmentSpec(Line)
    agent = built(DQN, SMALL_DQN, environment)
    [task] = _tasks(Pool(1), agent, environment, 0)
    worker = CollectorWorker(task)
    worker.collected(5, agent.acting_state())
    for copied, begins in ((True, []), (False, [None])):
        other, begun = CollectorWorker(task), []
        other._agent.restart = begun.append
        other.set_state(worker.get_state(copied), agent.get_state())
        assert begun == begins


def test_resumed_run_keeps_wrappers_of_script():
    params = {**SMALL_DQN, "learning_starts": 1000}
    with Trainer(built(DQN, params, EnvironmentSpec(doubled)), pool=2) as trainer:
        trainer.train(env_steps=40)
        state = trainer.get_state()
    with Trainer(built(DQN, params, EnvironmentSpec(doubled)), pool=2) as trainer:
        trainer.set_state(state)
        trainer.train(env_steps=200)
        assert trainer.history.returns == [60.0] * 8
        assert (trainer.buffer._arrays["rewards"][:60] == 2.0).all()


def test_environments_that_cannot_be_pickled_are_not_saved():
    with Trainer(built(DQN, SMALL_DQN, EnvironmentSpec(Unpicklable)), pool=2) as trainer:
        trainer.train(env_steps=40)
        assert trainer.get_state()["collector"]["environments"] is None
        trainer.train(env_steps=80)
        assert trainer.history.returns == [30.0] * 4


def test_killed_collector_with_running_child_is_detected(tmp_path):
    """The child holds the connection of the collector open: waiting for its end would be waiting for the child."""
    folder = tmp_path / "helpers"
    folder.mkdir()
    try:
        with Trainer(built(DQN, SMALL_DQN, EnvironmentSpec(Nested, {"helpers": str(folder)})), pool=2) as trainer:
            trainer.train(env_steps=40)
            helpers = [int(each.name) for each in folder.iterdir()]
            assert helpers
            trainer.collector._engine._processes[0].kill()
            trainer.train(env_steps=40)
            assert all(map(is_alive, helpers))
    finally:
        shutil.rmtree(folder)


def test_rare_deaths_of_collectors_do_not_end_training():
    with Trainer(built(DQN, SMALL_DQN, EnvironmentSpec(Line)), pool=2) as trainer:
        for _ in range(7):
            trainer.train(env_steps=40)
            trainer.collector._engine._processes[1].kill()
        trainer.train(env_steps=40)
        assert trainer.collector._tasks[1].life == 7


def test_buffer_may_keep_transition_arrays():
    kept = []

    class Keeping(DQN):
        def make_buffer(self, n_envs, rng):
            buffer = super().make_buffer(n_envs, rng)
            add = buffer.add
            buffer.add = lambda transition: (kept.append((transition, transition.observations.copy())), add(transition))
            return buffer

    with Trainer(built(Keeping, SMALL_DQN), pool=Pool(2, "async", chunk=3)) as trainer:
        trainer.train(env_steps=200)
    assert len(kept) == 50
    for transition, then in kept:
        np.testing.assert_array_equal(transition.observations, then)


@pytest.mark.parametrize("when", ["publish", "ask", "answer"])
def test_get_state_works_after_interrupt(when):
    def interrupted(*_):
        raise KeyboardInterrupt

    with Trainer(built(DQN, SMALL_DQN, EnvironmentSpec(Line)), pool=Pool(2, "async", chunk=4)) as trainer:
        trainer.train(env_steps=40)
        setattr(trainer.collector._engine, when, interrupted)
        with pytest.raises(KeyboardInterrupt):
            trainer.train(env_steps=400)
        delattr(trainer.collector._engine, when)
        assert trainer.get_state()["runs"]
        trainer.train(env_steps=40)


def test_seeds_are_not_repeated_after_deaths_and_resumes():
    """The first observations of CartPole identify the seed: at the start, after a death, a resume and another death."""
    first = []

    def note(trainer):
        first.append(trainer.buffer._arrays["observations"][trainer.buffer._added - 1].copy())

    def trainer():
        return Trainer(built(DQN, SMALL_DQN), pool=2)

    with trainer() as one:
        one.train(env_steps=4)
        note(one)
        one.collector._engine._processes[1].kill()
        one.train(env_steps=4)
        note(one)
        state = one.get_state(environments=False)
    with trainer() as other:
        other.set_state(state)
        other.train(env_steps=4)
        note(other)
        other.collector._engine._processes[1].kill()
        other.train(env_steps=4)
        note(other)
    assert len({tuple(seen[3]) for seen in first}) == 4


def test_killed_collector_is_replaced_and_its_episodes_truncated(caplog):
    params = {**SMALL_DQN, "buffer_size": 800}
    with Trainer(built(DQN, params, EnvironmentSpec(Line, {"length": 50})), pool=2) as trainer:
        buffer = trainer.buffer
        trainer.train(env_steps=4 * 12)
        process = trainer.collector._engine._processes[1]
        process.kill()
        process.join()
        with caplog.at_level(logging.WARNING):
            trainer.train(env_steps=4 * 120)
        assert "collector process 1 has ended (exit code -9)" in caplog.text
        t = buffer._arrays["observations"][:, :, 0]  # [T, N] steps into the episode
        cut = 12
        np.testing.assert_array_equal(t[cut - 1], [11, 11, 11, 11])
        np.testing.assert_array_equal(t[cut], [12, 12, 0, 0])
        np.testing.assert_array_equal(buffer._arrays["truncated"][cut - 1], [False, False, True, True])
        assert buffer._arrays["truncated"].sum() == 2
        assert trainer.env_steps == 4 * 132
        assert trainer.history.returns == [50.0] * 8  # two for each copy: after 50 and 100 steps, or after 62 and 112


def test_training_continues_after_interrupt():
    def interrupt(trainer):
        if trainer.env_steps == 4 * 20:
            trainer.collector._engine.answer = interrupted

    def interrupted(_index):
        raise KeyboardInterrupt

    agent = built(DQN, SMALL_DQN, EnvironmentSpec(Line))
    with Trainer(agent, pool=Pool(2, "async", chunk=4), callbacks=[LambdaCallback(on_step_end=interrupt)]) as trainer:
        with pytest.raises(KeyboardInterrupt):
            trainer.train(env_steps=400)
        assert not any(process.is_alive() for process in trainer.collector._engine._processes.values())
        stopped = trainer.env_steps
        del trainer.collector._engine.answer
        trainer.callbacks.callbacks.clear()
        trainer.train(env_steps=40)
        assert trainer.env_steps == stopped + 40


def test_repeated_deaths_of_collectors_end_training():
    agent = built(DQN, SMALL_DQN, EnvironmentSpec(Line, {"dies_at": 3}))
    with (
        Trainer(agent, pool=2) as trainer,
        pytest.raises(RuntimeError, match=r"has ended \(exit code -9\), as 5 before it: check its environment"),
    ):
        trainer.train(env_steps=100)


def test_hanging_collector_ends_training_with_the_error_of_the_watchdog(monkeypatch):
    def wait_until_hung(_connections):
        raise HungError("step() did not return")

    agent = built(DQN, SMALL_DQN, EnvironmentSpec(Line, {"hangs_at": 7}))
    with Trainer(agent, pool=2) as trainer:
        trainer.train(env_steps=4 * 5)
        processes = list(trainer.collector._engine._processes.values())
        monkeypatch.setattr("agents.collection.processes._SECONDS_TO_END", 0.1)
        monkeypatch.setattr("agents.collection.processes.wait", wait_until_hung)
        with pytest.raises(HungError, match=r"step\(\) did not return"):
            trainer.train(env_steps=4 * 5)
        assert not any(process.is_alive() for process in processes)


def test_collector_that_closes_its_connection_is_killed_before_it_is_replaced(monkeypatch):
    monkeypatch.setattr("agents.collection.processes._SECONDS_TO_END", 0.1)
    with Trainer(built(DQN, SMALL_DQN, EnvironmentSpec(Line)), pool=2) as trainer:
        trainer.train(env_steps=40)
        process = trainer.collector._engine._processes[1]
        process_ended = f"exit code {-signal.SIGKILL}"
        os.kill(process.pid, signal.SIGSTOP)
        trainer.collector._engine._pipes[1].close()
        with pytest.raises(ProcessEnded, match=process_ended):
            trainer.collector._engine.answer(1)
        assert not process.is_alive()


def test_environment_error_ends_training():
    agent = built(DQN, SMALL_DQN, EnvironmentSpec(Line, {"raises_at": 7}))
    with Trainer(agent, pool=Pool(2)) as trainer:
        with pytest.raises(ZeroDivisionError, match="the ball fell off the table"):
            trainer.train(env_steps=100)
        assert trainer.env_steps == 4 * 7


def test_environment_that_cannot_be_made_is_refused():
    agent = built(DQN, SMALL_DQN, EnvironmentSpec(Line))
    with pytest.raises(ConfigurationError, match="no licence for the simulator"):
        Trainer(agent, EnvironmentSpec(FailsToStart), pool=2)


def test_nan_of_network_ends_training():
    agent = built(PPO, SMALL_PPO)
    agent.networks["actor"].set_weights([np.full_like(w, np.nan) for w in agent.networks["actor"].get_weights()])
    agent.refresh()
    with Trainer(agent, pool=2) as trainer, pytest.raises(FloatingPointError, match="network 'actor' became NaN"):
        trainer.train(env_steps=100)


def test_invalid_settings_are_refused():
    with pytest.raises(ConfigurationError, match="at least one process"):
        Pool(0)
    with pytest.raises(ConfigurationError, match="Did you mean async"):
        Pool(2, "asinc")
    with pytest.raises(ConfigurationError, match="Unknown engine"):
        Pool(2, engine="threads")
    with pytest.raises(ConfigurationError, match=r"n_envs=8 \(it has 4\)"):
        Trainer(built(DQN, SMALL_DQN), pool=8)
    with pytest.raises(ConfigurationError, match="PPO learns from transitions of its newest weights"):
        Trainer(built(PPO, SMALL_PPO), pool=Pool(2, "async"))
    with pytest.raises(ConfigurationError, match="got 64 with 'sync'"):
        Pool(4, chunk=64)
    with pytest.raises(ConfigurationError, match=r"a number of processes or an agents.Pool, got 'four'"):
        Trainer(built(DQN, SMALL_DQN), pool="four")
    with pytest.raises(ConfigurationError, match="what each process requests of Ray"):
        Pool(2, cpus=0.5)
    counts = {**SMALL_DQN, "policy": "boltzmann_gumbel"}
    with pytest.raises(ConfigurationError, match="BoltzmannGumbel has state, and each process of a pool"):
        Trainer(built(DQN, counts), pool=2)
    spec = AgentSpec.of("ppo", "CartPole-v1", SMALL_PPO)
    with pytest.raises(ConfigurationError, match="A population cannot have a pool"):
        Trainer(Population(spec, [{"seed": 0}, {"seed": 1}]), pool=2)


def test_states_of_different_pools_are_refused():
    with Trainer(built(DQN, SMALL_DQN)) as trainer:
        trainer.train(env_steps=40)
        state = trainer.get_state()
    with Trainer(built(DQN, SMALL_DQN), pool=2) as pooled:
        pooled.train(env_steps=40)
        with pytest.raises(ConfigurationError, match="the state of a trainer without a pool"):
            pooled.set_state(state)
        state = pooled.get_state()
    with (
        Trainer(built(DQN, SMALL_DQN), pool=3) as other,
        pytest.raises(ConfigurationError, match="of 3 processes cannot resume from the state of a pool of 2"),
    ):
        other.set_state(state)
    with (
        Trainer(built(DQN, SMALL_DQN)) as alone,
        pytest.raises(ConfigurationError, match="the state of a pool of 2 processes"),
    ):
        alone.set_state(state)


SCRIPT = """
import os, sys, time
import agents
from gymnasium.envs.classic_control import CartPoleEnv

class Mine(CartPoleEnv):
    pass

from agents.algorithms.dqn import DQN
import keras

class MyAgent(DQN):
    pass

class MyAdam(keras.optimizers.Adam):
    pass

params = {"n_envs": 2, "learning_starts": 10, "optimizer": MyAdam(1e-3)}
agent = agents.AgentSpec.of(MyAgent, agents.EnvironmentSpec(Mine), params).build(0)
trainer = agents.Trainer(agent, pool=2)
trainer.train(env_steps=40)
print("trained", trainer.env_steps, flush=True)
time.sleep(float(sys.argv[1]))
"""


def test_collectors_use_classes_of_script_and_end_with_it(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    words = [sys.executable, str(script), "60"]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as it:
        assert it.stdout.readline() == "trained 40\n", it.stderr.read()
        os.kill(it.pid, signal.SIGKILL)
        wait_until_alone(it.pid, seconds=20)


def test_script_without_close_ends(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, str(script), "0"], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


# In a Ray cluster ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ray():
    module = pytest.importorskip("ray", reason="the extra ray is not installed")
    before = signal.getsignal(signal.SIGTERM)
    module.init("local", num_cpus=3, logging_level="ERROR", log_to_driver=False, include_dashboard=False)
    signal.signal(signal.SIGTERM, before)  # otherwise Ray replaces the handler
    yield module
    module.shutdown()


def test_ray_actors_give_same_runs_as_processes(ray):
    params = {**SMALL_DQN, "n_step": 3}
    for updates, chunk in (("sync", None), ("async", 7)):
        ours, theirs = (trained(DQN, params, Pool(2, updates, engine, chunk)) for engine in ("process", "ray"))
        np.testing.assert_array_equal(ours[0], theirs[0])
        assert ours[1:] == theirs[1:]


def test_killed_ray_actor_is_replaced_and_errors_are_raised(ray, caplog):
    agent = built(DQN, SMALL_DQN, EnvironmentSpec(Line, {"length": 50, "raises_at": 70}))
    with Trainer(agent, pool=Pool(2, engine="ray")) as trainer:
        trainer.train(env_steps=4 * 12)
        ray.kill(trainer.collector._engine._actors[1], no_restart=True)
        with caplog.at_level(logging.WARNING):
            trainer.train(env_steps=4 * 30)
        assert "collector process 1 has ended" in caplog.text
        np.testing.assert_array_equal(trainer.buffer._arrays["truncated"][11], [False, False, True, True])
        assert trainer.buffer._arrays["truncated"].sum() == 2
        with pytest.raises(ZeroDivisionError, match="the ball fell off the table"):
            trainer.train(env_steps=400)


def test_ray_cluster_without_free_cpus_is_refused(ray, monkeypatch):
    monkeypatch.setattr("agents.collection.ray_engine._SECONDS_FOR_ROOM", 0.2)
    with pytest.raises(ConfigurationError, match="requests 4 CPUs of the Ray cluster, and 3 are free: use fewer"):
        Trainer(built(DQN, SMALL_DQN), pool=Pool(4, engine="ray"))
    with Trainer(built(DQN, SMALL_DQN), pool=Pool(4, engine="ray", cpus=0.5)) as trainer:
        trainer.train(env_steps=20)
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with pytest.raises(ConfigurationError, match=r"Nothing answers at RAY_ADDRESS=127.0.0.1:1"):
        _check_address(os.environ["RAY_ADDRESS"])
    for usual in ("", "auto", "local"):
        _check_address(usual)


# Without processes -----------------------------------------------------------------------------------------------


def step(n=3, terminated=()):
    flags = np.isin(np.arange(n), terminated)
    zeros = np.zeros((n, 2), np.float32)
    return Transition(zeros, np.zeros(n, np.int64), np.zeros(n, np.float32), zeros, flags, np.zeros(n, bool))


def test_steps_until_ready_of_rollout_and_replay():
    rng = np.random.default_rng(0)
    rollout = DQNRollout(rng)
    assert [(rollout.steps_until_ready, rollout.add(step()))[0] for _ in range(4)] == [4, 3, 2, 1]
    assert rollout.ready
    replay = UniformReplay(buffer_size=60, batch_size=2, n_envs=3, rng=rng, learning_starts=10, train_freq=2, n_step=2)
    until_ready = []
    for _ in range(4):
        assert not replay.ready
        until_ready.append(replay.steps_until_ready)
        replay.add(step())
    assert until_ready == [4, 3, 2, 1]  # the first update comes after more than 10 steps of 3 environments
    assert replay.ready
    replay.sample()
    assert replay.steps_until_ready == 2


def DQNRollout(rng):  # noqa: N802
    return RolloutBuffer(n_steps=4, n_epochs=1, batch_size=None, rng=rng)


@pytest.mark.parametrize("kind", ["rollout", "replay"])
def test_mark_truncated_ends_only_given_environments(kind):
    rng = np.random.default_rng(0)
    buffer = DQNRollout(rng) if kind == "rollout" else UniformReplay(buffer_size=30, batch_size=2, n_envs=3, rng=rng)
    buffer.mark_truncated([0])  # the buffer is empty: no effect
    buffer.add(step())
    buffer.add(step(terminated=[2]))
    buffer.mark_truncated([1, 2])
    truncated = (
        [each.truncated.tolist() for each in buffer._steps]
        if kind == "rollout"
        else buffer._arrays["truncated"][:2].tolist()
    )
    assert truncated == [[False] * 3, [False, True, False]]


def test_arrays_in_shared_block_do_not_overlap():
    shapes = {"a": ((3, 5), np.uint8), "b": ((2,), np.float64), "c": ((), np.float32)}
    block = bytearray(size_of(shapes))
    arrays = arrays_in(block, shapes)
    for value, array in enumerate(arrays.values(), start=1):
        array[...] = value
    again = arrays_in(block, shapes)
    assert [(name, array.shape, array.min(), array.max()) for name, array in again.items()] == [
        ("a", (3, 5), 1, 1), ("b", (2,), 2, 2), ("c", (), 3, 3),
    ]  # fmt: skip
