"""How good are the picks? Every policy, replayed over every table; writes benchmarks/pick.md.

    python benchmarks/pick.py [--replays 200] [--processes 2]     # everything but the last section, from the tables
    python benchmarks/pick.py time                                 # the last section: real searches

What is measured once stays in benchmarks/results/pick.jsonl until a table, the number of replays or the code that is
replayed changes, so that an interrupted measurement goes on.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import pick_measures
from pick_measures import PRUNING, Json

from studies.simulation.run_table import RunTable

FOLDER = Path(__file__).parent
RESULTS = FOLDER / "results" / "pick.jsonl"
REPOSITORY = FOLDER.parent
DEVELOPED_ON = (
    "dqn-cartpole", "ppo-cartpole", "ppo-cartpole-batch-512", "ppo-cartpole-rewards-0.01", "ppo-cartpole-rewards-100",
    "ppo-cartpole-width-256",
)  # fmt: skip
"""Tables on which the race's settings were chosen."""

LOOKED_AT = (
    "dqn-acrobot", "dqn-cartpole-rewards-0.01", "dqn-cartpole-rewards-100", "dqn-mountaincar", "ppo-acrobot",
    "ppo-acrobot-rewards-0.01", "ppo-acrobot-rewards-100", "ppo-mountaincar", "ppo-mountaincarcontinuous",
    "ppo-pendulum",
)  # fmt: skip
"""Tables whose results were known before the race was changed the last time. All others were made later."""

SHARE = 0.1
POLICIES = ("race", "grid", "random", "keep-top", "halving", "hyperband", "asha", "tpe-median")
SPENDING = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)
"""Shares of what all runs of a table cost, at which the race and the design with fixed seeds are compared."""

# Measuring ----------------------------------------------------------------------------------------------------------


def jobs(names: Iterable[str]) -> list[tuple[str, str, tuple[Any, ...]]]:
    """Everything that is measured: table, what, and its further arguments."""
    found: list[tuple[str, str, tuple[Any, ...]]] = []
    for name in names:
        if name.endswith("-momentum"):
            found += [(name, "momentum", (n_seeds,)) for n_seeds in (3, 5, 8)]
            continue
        found += [(name, what, ()) for what in ("signal", "ceiling", "best_of_adam", "drift_seen")]
        found += [(name, "policy", (each, SHARE)) for each in POLICIES]
        found += [(name, "policy", (each, share)) for each in ("race", "grid") for share in SPENDING if share != SHARE]
        found += [(name, "policy", ("default", 1.0)), (name, "covered", ("default", 1.0))]
        found += [(name, "covered", ("race", SHARE)), (name, "covered", ("race", 0.2))]
        found += [(name, "twins", (n_seeds,)) for n_seeds in (3, 5, 8)]
        found += [(name, "searched_rates", ())]
        found += [(name, "horizon", (share, n_seeds)) for share in (0.25, 0.5, 1.0) for n_seeds in (3, 8)]
        found += [(name, "pruning", (rule,)) for rule in PRUNING]
    return found


def measure(name: str, what: str, arguments: tuple[Any, ...], replays: int) -> Json:
    """One measurement."""
    table = RunTable.read(FOLDER / "tables" / f"{name}.parquet")
    return getattr(pick_measures, what)(table, replays, *arguments)


def state_of(name: str) -> str:
    """Changes with the table, with the code that is replayed, and with what is measured."""
    return hashlib.sha256((FOLDER / "tables" / f"{name}.parquet").read_bytes() + code().encode()).hexdigest()[:12]


def code() -> str:
    """Changes with what decides, and with what is measured."""
    rooms = ("analysis", "scheduling", "simulation", "statistics")
    files = [FOLDER / "pick_measures.py"]
    files += [path for room in rooms for path in sorted((REPOSITORY / "studies" / room).glob("*.py"))]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def measured(names: Sequence[str], replays: int, processes: int) -> dict[tuple[Any, ...], Json]:
    """All measurements: those that are there already, and those that are missing."""
    states = {name: state_of(name) for name in names}
    known: dict[tuple[Any, ...], Json] = {}
    if RESULTS.exists():
        rows = [json.loads(line) for line in RESULTS.read_text().splitlines()]
        rows = [row for row in rows if row["state"] == states.get(row["table"]) and row["replays"] == replays]
        known = {(row["table"], row["what"], tuple(row["arguments"])): row["told"] for row in rows}
        RESULTS.write_text("".join(json.dumps(row) + "\n" for row in rows))
    missing = [job for job in jobs(names) if job not in known]
    RESULTS.parent.mkdir(exist_ok=True)
    with ProcessPoolExecutor(processes) as pool, RESULTS.open("a") as file:
        running = {pool.submit(measure, *job, replays): job for job in missing}
        for n, future in enumerate(as_completed(running), 1):
            job = running[future]
            known[job] = future.result()
            row = {"table": job[0], "what": job[1], "arguments": job[2], "replays": replays, "told": known[job]}
            file.write(json.dumps({**row, "state": states[job[0]]}) + "\n")
            file.flush()
            if n % 25 == 0:
                print(f"{n} of {len(missing)}", flush=True)
    return known


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=["tables", "time"], default="tables")
    parser.add_argument("--replays", type=int, default=200)
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    from pick_report import report, time_searches

    if arguments.what == "time":
        time_searches()
    began = time.perf_counter()
    names = sorted(path.stem for path in (FOLDER / "tables").glob("*.parquet"))
    told = measured(names, arguments.replays, arguments.processes)
    text = report(names, told, arguments.replays)
    (FOLDER / "pick.md").write_text(text)
    print(text)
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
