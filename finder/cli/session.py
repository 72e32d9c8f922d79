"""Runs a search or a range test from the command line to the exit code."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.status import Status
from rich.text import Text

from agents.backend.silence import import_tensorflow
from agents.errors import ConfigurationError
from finder.budgets.clock import minutes_from_here
from finder.cli.conclusion import conclude, conclude_range_test
from finder.cli.options import values
from finder.cli.options.parameters import Output, SearchOptions
from finder.cli.stdout_guard import redirect_stdout_to_stderr
from finder.progress.console import errors, print_commands, print_json, results
from finder.progress.search_progress import Progress, best_line, make_progress
from finder.progress.text_layout import HangingIndent
from finder.range_test.metric import curve_metric
from finder.results.flags import OUTPUT_SWITCHES, without_flags
from studies.defaults import DEFAULT_STORAGE
from studies.redaction import redacted
from studies.study.origin import StudyOrigin, started_by
from studies.words import are, counted

if TYPE_CHECKING:
    from finder.range_test.range_test import RangeTestResult
    from finder.results.search_result import SearchResult
    from finder.search.observer import Observer

INTERRUPTED_CODE = 130
"""Code of a program that Ctrl-C has ended."""

FEW_TRIALS = 4
"""Fewest trials of a search, for the guess whether it will use processes."""


def run_search_command(
    search: Callable[[Observer], SearchResult], output: Output, *, file: str | None = None, prepares: bool = False
) -> int:
    """Run a search, show its progress and print its result.

    Args:
        search: Runs the search with an observer.
        output: Output options.
        file: The file of the study, or None.
        prepares: Whether to start the server of worker processes at once, which imports TensorFlow while this process
            does. Defaults to False: the search starts it if it needs it.

    Returns:
        0 on success, 1 if the search was stopped by failures or found nothing, 130 after Ctrl-C.
    """
    if output.dry_run:
        return _print_plan(search, output)
    progress = make_progress(output.quiet)
    try:
        with redirect_stdout_to_stderr(), started_by(_origin(output.words, file)), minutes_from_here(), progress:
            if prepares:
                from finder.executors.preparation import prepare_workers

                prepare_workers()
            import_tensorflow()
            result = search(progress)
    except KeyboardInterrupt as interrupt:
        _print_interrupted(progress, output)
        return _code_of(interrupt)
    with result.study:
        return conclude(result.study, result.stopped, output)


def probably_forks(options: SearchOptions) -> bool:
    """Return whether worker processes will probably run a search, by its flags and the cores."""
    from finder.executors.preparation import are_processes_likely

    seeds = values.seeds(options.seeds)
    n_seeds = 3 if seeds is None else seeds if isinstance(seeds, int) else len(seeds)
    return are_processes_likely(
        executor=options.executor,
        pruner=options.pruner or "",
        strategy=options.strategy or "none",
        n_jobs=options.n_jobs,
        n_trials=FEW_TRIALS,
        n_steps=None if options.env_steps is None else options.env_steps * n_seeds * FEW_TRIALS,
    )


def _print_plan(search: Callable[[Observer], SearchResult], output: Output) -> int:
    """Print the plan of a search; return 0, or 130 after Ctrl-C."""
    from finder.budgets.dry_run import dry_run

    progress = make_progress(output.quiet)
    try:
        with progress, redirect_stdout_to_stderr(), minutes_from_here():
            import_tensorflow()
            plan = dry_run(search, progress)
    except KeyboardInterrupt as interrupt:
        return _code_of(interrupt)
    if output.json:
        print_json(plan.to_json())
        return 0
    (_, question), *lines = plan.lines
    results().print(Text(question, "bold"))
    for name, text in lines:
        results().print(HangingIndent(Text(f"{name:<14}", "dim"), Text(text)))
    if not output.quiet:
        errors().print(Text("Nothing was written: leave out --dry-run to search.", "dim"))
    return 0


def run_range_test(agent: str, options: SearchOptions, arguments: Mapping[str, Any]) -> int:
    """Run a range test and print its suggestion; return codes are those of `run_search_command`."""
    storage = options.storage or DEFAULT_STORAGE
    if options.executor not in (None, "inline"):
        raise ConfigurationError(f"--executor is {options.executor!r}, but a range test runs inline: leave it out.")
    console = errors()
    status = Status("range test: the learning rate grows as it trains", console=console)
    try:
        if console.is_terminal and not options.quiet:
            status.start()
        import_tensorflow()
        from agents.contract.spec import AgentSpec
        from finder.finders.lr import LRFinder
        from studies.storage.storage import open_storage

        open_storage(storage).close()  # reports an unusable storage before the run
        settings = values.settings(options.set_)
        spec = AgentSpec.of(options.agent(agent), params=settings)
        spec.config.refuse_without_effect(settings)
        finder, metric = LRFinder(spec, seed=options.seed or 0), curve_metric(values.one_metric(options.metric))
        seeds = 3 if options.seeds is None else values.seeds(options.seeds)
        assert seeds is not None
        if options.seed is not None and not isinstance(seeds, int):
            raise ConfigurationError("--seed is the first of several seeds, and --seeds lists them: leave --seed out.")
        finder.check_find(**{name: arguments[name] for name in arguments if name != "optimizer"}, seeds=seeds)
        if not options.quiet:
            n = seeds if isinstance(seeds, int) else len(seeds)
            console.print(f"Range test: {spec.label} on {spec.environment.label}, {counted(n, 'run')}")
        with redirect_stdout_to_stderr(), started_by(_origin(options.output.words)):
            result: RangeTestResult = finder.find(
                **arguments,
                env_steps=options.env_steps,
                episodes=options.episodes,
                metric=metric,
                seeds=seeds,
                strategy=options.strategy,
                study_name=options.study_name,
                storage=None if storage == "memory" else storage,
                progress=not (options.quiet or console.is_terminal),
            )
    except KeyboardInterrupt as interrupt:
        if not options.quiet:
            console.print("Stopped; a range test is recorded only at its end.")
        return _code_of(interrupt)
    finally:
        status.stop()
    return conclude_range_test(result, finder.study_name, options)


def _origin(words: Sequence[str], file: str | None = None) -> StudyOrigin:
    """Return the origin of a study: the command without its storage and passwords, a file as its first argument."""
    kept = [*map(redacted, without_flags(words, ("--storage",), switches=OUTPUT_SWITCHES))]
    if file is None:
        return StudyOrigin("command", tuple(kept))
    return StudyOrigin("file", (kept[0], file, *(word for word in kept[1:] if word != file)))


def _print_interrupted(progress: Progress, output: Output) -> None:
    """Print what was recorded and how to resume."""
    if output.quiet:
        return
    console = errors()
    study = progress.study
    if study is None:
        console.print("Stopped before anything ran.")
        return
    if study.storage.url == "memory":
        console.print("Stopped. Nothing is recorded: the study was in memory only.")
        return
    (done, total), n_paused = progress.counts, progress.n_paused
    ended = f"{done} of {counted(total, 'trial')} {are(done)} done"
    if progress.is_confirming:
        ended = f"The search is done, and {done} of {counted(total, 'finalist')} {are(done)} confirmed"
    paused = f", {n_paused} {are(n_paused)} paused" if n_paused else ""
    where = f"{': recorded' if paused or progress.is_confirming else ' and recorded'} in {study.storage.label}"
    if study.storage.retry_policy.is_over:  # the message about the outage says where
        where = ""
    console.print(Text.assemble(("Stopped. ", "bold"), f"{ended}{paused}{where}."))
    if progress.best is not None:
        console.print(best_line(progress.best))
    print_commands("Resume:", [(f"finder {shlex.join(map(redacted, output.words))}", "")])


def _code_of(interrupt: KeyboardInterrupt) -> int:
    """Return the exit code of an interrupt: 130 for Ctrl-C, or 128 plus the number of another signal."""
    return 128 + int(interrupt.args[0]) if interrupt.args else INTERRUPTED_CODE
