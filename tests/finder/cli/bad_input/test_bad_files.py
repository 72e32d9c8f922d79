"""Tests of unusable study files, runs, checkpoints, tables and outputs: one message, exit code 2."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from mistakes import NESTED, Mistake, check, ids, write_all

_BASE = 'name = "x"\nagents = ["ppo"]\nenv = "CartPole-v1"\n'
_SETTINGS = {"agent": "ppo", "config": {}, "env": "CartPole-v1"}


def _run(**changes: Any) -> str:
    return json.dumps({"format": 1, "settings": _SETTINGS, "result": None, "command": [], **changes})


FILES: dict[str, str | bytes] = {
    "empty.toml": "",
    "binary.toml": b"\xff\xfe\x00\x01",
    "cut.toml": 'name = "x\n',
    "nested.toml": f"x = {NESTED}\n",
    "list.toml": "[[x]]\n",
    "no-env.toml": 'name = "x"\nagents = ["ppo"]\nenv_steps = 100\n',
    "no-agents.toml": 'name = "x"\nagents = []\nenv = "CartPole-v1"\nenv_steps = 100\n',
    "two-budgets.toml": f"{_BASE}env_steps = 100\nepisodes = 5\n",
    "no-budget.toml": _BASE,
    "nan.toml": f"{_BASE}env_steps = nan\n",
    "float.toml": f"{_BASE}env_steps = 100.5\n",
    "zero.toml": f"{_BASE}env_steps = 0\n",
    "huge.toml": f"{_BASE}env_steps = {10**25}\n",
    "seeds.toml": f"{_BASE}env_steps = 100\nseeds = [1, 1]\n",
    "seed.toml": f"{_BASE}env_steps = 100\nseeds = [-1]\n",
    "many-seeds.toml": f"{_BASE}env_steps = 100\nseeds = 100000000\n",
    "seconds.toml": f"{_BASE}env_steps = 100\nhang_seconds = inf\n",
    "sampler.toml": f'{_BASE}env_steps = 100\nsampler = "tpee"\n',
    "pruner.toml": f'{_BASE}env_steps = 100\npruner = "medain"\n',
    "executor.toml": f'{_BASE}env_steps = 100\nexecutor = "inlin"\n',
    "strategy.toml": f'{_BASE}env_steps = 100\nstrategy = "mirorred"\n',
    "kind.toml": f'{_BASE}env_steps = 100\nkind = "tun"\n',
    "params.toml": f'{_BASE}env_steps = 100\n[params]\ngama = "0.9:0.99"\n',
    "range.toml": f'{_BASE}env_steps = 100\n[params]\ngamma = "0.99:0.9"\n',
    "range-nan.toml": f"{_BASE}env_steps = 100\n[params]\ngamma = {{low = nan, high = 1.0}}\n",
    "choice.toml": f"{_BASE}env_steps = 100\n[params]\ngamma = []\n",
    "fixed.toml": f"{_BASE}env_steps = 100\n[fixed]\ngamma = 2\n",
    "trials.toml": f"{_BASE}env_steps = 100\n[[trials]]\ngama = 0.9\n",
    "name.toml": 'name = "a\\u001b[2Jb"\nagents = ["ppo"]\nenv = "CartPole-v1"\nenv_steps = 100\n'
    '[params]\ngamma = "0.9:0.99"\n',
    "no-name.toml": 'name = ""\nagents = ["ppo"]\nenv = "CartPole-v1"\nenv_steps = 100\n',
    "storage.toml": f'{_BASE}env_steps = 100\nstorage = "nowhere/x.db"\n[params]\ngamma = "0.9:0.99"\n',
    "memory.toml": f'{_BASE}env_steps = 100\nstorage = "memory"\n[params]\ngamma = "0.9:0.99"\n',
    "folder.toml/x": "",
    "no-run/x": "",
    "datasets/expert-v3/data/metadata.json": "{}",
    "datasets/there": "",
    "cut-run/run.json": '{"format": 1',
    "list-run/run.json": "[]",
    "newer-run/run.json": _run(format=99),
    "unknown-run/run.json": _run(settings={**_SETTINGS, "colour": "red"}),
    "few-run/run.json": _run(settings={"agent": "ppo"}),
    "kinds-run/run.json": _run(settings={**_SETTINGS, "env_steps": "many"}),
    "config-run/run.json": _run(settings={**_SETTINGS, "config": 3}),
    "result-run/run.json": _run(result=[1]),
    "bare-run/run.json": _run(),
    "nested-run/run.json": NESTED,
    "binary-run/run.json": b"\xff\xfe",
    "empty.checkpoint": b"",
    "text.checkpoint": "no checkpoint",
    "bad-run/run.json": _run(),
    "bad-run/checkpoints/000000000100.checkpoint": b"cut off",
    "history/history.parquet": b"no table",
    "empty.csv": "",
    "header.csv": "config,seed,env_steps,return\n",
    "column.csv": "config,seed,env_steps\na,0,1\n",
    "text.csv": "config,seed,env_steps,return\na,0,1,x\n",
    "nan.csv": "config,seed,env_steps,return\na,0,1,nan\n",
    "twice.csv": "config,seed,env_steps,return\na,0,1,1\na,0,1,2\n",
    "gaps.csv": "config,seed,env_steps,return\na,0,1,1\nb,1,1,2\n",
    "below.csv": "config,seed,env_steps,return\na,0,-1,1\n",
    "quotes.csv": 'config,seed,env_steps,return\n"a,0,1,1\n',
    "latin.csv": b"config,seed,env_steps,return\n\xe9,0,1,1\n",
    "bad.parquet": b"no table",
    "fine.csv": "config,seed,env_steps,return\n"
    + "".join(f"{config},{seed},{mark},{mark}\n" for config in "ab" for seed in range(4) for mark in (1, 2)),
    "there.txt": "a file",
}

STUDIES = [
    Mistake("run empty.toml", "empty.toml", "is missing: give it"),
    Mistake("run binary.toml", "'binary.toml' cannot be read as text", "codec"),
    Mistake("run cut.toml", "cut.toml: not valid TOML", "line 1"),
    Mistake("run nested.toml", "nested.toml", "deep"),
    Mistake("run list.toml", "list.toml", "is missing: give it"),
    Mistake("run folder.toml", "'folder.toml' cannot be read", "directory"),
    Mistake("run nowhere.toml", "there is no file 'nowhere.toml'", "give the path"),
    Mistake("run no-env.toml", "no-env.toml: 'env' is missing", "give it"),
    Mistake("run no-agents.toml", "no-agents.toml, line 2: agents is []", "at least 1"),
    Mistake("run two-budgets.toml", "both of env_steps and episodes", "give exactly one"),
    Mistake("run no-budget.toml", "neither of env_steps and episodes", "give exactly one"),
    Mistake("run nan.toml", "line 4: env_steps is nan", "integer"),
    Mistake("run float.toml", "line 4: env_steps is 100.5", "integer"),
    Mistake("run zero.toml", "line 4: env_steps is 0", "greater than or equal to 1"),
    Mistake("run huge.toml", "line 4: env_steps is 1000", "9223372036854775807"),
    Mistake("run seeds.toml", "seeds is [1, 1]", "give each one once"),
    Mistake("run seed.toml", "seeds.0 is -1", "greater than or equal to 0"),
    Mistake("run many-seeds.toml", "100000000 is not a number of seeds", "10000"),
    Mistake("run seconds.toml", "hang_seconds is inf", "finite number"),
    Mistake("run sampler.toml", "line 5: sampler: there is no sampler 'tpee'", "Did you mean 'tpe'"),
    Mistake("run pruner.toml", "line 5: pruner: there is no scheduler 'medain'", "Did you mean 'median'"),
    Mistake("run executor.toml", "line 5: executor is 'inlin'", "'inline'"),
    Mistake("run strategy.toml", "mirorred", "mirrored"),
    Mistake("run kind.toml", "line 5: kind is 'tun'", "'tune'"),
    Mistake("run params.toml", "'gama'", "Did you mean gamma"),
    Mistake("run range.toml", "low is 0.99 and high is 0.9", "low must be below high"),
    Mistake("run range-nan.toml", "nan", "finite"),
    Mistake("run choice.toml", "a choice without values", "at least one value"),
    Mistake("run fixed.toml", "gamma must be", "got 2"),
    Mistake("run trials.toml", "'gama'", "Did you mean gamma"),
    Mistake("run name.toml", "'a\\x1b[2jb' has a control character", "one line"),
    Mistake("run no-name.toml", "line 1: name is ''", "at least 1 character"),
    Mistake("run storage.toml", "'nowhere/x.db'", "make the directory"),
    Mistake("run zero.toml --n-trials 0", "got '0'", "greater than or equal to 1"),
    Mistake("submit empty.toml", "empty.toml", "is missing: give it"),
    Mistake("submit cut.toml", "cut.toml: not valid TOML", "line 1"),
    Mistake("submit memory.toml", "in memory", "--storage"),
    Mistake("submit name.toml", "'a\\x1b[2jb' has a control character", "one line"),
    Mistake("submit params.toml", "'gama'", "Did you mean gamma"),
]

RUNS = [
    Mistake(f"train --resume {name}", value, advice)
    for name, value, advice in (
        ("nowhere", "'nowhere' is no folder of a run", "run.json"),
        ("no-run", "'no-run' is no folder of a run", "run.json"),
        ("there.txt", "'there.txt' is no folder of a run", "run.json"),
        ("cut-run", "cut-run/run.json is damaged", "--start-from cut-run"),
        ("nested-run", "nested-run/run.json is damaged", "--start-from nested-run"),
        ("binary-run", "binary-run/run.json is damaged", "--start-from binary-run"),
        ("list-run", "list-run/run.json is damaged", "--start-from list-run"),
        ("newer-run", "newer-run/run.json has format 99", "reads format 1"),
        ("unknown-run", "unknown-run/run.json", "reads format 1"),
        ("few-run", "few-run/run.json", "--start-from few-run"),
        ("kinds-run", "env_steps is 'many'", "--start-from kinds-run"),
        ("config-run", "config is 3", "--start-from config-run"),
        ("result-run", "result-run/run.json", "--start-from result-run"),
        ("bare-run", "'bare-run'", "no checkpoint of a training is in it"),
        ("bad-run", "no checkpoint in it is whole", "000000000100.checkpoint"),
    )
]
CHECKPOINTS = [
    Mistake(f"{line} {name}", value, advice)
    for line in ("play", "train PPO --start-from")
    for name, value, advice in (
        ("nowhere", "'nowhere'", "there is no such file or folder"),
        ("no-run", "'no-run'", "no checkpoint of a training is in it"),
        ("there.txt", "there.txt is not a complete checkpoint", "cut off"),
        ("empty.checkpoint", "empty.checkpoint is not a complete checkpoint", "cut off"),
        ("text.checkpoint", "text.checkpoint is not a complete checkpoint", "cut off"),
        ("bad-run", "no checkpoint in it is whole", "000000000100.checkpoint"),
        ("about.checkpoint", "about.checkpoint is not a complete checkpoint", "cut off"),
        ("kind.checkpoint", "kind.checkpoint", "study's trials"),
        ("format.checkpoint", "format.checkpoint has format 99", "up to format 2"),
        ("format-text.checkpoint", "format-text.checkpoint", "damaged"),
        ("few.checkpoint", "few.checkpoint", "damaged"),
    )
]
OUTPUTS = [
    Mistake("play there.txt --best", "there.txt is a single checkpoint", "a folder"),
    Mistake("play bad-run --episodes 0", "got '0'", "greater than or equal to 1"),
    Mistake("play bad-run --max-steps nan", "got 'nan'", "a whole number"),
    Mistake("play bad-run --env-kwargs [1]", "--env-kwargs is '[1]'", "JSON object"),
    Mistake("play bad-run --headless --video x.gif", "--headless", "leave it out"),
    Mistake("play bad-run --record 'a b'", "'a b' is no name of a dataset", "CartPole/expert"),
    Mistake("play bad-run --record ../x", "'../x' is no name of a dataset", "letters, digits"),
    Mistake("play bad-run --record ''", "'' is no name of a dataset", "letters, digits"),
    Mistake(f"play bad-run --record {'x' * 300}", "is no name of a dataset", "letters, digits"),
    Mistake("play bad-run --record expert-v3", "'expert-v3' exists already", "makes it expert-v4"),
    Mistake("play bad-run --record expert-v3/more", "cannot be in 'expert-v3'", "which is a dataset itself"),
    Mistake("play bad-run --record there/x", "datasets/there'", "is a file"),
    Mistake("play no-run --record fine", "'no-run'", "no checkpoint of a training is in it"),
    Mistake("train PPO --folder there.txt", "'there.txt'", "folder"),
    Mistake("train PPO --folder there.txt/x", "there.txt/x", "cannot be"),
    Mistake("train PPO --folder no-run", "'no-run' is not empty", "folder of the run's own"),
    Mistake("train PPO --folder bare-run", "'bare-run' has a run already", "--resume bare-run"),
    Mistake(f"train PPO --folder {'x' * 300}", "cannot be", "too long"),
    Mistake("plot nowhere", "'nowhere'", "no history"),
    Mistake("plot history", "history.parquet", "cannot be read"),
    Mistake("plot no-run no-run", "given twice", "give each once"),
    Mistake("plot no-run --window 0", "got '0'", "greater than or equal to 1"),
    Mistake("plot no-run -o x.png", "--output is 'x.png'", ".html"),
]
TABLES = [
    Mistake("replay nowhere.csv", "there is no table 'nowhere.csv'", "check the path"),
    Mistake("replay there.txt", "'there.txt'", ".csv"),
    Mistake("replay empty.csv", "'empty.csv' cannot be read", "no columns"),
    Mistake("replay header.csv", "has no rows", "config, seed, env_steps, return"),
    Mistake("replay column.csv", "no column 'return'", "it needs"),
    Mistake("replay text.csv", "'return' has 'x'", "not a number"),
    Mistake("replay nan.csv", "no return", "number"),
    Mistake("replay twice.csv", "'a'", "two values"),
    Mistake("replay gaps.csv --budget 1", "0 of 1 seeds of 'a'", "left to judge it"),
    Mistake("replay below.csv", "env_steps", "above 0"),
    Mistake("replay quotes.csv", "quotes.csv", "cannot be read"),
    Mistake("replay latin.csv", "latin.csv", "cannot be read"),
    Mistake("replay bad.parquet", "bad.parquet", "cannot be read"),
    Mistake("replay fine.csv --policy rase", "'rase'", "Did you mean 'race'"),
    Mistake("replay fine.csv --budget abc", "got 'abc'", "10%"),
    Mistake("replay fine.csv --budget 0", "got '0'", "> 0"),
    Mistake("replay fine.csv --budget nan", "got 'nan'", "> 0"),
    Mistake("replay fine.csv --budget inf%", "got 'inf%'", "> 0"),
    Mistake("replay fine.csv --replays 0", "got '0'", "greater than or equal to 1"),
    Mistake("replay fine.csv --seed -1", "got '-1'", "greater than or equal to 0"),
]

ALL = [*STUDIES, *RUNS, *CHECKPOINTS, *OUTPUTS, *TABLES]


def _checkpoint(about: bytes) -> bytes:
    """Return a checkpoint with this description and no data."""
    return about + len(about).to_bytes(4, "big") + b"finder1\n"


def create_files(folder: Path) -> None:
    """Create the files that the commands name."""
    about = {"kind": "training", "format": 1, "crc": 0, "size": 0}
    checkpoints = {
        "about.checkpoint": b"[1]",
        "kind.checkpoint": json.dumps({**about, "kind": "trials"}).encode(),
        "format.checkpoint": json.dumps({**about, "format": 99}).encode(),
        "format-text.checkpoint": json.dumps({**about, "format": "x"}).encode(),
        "few.checkpoint": json.dumps(about).encode(),
    }
    write_all(folder, {**FILES, **{name: _checkpoint(content) for name, content in checkpoints.items()}})


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the files, which are created once."""
    folder = tmp_path_factory.mktemp("bad-files")
    create_files(folder)
    return folder


@pytest.mark.parametrize("case", ALL, ids=ids(ALL))
def test_mistake_is_reported_in_one_line(
    finder: Any, template: Path, case: Mistake, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(template, finder.folder, dirs_exist_ok=True)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(finder.folder / "datasets"))
    check(case, *finder(*case.words))
    assert len(list((finder.folder / "datasets").iterdir())) == 2
    storage = finder.folder / "finder.db"
    assert not storage.exists() or finder("studies", "--json").json == []
