"""Tests of damaged storages, invalid URLs and unknown names: one message, exit code 2, nothing changed."""

from __future__ import annotations

import functools
import hashlib
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from damaged import NAME, SQL, damage, make_study
from mistakes import Mistake, check, ids, write_all

FILES = ("text", "header", "cut", "short", "holes", "zeros")
READERS = ("show real", "best real", "report real")
WRITERS = ("delete real --yes", "worker real")

MESSAGES = {
    "text": ("text.db", "is not an SQLite database: give another file"),
    "header": ("header.db", "is not an SQLite database: give another file"),
    "cut": ("cut.db", "malformed"),
    "short": ("short.db", "malformed"),
    "holes": ("holes.db", "malformed"),
    "zeros": ("zeros.db", "malformed"),
    "no-trials": ("no-trials.db", "its table trials is missing"),
    "no-studies": ("no-studies.db", "its table studies is missing"),
    "no-params": ("no-params.db", "its table trial_params is missing"),
    "no-attributes": ("no-attributes.db", "its table trial_user_attributes is missing"),
    "no-versions": ("no-versions.db", "its table version_info is missing"),
    "no-episodes": ("no-episodes.db", "its table finder_episodes is missing"),
    "no-leases": ("no-leases.db", "its table finder_leases is missing"),
    "columns": ("columns.db", "no such column: trials.state"),
    "schema-text": ("finder_schema", "its version is 'x'"),
    "schema-newer": ("schema 99", "upgrade Finder"),
    "optuna-older": ("optuna-older.db", "storage upgrade"),
    "optuna-newer": ("optuna-newer.db", "pip install -U optuna"),
}
OF_STUDY = {
    "spec-cut": ("spec-cut.db", "Restore the storage"),
    "spec-number": ("'real' cannot be read", "is int, not a mapping"),
    "spec-empty": ("'real' cannot be read", "'name' is missing"),
    "spec-newer": ("spec version 99", "upgrade Finder"),
    "spec-version": ("spec version x", "upgrade Finder"),
    "direction": ("direction.db", "Restore the storage"),
    "state": ("DONE", "Restore the storage"),
    "number": ("'x' is not an integer", "Restore the storage"),
    "date": ("yesterday", "Restore the storage"),
    "distribution": ("JSONDecodeError", "Restore the storage"),
    "distribution-kind": ("trial 0 is damaged", "Restore the storage"),
    "parameter": ("trial 0 is damaged", "Restore the storage"),
    "attribute-cut": ("JSONDecodeError", "Restore the storage"),
    "seed-values": ("its attribute 'seed_values' is [1]", "Restore the storage"),
    "seeds": ("its attribute 'seed_values' is {'x': 1}", "Restore the storage"),
    "seconds": ("its attribute 'wall_seconds' is 'x'", "Restore the storage"),
    "steps": ("its attribute 'env_steps' is []", "Restore the storage"),
    "configuration": ("its attribute 'configuration' is 3", "Restore the storage"),
    "value": ("'x'", "Restore the storage"),
    "value-kind": ("NEITHER", "Restore the storage"),
    "step": ("'x' is not an integer", "Restore the storage"),
}
OF_EPISODES = {
    "episode-steps": ("env_steps='x'", "Restore the storage"),
    "episode-huge": ("env_steps=1e+30", "Restore the storage"),
    "episode-return": ("episode_return='x'", "Restore the storage"),
    "episode-length": ("length='x'", "Restore the storage"),
}
OF_LEASES = {
    "lease-owner": ("its owner is 'garbage'", "Restore the storage"),
    "lease-deadline": ("deadline='soon'", "Restore the storage"),
    "lease-endless": ("deadline=inf", "Restore the storage"),
    "lease-epoch": ("epoch='x'", "Restore the storage"),
}

SERVING = ("serve --port 0 --dashboard-port 0", "dashboard --port 0")
SEARCHING = ("lr ppo --env CartPole-v1 --env-steps 100 --study-name real", "train --from real")

DAMAGED = [
    *(
        Mistake(f"{line} --storage {name}.db", *message)
        for name, message in MESSAGES.items()
        for line in ("studies", "best real")
    ),
    *(Mistake(f"{line} --storage {name}.db", *MESSAGES[name]) for name in FILES for line in (*SERVING, *SEARCHING)),
    *(Mistake(f"{line} --storage no-trials.db", *MESSAGES["no-trials"]) for line in (*READERS, *WRITERS, *SERVING)),
    *(Mistake(f"{line} --storage columns.db", *MESSAGES["columns"]) for line in (*READERS, *WRITERS)),
    *(Mistake(f"show real --storage {name}.db", *message) for name, message in OF_STUDY.items()),
    *(Mistake(f"worker real --storage {name}.db", *message) for name, message in list(OF_STUDY.items())[:5]),
    *(Mistake(f"report real --storage {name}.db", *message) for name, message in OF_EPISODES.items()),
    *(Mistake(f"{line} --storage {name}.db", *message) for name, message in OF_LEASES.items() for line in WRITERS),
    Mistake("show real --storage no-directions.db", "no-directions.db", "its table study_directions is missing"),
]

PLACES = [
    Mistake("studies --storage folder.db", "'folder.db' is a directory", "give a file in it"),
    Mistake("studies --storage nothing.db", "there is no storage 'nothing.db'", "check the path"),
    Mistake("studies --storage nowhere/x.db", "nowhere", "make the directory"),
    Mistake("studies --storage pipe.db", "'pipe.db' is not a regular file", "give another path"),
    Mistake("studies --storage journal.db", "'journal.db' is not an SQLite database", "give another file"),
    Mistake("studies --storage real.log", "'real.log' is not an Optuna journal", "sqlite:///real.log"),
    Mistake("studies --storage broken.log", "'broken.log' cannot be used", "Expecting"),
    Mistake("studies --storage list.log", "'list.log' is not an Optuna journal", "give another file"),
    Mistake("studies --storage keys.log", "'keys.log' cannot be used", "KeyError"),
    Mistake("studies --storage text.log", "'text.log' is not an Optuna journal", "left as it is"),
    Mistake(f"studies --storage {'x' * 300}.db", "xxx", "too long"),
    Mistake("studies --storage ~nobody-at-all/x.db", "~nobody-at-all", "write the whole path"),
    Mistake("report real --storage folder.db", "'folder.db' is a directory", "give a file in it"),
    Mistake("lr PPO --storage folder.db", "'folder.db' is a directory", "give a file in it"),
    Mistake("lr PPO --storage pipe.db", "'pipe.db' is not a regular file", "give another path"),
    Mistake("lr PPO --storage keys.log", "'keys.log' cannot be used", "KeyError"),
]

URLS = [
    Mistake("studies --storage ''", "it is ''", "a file or a URL"),
    Mistake("studies --storage redis://h", "'redis' is unknown", "Allowed: grpc"),
    Mistake("studies --storage sqlite://real.db", "'sqlite://real.db' has a host", "sqlite:///finder.db"),
    Mistake("studies --storage sqlite:///", "names no file", "sqlite:///finder.db"),
    Mistake("studies --storage 'sqlite:///what?.db'", "'.db' behind a question mark", "%3F"),
    Mistake("studies --storage 'sqlite:///real.db?mode=rx'", "mode=rx", "mode=ro"),
    Mistake("studies --storage 'sqlite:///real.db?mode=ro&mode=rw'", "an option twice", "give each once"),
    Mistake("studies --storage 'sqlite:///real.db?moed=ro'", "'moed'", "Did you mean 'mode'"),
    Mistake("studies --storage 'sqlite:///real.db?timeout=x'", "timeout=x", "timeout=30"),
    Mistake("studies --storage 'sqlite:///real.db?timeout=-1'", "timeout=-1", "timeout=30"),
    Mistake("studies --storage 'sqlite:///real.db?mode=ro&uri=true'", "uri=true", "sqlite:///file:finder.db"),
    Mistake("studies --storage 'sqlite:///file:real.db?mode=ro'", "no uri=true", "sqlite:///finder.db"),
    Mistake("studies --storage 'sqlite:///file:real.db?mode=rx&uri=true'", "mode=rx", "ro, rw, rwc"),
    Mistake("studies --storage 'sqlite:///file://other/real.db?uri=true'", "'other'", "this machine only"),
    Mistake("studies --storage 'sqlite:///file:x?mode=memory&uri=true'", "in memory", "write memory"),
    Mistake("studies --storage 'sqlite:///a%20b.db'", "could be two files", "'a%20b.db'"),
    Mistake("studies --storage 'real.db?mode=ro'", "which has no options", "sqlite:///real.db?mode=ro"),
    Mistake("lr PPO --storage 'sqlite:///real.db?mode=ro'", "cannot be opened for writing", "leave out its mode=ro"),
    Mistake("delete real --yes --storage 'sqlite:///real.db?mode=ro'", "can only be read", "copy it"),
    Mistake("worker real --storage 'sqlite:///real.db?mode=ro'", "can only be read", "copy it"),
    Mistake("studies --storage journal:///", "names no file", "journal:///finder.log"),
    Mistake("studies --storage 'journal:///journal.db?mode=rw'", "mode=rw", "mode=ro"),
    Mistake("studies --storage postgresql://h:port/d", "cannot be read", "give one of"),
    Mistake("studies --storage postgresql://127.0.0.1:1/none", "127.0.0.1:1", "Check that it exists"),
    Mistake("studies --storage postgresql+nodriver://h/d", "nodriver", "unknown database driver"),
    Mistake("studies --storage grpc://h:port", "grpc://h:port", "grpc://host:13000"),
    Mistake("studies --storage grpc://h:99999", "grpc://h:99999", "grpc://host:13000"),
    Mistake("studies --storage grpc://token@h:13000", "holds no token", "FINDER_TOKEN"),
    Mistake("studies --storage grpc://127.0.0.1:1", "nothing answers at grpc://127.0.0.1:1", "finder serve"),
    Mistake("studies --storage grpcs://127.0.0.1:1", "nothing answers at grpcs://127.0.0.1:1", "finder serve"),
]

NAMES = [
    Mistake("best reel --storage real.db", "no study 'reel'", "Did you mean 'real'"),
    Mistake("show '' --storage real.db", "no study ''", "Allowed: real"),
    Mistake("report nope --storage real.db", "no study 'nope'", "Allowed: real"),
    Mistake("delete nope --yes --storage real.db", "no study 'nope'", "Allowed: real"),
    Mistake("worker nope --storage real.db", "no study 'nope'", "Allowed: real"),
    Mistake("train --from nope --storage real.db", "no study 'nope'", "Allowed: real"),
    Mistake("show 'a\x1b[2Jb' --storage real.db", "'a\\x1b[2Jb'", "Allowed: real"),
    Mistake(f"show {'x' * 5000} --storage real.db", "xxx", "Allowed: real"),
    Mistake("delete real --storage real.db", "Remove the study real", "--yes"),
    Mistake("show real --trial 99 --storage real.db", "no trial 99", "it has 3, from 0"),
    Mistake("show real --trial -1 --storage real.db", "no trial -1", "it has 3, from 0"),
    Mistake("show real --trial abc --storage real.db", "got 'abc'", "valid integer"),
    Mistake("report real --storage real.db -o folder.db", "'folder.db' is a directory", "report.html"),
    Mistake("report real --storage real.db -o nowhere/x.html", "'nowhere/x.html' cannot be written", "directory"),
    Mistake(f"report real --storage real.db -o {'x' * 300}.html", "cannot be written", "too long"),
    Mistake("report real --storage real.db -o real.db/x.html", "real.db/x.html", "cannot be written"),
    Mistake("worker real --storage real.db --executor inlin", "inlin", "inline"),
    Mistake("worker real --storage real.db --n-jobs 0", "got '0'", "greater than or equal to 1"),
    Mistake("train --from real --storage real.db --steps 0", "got '0'", "greater than or equal to 1"),
    Mistake("lr PPO --env-steps 99 --study-name real --storage real.db", "'real'", "--study-name"),
]

ALL = [*DAMAGED, *PLACES, *URLS, *NAMES]


@functools.cache
def _undamaged() -> Path:
    """Return the undamaged file, which is created once."""
    folder = Path(tempfile.mkdtemp(prefix="real-study-"))
    make_study(f"sqlite:///{folder}/real.db")
    return folder / "real.db"


@pytest.fixture(scope="module", autouse=True)
def _remove_undamaged_file() -> Any:
    yield
    shutil.rmtree(_undamaged().parent)
    _undamaged.cache_clear()


def create_files(folder: Path) -> None:
    """Create the files that the commands name."""
    import os

    shutil.copy(_undamaged(), folder / "real.db")
    shutil.copy(_undamaged(), folder / "real.log")
    (folder / "folder.db").mkdir()
    os.mkfifo(folder / "pipe.db")
    first = '{"op_code": 0, "worker_id": "a", "study_name": "s", "directions": [1]}\n'
    write_all(
        folder,
        {
            "journal.db": first,
            "broken.log": f'{first}not json\n{{"op_code": 1}}\n',
            "list.log": "[1, 2]\n",
            "keys.log": '{"op_code": 0}\n',
            "text.log": "just some notes\n",
            "a%20b.db": b"",
        },
    )


def create_files_for(folder: Path, case: Mistake) -> None:
    """Create the files that a command names."""
    create_files(folder)
    named = case.words[case.words.index("--storage") + 1].removesuffix(".db")
    if named in SQL or named in FILES:
        damage(folder, _undamaged(), named)


def _contents(folder: Path) -> dict[str, str]:
    files = (path for path in sorted(folder.glob("*.db")) if path.is_file())
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.parametrize("case", ALL, ids=ids(ALL))
def test_mistake_is_reported_in_one_line(finder: Any, case: Mistake, monkeypatch: pytest.MonkeyPatch) -> None:
    def serve(*_: Any, **__: Any) -> None:
        raise AssertionError("it was served")

    monkeypatch.setattr("studies.servers.dashboard._ThreadedServer.serve_forever", serve)
    monkeypatch.setenv("FINDER_STORAGE_SECONDS", "1")
    create_files_for(finder.folder, case)
    before = _contents(finder.folder)
    check(case, *finder(*case.words))
    if "worker" not in case.words and "lr" not in case.words:
        assert {name: digest for name, digest in _contents(finder.folder).items() if name in before} == before


def test_undamaged_study_can_be_read(finder: Any) -> None:
    create_files(finder.folder)
    ran = finder("show", NAME, "--storage", "real.db", "--json")
    assert ran.code == 0, ran.err
    assert [trial["state"] for trial in ran.json["trials"]] == ["complete"] * 3
    assert finder("best", NAME, "--storage", "real.db").code == 0
