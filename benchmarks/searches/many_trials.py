"""What a study of many trials costs: asking, reporting, telling, looking at it; against the number of trials.

    python -m benchmarks.searches.many_trials [--trials 10000] [--points 50] [--pruner median] [--folder DIR]

Trials are simulated (a curve that rises to a value that depends on the learning rate) and recorded by the recorder that
every search uses, into a SQLite file that stays in DIR. Results go to `results/many-trials.jsonl`, a line for each
thousand trials, and one for each way of looking at them.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import folders
from studies.database.records import EpisodeRecord
from studies.recording.opening import open_study
from studies.recording.recorder import Recorder
from studies.spaces.spaces import FloatRange, Space
from studies.spec.spec import StudySpec

SPACE: dict[str, Space] = {
    "learning_rate": FloatRange(low=1e-5, high=1e-1, log=True),
    "gamma": FloatRange(low=0.9, high=0.999),
}
RESULTS = folders.RESULTS / "many-trials.jsonl"
FINDER = [sys.executable, "-c", "import sys; from finder.cli import main; sys.exit(main())"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--points", type=int, default=50)
    parser.add_argument("--pruner", default="median")
    parser.add_argument("--sampler", default="random")
    parser.add_argument("--folder", type=Path, default=Path())
    arguments = parser.parse_args()
    url = f"sqlite:///{arguments.folder / f'many-{arguments.pruner}-{arguments.sampler}.db'}"
    steps = arguments.points * 100
    for n_trials in [n for n in (1_000, 10_000) if n < arguments.trials] + [arguments.trials]:
        spec = StudySpec(
            name="many", storage=url, agents=("ppo",), env="CartPole-v1", env_steps=steps, seeds=(0,),
            params=SPACE, n_trials=n_trials, confirm=0,
            sampler=arguments.sampler, pruner=arguments.pruner, n_reports=arguments.points,
        )  # fmt: skip
        record(spec)
        look(spec)


def record(spec: StudySpec) -> None:
    """Runs what is left of a study, and keeps what each call took, in milliseconds."""
    assert spec.env_steps is not None
    with open_study(spec) as study, Recorder(study) as recorder:
        took: dict[str, list[float]] = defaultdict(list)

        def timed(name: str, call: Callable[..., Any], *args: Any) -> Any:
            began = time.perf_counter()
            result = call(*args)
            took[name].append(1e3 * (time.perf_counter() - began))
            return result

        while (ask := timed("ask", recorder.ask)) is not None:
            value = 100 * math.exp(-((math.log10(ask.params["learning_rate"]) + 3) ** 2)) + ask.number % 7
            recorder.started(ask.number, {"agent": "ppo"})
            pruned = 0
            for point in range(1, 51):
                now = value * point / 50
                recorder.episodes(ask.number, [episode(point, now)])
                if timed("report", recorder.rung, spec.env_steps * point // 50, {ask.number: {0: now}}):
                    pruned = spec.env_steps * point // 50
                    break
            if pruned:
                timed("tell", recorder.pruned, ask.number, pruned, now, {0: now})
            else:
                timed("tell", recorder.completed, ask.number, value, {0: value}, {"wall_seconds": 1.0})
            if (ask.number + 1) % 1_000 == 0:
                keep({"trials": ask.number + 1, **{name: median(each) for name, each in took.items()}}, spec)
                took.clear()


def episode(number: int, value: float) -> EpisodeRecord:
    return EpisodeRecord(
        seed=0, episode=number, env_steps=number * 100, episode_return=value, length=100, loss=0.1, wall_seconds=0.1
    )


def look(spec: StudySpec) -> None:
    """Calls the commands that look at a study, as a user does, in processes of their own."""
    report = Path(spec.storage.removeprefix("sqlite:///")).with_suffix(".html")
    for words in (["studies"], ["show", "many"], ["best", "many"], ["report", "many", "--output", str(report)]):
        seconds = []
        for _ in range(3):
            began = time.perf_counter()
            done = subprocess.run(
                [*FINDER, *words, "--storage", spec.storage], capture_output=True, text=True, check=False
            )
            seconds.append(time.perf_counter() - began)
            assert done.returncode == 0, done.stderr
        keep({"trials": spec.n_trials, "command": words[0], "seconds": round(statistics.median(seconds), 2)}, spec)


def median(values: list[float]) -> float:
    return round(statistics.median(values), 3)


def keep(row: dict[str, object], spec: StudySpec) -> None:
    row = {"pruner": spec.pruner, "sampler": spec.sampler, "points": spec.n_reports, **row}
    print(json.dumps(row), flush=True)
    with RESULTS.open("a") as file:
        file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
