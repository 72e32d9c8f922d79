"""Studies in a Ray cluster of two machines, one of which dies."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agents import AgentSpec, ConfigurationError
from finder.executors import choose_executor
from studies import StudyError, StudySpec

SCRIPT = """
import os, sys, threading, time
import ray
from ray.cluster_utils import Cluster
from finder import LRFinder
from studies.attributes import seed_values
from studies.study import load_study

url = sys.argv[1]
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
other = cluster.add_node(num_cpus=1)
ray.init(address=cluster.address, logging_level="ERROR", log_to_driver=False)

OPTIONS = dict(
    env_steps=6_000, seeds=1, confirm=0, pruner="none", checkpoint_seconds=0.1,
    params={"jit_compile": False, "n_steps": 32, "n_envs": 4, "batch_size": 32, "n_epochs": 2, "hidden_sizes": [16]},
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
ray.shutdown()
cluster.shutdown()
print("as without Ray")
"""


@pytest.mark.real
def test_a_machine_that_dies_costs_nothing_that_cannot_be_done_again(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="`make test` installs it")
    output = tmp_path / "output"
    with output.open("w") as file:  # a pipe would be held open by what Ray leaves behind
        process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, f"sqlite:///{tmp_path}/finder.db"],
            stdout=file, stderr=file, cwd=tmp_path, start_new_session=True,
        )  # fmt: skip
    try:
        code = process.wait(timeout=400)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    told = output.read_text()
    assert code == 0, told[-3_000:]
    assert "a trial each in 2 processes of a Ray cluster of 2 machine(s)" in told
    assert "as without Ray" in told


def spec_of(**fields: object) -> StudySpec:
    base = {"name": "s", "storage": "memory", "agents": ("a",), "env": "CartPole-v1", "env_steps": 100}
    return StudySpec(**{**base, "params": {"learning_rate": "1e-4:1e-2:log"}, **fields})  # type: ignore[arg-type]


def test_what_only_a_cluster_is_asked_for_is_refused_elsewhere() -> None:
    for field in ("trial_cpus", "trial_memory_gb"):
        with pytest.raises(StudyError, match=f"{field} is what a trial asks a Ray cluster for"):
            spec_of(**{field: 2})
        assert getattr(spec_of(executor="ray", **{field: 2}), field) == 2


def test_without_ray_it_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'agentfinder\[ray\]'"):
        choose_executor(spec_of(executor="ray"), {"a": AgentSpec.of("ppo", "CartPole-v1")})
