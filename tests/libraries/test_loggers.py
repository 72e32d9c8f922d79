"""Tests of the loggers for MLflow and Weights & Biases, with their real packages and stores in files."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import wandb
from mlflow import MlflowClient

import agents
from agents import Checkpoint, LambdaCallback, Trainer
from agents.callbacks import MLflow, WeightsAndBiases
from agents.training.run import Budget

PPO: dict[str, Any] = {"n_steps": 16, "n_envs": 2, "batch_size": 16, "n_epochs": 1, "hidden_sizes": (4,)}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    return f"sqlite:///{tmp_path}/mlflow.db"


def ppo(**params: Any) -> Any:
    return agents.make("ppo", "CartPole-v1", jit_compile=False, **PPO, **params)


@pytest.mark.parametrize("is_first", [True, False])
def test_a_training_is_a_run_of_mlflow(is_first: bool, store: str, tmp_path: Path):
    log, checkpoints = MLflow("mine", "first", store, every=64), Checkpoint(tmp_path / "kept", every=64)
    callbacks = [log, checkpoints] if is_first else [checkpoints, log]
    with Trainer(ppo(learning_rate=0.01), callbacks=callbacks) as trainer:
        trainer.train(env_steps=128)
    client = MlflowClient(store)
    [run] = client.search_runs([client.get_experiment_by_name("mine").experiment_id])
    assert (run.info.run_name, run.info.status) == ("first", "FINISHED")
    assert run.data.params["learning_rate"] == "0.01"
    assert run.data.params["environment"] == "CartPole-v1"
    episodes = client.get_metric_history(run.info.run_id, "episode/return")
    assert [each.value for each in episodes] == list(trainer.history.returns)
    assert [each.step for each in episodes] == [episode.env_steps for episode in trainer.history.episodes]
    assert {each.step for each in client.get_metric_history(run.info.run_id, "loss/default")} == {64, 128}
    assert run.data.metrics["learning_rate/default"] == pytest.approx(0.01)
    assert run.data.metrics["gradient_norm/default"] > 0
    stored = [file.path for file in client.list_artifacts(run.info.run_id, "kept")]
    assert {Path(path).name for path in stored} == {path.name for path in (tmp_path / "kept").iterdir()}


def test_a_resumed_training_continues_its_run_of_mlflow(store: str, tmp_path: Path):
    folder = tmp_path / "kept"
    with Trainer(ppo(), callbacks=[Checkpoint(folder, every=64), MLflow(tracking_uri=store)]) as trainer:
        trainer.train(env_steps=64)
    with Trainer(ppo(), callbacks=[Checkpoint(folder, every=64), MLflow(tracking_uri=store)]) as again:
        agents.resume(again, folder)
        again.train(env_steps=64)
    client = MlflowClient(store)
    [run] = client.search_runs([client.get_experiment_by_name("finder").experiment_id])
    assert run.info.status == "FINISHED"
    assert [each.value for each in client.get_metric_history(run.info.run_id, "episode/return")] == list(
        again.history.returns
    )


def test_a_training_that_fails_is_a_failed_run(store: str):
    def fail(*_: Any) -> None:
        raise ValueError("no more")

    log = MLflow(tracking_uri=store)
    with Trainer(ppo(), callbacks=[log, LambdaCallback(on_episode_end=fail)]) as trainer, pytest.raises(ValueError):  # noqa: PT011
        trainer.train(env_steps=500)
    assert MlflowClient(store).get_run(log.run_id).info.status == "FAILED"


def test_a_training_that_is_left_is_an_interrupted_run(store: str):
    log = MLflow(tracking_uri=store)
    with Trainer(ppo(), callbacks=[log]) as trainer:
        steps = trainer.iterate(Budget(env_steps=200))
        next(steps)
        steps.close()
    assert MlflowClient(store).get_run(log.run_id).info.status == "KILLED"


def test_names_that_mlflow_does_not_allow_are_changed(store: str):
    def measure(trainer: Any) -> None:
        trainer.run.episode(0).custom_metrics["height (m)"] = 1.0

    log = MLflow(tracking_uri=store, every=64)
    with Trainer(ppo(), callbacks=[log, LambdaCallback(on_step_end=measure)]) as trainer:
        trainer.train(env_steps=192)
    assert MlflowClient(store).get_run(log.run_id).data.metrics["custom_metrics/height _m_/mean"] == 1.0


def test_what_a_killed_process_has_written_is_not_repeated(store: str, tmp_path: Path):
    folder = tmp_path / "kept"
    with Trainer(ppo(), callbacks=[Checkpoint(folder, every=64, keep=None), MLflow(tracking_uri=store)]) as trainer:
        trainer.train(env_steps=128)
    for path in sorted(folder.iterdir())[1:]:
        path.unlink()  # as if the process had been killed before
    with Trainer(ppo(), callbacks=[Checkpoint(folder, every=64), MLflow(tracking_uri=store)]) as again:
        agents.resume(again, folder)
        again.train(env_steps=128)
    client = MlflowClient(store)
    [run] = client.search_runs([client.get_experiment_by_name("finder").experiment_id])
    steps = [each.step for each in client.get_metric_history(run.info.run_id, "episode/return")]
    assert steps == [episode.env_steps for episode in again.history.episodes]


def test_a_run_without_artifacts_has_none(store: str, tmp_path: Path):
    log = MLflow(tracking_uri=store, artifacts=False)
    with Trainer(ppo(), callbacks=[Checkpoint(tmp_path / "kept"), log]) as trainer:
        trainer.train(env_steps=64)
    assert MlflowClient(store).list_artifacts(log.run_id) == []


def test_a_training_is_a_run_of_weights_and_biases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    log = WeightsAndBiases("mine", "first", every=64)
    with Trainer(ppo(learning_rate=0.01), callbacks=[Checkpoint(tmp_path / "kept", every=64), log]) as trainer:
        trainer.train(env_steps=128)
    wandb.teardown()  # its service writes the file after the run has ended
    [folder] = (tmp_path / "wandb").glob("offline-run-*")
    assert log.run_id is not None
    assert log.run_id in folder.name
    records = list(records_of(next(folder.glob("*.wandb"))))
    history = [record for kind, record in records if kind == "history"]
    returns = [float(row["episode/return"]) for row in history if "episode/return" in row]
    np.testing.assert_allclose(returns, trainer.history.returns)
    config = {key: value for kind, record in records if kind == "run" for key, value in record.items()}
    assert float(config["learning_rate"]) == 0.01
    assert "artifact" in {kind for kind, _ in records}


def records_of(path: Path) -> Any:
    """Yield kind and content of the records of a run that was written offline."""
    from wandb.proto import wandb_internal_pb2

    for data in logged(path.read_bytes()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        kind = record.WhichOneof("record_type")
        content = record.run.config if kind == "run" else getattr(record, kind)
        items = getattr(content, "item" if kind == "history" else "update", ())
        yield kind, {item.key or "/".join(item.nested_key): item.value_json for item in items}


def logged(content: bytes) -> Any:
    """Yield the entries of a log in LevelDB's format, whose parts have a header of 7 bytes in blocks of 32 KB."""
    at, entry, block = 7, b"", 32_768
    while at + 7 <= len(content):
        if block - at % block < 7:  # no header fits there
            at += block - at % block
            continue
        length, kind = struct.unpack("<HB", content[at + 4 : at + 7])
        entry += content[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # a whole entry, or its last part
            yield entry
            entry = b""


def test_one_training_after_another_are_two_runs(store: str):
    logs = [MLflow(tracking_uri=store) for _ in range(2)]
    for seed, log in enumerate(logs):
        agent = agents.make("ppo", "CartPole-v1", seed=seed, jit_compile=False, **PPO)
        with Trainer(agent, callbacks=[log]) as trainer:
            trainer.train(env_steps=32)
    assert logs[0].run_id != logs[1].run_id
