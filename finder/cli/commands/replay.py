"""The command `replay`: compares search policies on a table of finished runs, without training."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agents.errors import ConfigurationError
from finder.cli.options.parameters import Json
from finder.progress.console import errors, print_json, results, table
from studies.words import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from studies.simulation.replay import Replayed
    from studies.simulation.run_table import RunTable


def replay(  # noqa: PLR0917 - a command's flags
    path: Annotated[
        str,
        typer.Argument(
            metavar="TABLE",
            help="A .csv or .parquet file of finished runs: config, seed, env_steps, return; any further columns are "
            "the configuration, and may replace config. Configs may have different numbers of seeds, and runs values "
            "after different steps.",
        ),
    ],
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="race, default, sequential-test, keep-top, halving, hyperband, asha, median, percentile, tpe-median, "
            "grid or random; may be repeated (default race)."
        ),
    ] = None,
    budget: Annotated[
        str, typer.Option(help="What a search may spend: 10% of training all runs of the table, or a number of runs.")
    ] = "10%",
    replays: Annotated[int, typer.Option(min=1, help="Searches for each policy, with other seeds each.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the replays.")] = 0,
    json: Json = False,
) -> int:
    """Compare search policies on a table of finished runs, without training."""
    from studies.simulation.policies import make_policy
    from studies.simulation.replay import coverage, replay_often
    from studies.simulation.run_table import RunTable

    names = policy or ["race"]
    policies = {name: make_policy(name) for name in names}
    runs = RunTable.read(path)
    spend = _runs_of(budget, sum(runs.counts))
    replayed = {name: replay_often(runs, made, budget=spend, n=replays, seed=seed) for name, made in policies.items()}
    held = {
        name: coverage(runs, policies[name], budget=spend, n=replays, seed=seed)
        for name, each in replayed.items()
        if any(result.decision.interval for result in each)
    }
    rows = [{"policy": name, **_row(runs, each, held.get(name))} for name, each in replayed.items()]
    if json:
        print_json({"table": path, "budget": spend, "replays": replays, "policies": rows})
        return 0
    listed = table(
        "policy",
        "close",
        "regret",
        "runs",
        "rate",
        "covered",
        "picks most often",
        numbers=("close", "regret", "runs", "rate", "covered"),
    )
    for row in rows:
        listed.add_row(
            row["policy"],
            f"{row['within_5_percent']:.0%}",
            f"{row['mean_regret']:.1%}",
            f"{row['mean_cost']:.1f}",
            "" if row["within_factor_3"] is None else f"{row['within_factor_3']:.0%}",
            "" if row["covered"] is None else f"{row['covered']:.0%}",
            f"{row['pick']} ({row['pick_share']:.0%})",
        )
    errors().print(f"{_seeds_text(runs)}; it may spend {spend:g} whole runs; {replays} replays a policy")
    if limits := _limits_of_few_seeds(runs):
        errors().print(limits)
    results().print(listed)
    errors().print(
        "close: picks that are worse than the best by at most 5% of the range of all configs, on seeds that were not "
        "seen · regret: by how much in the mean (below 0: better there) · runs: spent, in whole runs · rate: picks "
        "within a factor of 3 of the middle of the best learning rates of their kind · covered: stated 95% intervals "
        "that hold what the pick is worth, where the seeds of the table are drawn with replacement"
    )
    return 0


def _seeds_text(runs: RunTable) -> str:
    fewest, most = min(runs.counts), max(runs.counts)
    if fewest == most:
        return (
            f"{counted(len(runs.configs), 'config')} × {counted(most, 'seed')}, of which each search sees {most // 2}"
        )
    return (
        f"{counted(len(runs.configs), 'config')} with {fewest} to {counted(most, 'seed')}, of which each search sees "
        f"{fewest // 2} to {most // 2}"
    )


def _limits_of_few_seeds(runs: RunTable) -> str:
    """Return what cannot be concluded where configs have few seeds, "" if they have enough."""
    fewest = min(runs.counts)
    if fewest >= _ENOUGH_SEEDS:
        return ""
    unseen = counted(fewest - fewest // 2, "seed")
    confirmed = " A search that sees one seed of a config cannot confirm it." if fewest // 2 < 2 else ""
    return (
        f"With {counted(fewest, 'seed')} of a config, a pick is judged by {unseen}: close and regret are noisy, and "
        f"fair only between policies.{confirmed}"
    )


_ENOUGH_SEEDS = 6
"""Seeds of each config from which on a search sees at least three, and at least three judge its pick."""


def _runs_of(budget: str, n_runs: int) -> float:
    number, percent, rest = budget.strip().partition("%")
    try:
        value = float(number)
    except ValueError:
        value = float("nan")
    runs = value / 100 * n_runs if percent else value
    if rest or not 0 < runs < float("inf"):
        raise ConfigurationError(f"--budget must be a share such as 10% or a number of runs > 0, got {budget!r}.")
    return runs


def _row(runs: RunTable, replayed: Sequence[Replayed], covered: float | None) -> dict[str, Any]:
    from studies.simulation.replay import summary

    totals = summary(replayed)
    pick, times = Counter(each.decision.pick for each in replayed).most_common(1)[0]
    return {
        "within_5_percent": totals.close,
        "mean_regret": totals.regret,
        "mean_cost": totals.cost,
        "within_factor_3": totals.within_factor_3,
        "mean_decades": totals.decades,
        "covered": covered,
        "pick": runs.configs[pick],
        "pick_share": times / len(replayed),
    }
