"""A training as a run of MLflow. MLflow is not installed with Finder: pip install mlflow."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agents.callbacks.intervals import Every
from agents.callbacks.loggers.scalar_log import ScalarLog, checkpoints_of, settings_of
from agents.errors import ConfigurationError

if TYPE_CHECKING:
    from agents.training.trainer import Trainer

_LONGEST_VALUE = 6000
"""Characters of a parameter that MLflow stores."""

_BATCH = 1000
"""Metrics that MLflow takes in one call."""

_NOT_ALLOWED = re.compile(r"[^\w.\- :/]")
"""Characters that MLflow does not allow in the name of a metric."""

_STATUS = {"finished": "FINISHED", "interrupted": "KILLED", "failed": "FAILED"}

_FLUSH_SECONDS = 2.0


class MLflow(ScalarLog):
    """Write the numbers of a training (`ScalarLog` lists them), its settings and its checkpoints as a run of MLflow.

    The files of the training's `Checkpoint` callback are the run's artifacts when it ends. A resumed training continues
    its run, and does not repeat what that has. Where the runs are stored is up to MLflow (environment variable
    ``MLFLOW_TRACKING_URI``). A server that does not answer ends the training, after a checkpoint.

    Args:
        experiment: Name of the experiment, which is created. Defaults to ``"finder"``.
        run_name: Name of the run. Defaults to None: MLflow draws one.
        tracking_uri: The store. Defaults to None: MLflow's own choice.
        artifacts: Whether checkpoints are stored. Defaults to True.
        every: See `ScalarLog`. Defaults to 1000.
        gradient_norms: See `ScalarLog`. Defaults to True.

    Raises:
        ConfigurationError: MLflow is not installed (when training begins); see `ScalarLog`.
    """

    def __init__(
        self,
        experiment: str = "finder",
        run_name: str | None = None,
        tracking_uri: str | None = None,
        *,
        artifacts: bool = True,
        every: int | str | Every = 1000,
        gradient_norms: bool = True,
    ) -> None:
        super().__init__(every=every, gradient_norms=gradient_norms)
        self.experiment = experiment
        self.run_name = run_name
        self.tracking_uri = tracking_uri
        self.artifacts = artifacts
        self.run_id: str | None = None
        """Identifier of the run, once the training has begun."""
        self._client: Any = None
        self._metrics: list[Any] = []
        self._sent = 0.0
        self._stored_until: dict[str, int] = {}  # metric -> environment steps up to which an earlier process stored it

    def open(self, trainer: Trainer) -> None:
        try:
            from mlflow import MlflowClient
            from mlflow.entities import Param
        except ModuleNotFoundError as error:
            raise ConfigurationError(f"MLflow is not installed ({error}): pip install mlflow.") from error
        self._client = MlflowClient(self.tracking_uri)
        if self.run_id is not None:  # a resumed training
            self._client.update_run(self.run_id, status="RUNNING")
            self._stored_until = {
                name: max(each.step for each in self._client.get_metric_history(self.run_id, name))
                for name in self._client.get_run(self.run_id).data.metrics
            }
            return
        known = self._client.get_experiment_by_name(self.experiment)
        experiment = known.experiment_id if known is not None else self._client.create_experiment(self.experiment)
        self.run_id = self._client.create_run(experiment, run_name=self.run_name).info.run_id
        params = [Param(name, str(value)[:_LONGEST_VALUE]) for name, value in settings_of(trainer).items()]
        self._client.log_batch(self.run_id, params=params)

    def reset_state(self) -> None:
        super().reset_state()
        self.run_id, self._stored_until = None, {}

    def write(self, env_steps: int, values: Mapping[str, float]) -> None:
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        allowed = {_NOT_ALLOWED.sub("_", name): value for name, value in values.items()}
        new = [name for name in allowed if env_steps > self._stored_until.get(name, -1)]
        self._metrics += [Metric(name, allowed[name], now, env_steps) for name in new]
        if time.monotonic() - self._sent > _FLUSH_SECONDS or len(self._metrics) >= _BATCH:
            self._send(self._client)

    def flush(self) -> None:
        if self._client is not None:
            self._send(self._client)

    def close(self, trainer: Trainer) -> None:
        if self._client is None:
            return
        client, self._client = self._client, None
        try:
            self._send(client)
            for path in checkpoints_of(trainer) if self.artifacts else ():
                client.log_artifact(self.run_id, str(path), path.parent.name)
        finally:
            client.set_terminated(self.run_id, _STATUS[self.ending(trainer)])

    def get_state(self) -> dict[str, Any]:
        return {**super().get_state(), "run_id": self.run_id}

    def set_state(self, state: Mapping[str, Any]) -> None:
        super().set_state(state)
        self.run_id = state["run_id"]

    def _send(self, client: Any) -> None:
        while self._metrics:
            client.log_batch(self.run_id, metrics=self._metrics[:_BATCH])
            del self._metrics[:_BATCH]
        self._sent = time.monotonic()
