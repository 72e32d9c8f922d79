"""One long run from its first word to its exit code."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rich.text import Text

from agents.errors import ConfigurationError
from agents.silence import import_tensorflow
from finder.cli.console import errors, say_error
from finder.cli.foreign import foreign_output_on_stderr
from finder.cli.session import INTERRUPTED
from finder.cli.train_words import budget_text, conclude, say_begin, say_stopped, say_went_on

if TYPE_CHECKING:
    from pathlib import Path

    from finder.cli.parameters import Output
    from finder.run_folder import RunFolder


def go_on(path: Path, budget: Mapping[str, Any], output: Output) -> int:
    """Goes on with a run.

    Args:
        path: Its folder.
        budget: What of its budget is another one now.
        output: How to speak.

    Returns:
        The exit code: 0 at its end, 1 after a failure, 130 after Ctrl-C.
    """
    from finder.long_run import RunResult, left_to_do
    from finder.run_folder import RunFolder

    folder = RunFolder.open(path)
    if folder.settings.weights_only:
        raise ConfigurationError(
            f"The checkpoints in {str(path)!r} hold weights only (--weights-only): the run cannot go on. Start a new "
            f"one from them: --start-from {path}"
        )
    if budget:
        folder.changed(replace(folder.settings, **budget))
    interrupted = folder.result is None or folder.result["reason"] == "interrupted"
    if not left_to_do(folder) or not (budget or interrupted):
        if folder.result is None:
            raise ConfigurationError(f"Its budget ({budget_text(folder.settings)}) is used up: give more --env-steps.")
        if not output.quiet:
            errors().print("Nothing left to train; showing what it came to. A larger --env-steps trains it further.")
        conclude(folder, RunResult(**folder.result), output)
        return 0
    return run(folder, None, output, goes_on=True)


def run(folder: RunFolder, state: Mapping[str, Any] | None, output: Output, *, goes_on: bool) -> int:
    """Trains a run, shows its progress, and tells how it ended.

    Args:
        folder: Its folder.
        state: Weights that it starts from, or None.
        output: How to speak.
        goes_on: Whether it goes on from its newest checkpoint.

    Returns:
        The exit code; see `go_on`.
    """
    from agents.interrupts import StopOnSignals
    from finder.cli.train_progress import training_progress

    def say_stopping(_: int) -> None:
        if not output.quiet:
            errors().print("Stopping after this step; the same again ends it at once.", style="dim")

    signals = StopOnSignals(say_stopping)
    if not output.quiet:
        say_begin(folder)
    with ExitStack() as stack:
        stack.enter_context(foreign_output_on_stderr())
        stack.enter_context(folder.held())
        import_tensorflow()
        from finder.long_run import LongRun

        training = stack.enter_context(
            LongRun(folder, state, [*training_progress(folder.settings, output.quiet), signals])
        )
        if goes_on:
            header = training.go_on()
            if not output.quiet:
                say_went_on(header)
        try:
            result = training.train()
        except KeyboardInterrupt:
            say_stopped(folder, training.result("interrupted")._replace(env_steps=_steps_kept(folder)))
            return INTERRUPTED if signals.received is None else 128 + signals.received
        except ConfigurationError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever an agent, an environment or a callback raises
            return _say_failed(folder, error)
    if signals.received is not None:
        say_stopped(folder, result)
        return 128 + signals.received
    conclude(folder, result, output)
    return 0


def _steps_kept(folder: RunFolder) -> int:
    from agents.checkpoint_file import find, header_of

    return header_of(find(folder.path)).env_steps


def _say_failed(folder: RunFolder, error: Exception) -> int:
    from agents.checkpoint_file import find
    from agents.errors import NonFiniteError

    if not isinstance(error, NonFiniteError):  # which says all there is to say
        errors().print(Text("".join(traceback.format_exception(error)).rstrip(), "dim"), soft_wrap=True)
    hint = f"The newest checkpoint, after {_steps_kept(folder):,} environment steps, is {find(folder.path)}"
    say_error(f"the training failed: {type(error).__name__}: {error}", hint)
    return 1
