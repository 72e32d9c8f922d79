"""Fields of the specification of a study, with their types and defaults, and what follows from them.

The rules of `studies.spec` read them. `studies.spec.spec.StudySpec` documents the fields and checks them by the rules.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from studies.checked_model import CheckedModel, plain, whole
from studies.defaults import DEFAULT_STORAGE
from studies.errors import StudyError
from studies.spaces.plan import grid_rows, inferred_spaces
from studies.spaces.space_notation import SpaceField
from studies.spaces.spaces import LARGEST, Choice, Json, Space
from studies.spec.metrics import check_metric, metric_of
from studies.spec.scheduler_names import check_pruner_name, check_sampler_name, is_grid
from studies.spec.warm_start import WarmStart
from studies.words import counted

Direction = Literal["maximize", "minimize"]
"""Direction of optimization, as Optuna names it."""

LARGEST_SEED = 2**32 - 1
"""Largest seed of samplers."""

MOST_PROCESSES, MOST_PLANNED, MOST_SEEDS = 1024, 100_000, 10_000
"""Limits on processes of a study, trials of a plan and seeds of a trial, which catch typing errors."""

Count = Annotated[int, BeforeValidator(whole), Field(strict=True, ge=1, le=LARGEST)]
Text = Annotated[str, Field(min_length=1, max_length=400)]
_Minutes = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]

IDENTITY_FIELDS = (
    "kind",
    "agents",
    "agent_params",
    "agent_weights",
    "objects",
    "env",
    "env_kwargs",
    "wrappers",
    "max_episode_steps",
    "params",
    "fixed",
    "seeds",
    "env_steps",
    "episodes",
    "metric",
    "metrics",
    "callbacks",
)
"""Fields that make trials comparable. A study is continued only if all of them are unchanged."""

BUDGET_FIELDS = ("env_steps", "episodes", "minutes", "total_env_steps")
"""Fields that are budgets of each run, or of the whole search."""

USUAL_TRIALS = 20
"""Trials of a search with a sampler by default."""


def _as_tuple(value: Any) -> Any:
    """Convert a text to a tuple of one."""
    return (value,) if isinstance(value, str) else value


def _as_seeds(value: Any) -> Any:
    """Convert a count to that many seeds: 3 to 0, 1, 2."""
    if isinstance(value, Iterable) and not isinstance(value, str | Mapping):
        seeds = plain(tuple(value))
        if not all(isinstance(seed, int) and not isinstance(seed, bool) for seed in seeds):
            raise StudyError(f"{value!r} is not a list of seeds: give how many seeds, or a list of them, from 0.")
        return seeds
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST_SEEDS:
        raise StudyError(
            f"{value!r} is not a number of seeds: give how many seeds, from 1 to {MOST_SEEDS}, or a list of them."
        )
    return tuple(range(value))


def _as_url(value: Any) -> Any:
    """Convert the path of a file to text."""
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _as_one_spelling(value: Any) -> Any:
    """Normalize spelling: `None` and `Mirrored: 2` become `none` and `mirrored:2`."""
    return "".join(value.split()).lower() if isinstance(value, str) else value


def _is_left_out(value: Any) -> bool:
    """Return whether a field of a later version is left out of what is stored, so that earlier versions read it."""
    return value is None or value == ()


class SpecFields(CheckedModel):
    """Base class of `studies.spec.spec.StudySpec`: its fields, and properties that follow from them."""

    name: Text
    storage: Annotated[Text, BeforeValidator(_as_url)] = DEFAULT_STORAGE
    agents: Annotated[tuple[Text, ...], BeforeValidator(_as_tuple), Field(min_length=1)]
    agent_params: dict[str, dict[str, Json]] = Field(default_factory=dict)
    agent_weights: dict[str, str] = Field(default_factory=dict)
    objects: Annotated[dict[str, str], Field(exclude_if=operator.not_)] = Field(default_factory=dict)
    env: Text
    env_kwargs: dict[str, Json] = Field(default_factory=dict)
    wrappers: Annotated[tuple[Text, ...], BeforeValidator(_as_tuple)] = ()
    max_episode_steps: Count | None = None
    vectorization: Text = "auto"
    params: dict[str, SpaceField] = Field(default_factory=dict)
    fixed: dict[str, Json] = Field(default_factory=dict)
    callbacks: Annotated[tuple[Text, ...], BeforeValidator(_as_tuple)] = ()
    trials: Annotated[tuple[dict[str, Json], ...], Field(max_length=MOST_PLANNED)] = ()
    first: tuple[dict[str, Json], ...] = ()
    # Left out of stored specs where it is None, so that earlier versions read them.
    baseline: Annotated[dict[str, Json] | None, Field(exclude_if=_is_left_out)] = None
    warm_start: Annotated[WarmStart | None, Field(exclude_if=_is_left_out)] = None
    n_trials: Count = USUAL_TRIALS
    seeds: Annotated[
        tuple[Annotated[int, Field(strict=True, ge=0, le=LARGEST)], ...],
        BeforeValidator(_as_seeds),
        Field(min_length=1, max_length=MOST_SEEDS),
    ] = (0, 1, 2)
    env_steps: Count | None = None
    episodes: Count | None = None
    horizon: Count | None = None
    minutes: Annotated[_Minutes | None, Field(exclude_if=_is_left_out)] = None
    total_env_steps: Annotated[Count | None, Field(exclude_if=_is_left_out)] = None
    n_reports: Annotated[int, Field(strict=True, ge=1, le=1000)] = 20
    metric: Annotated[str, BeforeValidator(check_metric)] = "return"
    metrics: Annotated[tuple[str, ...], Field(exclude_if=_is_left_out)] = ()
    sampler: Annotated[str, BeforeValidator(check_sampler_name)] = "tpe"
    sampler_kwargs: dict[str, Json] = Field(default_factory=dict)
    pruner: Annotated[str, BeforeValidator(check_pruner_name)] = "median"
    pruner_kwargs: dict[str, Json] = Field(default_factory=dict)
    confirm: Annotated[int, Field(strict=True, ge=0, le=LARGEST)] = 3
    confirm_seeds: Annotated[int, Field(strict=True, ge=1, le=MOST_SEEDS)] = 5
    confirm_env_steps: Annotated[Count | None, Field(exclude_if=_is_left_out)] = None
    executor: Literal["auto", "population", "process", "inline", "ray"] = "auto"
    trial_cpus: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    trial_memory_gb: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    n_jobs: Annotated[int, Field(strict=True, ge=1, le=MOST_PROCESSES)] | None = None
    population: Count | None = None
    strategy: Annotated[Text, BeforeValidator(_as_one_spelling)] = "none"
    seed: Annotated[int, Field(strict=True, ge=0, le=LARGEST_SEED)] = 0
    max_failures_in_a_row: Count = 3
    checkpoint_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 60.0
    hang_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 600.0
    kind: Literal["tune", "lr", "opt", "agents", "range-test"] = "tune"

    @property
    def has_limit(self) -> bool:
        """True if the whole search has a budget in minutes or in environment steps."""
        return self.minutes is not None or self.total_env_steps is not None

    @property
    def limit_field(self) -> Literal["minutes", "total_env_steps"]:
        """Field that has the budget of the whole search, if there is one."""
        return "minutes" if self.minutes is not None else "total_env_steps"

    @property
    def chooses_budget(self) -> bool:
        """True if the environment steps of each run are still to be chosen for the budget of the whole search."""
        return self.has_limit and self.env_steps is None and self.episodes is None

    @property
    def direction(self) -> Direction:
        """Direction of Optuna: returns are maximized, losses minimized."""
        return "minimize" if metric_of(self.metric).minimize else "maximize"

    @property
    def learns_from_experts(self) -> bool:
        """True if all agents learn from demonstrations."""
        return all(self.agent_value(agent, "expert") for agent in self.agents)

    @property
    def metric_text(self) -> str:
        """The metric for people, such as `return` or `loss on held-out demonstrations`."""
        held_out = self.metric == "loss" and all(self.agent_value(each, "held_out_episodes") for each in self.agents)
        return "loss on held-out demonstrations" if held_out else metric_of(self.metric).text

    def agent_value(self, agent: str, name: str) -> Json:
        """Return the value that all trials of an agent have for a hyperparameter; None if none was given."""
        return self.fixed.get(name, self.agent_params.get(agent, {}).get(name))

    @property
    def budget(self) -> int:
        """Budget of each seed, in environment steps or in episodes, whichever was given."""
        return self.env_steps if self.env_steps is not None else self.episodes or 1

    @property
    def budget_unit(self) -> str:
        """Unit of budgets of runs: `environment step` or `episode`."""
        return "episode" if self.episodes is not None else "environment step"

    @property
    def budget_text(self) -> str:
        """Budget of each seed as text, such as `50,000 environment steps`."""
        return counted(self.budget, self.budget_unit)

    @property
    def confirm_budget(self) -> int:
        """Budget of each run that confirms, in environment steps or in episodes."""
        return self.confirm_env_steps or self.budget

    @property
    def confirms_longer(self) -> bool:
        """True if the runs that confirm are longer than those of the search."""
        return self.confirm_budget != self.budget

    def search_space(self) -> dict[str, Space]:
        """Return the spaces of all searched parameters: `params`, the plan, and `agent` if there are several."""
        spaces: dict[str, Space] = dict(self.params)
        if len(self.agents) > 1:
            spaces.setdefault("agent", Choice(values=self.agents))
        return {**spaces, **inferred_spaces(self.trials, known=spaces)}

    @property
    def parameter_names(self) -> set[str]:
        """Names of all searched parameters: the keys of `search_space`."""
        several = ["agent"] if len(self.agents) > 1 else []
        return {*self.params, *several, *(name for row in self.trials for name in row)}

    def plan(self) -> tuple[dict[str, Json], ...]:
        """Return the parameter sets to run in order: the explicit plan or a grid; empty for any other sampler."""
        return self.trials or self.grid()[: self.n_trials]

    def grid(self) -> tuple[dict[str, Json], ...]:
        """Return all combinations of a grid, in the order in which they are run; empty for any other sampler."""
        planned = not self.trials and is_grid(self.sampler)
        return grid_rows(self.search_space(), self.sampler_kwargs, self.seed) if planned else ()
