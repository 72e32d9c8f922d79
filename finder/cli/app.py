"""The application: its commands, and the handling of their errors."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.exceptions import TyperException

from agents.errors import ConfigurationError
from agents.processes.interrupts import END_REQUESTS, ENDING
from agents.trust.loading import ended_by
from finder.cli.commands import compare as compare_command
from finder.cli.commands import export as export_command
from finder.cli.commands import machines, searches, studies
from finder.cli.commands import params as params_command
from finder.cli.commands import play as play_command
from finder.cli.commands import plot as plot_command
from finder.cli.commands import replay as replay_command
from finder.cli.commands import run as run_command
from finder.cli.commands import show as show_command
from finder.cli.commands import train as train_command
from finder.cli.process_list import hide_secrets
from finder.cli.session import INTERRUPTED_CODE
from finder.progress.console import errors, print_error
from studies.errors import StudyError

FAILED, MISTAKEN = 1, 2

app = typer.Typer(
    name="finder",
    help="Finds the optimizer, learning rate and other hyperparameters of a reinforcement-learning agent.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
_SEARCH, _TRAIN, _MACHINES, _LOOK, _COMPARE = "Search", "Train", "Many machines", "Look", "Compare"
app.command("lr", rich_help_panel=_SEARCH)(searches.lr)
app.command("opt", rich_help_panel=_SEARCH)(searches.opt)
app.command("agents", rich_help_panel=_SEARCH)(searches.agents)
app.command("tune", rich_help_panel=_SEARCH)(searches.tune)
app.command("run", rich_help_panel=_SEARCH)(run_command.run)
app.command("train", rich_help_panel=_TRAIN)(train_command.train)
app.command("play", rich_help_panel=_TRAIN)(play_command.play)
app.command("plot", rich_help_panel=_TRAIN)(plot_command.plot)
app.command("submit", rich_help_panel=_MACHINES)(machines.submit)
app.command("worker", rich_help_panel=_MACHINES)(machines.worker)
app.command("serve", rich_help_panel=_MACHINES)(machines.serve)
app.command("params", rich_help_panel=_LOOK)(params_command.params)
app.command("studies", rich_help_panel=_LOOK)(studies.studies)
app.command("show", rich_help_panel=_LOOK)(show_command.show)
app.command("best", rich_help_panel=_LOOK)(studies.best)
app.command("report", rich_help_panel=_LOOK)(studies.report)
app.command("export", rich_help_panel=_LOOK)(export_command.export)
app.command("dashboard", rich_help_panel=_LOOK)(studies.dashboard)
app.command("delete", rich_help_panel=_LOOK)(studies.delete)
app.command("compare", rich_help_panel=_COMPARE)(compare_command.compare)
app.command("replay", rich_help_panel=_COMPARE)(replay_command.replay)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        sys.stdout.write(f"finder {version('agentfinder')}\n")
        raise typer.Exit


@app.callback()
def _finder(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    pass


def _message_for(error: BaseException) -> str:
    """Return a message for an unexpected error that the user can fix; empty for a fault of Finder."""
    if isinstance(error, SystemExit):  # raised by code of the user
        return ended_by(error)
    if isinstance(error, MemoryError):
        reason = " ".join(str(error).split()) or "no further information"
        return f"There is not enough memory ({reason}): reduce the size, or close other programs."
    if isinstance(error, OSError) and error.filename is not None and error.strerror is not None:
        return f"{str(error.filename)!r} cannot be used: {error.strerror}. Check the path, and that you may use it."
    return ""


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP, which end a command like Ctrl-C."""


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command; see `finder.cli.main`."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    hide_secrets(words)
    # At the end: a folder named "agents" or "studies" must not hide the packages of Finder.
    here = os.getcwd()
    if here not in sys.path:
        sys.path.append(here)
    try:
        with _interrupt_on_signals():
            result: Any = app(args=words, prog_name="finder", standalone_mode=False, obj=words)
    except (ConfigurationError, StudyError) as error:
        print_error(str(error))
        return MISTAKEN
    except TyperException as error:
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else "finder"
        from pydantic import ValidationError

        # Typer passes the message of pydantic on without the value.
        message = error.format_message().replace(": Value error, ", ": ").replace(": Input should ", ": it should ")
        if isinstance(error.__cause__, ValidationError):
            given = repr(error.__cause__.errors()[0]["input"])
            message = message if given in message else f"{message.rstrip('.')}, got {given}."
        if message:  # empty if the help was shown
            print_error(message, f"See {command} --help.")
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        result = INTERRUPTED_CODE
    except (SystemExit, MemoryError, OSError) as error:
        if isinstance(error, BrokenPipeError) or isinstance(error.__context__, BrokenPipeError):
            # The reader of the pipe has ended (`finder studies | head`); rich raises SystemExit then.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return FAILED
        message = _message_for(error)
        if not message:
            raise
        print_error(message)
        return MISTAKEN
    finally:
        errors().show_cursor(True)
    if result == INTERRUPTED_CODE:  # Typer returns it for every signal
        return _interrupted_code()
    return result if isinstance(result, int) else 0


def _interrupted_code() -> int:
    """Return the exit code of an interrupted command: 128 plus the number of the signal, 130 for Ctrl-C."""
    return INTERRUPTED_CODE if END_REQUESTS.first is None else 128 + END_REQUESTS.first


@contextmanager
def _interrupt_on_signals() -> Iterator[None]:
    """Handle SIGTERM and SIGHUP like Ctrl-C for the time of the block, so that results are saved."""
    END_REQUESTS.reset()

    def end(number: int, _frame: Any) -> None:
        if END_REQUESTS.counts(number):
            raise KeyboardInterrupt if number == signal.SIGINT else Terminated(number)

    before = {}
    for number in ENDING:
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            before[number] = signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
