"""A small study, recorded without training, and damaged copies of its file."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from pathlib import Path

from studies.database.records import EpisodeRecord
from studies.recording.opening import open_study
from studies.recording.recorder import Recorder
from studies.spec.spec import StudySpec

NAME = "real"
_RATES = (1e-4, 1e-3, 1e-2)
_LEASE = "UPDATE finder_leases SET owner = {owner}, deadline = {deadline}, epoch = {epoch} WHERE number = -1"
_OWNER = "'host machine 1 1 token'"
_OF_SPEC = "UPDATE study_user_attributes SET value_json = {} WHERE key = 'finder_spec'"
_OF_TRIAL = "UPDATE trial_user_attributes SET value_json = {} WHERE key = '{}'"

SQL: dict[str, tuple[str, ...]] = {
    "no-trials": ("DROP TABLE trials",),
    "no-studies": ("DROP TABLE studies",),
    "no-params": ("DROP TABLE trial_params",),
    "no-attributes": ("DROP TABLE trial_user_attributes",),
    "no-versions": ("DROP TABLE version_info",),
    "no-episodes": ("DROP TABLE finder_episodes",),
    "no-leases": ("DROP TABLE finder_leases",),
    "no-directions": ("DROP TABLE study_directions",),
    "columns": ("ALTER TABLE trials RENAME COLUMN state TO mood",),
    "schema-text": (
        "DROP TABLE finder_schema",
        "CREATE TABLE finder_schema (version TEXT)",
        "INSERT INTO finder_schema VALUES ('x')",
    ),
    "schema-newer": ("UPDATE finder_schema SET version = 99 WHERE version = 3",),
    "optuna-older": ("UPDATE alembic_version SET version_num = 'v0.9.0.a'",),
    "optuna-newer": ("UPDATE alembic_version SET version_num = 'v99.0.0.a'",),
    "lease-owner": (_LEASE.format(owner="'garbage'", deadline="9e12", epoch="1"),),
    "lease-deadline": (_LEASE.format(owner=_OWNER, deadline="'soon'", epoch="1"),),
    "lease-endless": (_LEASE.format(owner=_OWNER, deadline="9e999", epoch="1"),),
    "lease-epoch": (_LEASE.format(owner=_OWNER, deadline="9e12", epoch="'x'"),),
    "spec-cut": (_OF_SPEC.format("'{'"),),
    "spec-number": (_OF_SPEC.format("'3'"),),
    "spec-empty": (_OF_SPEC.format("'{}'"),),
    "spec-newer": ("UPDATE study_user_attributes SET value_json = '99' WHERE key = 'finder_spec_version'",),
    "spec-version": ("UPDATE study_user_attributes SET value_json = '\"x\"' WHERE key = 'finder_spec_version'",),
    "state": ("UPDATE trials SET state = 'DONE' WHERE number = 1",),
    "number": ("UPDATE trials SET number = 'x' WHERE number = 1",),
    "date": ("UPDATE trials SET datetime_start = 'yesterday'",),
    "distribution": ("UPDATE trial_params SET distribution_json = '{'",),
    "distribution-kind": ('UPDATE trial_params SET distribution_json = \'{"name": "X", "attributes": {}}\'',),
    "parameter": ("UPDATE trial_params SET param_value = 'x'",),
    "attribute-cut": (_OF_TRIAL.format("'{'", "seed_values"),),
    "seed-values": (_OF_TRIAL.format("'[1]'", "seed_values"),),
    "seeds": (_OF_TRIAL.format("'{\"x\": 1}'", "seed_values"),),
    "seconds": (_OF_TRIAL.format("'\"x\"'", "wall_seconds"),),
    "steps": (_OF_TRIAL.format("'[]'", "env_steps"),),
    "configuration": (_OF_TRIAL.format("'3'", "configuration"),),
    "value": ("UPDATE trial_values SET value = 'x'",),
    "value-kind": ("UPDATE trial_values SET value_type = 'NEITHER'",),
    "direction": ("UPDATE study_directions SET direction = 'SIDEWAYS'",),
    "step": ("UPDATE trial_intermediate_values SET step = 'x' WHERE step = 500",),
    "episode-steps": ("UPDATE finder_episodes SET env_steps = 'x'",),
    "episode-huge": ("UPDATE finder_episodes SET env_steps = 1e30",),
    "episode-return": ("UPDATE finder_episodes SET episode_return = 'x'",),
    "episode-length": ("UPDATE finder_episodes SET length = 'x'",),
}
"""Name of a damaged copy -> statements that damage it."""


def make_study(url: str) -> None:
    """Record a study of three learning rates on two seeds with invented episodes."""
    spec = StudySpec(
        name=NAME,
        kind="lr",
        storage=url,
        agents=("ppo",),
        env="CartPole-v1",
        env_steps=1000,
        n_reports=2,
        seeds=(0, 1),
        trials=tuple({"learning_rate": rate} for rate in _RATES),
        pruner="none",
        confirm=0,
    )
    with open_study(spec) as study, Recorder(study) as recorder:
        while (ask := recorder.ask()) is not None:
            recorder.started(ask.number, {"vectorization": "sync"})
            worth = {0.0001: 20.0, 0.001: 200.0, 0.01: 90.0}[ask.params["learning_rate"]]
            for seed in (0, 1):
                episodes = [
                    EpisodeRecord(
                        seed=seed,
                        episode=index,
                        env_steps=250 * (index + 1),
                        episode_return=worth + index + seed,
                        length=250,
                        loss=0.5,
                        wall_seconds=0.1 * index,
                    )
                    for index in range(4)
                ]
                recorder.episodes(ask.number, episodes)
            recorder.report(ask.number, 500, worth)
            recorder.report(ask.number, 1000, worth)
            extra = {"wall_seconds": 1.5, "env_steps": 1000}
            recorder.completed(ask.number, worth, {0: worth, 1: worth + 1}, extra)


def change(path: Path, *statements: str) -> None:
    """Change a SQLite file without Optuna."""
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def damage(folder: Path, real: Path, name: str) -> None:
    """Write a damaged copy of a study's file into a folder, as `NAME.db`."""
    target = folder / f"{name}.db"
    if name in SQL:
        shutil.copy(real, target)
        change(target, *SQL[name])
        return
    whole = real.read_bytes()
    page = 4096
    made = {
        "text": b"this is no database",
        "header": b"SQLite format 3\x00" + b"\xff" * 5000,
        "cut": whole[: len(whole) // 2],
        "short": whole[:100],
        "holes": b"".join(whole[i : i + page] if i < 2 * page else b"\xa5" * page for i in range(0, len(whole), page)),
        "zeros": whole[:page] + bytes(len(whole) - page),
    }
    target.write_bytes(made[name])
