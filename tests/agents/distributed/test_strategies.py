"""Tests of strategies: results equal those without a strategy up to rounding error."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from processes import session_members, wait_until_alone

from agents import ConfigurationError, Trainer, make
from agents.distributed.strategies import STRATEGIES, StrategySpec
from agents.shared_objects.addresses import reachable

SCRIPT = """
import json, sys
import numpy as np
import agents

agents.make("dqn", "CartPole-v1", strategy="mirrored:3")  # first, as it needs the most devices

SMALL = {"hidden_sizes": (16,), "jit_compile": False, "optimizer": "adamw(weight_decay=0.01)"}
CASES = {
    "ppo": (dict(SMALL, n_envs=2, n_steps=32, batch_size=22, n_epochs=3), "CartPole-v1", 256),  # 22, 22, 20 rows
    "ppo-continuous": (dict(SMALL, n_envs=2, n_steps=32, batch_size=32, n_epochs=2), "Pendulum-v1", 256),
    "dqn": (dict(SMALL, batch_size=17, learning_starts=20, train_freq=4, buffer_size=200, target_update_interval=7),
            "CartPole-v1", 200),
    "dqn-parts": (dict(SMALL, batch_size=17, learning_starts=20, train_freq=4, buffer_size=200, double=True,
                       dueling=True, noisy=True, n_atoms=11, v_max=20.0), "CartPole-v1", 200),
    "dqn-few": (dict(SMALL, batch_size=2, learning_starts=20), "CartPole-v1", 100),  # fewer rows than replicas
    "a2c": (dict(SMALL, n_envs=2, n_steps=5), "CartPole-v1", 200),
    "acer": (dict(SMALL, n_envs=2, n_steps=5, replay_ratio=2, learning_starts=20), "CartPole-v1", 100),
}
results = {}
for case, (params, env, env_steps) in CASES.items():
    weights = {}
    for strategy in ("none", "one-device", "mirrored", "mirrored:3"):
        agent = agents.make(case.partition("-")[0], env, seed=3, strategy=strategy, **params)
        trainer = agents.Trainer(agent)
        trainer.train(env_steps=env_steps)
        values = [v.numpy().ravel() for net in agent.networks.values() for v in net.variables]
        weights[strategy] = np.concatenate(values)
        if strategy == "mirrored":
            agent.reset(3)
            assert agent.gradient_steps == 0
            state = agent.get_state()
            agent.set_state(state)
        steps = agent.gradient_steps
    start = agents.make(case.partition("-")[0], env, seed=3, **params)
    moved = np.concatenate([v.numpy().ravel() for net in start.networks.values() for v in net.variables])
    results[case] = {
        "steps": steps,
        "moved": float(np.abs(weights["none"] - moved).max()),
        **{name: float(np.abs(each - weights["none"]).max()) for name, each in weights.items()},
    }
print(json.dumps(results))
"""


@pytest.fixture(scope="module")
def differences() -> Any:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("case", ["ppo", "ppo-continuous", "dqn", "dqn-parts", "dqn-few", "a2c", "acer"])
@pytest.mark.parametrize("strategy", ["one-device", "mirrored", "mirrored:3"])
@pytest.mark.slow
def test_strategy_gives_same_weights_as_single_device(differences: Any, case: str, strategy: str) -> None:
    result = differences[case]
    assert result["steps"] > 10
    assert result["moved"] > 1e-3, "the weights have hardly changed"
    assert result[strategy] < 1e-5


SERVED = """
import json, sys
import numpy as np
import agents

strategy, cases = sys.argv[1], json.loads(sys.argv[2])
weights_of_case = {}
for name, (env, env_steps, params) in cases.items():
    agent = agents.make(name.partition("-")[0], env, seed=3, strategy=strategy, jit_compile=False, **params)
    agents.Trainer(agent).train(env_steps=env_steps // 2)
    agent.set_learning_rate(0.01)
    agents.Trainer(agent).train(env_steps=env_steps // 2)
    values = [v.numpy().ravel() for net in agent.networks.values() for v in net.variables]
    weights_of_case[name] = np.concatenate(values).tolist()
print(json.dumps(weights_of_case), flush=True)
if "wait" in sys.argv:
    sys.stdin.read()
"""

CASES: dict[str, tuple[str, int, dict[str, Any]]] = {
    "ppo": ("CartPole-v1", 128, {"hidden_sizes": [8], "n_envs": 2, "n_steps": 32, "batch_size": 22, "n_epochs": 2}),
    "dqn": ("CartPole-v1", 80, {"hidden_sizes": [8], "batch_size": 9, "learning_starts": 20, "train_freq": 4}),
    "dqn-few": ("CartPole-v1", 40, {"hidden_sizes": [8], "batch_size": 2, "learning_starts": 10}),
    "acer": ("CartPole-v1", 80, {"hidden_sizes": [8], "n_envs": 2, "n_steps": 5, "replay_ratio": 1}),
}


def weights_of(name: str) -> np.ndarray[Any, Any]:
    """Return the weights that the same calls give in this process, without a strategy."""
    env, env_steps, params = CASES[name]
    agent = make(name.partition("-")[0], env, seed=3, jit_compile=False, **params)
    Trainer(agent).train(env_steps=env_steps // 2)
    agent.set_learning_rate(0.01)
    Trainer(agent).train(env_steps=env_steps // 2)
    return np.concatenate([v.numpy().ravel() for net in agent.networks.values() for v in net.variables])


@pytest.mark.real
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
@pytest.mark.parametrize("strategy", ["multi-worker-mirrored", "multi-worker-mirrored:3", "parameter-server"])
def test_process_strategies_give_same_weights_and_end_with_first_process(strategy: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SERVED, strategy, json.dumps(CASES), "wait"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        weights = json.loads(process.stdout.readline())
        members = session_members(process.pid)
        n_processes = len(members)
        _check_kept_to_loopback(members)
    finally:
        process.kill()
        process.communicate()
    assert n_processes == {"multi-worker-mirrored": 2, "multi-worker-mirrored:3": 3, "parameter-server": 4}[strategy]
    wait_until_alone(process.pid)
    for name in CASES:
        np.testing.assert_allclose(weights[name], weights_of(name), atol=1e-5)


OF_A_FILE = """
import agents

agent = agents.make("examples/your_own_dqn.py:QLearner", "CartPole-v1", strategy="multi-worker-mirrored",
                    jit_compile=False, hidden_sizes=[8], batch_size=9, learning_starts=20, train_freq=4)
agents.Trainer(agent).train(env_steps=40)
print(agent.gradient_steps)
"""


@pytest.mark.real
def test_agent_of_a_file_with_its_own_config_learns_in_several_processes() -> None:
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", OF_A_FILE], cwd=root, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0


FAILING = """
import time
from agents.distributed.loopback import exit_with_parent

exit_with_parent(lambda: 1 / 0)
time.sleep(100)
"""


@pytest.mark.real
def test_process_that_cannot_read_a_message_ends_with_the_error() -> None:
    done = subprocess.run([sys.executable, "-c", FAILING], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr


def _check_kept_to_loopback(pids: Iterable[int]) -> None:
    """Assert that the servers, which have no authentication, accept no connections from other machines."""
    here = reachable("0.0.0.0")
    ports = [port for pid in pids for port in _listening(pid)]
    assert ports
    for port in ports:
        socket.create_connection(("127.0.0.1", port), timeout=5.0).close()
        if not here.startswith("127."):
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((here, port), timeout=5.0)


def _listening(pid: int) -> set[int]:
    """Return the ports on which a process listens."""
    sockets = set()
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            sockets.add(os.readlink(each))
    rows = [line.split() for table in ("tcp", "tcp6") for line in Path("/proc/net", table).read_text().splitlines()[1:]]
    return {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in sockets}


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        (None, StrategySpec("none", 1)),
        ("none", StrategySpec("none", 1)),
        ("One-Device", StrategySpec("one-device", 1)),
        ("mirrored", StrategySpec("mirrored", 2)),
        ("mirrored:4", StrategySpec("mirrored", 4)),
        ("OneDeviceStrategy", StrategySpec("one-device", 1)),
        ("MirroredStrategy", StrategySpec("mirrored", 2)),
        ("MirroredStrategy:4", StrategySpec("mirrored", 4)),
        ("MultiWorkerMirroredStrategy", StrategySpec("multi-worker-mirrored", 2)),
        ("ParameterServerStrategy:3", StrategySpec("parameter-server", 3)),
    ],
)
def test_strategy_texts_are_parsed(text: str | None, spec: StrategySpec) -> None:
    assert StrategySpec.of(text) == spec
    assert StrategySpec.of(str(spec)) == spec
    assert spec.name in STRATEGIES


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("miror", "Did you mean mirrored"),
        ("mirrored:none", "write mirrored:2"),
        ("mirrored:0", "write mirrored:2"),
        ("one-device:2", "has one replica"),
        (3, "A int is not a known strategy"),
    ],
)
def test_invalid_strategies_are_refused(given: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        StrategySpec.of(given)


def test_tensorflow_strategy_objects_are_accepted() -> None:
    from agents.backend.tensorflow import tf

    assert StrategySpec.of(tf.distribute.OneDeviceStrategy("/cpu:0")) == StrategySpec("one-device", 1)
    assert StrategySpec.of(tf.distribute.MirroredStrategy(["/cpu:0"])) == StrategySpec("mirrored", 1)
    assert StrategySpec.of(tf.distribute.get_strategy()) == StrategySpec("none", 1)


def test_tensorflow_cluster_strategy_objects_are_accepted() -> None:
    from agents.backend.tensorflow import tf

    # Objects of these classes cannot be built without servers: the attributes that are read are set by hand.
    class Workers(tf.distribute.MultiWorkerMirroredStrategy):
        num_replicas_in_sync = 3

        def __init__(self) -> None:
            pass

    class Servers(tf.distribute.ParameterServerStrategy):
        num_replicas_in_sync = 1

        def __init__(self) -> None:
            self._num_workers = 4

    assert StrategySpec.of(Workers()) == StrategySpec("multi-worker-mirrored", 3)
    assert StrategySpec.of(Servers()) == StrategySpec("parameter-server", 4)


def test_agent_built_in_strategy_scope_has_strategy() -> None:
    from agents.backend.tensorflow import tf

    with tf.distribute.OneDeviceStrategy("/cpu:0").scope():
        agent = make("ppo", "CartPole-v1")
    assert agent.strategy is not None
    assert make("ppo", "CartPole-v1").strategy is None


def test_missing_devices_are_refused() -> None:
    from agents.backend.tensorflow import tf

    tf.constant(1)
    with pytest.raises(ConfigurationError, match=r"CPU device\(s\) in this process, and 64 are needed"):
        make("ppo", "CartPole-v1", strategy="mirrored:64")


def test_xla_is_refused_with_a_strategy() -> None:
    agent = make("ppo", "CartPole-v1", strategy="one-device", jit_compile=True)
    with pytest.raises(ConfigurationError, match="XLA compiles nothing with a strategy"):
        agent.compilation()
