"""The searches of `compare.py`, each a whole one from its command to its pick, on the wall clock."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import folders
from benchmarks.head_to_head.cells import Cell
from benchmarks.head_to_head.translation import SB3_DEFAULTS
from benchmarks.result_lines import ONE_THREAD, Json, counted

GRACE = 60.0
"""Seconds after the limit at which processes that still run are killed."""


class CommandError(RuntimeError):
    """A command of a side failed."""


class Peers(NamedTuple):
    """Python interpreters of the peers: of rl-baselines3-zoo with Stable-Baselines3, and of Ray Tune with it."""

    zoo: str
    ray: str


def paths() -> dict[str, str]:
    """Return the environment variables with which own environments and the scripts of peers are found."""
    path = folders.python_path(folders.REPOSITORY, folders.ENVIRONMENTS, folders.PEERS)
    return {"PYTHONPATH": path, "TF_CPP_MIN_LOG_LEVEL": "3", "FINDER_PROGRESS": "0"}


def search(  # noqa: PLR0917
    side: str, cell: Cell, minutes: float, number: int, peers: Peers, folder: Path
) -> Json:
    """Run one search.

    Args:
        side: One of `SEARCHERS`.
        cell: What is searched.
        minutes: Its time.
        number: 1, 2, ...: other seeds.
        peers: The interpreters of the peers.
        folder: For its files.

    Returns:
        `pick`: a description (`peers/sb3_model.py`) or, of Finder, the configuration of the agent. `found` is False if
        no trial was whole, and the pick is then what the side would train without a search. Further keys say what was
        tried.
    """
    began = time.time()
    if side in ("finder", "finder-none"):
        found = _finder(cell, minutes, number, folder, ["--first", "none"] if side == "finder-none" else [])
    elif side == "zoo":
        found = _zoo(cell, minutes, number, peers.zoo, folder)
    else:
        found = _ray(cell, minutes, number, side, peers, folder)
    return {"seconds": round(found.pop("ended", time.time()) - began, 1), **found}


def _finder(cell: Cell, minutes: float, number: int, folder: Path, start: Sequence[str]) -> Json:
    """Search as a user does.

    A search that is refused, because the minutes do not suffice, or in which no trial was completed, has found nothing.
    """
    from studies import best, load_study

    storage, name = f"sqlite:///{folder}/finder.db", "search"
    command = [str(Path(sys.executable).with_name("finder")), "tune", cell.agent, "--env", cell.env]
    command += ["--minutes", f"{minutes:g}", "--horizon", str(cell.env_steps), *start]
    command += ["--storage", storage, "--study-name", name, "--seed", str(number)]
    try:
        _together([command], {}, 60.0 * minutes * 1.5 + GRACE)
    except CommandError as error:
        if not any(words in str(error) for words in ("are too few", "is too few", "no trial was completed")):
            raise
        return {"pick": default_config(cell), "found": False, "refused": str(error)[-400:]}
    ended = time.time()
    study = load_study(name, storage)
    states = counted(trial.state.name for trial in study.trials())
    pick = best(study)
    told: Json = {"pick": dict(pick.config), "found": True, "params": dict(pick.params), "value": pick.value}
    study.close()
    return {"ended": ended, **told, "env_steps_of_trial": study.spec.env_steps, "states": states}


def _zoo(cell: Cell, minutes: float, number: int, python: str, folder: Path) -> Json:
    """Search in two processes of one thread with a common journal, interrupted at the limit as by Ctrl-C.

    A median pruner that sees one evaluation, the default at this length, prunes nothing: it gets five.
    """
    storage = folder / "zoo.log"
    command = [python, "-m", "rl_zoo3.train", "--algo", cell.agent, "--env", cell.env_id, "-optimize"]
    command += ["-n", str(cell.steps_of_trial(minutes)), "--n-trials", "100000", "--n-evaluations", "5"]
    command += ["--storage", str(storage), "--study-name", "search", "--no-optim-plots", "-f", str(folder / "logs")]
    command += ["--num-threads", "1", "--device", "cpu"]
    if cell.env != cell.env_id:
        command += ["--gym-packages", cell.env.rpartition(":")[0]]
    commands = [[*command, "--seed", str(10 * number + k)] for k in range(2)]
    _together(commands, ONE_THREAD, 60.0 * minutes, interrupt=True, apart=3.0)
    ended = time.time()
    told = zoo_values(python, "pick", cell.agent, cell.env_id, str(storage), "search")
    return {
        "ended": ended,
        "pick": told["description"],
        "found": told["value"] is not None,
        "params": told["params"],
        "value": told["value"],
        "env_steps_of_trial": cell.steps_of_trial(minutes),
        "states": told["states"],
    }


def _ray(  # noqa: PLR0917
    cell: Cell, minutes: float, number: int, side: str, peers: Peers, folder: Path
) -> Json:
    base = zoo_values(peers.zoo, "base", cell.agent, cell.env_id)
    asked = {
        "base": base,
        "env": cell.env,
        "scheduler": side.split("-")[1],
        "has_first": not side.endswith("-none"),
        "number": number,
        "steps": cell.steps_of_trial(minutes),
        "began": time.time(),
        "seconds": 60.0 * minutes,
        "folder": str(folder),
    }
    quiet = {"RAY_AIR_NEW_OUTPUT": "0", "TUNE_FORCE_TRIAL_CLEANUP_S": "5", "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1"}
    command = [peers.ray, str(folders.PEERS / "ray_search.py"), json.dumps(asked)]
    (output,) = _together([command], {**ONE_THREAD, **quiet, "RAY_TMPDIR": "/tmp"}, 60.0 * minutes + GRACE)
    told = json.loads(output.strip().splitlines()[-1])
    found = told["description"] is not None
    more = {name: told[name] for name in ("value", "n_trials", "n_reported", "search_steps")}
    return {
        "pick": told["description"] if found else base,
        "found": found,
        **more,
        "env_steps_of_trial": asked["steps"],
    }


def default_of(side: str, cell: Cell, peers: Peers) -> Json:
    """Return what a side trains that does not search, as `search` does."""
    if side == "sb3-defaults":
        pick: Json = {"algo": cell.agent, "n_envs": 1, "normalize": False, "kwargs": SB3_DEFAULTS[cell.agent]}
        return {"seconds": 0.0, "pick": pick, "found": True}
    if side == "zoo-tuned":
        pick = zoo_values(peers.zoo, "base", cell.agent, cell.env_id)
        return {"seconds": 0.0, "pick": pick, "found": bool(pick["is_tuned"])}
    return {"seconds": 0.0, "pick": default_config(cell), "found": True}


def default_config(cell: Cell) -> Json:
    """Return the configuration of Finder's agent by default."""
    from agents import AgentSpec

    sys.path.insert(0, str(folders.ENVIRONMENTS))  # for own environments
    config: Json = _plain(AgentSpec.of(cell.agent, cell.env).config.to_dict())
    return config


def _plain(value: Any) -> Any:
    """Return nested mappings and sequences as JSON has them."""
    if isinstance(value, Mapping):
        return {str(key): _plain(own) for key, own in value.items()}
    return [_plain(own) for own in value] if isinstance(value, list | tuple) else value


def zoo_values(python: str, *words: str) -> Json:
    """Return what `peers/zoo_values.py` prints."""
    command = [python, str(folders.PEERS / "zoo_values.py"), *words]
    (output,) = _together([command], ONE_THREAD, 120.0)
    values: Json = json.loads(output.strip().splitlines()[-1])
    return values


def _together(
    commands: Sequence[Sequence[str]],
    threads: Mapping[str, str],
    limit: float,
    *,
    interrupt: bool = False,
    apart: float = 0.0,
) -> list[str]:
    """Run commands at the same time and return what they print.

    Args:
        commands: Their words.
        threads: Further environment variables.
        limit: Seconds until they are killed, or interrupted.
        interrupt: Whether commands have no end of their own: they are interrupted at the limit.
        apart: Seconds between their starts.

    Raises:
        CommandError: A command fails or does not end; says what it printed last.
    """
    import tempfile

    began, running = time.monotonic(), []
    for command in commands:
        out, log = tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")  # noqa: SIM115 - read after the process
        environment = {**os.environ, **paths(), **threads}
        process = subprocess.Popen(command, stdout=out, stderr=log, env=environment)
        running.append((process, out, log))
        time.sleep(apart)
    printed = []
    for process, out, log in running:
        try:
            process.wait(max(0.1, began + limit - time.monotonic()))
        except subprocess.TimeoutExpired:
            _end([each for each, _, _ in running], interrupt)
        out.seek(0)
        log.seek(0)
        printed.append(out.read())
        told = log.read()
        if process.returncode and not (interrupt and time.monotonic() - began >= limit):
            words = " ".join(map(str, process.args))[:300]  # type: ignore[arg-type]
            raise CommandError(f"{words} ended with {process.returncode}:\n{told[-3000:]}")
    return printed


def _end(processes: Sequence[subprocess.Popen[bytes]], interrupt: bool) -> None:
    """End processes, first as Ctrl-C does."""
    for process in processes:
        if process.poll() is None:
            process.send_signal(signal.SIGINT if interrupt else signal.SIGTERM)
    ends = time.monotonic() + 30.0
    for process in processes:
        try:
            process.wait(max(0.1, ends - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
