"""Tests of the number of threads of TensorFlow."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from agents import ConfigurationError, set_num_threads
from agents.backend import threads

VARIABLES = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")

SHOW = """
{before}
from agents.backend.tensorflow import tf
from agents.backend.threads import threads_in_use
tf.linalg.matmul(tf.ones((300, 300)), tf.ones((300, 300)))
print(threads_in_use(), tf.config.threading.get_inter_op_parallelism_threads())
"""


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.setenv(name, "")  # restored after the test, also where the test sets it


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, (8, 2)),
        ({"OMP_NUM_THREADS": "3"}, (3, 2)),
        ({"OMP_NUM_THREADS": "1,2"}, (1, 1)),
        ({"OMP_NUM_THREADS": "3", "TF_NUM_INTRAOP_THREADS": "16"}, (8, 2)),
        ({"OMP_NUM_THREADS": "many"}, (8, 2)),
    ],
)
def test_processes_share_the_cores_within_the_limit_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: tuple[int, int]
):
    monkeypatch.setattr(threads, "cores", lambda: 8)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert (threads.threads_for(), threads.threads_for(4)) == expected
    assert threads.threads_for(100) == 1


def test_number_of_threads_cannot_change_when_tensorflow_has_started():
    from agents.backend.tensorflow import tf

    tf.ones(1) + 1
    other = threads.threads_in_use() + 1
    with pytest.raises(ConfigurationError, match=f"has started with {other - 1} threads.*cannot become {other}"):
        set_num_threads(other)
    assert not os.environ["TF_NUM_INTRAOP_THREADS"]
    with pytest.raises(ConfigurationError, match="num_threads must be >= 1, got 0"):
        set_num_threads(0)


def test_threads_of_blas_follow_the_quota_before_numpy_is_imported(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(threads, "cores_of_quota", lambda: 1)
    threads.limit_blas_threads()
    assert not os.environ["OPENBLAS_NUM_THREADS"]  # NumPy is imported here
    monkeypatch.delitem(sys.modules, "numpy")
    threads.limit_blas_threads()
    assert os.environ["OPENBLAS_NUM_THREADS"] == "1"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("taskset") is None, reason="taskset is missing")
@pytest.mark.parametrize(
    ("affinity", "before", "variables", "expected"),
    [
        ("0", "", {}, "1 1"),
        ("0,1", "", {}, "2 2"),
        ("0,1", "", {"OMP_NUM_THREADS": "1"}, "1 2"),
        ("0,1", "import agents; agents.set_num_threads(1)", {}, "1 2"),
        ("0,1", "import tensorflow as tf; tf.config.threading.set_intra_op_parallelism_threads(1)", {}, "1 2"),
    ],
)
def test_tensorflow_has_no_more_threads_than_cores(
    affinity: str, before: str, variables: dict[str, str], expected: str
):
    if not set(map(int, affinity.split(","))) <= os.sched_getaffinity(0):
        pytest.skip(f"this process may not use the cores {affinity}")
    ran = subprocess.run(
        ["taskset", "-c", affinity, sys.executable, "-c", SHOW.format(before=before)],
        capture_output=True, text=True, timeout=120, check=False, env={**os.environ, **variables},
    )  # fmt: skip
    assert ran.stdout.split() == expected.split(), ran.stderr


DQN = """
import gymnasium, numpy
import agents
from agents.algorithms.dqn import DQN, DQNConfig
{before}
space = gymnasium.spaces.Box(0, 255, {shape}, numpy.uint8 if len({shape}) == 3 else numpy.float32)
DQN(space, gymnasium.spaces.Discrete(2), DQNConfig(hidden_sizes=(8,)))
from agents.backend.threads import threads_in_use
print(threads_in_use())
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("taskset") is None, reason="taskset is missing")
@pytest.mark.parametrize(
    ("shape", "before", "expected"),
    [("(4,)", "", 1), ("(40, 40, 4)", "", 2), ("(4,)", "agents.set_num_threads(2)", 2)],
)
def test_operations_of_dense_networks_share_the_cores(shape: str, before: str, expected: int):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("this process may use one core only")
    cores = ",".join(map(str, sorted(os.sched_getaffinity(0))[:2]))
    ran = subprocess.run(
        ["taskset", "-c", cores, sys.executable, "-c", DQN.format(shape=shape, before=before)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ran.stdout.split()[-1:] == [str(expected)], ran.stderr


CHILD = """
import sys
import numpy
from threadpoolctl import threadpool_info
from agents.backend.threads import share_blas_threads
share_blas_threads(int(sys.argv[1]))
print({each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"})
"""


@pytest.mark.parametrize(
    ("share", "given", "used"), [(1, "", "{1}"), (2, "1", "{1}"), (1, "2", "{1}"), (2, "2", "{2}")]
)
def test_products_of_processes_use_their_share_of_the_cores(share: int, given: str, used: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    environment |= {"OPENBLAS_NUM_THREADS": given} if given else {}
    ran = subprocess.run(
        [sys.executable, "-c", CHILD, str(share)], capture_output=True, text=True, check=True, env=environment
    )
    assert ran.stdout.strip() == used
