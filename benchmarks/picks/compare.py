"""How good are the picks? Every policy, replayed over every table; writes benchmarks/pick.md.

    python -m benchmarks.picks.compare [--replays 200] [--processes 2]  # all but the last section, from the tables
    python -m benchmarks.picks.compare time  # the last section: real searches
    python -m benchmarks.picks.compare unseen [--budgets 5,10,20,40]  # pick-unseen.md, from tables of 40 seeds

`unseen` needs the tables of `python -m benchmarks.picks.tables make many`, and takes those that are there. It compares
policies at budgets in runs of the longest length, with searches over runs of an eighth, a quarter, a half and all of
that length; picks are judged on 25 seeds that no search saw (`unseen.py`). With all eight cases and 200 replays
that takes about five hours on two cores, most of it for TPE with short runs; `--replays 50` takes a quarter.

What is measured once stays in benchmarks/results/pick.jsonl (pick-unseen.jsonl) until a table, the number of replays or
the code that is replayed changes, so that an interrupted measurement is resumed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from benchmarks import folders
from benchmarks.picks import measures as pick_measures
from benchmarks.picks.cases import POLICIES, SHARE, SPENDING, code
from benchmarks.picks.measures import PRUNING, Json
from benchmarks.result_lines import append_lines, read_lines
from studies.simulation.run_table import RunTable

RESULTS = folders.RESULTS / "pick.jsonl"
UNSEEN = folders.RESULTS / "pick-unseen.jsonl"

Job = tuple[str, str, tuple[Any, ...]]
"""Table, what is measured, and its further arguments."""

Measure = Callable[[str, str, tuple[Any, ...], int], Json]

# Measuring ----------------------------------------------------------------------------------------------------------


def jobs(names: Iterable[str]) -> list[Job]:
    """Everything that is measured: table, what, and its further arguments."""
    found: list[Job] = []
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
    table = RunTable.read(table_of(name))
    return getattr(pick_measures, what)(table, replays, *arguments)


def table_of(name: str) -> Path:
    """Return the file of a table."""
    return folders.TABLES / f"{name}.parquet"


def state_of(files: Iterable[Path]) -> str:
    """Changes with these files and with the code that is replayed."""
    return hashlib.sha256(b"".join(file.read_bytes() for file in files) + code().encode()).hexdigest()[:12]


def measured(
    path: Path, jobs_of_all: Sequence[Job], states: Mapping[str, str], take: Measure, *, replays: int, processes: int
) -> dict[Job, Json]:
    """All measurements: those that are there already, and those that are missing.

    Args:
        path: The file with those that are there; lines of other states are removed.
        jobs_of_all: Table, what is measured, and its further arguments.
        states: Table -> what changes with the table and the code that is replayed.
        take: Job and replays -> a measurement.
        replays: Number of replays.
        processes: Measurements at the same time.
    """
    rows = [row for row in read_lines(path) if row["state"] == states.get(row["table"]) and row["replays"] == replays]
    known = {(row["table"], row["what"], tuple(row["arguments"])): row["told"] for row in rows}
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with ProcessPoolExecutor(processes) as pool:
        running = {pool.submit(take, *job, replays): job for job in jobs_of_all if job not in known}
        for n, future in enumerate(as_completed(running), 1):
            job = running[future]
            known[job] = future.result()
            row = {"table": job[0], "what": job[1], "arguments": job[2], "replays": replays, "told": known[job]}
            append_lines(path, {**row, "state": states[job[0]]})
            if n % 25 == 0:
                print(f"{n} of {len(running)}", flush=True)
    return known


def unseen(budgets: Sequence[int], replays: int, processes: int) -> str:
    """Measure what is missing of the picks on unseen seeds, and return the report."""
    from benchmarks.picks import unseen as pick_unseen

    names = pick_unseen.available()
    if not names:
        raise SystemExit("There is no table of 40 seeds: make some with `python -m benchmarks.picks.tables make many`.")
    judges = Path(__file__).with_name("unseen.py")
    states = {name: state_of([*pick_unseen.files(name), judges]) for name in names}
    told = measured(
        UNSEEN, pick_unseen.jobs(names, budgets), states, pick_unseen.measure, replays=replays, processes=processes
    )
    return pick_unseen.report(names, told, budgets, replays)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=["tables", "time", "unseen"], default="tables")
    parser.add_argument("--replays", type=int, default=200)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--budgets", help="of `unseen`, in runs of the longest length (default: 5,10,20,40)")
    arguments = parser.parse_args()
    if arguments.what == "unseen":
        from benchmarks.picks.unseen import BUDGETS

        budgets = [int(word) for word in arguments.budgets.split(",")] if arguments.budgets else list(BUDGETS)
        text = unseen(budgets, arguments.replays, arguments.processes)
        (folders.BENCHMARKS / "pick-unseen.md").write_text(text)
        print(text)
        return
    if arguments.budgets:
        parser.error("--budgets is for `compare unseen`: leave it out.")
    from benchmarks.picks.report import report, time_searches

    if arguments.what == "time":
        time_searches()
    began = time.perf_counter()
    names = sorted(path.stem for path in (folders.TABLES).glob("*.parquet"))
    states = {name: state_of([table_of(name)]) for name in names}
    told = measured(RESULTS, jobs(names), states, measure, replays=arguments.replays, processes=arguments.processes)
    text = report(names, told, arguments.replays)
    (folders.BENCHMARKS / "pick.md").write_text(text)
    print(text)
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
