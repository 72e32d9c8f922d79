"""Tests of studies in a Ray cluster of two machines, one of which fails."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agents import AgentSpec, ConfigurationError
from finder.executors.choice import choose_executor
from finder.executors.ray_cluster import capacity_for
from studies import StudyError, StudySpec

SCRIPT = """
import os, sys, threading, time
import gymnasium as gym
import ray
import agents
from ray.cluster_utils import Cluster
from finder import LRFinder
from studies.spec.attributes import seed_values
from studies.study.study import load_study

url = sys.argv[1]
counter = agents.distributed.shared("steps")
counter.add(1_000)  # in this process, as Ray is not connected yet
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
other = cluster.add_node(num_cpus=1)
ray.init(address=cluster.address, logging_level="ERROR", log_to_driver=False)

OPTIONS = dict(
    env_steps=6_000, seeds=1, confirm=0, pruner="none", checkpoint_seconds=0.1,
    fixed={"jit_compile": False, "n_steps": 32, "n_envs": 4, "batch_size": 32, "n_epochs": 2, "hidden_sizes": [16]},
)

class Watch:
    def __init__(self):
        self.nodes, self.started = set(), set()
    def study_opened(self, study, n_left, executor):
        print(executor.description)
    def trial_episodes(self, number, records):
        self.started |= {number}
        if len(self.started) == 2 and self.nodes == set():
            self.nodes = {"killed"}
            cluster.remove_node(other, allow_graceful=False)  # in the middle of a trial of each machine
    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *args: None

watch = Watch()
found = LRFinder("ppo", "CartPole-v1").grid(
    1e-4, 1e-2, 3, executor="ray", storage=url, study_name="ray", observer=watch, **OPTIONS
)
assert watch.nodes == {"killed"}
here = LRFinder("ppo", "CartPole-v1").grid(1e-4, 1e-2, 3, executor="inline", storage=None, **OPTIONS)
trials = found.study.trials()
assert [trial.state.name for trial in trials] == ["COMPLETE"] * 3, [trial.state for trial in trials]
assert [seed_values(trial) for trial in trials] == [seed_values(trial) for trial in here.study.trials()]
for trial in trials:
    curve = found.study.storage.episodes.curve(found.study.episodes_key, trial.number)
    assert [each.episode for each in curve] == list(range(len(curve)))
assert {trial.user_attrs["configuration"]["executor"] for trial in trials} == {"ray"}


class Counting(gym.Wrapper):
    def __init__(self):
        super().__init__(gym.make("CartPole-v1"))
        self.steps = agents.distributed.shared("steps")
    def step(self, action):
        self.steps.add()
        return self.env.step(action)


# Trials use the CPU of the remaining machine, and their environments are actors too.
values = []
for kind, expected in (("sync", 1_320), ("ray", 1_640), ("ray-subproc", 1_960), ("subproc", 2_280)):
    env = agents.EnvironmentSpec(Counting, {}, kind)
    few = {**OPTIONS, "env_steps": 160, "fixed": {**OPTIONS["fixed"], "n_envs": 2}, "storage": None}
    study = LRFinder("ppo", env).grid(1e-4, 1e-2, 2, executor="ray", **few).study
    assert counter.value() == expected, (kind, counter.value())
    values.append([seed_values(trial) for trial in study.trials()])
    assert values[0] == values[-1] and len(values[0]) == 2
print("counted everywhere")
job = ray.get_runtime_context().get_job_id()
actor = ray.get_actor(f"shared-objects-{job}", namespace="finder")
ray.kill(actor)
while True:  # it is killed some time after the call
    try:
        ray.get(actor.__ray_ready__.remote())
    except ray.exceptions.RayActorError:
        break
for _ in range(2):  # with the actor, and with Ray
    try:
        print("lost", counter.value())
    except ConnectionError as error:
        print("told:", error)
    ray.shutdown()
cluster.shutdown()
print("as without Ray")
"""


@pytest.mark.real
def test_failed_machine_loses_no_results_and_trial_environments_share_counters(
    tmp_path: Path,
) -> None:
    pytest.importorskip("ray", reason="`make test` installs it")
    output = tmp_path / "output"
    with output.open("w") as file:  # processes that Ray leaves behind would keep a pipe open
        process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, f"sqlite:///{tmp_path}/finder.db"],
            stdout=file, stderr=file, cwd=tmp_path, start_new_session=True,
        )  # fmt: skip
    try:
        code = process.wait(timeout=1200)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    printed = output.read_text()
    assert code == 0, printed[-3_000:]
    assert "a trial each in 2 processes of a Ray cluster of 2 machine(s)" in printed
    assert "as without Ray" in printed
    assert "counted everywhere" in printed
    assert "told: The shared object 'steps' is gone with the Ray actor it lived in: " in printed
    assert "told: The shared object 'steps' is gone: it lived in Ray, which this process has left." in printed


FROM_A_PROCESS = """
from fakes import SMALL_PPO
from agents import EnvironmentSpec
from agents.distributed import shared
from finder import LRFinder

found = LRFinder("ppo", EnvironmentSpec("fakes:TwoStep-v0", {"counter": "steps"}, "ray")).grid(
    1e-3, 1e-2, 2, env_steps=64, seeds=1, confirm=0, executor="process", n_jobs=1, storage=None, fixed=SMALL_PPO
)
print([trial.state.name for trial in found.study.trials()], shared("steps").value())
"""


def marked_with(mark: str) -> list[str]:
    """Return the commands of the processes with a mark in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark.encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_text())
    return found


@pytest.mark.real
def test_actors_of_a_trial_end_with_its_process(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="`make test` installs it")
    mark, output = f"FINDER_TEST={tmp_path}", tmp_path / "output"
    path = os.pathsep.join(path for path in sys.path if path)
    environment = {**os.environ, "FINDER_TEST": str(tmp_path), "RAY_ADDRESS": "local", "PYTHONPATH": path}
    with output.open("w") as file:
        subprocess.run(
            [sys.executable, "-c", FROM_A_PROCESS],
            env=environment, stdout=file, stderr=file, timeout=1200, check=False,
        )  # fmt: skip
    assert "['COMPLETE', 'COMPLETE'] 128" in output.read_text()
    until = time.monotonic() + 20
    while left := marked_with(mark):
        assert time.monotonic() < until, left
        time.sleep(0.2)


def spec_of(**fields: object) -> StudySpec:
    base = {"name": "s", "storage": "memory", "agents": ("a",), "env": "CartPole-v1", "env_steps": 100}
    return StudySpec(**{**base, "params": {"learning_rate": "1e-4:1e-2:log"}, **fields})  # type: ignore[arg-type]


def test_cluster_resources_are_refused_by_other_executors() -> None:
    for field in ("trial_cpus", "trial_memory_gb"):
        with pytest.raises(StudyError, match=f"{field} is a request to a Ray cluster"):
            spec_of(**{field: 2})
        assert getattr(spec_of(executor="ray", **{field: 2}), field) == 2


GB = 10**9
SMALL, LARGE = {"CPU": 2.0, "memory": 4.0 * GB}, {"CPU": 7.0, "memory": 16.0 * GB, "GPU": 1.0}


@pytest.mark.parametrize(
    ("cpus", "memory", "machines", "room"),
    [
        (1, None, [SMALL, LARGE], 9),
        (3, None, [SMALL, LARGE], 2),  # 9 CPUs in all would be enough for 3
        (1, 3 * GB, [SMALL, LARGE], 6),
        (4, 3 * GB, [SMALL, LARGE], 1),
        (0.1, None, [{"CPU": 0.3}], 3),
        (0.5, None, [SMALL, {"node:head": 1.0}], 4),
    ],
)
def test_capacity_is_counted_per_machine(
    cpus: float, memory: int | None, machines: list[dict[str, float]], room: int
) -> None:
    assert capacity_for(cpus, memory, machines) == room


@pytest.mark.parametrize(
    ("cpus", "memory", "message"),
    [
        (8, None, r"a trial of 8 CPUs; they have 2 CPUs and 4.0 GB, 7 CPUs and 16.0 GB: ask for less"),
        (1, 17 * GB, r"a trial of 1 CPU and 17.0 GB; they have"),
    ],
)
def test_trial_that_fits_no_machine_is_refused(cpus: float, memory: int | None, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        capacity_for(cpus, memory, [SMALL, LARGE, SMALL])


def test_error_without_ray_names_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigurationError, match=r"needs Ray: pip install ray"):
        choose_executor(spec_of(executor="ray"), {"a": AgentSpec.of("ppo", "CartPole-v1")})
