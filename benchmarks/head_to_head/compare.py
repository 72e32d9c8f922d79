"""Finder beside rl-baselines3-zoo, Ray Tune and no search, at equal wall-clock on the same two cores.

    python -m benchmarks.head_to_head.compare --minutes 5  # everything that is missing at 5 minutes
    python -m benchmarks.head_to_head.compare --cells ppo-acrobot,sac-tanks --minutes 5,15 --searches 1..3
    python -m benchmarks.head_to_head.compare --side finder,finder-none,zoo,none --library sb3,finder
    python -m benchmarks.head_to_head.compare --table      # head-to-head.md and .png of what is there
    python -m benchmarks.head_to_head.compare --scale 0.02 --seeds 2 --minutes 1 --searches 1 --results /tmp/try.jsonl

**Searches.** PPO on five environments and SAC on two (`cells.py`); one environment is not in the zoo. Each side has the
minutes from its command to its pick: `finder tune` with the steps of the long run (`--horizon`), without which it would
not know them; `python -m rl_zoo3.train -optimize` in two processes of one thread with a common storage, interrupted at
the limit, and the best trial of its storage; Ray Tune with two trials at a time of Stable-Baselines3 by ASHA or PBT
over the zoo's search space (`peers/ray_search.py`). The first trial of Ray has the zoo's values for the environment, as
that of Finder has by default, and the spaces of both contain them; the sides `finder-none` (`--first none`),
`ray-asha-none` and `ray-pbt-none` begin with nothing, and their spaces are not widened. The zoo's own search takes from
its values what it does not search (copies of the environment, normalization, the weight of the value loss, exploration
by gSDE), and cannot try the rest: the zoo has no option for that, and its space of PPO has discounts of at least 0.97.
Sides without a search are the defaults of both libraries and the zoo's tuned values. A side that found nothing trains
what it started from.

**Long runs.** Each pick trains ten fresh seeds for the same environment steps in Stable-Baselines3 (the peers' home
ground) and in Finder, and plays the same twenty greedy episodes at ten marks. `translation.py` translates picks; what
it cannot translate is in the results. Seconds are those of training alone; in Stable-Baselines3 of single runs, two
beside each other, and in Finder of all ten together.

Sides take turns. Each search, with the commit of this repository, and each seed of a long run is a line of
`results/head-to-head.jsonl`; what is there is not run again. `head-to-head.md` has the tables, `head-to-head.png` the
picture (Chromium). The peers live in a virtual environment of their own (`--peer`, and `--ray-peer` if Ray has another
one):

    python3 -m venv .peers
    .peers/bin/pip install torch==2.13.0 stable-baselines3==2.9.2 rl_zoo3==2.9.2 "ray[tune]==2.60.0" "gymnasium[box2d]"

How long it takes on two cores, computed from measured speeds (Stable-Baselines3 in two processes: PPO about 5,000 steps
a second, SAC 150; Finder: PPO about 40,000, SAC 280): 7 hours of searches at 5 minutes and 21 at 15. The long runs of a
pick take, in both libraries together: `ppo-acrobot`, `ppo-pendulum` and `ppo-tanks` 4 minutes each, `ppo-lunarlander`
12, `ppo-mountaincar` 2, `sac-pendulum` and `sac-tanks` 17 each. So all cells take 22 hours at 5 minutes (12 picks of
searches and 3 of sides without one), and 33 more at 15; one cell at 5 minutes takes 2 hours (`ppo-acrobot`) to 5.3
(`sac-tanks`). `--library finder` leaves three quarters of the long runs out.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks import folders
from benchmarks.head_to_head.cells import CELLS, DEFAULTS, FIRST_SEED, LIBRARIES, N_SEEDS, SEARCHERS, Cell, key_of
from benchmarks.head_to_head.judge import for_library, long_runs
from benchmarks.head_to_head.searches import CommandError, Peers, default_of, search
from benchmarks.result_lines import Json, append_lines, read_lines

RESULTS = folders.RESULTS / "head-to-head.jsonl"


def wanted(arguments: argparse.Namespace) -> Iterator[Json]:
    """Yield the searches that are asked for, in turns of sides; those without a search first."""
    for cell in arguments.cells:
        for side in (name for name in DEFAULTS if "none" in arguments.side):
            yield {"cell": cell, "side": side, "minutes": 0.0, "search": 0}
    for number in arguments.searches:
        for minutes in arguments.minutes:
            for cell in arguments.cells:
                without = {"finder-none"} if CELLS[cell].env != CELLS[cell].env_id else set()
                searchers = [name for name in SEARCHERS if name in arguments.side and name not in without]
                for k in range(len(searchers)):  # another side is the first one in each round
                    side = searchers[(k + number) % len(searchers)]
                    yield {"cell": cell, "side": side, "minutes": minutes, "search": number}


def run(arguments: argparse.Namespace) -> None:
    """Run the searches and long runs that are asked for and missing."""
    peers = Peers(arguments.peer, arguments.ray_peer or arguments.peer)
    for asked in wanted(arguments):
        cell = scaled(CELLS[asked["cell"]], arguments.scale)
        rows = [row for row in read_lines(arguments.results) if key_of(row) == key_of(asked)]
        found = next((row for row in rows if row["kind"] == "search"), None)
        if found is None:
            try:
                told = searched(asked, cell, peers)
            except CommandError as error:  # not in the results: the next call tries again
                print(f"{asked['cell']}, {asked['side']}: {error}", file=sys.stderr, flush=True)
                continue
            lost = {library: for_library(library, cell, told["pick"])[1] for library in LIBRARIES}
            found = {"kind": "search", **asked, **told, "untranslated": lost, "version": version()}
            append_lines(arguments.results, found)
            print(_line(found), flush=True)
        for library in arguments.library:
            there = {row["seed"] for row in rows if row["kind"] == "run" and row["library"] == library}
            seeds = [seed for seed in range(FIRST_SEED, FIRST_SEED + arguments.seeds) if seed not in there]
            if not seeds:
                continue
            finals = []
            for told in long_runs(library, cell, found["pick"], seeds, peers.zoo):
                told.pop("untranslated")
                row = {"kind": "run", **asked, "library": library, "env_steps": cell.env_steps, **told}
                append_lines(arguments.results, row)
                finals.append(row["points"][-1][1] if row["points"] and not row["error"] else float("nan"))
            print(f"  long runs in {LIBRARIES[library]}: {' '.join(f'{value:.4g}' for value in finals)}", flush=True)


def version() -> str:
    """Return the commit of this repository, with `-dirty` where files other than results differ from it."""

    def git(*words: str) -> str:
        command = ["git", *words]
        return subprocess.run(command, cwd=folders.REPOSITORY, check=True, capture_output=True, text=True).stdout

    is_dirty = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!benchmarks/results", ":!*.md")
    return git("rev-parse", "--short=8", "HEAD").strip() + ("-dirty" if is_dirty else "")


def searched(asked: Json, cell: Cell, peers: Peers) -> Json:
    """Run a search, or return what a side without one trains.

    Raises:
        CommandError: It failed.
    """
    if asked["side"] in DEFAULTS:
        return default_of(asked["side"], cell, peers)
    with tempfile.TemporaryDirectory(prefix="versus-", ignore_cleanup_errors=True) as folder:
        return search(asked["side"], cell, asked["minutes"], asked["search"], peers, Path(folder))


def scaled(cell: Cell, scale: float) -> Cell:
    """Return a cell with shorter runs."""
    if scale == 1.0:
        return cell
    first, later = (max(500, round(steps * scale)) for steps in cell.trial_steps)
    return replace(cell, env_steps=max(100, round(cell.env_steps * scale)), trial_steps=(first, later))


def _line(row: Json) -> str:
    name = {**SEARCHERS, **DEFAULTS}[row["side"]]
    found = "" if row["found"] else ", nothing found: what it started from"
    return f"{row['cell']} {row['minutes']:g} minutes, search {row['search']}, {name}: {row['seconds']:.0f} s{found}"


def numbers(text: str) -> list[int]:
    """Parse `1..3` or `1,3`."""
    first, dots, last = text.partition("..")
    return list(range(int(first), int(last) + 1)) if dots else [int(word) for word in text.split(",")]


def _of(allowed: Sequence[str]) -> Any:
    def parse(text: str) -> list[str]:
        words = text.split(",")
        unknown = [word for word in words if word not in allowed]
        if unknown:
            raise argparse.ArgumentTypeError(f"there is no {unknown[0]!r}: give some of {','.join(allowed)}")
        return words

    return parse


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=_of(list(CELLS)), default=list(CELLS))
    parser.add_argument("--minutes", type=lambda text: [float(word) for word in text.split(",")], default=[5.0, 15.0])
    parser.add_argument("--searches", type=numbers, default=[1, 2, 3], help="1..3, or 1,2,3")
    sides = [*SEARCHERS, "none"]
    parser.add_argument("--side", type=_of(sides), default=sides)
    parser.add_argument("--library", type=_of(list(LIBRARIES)), default=list(LIBRARIES), help="of the long runs")
    parser.add_argument("--no-judge", action="store_true", help="searches alone, no long runs")
    parser.add_argument("--seeds", type=int, default=N_SEEDS, help="of the long runs")
    parser.add_argument("--scale", type=float, default=1.0, help="factor of the steps of runs, to try the script")
    parser.add_argument("--peer", default=".peers/bin/python", help="Python with rl_zoo3 and Stable-Baselines3")
    parser.add_argument("--ray-peer", help="Python with Ray Tune and Stable-Baselines3 (default: that of --peer)")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true", help="run nothing; write the tables and the picture")
    arguments = parser.parse_args()
    if (arguments.scale != 1.0 or arguments.seeds != N_SEEDS) and arguments.results == RESULTS:
        parser.error("--scale and --seeds are for trying the script: give --results another file.")
    if arguments.no_judge:
        arguments.library = []
    if not arguments.table:
        # Under nohup, SIGINT is ignored here and so in children, of which the zoo's are ended by it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        run(arguments)
    from benchmarks.head_to_head.picture import picture
    from benchmarks.head_to_head.report import report

    folder = RESULTS.parent.parent if arguments.results == RESULTS else arguments.results.parent
    rows = read_lines(arguments.results)
    text = report(rows)
    (folder / "head-to-head.md").write_text(text)
    print(text)
    if arguments.table:
        picture(rows, folder / "head-to-head.png")


if __name__ == "__main__":
    main()
