"""A training as a run of Weights & Biases. Its package is not installed with Finder: pip install wandb."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agents.callbacks.intervals import Every
from agents.callbacks.loggers.scalar_log import ScalarLog, checkpoints_of, settings_of
from agents.errors import ConfigurationError

if TYPE_CHECKING:
    from agents.training.trainer import Trainer


class WeightsAndBiases(ScalarLog):
    """Write the numbers of a training (`ScalarLog` lists them), its settings and its checkpoints as a run.

    The files of the training's `Checkpoint` callback are an artifact of the type ``model`` when it ends. A resumed
    training continues its run; what was written after its checkpoint is written again. Key, project and mode are up to
    the package (environment variables ``WANDB_API_KEY``, ``WANDB_PROJECT``, ``WANDB_MODE=offline``).

    Args:
        project: Name of the project. Defaults to None: that of the environment, else ``"finder"``.
        run_name: Name of the run. Defaults to None: the service draws one.
        artifacts: Whether checkpoints are stored. Defaults to True.
        every: See `ScalarLog`. Defaults to 1000.
        gradient_norms: See `ScalarLog`. Defaults to True.

    Raises:
        ConfigurationError: The package is not installed (when training begins); see `ScalarLog`.
    """

    def __init__(
        self,
        project: str | None = None,
        run_name: str | None = None,
        *,
        artifacts: bool = True,
        every: int | str | Every = 1000,
        gradient_norms: bool = True,
    ) -> None:
        super().__init__(every=every, gradient_norms=gradient_norms)
        self.project = project
        self.run_name = run_name
        self.artifacts = artifacts
        self.run_id: str | None = None
        """Identifier of the run, once the training has begun."""
        self._run: Any = None

    def open(self, trainer: Trainer) -> None:
        try:
            import wandb
        except ModuleNotFoundError as error:
            raise ConfigurationError(
                f"The package of Weights & Biases is not installed ({error}): pip install wandb."
            ) from error
        self._run = wandb.init(
            project=self.project or os.environ.get("WANDB_PROJECT") or "finder",
            name=self.run_name,
            id=self.run_id,
            resume="allow",
            reinit="create_new",
            config=settings_of(trainer),
        )
        self.run_id = self._run.id
        self._run.define_metric("*", step_metric="env_steps")

    def reset_state(self) -> None:
        super().reset_state()
        self.run_id = None

    def write(self, env_steps: int, values: Mapping[str, float]) -> None:
        self._run.log({**values, "env_steps": env_steps})

    def close(self, trainer: Trainer) -> None:
        if self._run is None:
            return
        run, self._run = self._run, None
        try:
            if self.artifacts and (paths := checkpoints_of(trainer)):
                import wandb

                artifact = wandb.Artifact(f"checkpoints-{self.run_id}", type="model")
                for path in paths:
                    artifact.add_file(str(path), name=f"{path.parent.name}/{path.name}")
                run.log_artifact(artifact)
        finally:
            run.finish(exit_code=int(self.ending(trainer) == "failed"))

    def get_state(self) -> dict[str, Any]:
        return {**super().get_state(), "run_id": self.run_id}

    def set_state(self, state: Mapping[str, Any]) -> None:
        super().set_state(state)
        self.run_id = state["run_id"]
