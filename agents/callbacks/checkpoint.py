"""Checkpoints of a training, written while it runs, so that it can be resumed after any end."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from agents.callbacks.callback import Callback
from agents.callbacks.evaluate import JudgedBy, check_judge
from agents.callbacks.intervals import Every, IntervalTimer
from agents.checkpoints.file import write
from agents.errors import ConfigurationError, check_at_least
from agents.state_files.header import best_of, list_checkpoints
from agents.state_files.state_file import SUFFIX
from agents.state_files.whole_file import remove_unfinished
from agents.training.records import Evaluation
from agents.training.training import require_alone

if TYPE_CHECKING:
    from agents.training.run import Run
    from agents.training.trainer import Trainer

MOST_COST = 0.02
"""Largest share of the time for checkpoints that are written by the clock; slow checkpoints are written less often."""


class Checkpoint(Callback):
    """Write checkpoints of a training at intervals, at its end, and when a callback raises an error.

    `agents.checkpoints.file.resume` resumes from one, `load_agent` loads its agent. After an error of a callback the
    current state is written, and the error names the file. After any other error (a loss that is not finite, an
    environment that raises) nothing is written: the newest checkpoint is from before the error.

    Args:
        folder: Folder of the checkpoints, which is created. It belongs to one training.
        every: Interval: environment steps, ``"50 episodes"`` or ``"60 s"``. Defaults to 60 s, and at most 2% of the
            time. Not allowed with `best_only` and evaluations.
        keep: Number of newest checkpoints to keep, >= 1, in addition to the best one. Defaults to 3; None keeps all.
        best_only: Write only if the training is better than in every earlier checkpoint: at the end of each
            evaluation, or, judged by its own episodes, at each `every`. The checkpoint at the end of training is
            always written. Defaults to False.
        weights_only: Write only the state of acting, from which no training can be resumed. Defaults to False.
        judged_by: Measure of a checkpoint: the mean return of the last `window` episodes of training, or of an
            evaluation of the same agent; after an evaluation that is the best so far, a checkpoint is written
            regardless of `every`. Defaults to ``"training"``.
        window: Number of episodes. Defaults to 100. With fewer than a tenth of them, the measure is unknown.

    Raises:
        ConfigurationError: A bad value, or an interval that would be unused.
    """

    last = stores_states = True

    def __init__(
        self,
        folder: str | Path,
        *,
        every: int | str | Every | None = None,
        keep: int | None = 3,
        best_only: bool = False,
        weights_only: bool = False,
        judged_by: JudgedBy = "training",
        window: int = 100,
    ) -> None:
        if keep is not None and keep < 1:
            raise ConfigurationError(f"keep must be >= 1, or None for all, got {keep}.")
        check_at_least(1, window=window)
        by_evaluations = best_only and judged_by == "evaluation"
        if by_evaluations and every is not None:
            raise ConfigurationError("With best_only, checkpoints are written after evaluations: leave every out.")
        self.folder = Path(folder)
        self.every = None if by_evaluations else Every.of("60 s" if every is None else every)
        self.keep = keep
        self.best_only = best_only
        self.weights_only = weights_only
        self.judged_by: JudgedBy = judged_by
        self.window = window
        self.newest: Path | None = None
        """The newest checkpoint."""
        self._timer: IntervalTimer | None = None
        self._ended = False
        self._best = float("-inf")
        # Environment and gradient steps of the newest checkpoint of this process, with its file, and of the newest
        # evaluation.
        self._at = self._evaluated_at = (-1, -1)
        self._file_at: Path | None = None
        self._written, self._cost = time.monotonic(), 0.0

    def reset_state(self) -> None:
        self._best, self._at, self._evaluated_at = float("-inf"), (-1, -1), (-1, -1)
        self.newest = self._file_at = None

    def on_train_begin(self, trainer: Trainer) -> None:
        require_alone(trainer, "Checkpoint")
        check_judge(trainer, self.judged_by, "Checkpoint")
        self.folder.mkdir(parents=True, exist_ok=True)
        found = list_checkpoints(self.folder)
        for path, header in found.items():
            if header.env_steps > trainer.env_steps:
                raise ConfigurationError(
                    f"{path} was written after {header.env_steps:,} environment steps, and this training is at "
                    f"{trainer.env_steps:,}: resume from it (agents.resume), or use another folder."
                )
            self.newest = path
            if (header.env_steps, header.gradient_steps) == _moment(trainer):
                self._at, self._file_at = _moment(trainer), path  # training resumes from this one
                if header.value is not None and header.judged_by == "evaluation":
                    self._evaluated_at = self._at
        remove_unfinished(self.folder)
        best = best_of(found, self.judged_by)
        if best is not None:
            self._best = found[best].value or 0.0
        self._timer = None if self.every is None else IntervalTimer(self.every, trainer)
        self._ended = False

    def on_evaluation_end(self, trainer: Trainer, evaluation: Evaluation) -> None:
        if self.judged_by == "evaluation":
            self._evaluated_at = _moment(trainer)

    def on_rollout_begin(self, trainer: Trainer) -> None:
        self._write_if_evaluated_best(trainer)  # after an evaluation that a resumed training has made up for

    def on_update_begin(self, trainer: Trainer) -> None:
        self._write_if_evaluated_best(trainer)

    def on_step_end(self, trainer: Trainer) -> None:
        due = self._timer is not None and self._timer.due(trainer) and not self._exceeds_share()
        if due and (not self.best_only or self._is_best(trainer)):
            self.write(trainer)
        else:
            self._write_if_evaluated_best(trainer)

    def on_run_end(self, trainer: Trainer, run: Run) -> None:
        self._ended = True

    def on_train_end(self, trainer: Trainer) -> None:
        error = trainer.callbacks.error
        if (self._ended or error is not None) and self._at != _moment(trainer):
            self.write(trainer)
        if error is not None:
            error.add_note(f"The training is kept in {self.newest}.")

    def value(self, trainer: Trainer) -> float | None:
        """Return the measure of the training so far, or None if it is unknown."""
        history = trainer.history
        if self.judged_by == "evaluation":
            return history.evaluations[-1].mean_return if self._evaluated_at == _moment(trainer) else None
        return history.mean_return(self.window) if len(history.returns) >= max(1, self.window // 10) else None

    def write(self, trainer: Trainer) -> Path:
        """Write a checkpoint now, remove surplus ones, and return its path."""
        began = time.monotonic()
        value = self.value(trainer)
        if self._at == _moment(trainer) and self._file_at is not None:
            path = self._file_at  # of the same agent, before its evaluation
        else:
            # An update may have followed a checkpoint without a step in between; that one may be the best, and is kept.
            updated = "-updated" if self._at[0] == trainer.env_steps else ""
            path = self.folder / f"{trainer.env_steps:012d}{updated}{SUFFIX}"
        write(path, trainer, "weights" if self.weights_only else "everything", value, self.judged_by)
        self.newest, self._at, self._file_at = path, _moment(trainer), path
        self._best = self._best if value is None else max(self._best, value)
        self._remove_surplus()
        self._written = time.monotonic()
        self._cost = self._written - began
        return path

    def _is_best(self, trainer: Trainer) -> bool:
        value = self.value(trainer)
        return value is not None and value > self._best

    def _write_if_evaluated_best(self, trainer: Trainer) -> None:
        if self._evaluated_at == _moment(trainer) and self._is_best(trainer):
            self.write(trainer)

    def _exceeds_share(self) -> bool:
        by_clock = self.every is not None and self.every.seconds is not None
        return by_clock and time.monotonic() - self._written < self._cost / MOST_COST

    def _remove_surplus(self) -> None:
        if self.keep is None:
            return
        found = list_checkpoints(self.folder)
        best = best_of(found, self.judged_by)
        for path in list(found)[: -self.keep]:
            if path != best:
                path.unlink(missing_ok=True)


def _moment(trainer: Trainer) -> tuple[int, int]:
    """Return the environment and gradient steps: the agent changes with either."""
    return trainer.env_steps, trainer.agent.gradient_steps


Checkpoints = Checkpoint
"""Deprecated alias, kept for one version."""
