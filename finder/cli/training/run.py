"""Runs `finder train` from its settings to the exit code."""

from __future__ import annotations

import shlex
import traceback
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rich.text import Text

from agents.backend.silence import import_tensorflow
from agents.errors import ConfigurationError, cause_of
from agents.training.records import MOST_RECENT
from finder.cli.session import INTERRUPTED_CODE
from finder.cli.stdout_guard import redirect_stdout_to_stderr
from finder.cli.training.messages import (
    budget_text,
    conclude,
    print_begin,
    print_ending_schedules,
    print_resumed,
    print_stopped,
)
from finder.progress.console import errors, print_error, print_note
from studies.words import counted, number_text

if TYPE_CHECKING:
    from pathlib import Path

    from agents.callbacks.callback import Callback
    from agents.state_files.header import CheckpointHeader
    from finder.cli.options.parameters import Output
    from finder.long_run.long_run import LongRun
    from finder.long_run.run_folder import RunFolder


def resume_run(
    path: Path,
    budget: Mapping[str, Any],
    output: Output,
    *,
    hang_seconds: float | None = None,
    trust: bool = False,
    allow_modules: Sequence[str] = (),
) -> int:
    """Resume a run.

    Args:
        path: Folder of the run.
        budget: Changed limits of the budget.
        output: Output options.
        hang_seconds: Changed time limit of steps and updates; None for the present one.
        trust: Whether to trust files of other users.
        allow_modules: Modules that files of other users may name.

    Returns:
        The exit code: 0 at the end, 1 after a failure, 2 after a mistake, 128 and the number of a signal after one.
    """
    from finder.long_run.run_folder import RunFolder

    folder = RunFolder.open(path)
    with folder.trusted_code(allow_modules, trust=trust):
        return _resume(folder, budget, output, hang_seconds, trust)


def _resume(
    folder: RunFolder, budget: Mapping[str, Any], output: Output, hang_seconds: float | None, trust: bool
) -> int:
    from agents.callbacks.signals import REASON
    from finder.long_run.long_run import RunResult, check_numbers, has_budget_left, is_target_reached

    path = folder.path
    if folder.settings.weights_only:
        raise ConfigurationError(
            f"The checkpoints in {str(path)!r} hold weights only (--weights-only): the run cannot be resumed. Start a "
            f"new one from them: --start-from {shlex.quote(str(path))}"
        )
    settings = replace(folder.settings, **budget)
    if hang_seconds is not None:
        settings = replace(settings, hang_seconds=hang_seconds)
    check_numbers(settings)
    is_reached = is_target_reached(settings, folder.result)
    left = has_budget_left(folder, settings) and not is_reached
    more = "--target-reward" if is_reached else "--env-steps" if settings.env_steps is not None else "--episodes"
    if budget and not left:
        raise ConfigurationError(
            f"Nothing is left to train of {budget_text(settings)}: {_done_text(folder)}. Give a larger {more}, or see "
            f"its result: finder train --resume {shlex.quote(str(path))}"
        )
    if folder.result is None or (left and (budget or folder.result["reason"] == REASON)):
        folder.settings = settings
        return run(folder, None, output, resumes=True, further=bool(budget), trust=trust)
    if not output.quiet and left:
        errors().print(f"The run has ended before its budget. This is its result; to train on, give {more} again.")
    elif not output.quiet:
        errors().print(
            f"Nothing is left to train. This is the result of the run; a larger {more} trains the agent further."
        )
    conclude(folder, RunResult(**folder.result), output)
    return 0


def run(
    folder: RunFolder,
    state: Mapping[str, Any] | None,
    output: Output,
    *,
    resumes: bool,
    further: bool = False,
    trust: bool = False,
) -> int:
    """Train a run, show its progress and print its result.

    Args:
        folder: Folder of the run.
        state: Initial weights, or None.
        output: Output options.
        resumes: Whether the run resumes from its newest checkpoint.
        further: Whether the budget was changed. Defaults to False.
        trust: Whether to trust a checkpoint of another user. Defaults to False.

    Returns:
        The exit code; see `resume_run`.
    """
    from agents.callbacks.signals import REASON, StopOnSignals
    from finder.cli.training.progress import training_progress

    def print_stopping(_: int) -> None:
        if not output.quiet:
            errors().print("Stopping after this step; Ctrl-C stops at once.", style="dim")

    signals = StopOnSignals(print_stopping)
    if not output.quiet:
        print_begin(folder)
        print_ending_schedules(folder.settings)
    with ExitStack() as stack:
        stack.enter_context(redirect_stdout_to_stderr())
        shown = training_progress(folder.settings, output.quiet)
        if shown is not None:
            stack.enter_context(shown)
        if resumes:
            stack.enter_context(folder.locked())
        import_tensorflow()
        callbacks = [signals] if shown is None else [shown, signals]
        training = stack.enter_context(_built(folder, state, callbacks, resumes=resumes))
        if resumes:
            header = training.resume(trust=trust)
            if not output.quiet:
                print_resumed(header, training.why_new_episodes)
        else:
            folder.create()  # after all checks, so that mistakes leave no folder behind
            stack.enter_context(folder.locked())
            folder.begin(training.write_initial_checkpoint)
        try:
            result = training.train(further=further, hangs=lambda reason: _end_hung(folder, reason))
        except KeyboardInterrupt:
            return _print_interrupted(folder, training, signals.received, output)
        except Exception as error:  # noqa: BLE001 - whatever an agent, an environment or a callback raises
            if signals.received is None or cause_of(error) != "environment":
                return _print_failure(folder, error)
            if not output.quiet:
                print_note(
                    f"the environment failed after the signal, which may have ended its simulator too: "
                    f"{type(error).__name__}: {error}"
                )
            return _print_interrupted(folder, training, signals.received, output)
    if result.reason == REASON and signals.received is not None:
        if not output.quiet:
            print_stopped(folder, result)
        return 128 + signals.received
    conclude(folder, result, output)
    return 0


def _built(
    folder: RunFolder, state: Mapping[str, Any] | None, callbacks: Sequence[Callback], *, resumes: bool
) -> LongRun:
    """Return the run with its agent.

    Raises:
        ConfigurationError: The agent cannot be built; the traceback of an error of its own was printed.
    """
    from finder.long_run.long_run import LongRun

    try:
        return LongRun(folder, state, callbacks, resumes=resumes)
    except (ConfigurationError, MemoryError, OSError):
        raise
    except Exception as error:
        _print_traceback(error)
        raise ConfigurationError(f"the agent cannot be built: {type(error).__name__}: {error}") from error


def _print_interrupted(folder: RunFolder, training: LongRun, received: int | None, output: Output) -> int:
    """Print how to resume a training from its newest checkpoint, and return the exit code.

    Args:
        folder: Folder of the run.
        training: The run.
        received: Number of the signal that ended it; None for Ctrl-C that did not wait for the end of a step.
        output: Output options.
    """
    from agents.callbacks.signals import REASON

    if not output.quiet:
        print_stopped(folder, training.result(REASON)._replace(env_steps=_newest(folder)[1].env_steps))
    return INTERRUPTED_CODE if received is None else 128 + received


def _print_failure(folder: RunFolder, error: Exception) -> int:
    """Print why a training failed and how to resume it, and return the exit code."""
    if isinstance(error, ConfigurationError):
        message, code = f"{error}{_place_of(error)}", 2
    else:
        _print_traceback(error)
        message, code = f"{type(error).__name__}: {error}", 1
    print_error(f"the training failed: {message}", _newest_hint(folder))
    return code


def _end_hung(folder: RunFolder, reason: str) -> None:
    """End the process with an error, from another thread, while the main thread hangs in compiled code."""
    import os
    import sys

    message = f"the training failed: HungError: {reason} It hung in compiled code, so the process was ended."
    errors().show_cursor(True)
    print_error(message, _newest_hint(folder))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1)


def _newest(folder: RunFolder) -> tuple[Path, CheckpointHeader]:
    from agents.state_files.header import find, header_of

    path = find(folder.path)
    return path, header_of(path)


def _done_text(folder: RunFolder) -> str:
    """Return the progress of a run as text."""
    header, result = _newest(folder)[1], folder.result or {}
    mean, n_episodes = result.get("mean_of_100"), MOST_RECENT
    if mean is None:  # earlier versions had the mean of 100 episodes, or of all, as `mean_return`
        mean = result.get("mean_return")
        n_episodes = result.get("mean_episodes") or min(MOST_RECENT, result.get("episodes", 0))
    of = f"the last {counted(n_episodes, 'episode')}" if n_episodes > 1 else "the last episode"
    value = "" if mean is None else f", and the mean return of {of} is {number_text(mean)}"
    made = f"{counted(header.env_steps, 'environment step')} and {counted(header.episodes, 'episode')}"
    return f"it has made {made}{value}"


def _print_traceback(error: Exception) -> None:
    """Print the traceback of an error of the user's code, or nothing where its message is enough."""
    from agents.errors import NonFiniteError

    if not isinstance(error, NonFiniteError):
        errors().print(Text("".join(traceback.format_exception(error)).rstrip(), "dim"), soft_wrap=True)


def _place_of(error: Exception) -> str:
    """Return the callback in which an error was raised, as a sentence; empty for other errors."""
    from agents.training.listeners import RAISED_IN

    return "".join(f" {note}" for note in getattr(error, "__notes__", ()) if note.startswith(RAISED_IN))


def _newest_hint(folder: RunFolder) -> str:
    path, header = _newest(folder)
    hint = f"The newest checkpoint, after {header.env_steps:,} environment steps, is {path}."
    if folder.settings.weights_only:
        return hint
    return f"{hint}\nResume: finder train --resume {shlex.quote(str(folder.path))}"
