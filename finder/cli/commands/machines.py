"""The commands for studies on many machines: `submit`, `worker`, `serve`."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from agents.errors import ConfigurationError
from agents.shared_objects.addresses import reachable
from finder.cli.options.parameters import (
    Executor,
    InsteadOfTheFiles,
    Json,
    NewName,
    NJobs,
    NTrials,
    NumThreads,
    Output,
    Population,
    Quiet,
    Storage,
    StudyFile,
    StudyName,
    drop_none,
)
from finder.cli.options.server_options import (
    Host,
    Insecure,
    NewToken,
    TlsCert,
    TlsKey,
    page_commands,
    print_access,
    token_commands,
)
from finder.cli.options.trust_options import AllowModule
from finder.cli.session import run_search_command
from finder.progress.console import errors, print_commands, print_json, results, storage_for_file
from studies.defaults import DEFAULT_STORAGE
from studies.storage.commands import storage_flag
from studies.words import counted

if TYPE_CHECKING:
    from finder.results.search_result import SearchResult
    from finder.search.observer import Observer


def submit(
    file: StudyFile,
    *,
    n_trials: NTrials = None,
    storage: InsteadOfTheFiles = None,
    study_name: NewName = None,
    json: Json = False,
) -> int:
    """Create the study of a TOML file in a storage without running it; workers (`finder worker`) run it."""
    from finder.finders.tuning import submit_file
    from studies.spec.spec_file import read_file

    storage = storage_for_file(read_file(file).data.get("storage"), storage)
    study, n_left = submit_file(file, **drop_none(n_trials=n_trials, storage=storage, name=study_name))
    with study:
        if study.storage.url == "memory":
            raise ConfigurationError("A study in memory ends with this command: give a --storage.")
        if json:
            print_json({"study": study.name, "storage": study.storage.label, "n_left": n_left})
            return 0
        for note in study.notes:
            errors().print(note)
        results().print(f"{study.name} in {study.storage.label}: {counted(n_left, 'trial')} to run", soft_wrap=True)
        where = storage_flag(study.storage.label)
        workers = (
            "start as many as you like" if study.storage.shared else "one process at a time; finder serve allows more"
        )
        print_commands(
            "Next",
            [
                (f"finder worker {shlex.quote(study.name)}{where}", f"runs the study; {workers}"),
                (f"finder studies{where}", "its progress"),
            ],
        )
    return 0


def worker(
    context: typer.Context,
    study: StudyName,
    *,
    storage: Storage = None,
    n_jobs: NJobs = None,
    executor: Executor = None,
    population: Population = None,
    num_threads: NumThreads = None,
    allow_module: AllowModule = None,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Run trials of a study until it is done, on this or another machine.

    In a database, or behind finder serve, a study may have any number of workers. A SQLite or journal file accepts one
    process at a time.
    """

    def search(observer: Observer) -> SearchResult:
        from finder.finders.worker import work

        where = storage or DEFAULT_STORAGE
        allowed = allow_module or ()
        return work(
            *(study, where), executor=executor, n_jobs=n_jobs, population=population, observer=observer,
            allow_modules=allowed,
        )  # fmt: skip

    return run_search_command(search, Output(context.obj, json, quiet))


def serve(
    host: Host = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the proxy; 0 takes a free one.")] = 13000,
    dashboard_port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the dashboard; 0 takes a free one.")
    ] = 8080,
    storage: Storage = None,
    *,
    new_token: NewToken = False,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    insecure: Insecure = False,
) -> int:
    """Serve a storage to workers on other machines, and show it in optuna-dashboard, until Ctrl-C.

    Other machines need the token: set FINDER_TOKEN to the same value on all machines.
    """
    import optuna

    from studies.servers.dashboard import make_dashboard
    from studies.servers.proxy import make_proxy
    from studies.storage.access import Access, is_loopback
    from studies.storage.storage import open_storage

    access = Access.of(host, new_token=new_token, insecure=insecure, certificate=tls_cert, key=tls_key)
    optuna.logging.set_verbosity(optuna.logging.WARNING)  # workers and the dashboard show the progress
    with open_storage(storage or DEFAULT_STORAGE) as opened:
        proxy, bound = make_proxy(opened, host, port, access)
        if opened.optuna.get_all_studies():
            errors().print("Drawing the figures of the studies ...", style="dim")
        else:
            errors().print(f"There is no study in {opened.label} yet.")
        with make_dashboard(opened, host, dashboard_port, flag="--dashboard-port", access=access) as dashboard:
            proxy.start()
            name, s = reachable(host), "s" if access.has_tls else ""
            address, page = f"grpc{s}://{name}:{bound}", f"http{s}://{name}:{dashboard.server_port}/dashboard"
            results().print(address, soft_wrap=True)
            results().print(page, soft_wrap=True)
            print_access(access, host)
            where = "on this machine" if is_loopback(host) else "from any machine that reaches this one"
            worker_command = (f"finder worker STUDY --storage {address}", where)
            print_commands("Then", [*token_commands(access), worker_command, *page_commands(access, page)])
            errors().print("Ctrl-C ends it.", style="dim")
            try:
                dashboard.serve_forever(poll_interval=0.2)
            except KeyboardInterrupt:
                return 0
            finally:
                proxy.stop(grace=2.0).wait()
    return 0
