"""What checkpoints cost at their defaults: share of a study's wall time.

    python -m benchmarks.training.checkpoints [--rounds 1]

Studies of minutes in one process: PPO alone, DQN alone with a full replay, and populations of both. Each runs with
checkpoints at their default (every 60 s) and without, in turns. Told are the time that went into writing them and the
ratio of the two wall times. Results go to `results/checkpoints.jsonl`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile

from benchmarks import folders

RESULTS = folders.RESULTS / "checkpoints.jsonl"
CASES = {  # agent, executor, trials, environment steps of each, settings
    "ppo-alone": ("ppo", "inline", 1, 3_000_000, {}),
    "dqn-alone": ("dqn", "inline", 1, 90_000, {}),
    "ppo-population": ("ppo", "population", 32, 200_000, {}),
    "dqn-population": ("dqn", "population", 16, 100_000, {"train_freq": 4}),
}

RUN = """
import json, os, sys, time
from finder.trials.checkpoints import Checkpoints
from finder.executors.choice import make_executor
from finder.search.object_resolver import ObjectResolver
from finder.search.search import Search
from studies.recording.opening import open_study
from studies.spec.spec import StudySpec

name, executor, n_trials, env_steps, fixed, folder, seconds = json.loads(sys.argv[1])
os.environ["FINDER_CHECKPOINTS"] = folder
wrote = {"seconds": 0.0, "times": 0, "bytes": 0}
save = Checkpoints.save

def timed(self, groups):
    began = time.perf_counter()
    save(self, groups)
    wrote["seconds"] += time.perf_counter() - began
    wrote["times"] += 1
    wrote["bytes"] = max(wrote["bytes"], sum(file.stat().st_size for file in self._folder.glob("*")))

Checkpoints.save = timed
spec = StudySpec(
    name="kept", storage=f"sqlite:///{folder}/finder.db", agents=(name,), env="CartPole-v1", env_steps=env_steps,
    seeds=(0,), fixed=fixed, params={"learning_rate": "1e-4:1e-3:log"}, n_trials=n_trials, sampler="random",
    pruner="none", confirm=0, checkpoint_seconds=seconds,
)
study = open_study(spec)
began = time.perf_counter()
Search(study, ObjectResolver.of(spec), make_executor(executor, 1)).run()
print(json.dumps({"wall": time.perf_counter() - began, **wrote}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES))
    arguments = parser.parse_args()
    for case in arguments.cases:
        pairs = [(run(case, 60.0), run(case, 0.0)) for _ in range(arguments.rounds)]
        row = {
            "case": case,
            "wall_seconds": round(statistics.median(kept["wall"] for kept, _ in pairs), 1),
            "checkpoints": round(statistics.median(kept["times"] for kept, _ in pairs)),
            "megabytes": round(max(kept["bytes"] for kept, _ in pairs) / 1e6, 1),
            "share_written": round(statistics.median(kept["seconds"] / kept["wall"] for kept, _ in pairs), 4),
            "ratio_of_walls": round(statistics.median(kept["wall"] / plain["wall"] for kept, plain in pairs), 3),
        }
        print(json.dumps(row), flush=True)
        with RESULTS.open("a") as file:
            file.write(json.dumps(row) + "\n")


def run(case: str, checkpoint_seconds: float) -> dict[str, float]:
    """One study: its wall time, and what went into checkpoints."""
    name, executor, n_trials, env_steps, fixed = CASES[case]
    with tempfile.TemporaryDirectory() as folder:
        what = json.dumps([name, executor, n_trials, env_steps, fixed, folder, checkpoint_seconds])
        done = subprocess.run([sys.executable, "-c", RUN, what], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


if __name__ == "__main__":
    main()
