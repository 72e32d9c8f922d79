"""Run the code of documentation pages in this process: `run_page.py PAGE FOLDER [PAGE FOLDER ...]`.

Each page is run in its folder. Python blocks share one namespace, as in a notebook; a block that begins with
`# NAME.py` is also written to that file. Commands are run in this process. The text of a page is changed only by
`NUMBERS`. For `PAGE.md` a folder may have a `PAGE.before.py`, which is run first, and a `PAGE.after.py`, which is run
last with the texts of the blocks in `shown`.
"""

from __future__ import annotations

import functools
import glob
import os
import re
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from doc_blocks import Block, blocks_of

NUMBERS = {
    "env_steps=20_000)": "env_steps=4_200)",
    "env_steps=20_000,": "env_steps=4_200,",
    "env_steps=30_000,": "env_steps=4_200,",
    "env_steps=50_000,": "env_steps=4_200,",
    "env_steps=60_000,": "env_steps=4_200,",
    "env_steps=1_000_000": "env_steps=512",
    "env_steps=100_000)": "env_steps=2_100)",
    "100_000 - trainer": "1_200 - trainer",
    "Evaluate(20_000": "Evaluate(500",
    "--env-steps 20000": "--env-steps 4200",
    "--n-rates 9": "--n-rates 3",
    "--replays 200": "--replays 2",
    "--horizon 1000000": "--horizon 2100",
    "--steps 500000": "--steps 600",
    "--evaluate-every 20000": "--evaluate-every 300",
    "--steps 200000": "--steps 1200",
    "--steps 100000": "--steps 1200",
    "--steps 50000": "--steps 1200",
    "--steps 20000": "--steps 1200",
    # examples/study.toml
    "env_steps = 30000": "env_steps = 2100",
}
"""Replaced numbers of steps and rates, so that pages run in a minute. Nothing else of a page is changed."""

DEFAULT_STEPS = 4_200
"""Default environment steps of each run of a search: eight copies of Acrobot end an episode each."""


DEFAULT_GRID_RATES = 4
"""Default number of learning rates of a grid, instead of 16."""

DEFAULT_RATES = 3
"""Default number of learning rates of each optimizer, instead of 5."""

DEFAULT_SEEDS = 2
"""Default number of seeds of a trial, instead of 3."""


def shortened(text: str) -> str:
    """Return the text with the smaller numbers."""
    for number, smaller in NUMBERS.items():
        text = text.replace(number, smaller)
    return text


def commands_of(text: str) -> Iterator[list[str]]:
    """Yield the words of each command in a block like a shell, with patterns expanded to existing files."""
    for line in _without_comments(text.replace("\\\n", " ")):
        words = [found for word in shlex.split(line) for found in _matching(word)]
        if words:
            yield words


def _without_comments(text: str) -> list[str]:
    """Return the lines without comments; a newline in quotes does not end a line."""
    lines, quote, comment = [""], "", False
    for before, letter in zip("\n" + text, text, strict=False):
        if letter == "\n" and not quote:
            lines.append("")
            comment = False
            continue
        comment = comment or (letter == "#" and not quote and before.isspace())
        if not comment:
            quote = "" if letter == quote else quote or (letter if letter in "'\"" else "")
            lines[-1] += letter
    return lines


def _matching(word: str) -> list[str]:
    return sorted(glob.glob(word)) or [word] if "*" in word else [word]


def run(block: Block, page: str, names: dict[str, Any]) -> None:
    """Run a block."""
    text = shortened(block.text)
    if block.language == "python":
        if named := re.match(r"# (\w+\.py)\n", text):
            Path(named[1]).write_text(text)
        exec(compile("\n" * (block.line - 1) + text, page, "exec"), names)
        return
    from finder.cli import main

    for program, *words in commands_of(text):
        if program == "export":
            os.environ.update([words[0].split("=", 1)])
            continue
        assert program == "finder", f"{page}:{block.line}: nobody runs {program!r} here: mark the block as not run"
        print(f"{page}:{block.line}: finder {shlex.join(words)}", file=sys.stderr, flush=True)
        code = main(words)
        assert code == 0, f"{page}:{block.line}: finder {shlex.join(words)} ended with {code}"


def shorten_defaults() -> None:
    """Replace default numbers by smaller ones; make servers take free ports and end at once."""
    from finder.cli.training import settings as train_settings
    from finder.finders import optimizer
    from finder.range_test import arguments as grid_rates
    from finder.search import options
    from studies.servers import dashboard, proxy

    steps = options._steps
    make_dashboard, make_proxy = dashboard.make_dashboard, proxy.make_proxy
    options._steps = lambda given, default: steps(given, DEFAULT_STEPS)
    options.StudySpec = functools.partial(options.StudySpec, seeds=DEFAULT_SEEDS)
    grid_rates._N_RATES, optimizer._N_RATES = DEFAULT_GRID_RATES, DEFAULT_RATES
    train_settings.DEFAULT_STEPS = 512
    dashboard.make_dashboard = lambda storage, host, port, *args, **named: make_dashboard(
        storage, host, 0, *args, **named
    )
    proxy.make_proxy = lambda storage, host, port, *args: make_proxy(storage, host, 0, *args)
    dashboard._ThreadedServer.serve_forever = lambda *_, **__: None


def run_page(page: Path) -> int:
    """Run a page in the current folder, and return the number of its blocks that were run."""
    blocks = [block for block in blocks_of(page) if block.is_code and block.not_run is None]
    names: dict[str, Any] = {"__name__": "__main__", "shown": [shortened(block.text) for block in blocks]}
    _run_file(Path(f"{page.stem}.before.py"), names)
    for block in blocks:
        run(block, page.name, names)
    _run_file(Path(f"{page.stem}.after.py"), names)
    return len(blocks)


def _run_file(path: Path, names: dict[str, Any]) -> None:
    if path.exists():
        exec(compile(path.read_text(), str(path), "exec"), names)


def main(arguments: list[str]) -> None:
    """Run pages, each in its folder."""
    shorten_defaults()
    for page, folder in zip(arguments[::2], arguments[1::2], strict=True):
        began = time.process_time()
        os.chdir(folder)
        sys.path.insert(0, folder)
        n_blocks = run_page(Path(page))
        sys.path.remove(folder)
        print(f"{Path(page).name}: {n_blocks} blocks", flush=True)
        print(f"{Path(page).name}: {time.process_time() - began:.0f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
