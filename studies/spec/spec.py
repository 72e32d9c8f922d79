"""Specification of a study: search space, environment, budget and execution."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from typing import Any

from pydantic import model_validator

from studies.errors import StudyError
from studies.redaction import redacted
from studies.spaces.conditions import checked_conditions
from studies.spaces.configurations import n_configurations
from studies.spaces.plan import checked_baseline, checked_first, settled_rows
from studies.spaces.spaces import Json, check_json
from studies.spec.agent_rules import check_agents
from studies.spec.budget_rules import check_budgets
from studies.spec.fields import SpecFields
from studies.spec.objectives import check_objectives, with_objectives
from studies.spec.population_rules import check_population_based, exchange_marks
from studies.spec.scheduler_names import is_grid, is_population_based
from studies.spec.spec_file import read_model
from studies.words import class_or_id


def default_name(kind: str, agents: Sequence[str], env: str) -> str:
    """Return the default name of a study: kind, agents (classes without their file) and environment."""
    own = [label.replace("sb3:", "sb3-").rpartition(":")[2] for label in agents]
    return "-".join([kind, *own, class_or_id(env)])


class StudySpec(SpecFields):
    """Specification of a study. It holds data only, so it can be sent to files, processes and storages.

    Args:
        name: Name of the study. An existing study of this name is continued, with the planned trials of both.
        storage: Storage of the study: a SQLAlchemy URL, a path ending in .db (SQLite), `journal:///file.log` or a path
            ending in .log or .jsonl, or `memory`. Defaults to `sqlite:///finder.db`.
        agents: Labels of the agents. With more than one, `agent` is searched as a choice.
        agent_params: Label of an agent -> hyperparameters that differ from the defaults of its class. Defaults to none.
        agent_weights: Label of an agent -> digest of its initial weights, if it was given trained. Defaults to none.
        objects: Label of an agent, or `environment` -> identity of the class or function that was given in Python, as
            others may have the same name. Defaults to none.
        env: Gymnasium environment id, `module:Class` or `file.py:Class`.
        env_kwargs: Arguments of the environment. Defaults to none.
        wrappers: Wrappers of the environment, the first one innermost: names of Gymnasium's wrappers, `module:Class` or
            `file.py:Class`, with arguments, such as `FrameStackObservation:stack_size=4`. Defaults to none.
        max_episode_steps: Steps after which episodes are truncated, at least 1. Defaults to `None`: the limit that the
            environment is registered with.
        vectorization: Vectorization of the environment (see `agents.EnvironmentSpec`, where `dummy` and `subproc` are
            other names of `sync` and `async`). Defaults to `auto`.
        params: Search space: hyperparameter name to space (short forms: `studies.spaces.space_notation.parse_space`).
            A space may have conditions on other parameters.
        fixed: Hyperparameters with the same value in every trial. Defaults to none.
        trials: Explicit plan: parameter sets that are run in this order, in place of a sampler. A parameter that is not
            in `params` gets a space that spans the planned values. Defaults to none.
        callbacks: Factories of the callbacks of each run, as `module:Class` or `file.py:Class`. Defaults to none.
        first: Parameter sets that are tried before the sampler proposes any; the sampler completes partial ones.
            Excludes a plan or a grid. Defaults to none.
        baseline: The values of the agent itself, as one of `first` or of the plan. The recommendation is compared with
            their trial, which is not pruned, and confirmed too (`studies.judging.baseline`). Defaults to none.
        warm_start: Finished trials of another study that inform the sampler (`studies.analysis.warm_start`). Excludes a
            plan or a grid. Defaults to none.
        n_trials: Total number of trials, at least 1, existing ones included. With a plan it is the length of the plan,
            with a grid at most its size, which is the default, and with finitely many configurations at most their
            number. Defaults to `20` otherwise.
        seeds: Seeds with which every trial is trained; distinct, from 0. A number is a count, up to 10,000. Defaults to
            `(0, 1, 2)`.
        env_steps: Budget of each seed of a trial in environment steps, at least 1. Give this or `episodes`.
        episodes: Budget of each seed of a trial in episodes, at least 1.
        horizon: Environment steps of the long run that the recommendation is for, at least 1; learning rates are
            corrected if it differs from the budget. Only with `env_steps`. Defaults to `None`: the budget.
        minutes: Time of the whole search in minutes, confirmation included, above 0. The search chooses `env_steps` for
            it (or `n_trials`, if `env_steps` is given) when the study is created. Defaults to `None`.
        total_env_steps: Environment steps of all runs together, confirmation included, at least 1; the search chooses
            as for `minutes`, which it excludes. Defaults to `None`.
        n_reports: Intermediate values that a trial reports, 1 to 1000. Defaults to `20`.
        metric: What a run is judged by (`studies.spec.metrics`): `return`, `greedy-return`, `auc`,
            `steps-to:THRESHOLD`, `success-rate`, `custom:NAME` or `loss`. A list gives `metrics`. Defaults to `return`.
        metrics: Several objectives (`studies.spec.objectives`), of which `metric` is the first. Defaults to none.
        sampler: Name of a sampler (`studies.SAMPLERS`). Defaults to `tpe`.
        sampler_kwargs: Arguments of the sampler. Defaults to none.
        pruner: Name of the scheduler (`studies.PRUNERS`), which stops, pauses or changes trials. Defaults to `median`.
        pruner_kwargs: Arguments of the scheduler. Defaults to none.
        confirm: Number of best trials that are run again on further seeds after the search, from 0. Defaults to `3`.
        confirm_seeds: Number of further seeds, 1 to 10,000. Defaults to `5`.
        confirm_env_steps: Environment steps of each run that confirms, at least `env_steps`. Longer runs than those of
            the search choose the recommendation alone. Defaults to `None`: `env_steps`.
        executor: Execution of trials: `population` (many at a time), `process` (one per process), `inline` (one after
            another in this process), or `ray` (one per process of a Ray cluster). Defaults to `auto`: populations if
            every agent supports them, else processes.
        trial_cpus: CPUs that a trial requests from a Ray cluster, above 0. Defaults to `None`: one.
        trial_memory_gb: Gigabytes that a trial requests from a Ray cluster, above 0. Defaults to `None`: no request.
        n_jobs: Concurrent processes, 1 to 1024. Defaults to `None`: as many as there are cores and as are efficient.
        population: Runs (trials times seeds) that a process trains at the same time, at least 1. Defaults to `None`: as
            many as fit into memory, up to 64.
        strategy: Distribution of each run over devices or processes (`agents.distributed.strategies`): `none`,
            `one-device`, `mirrored` (`mirrored:4` for four replicas), `multi-worker-mirrored` or `parameter-server`.
            Runs with a strategy have their own processes. Defaults to `none`.
        seed: Seed of the sampler, from 0 to 2^32 - 1. Defaults to `0`.
        max_failures_in_a_row: Consecutive failed trials after which the study stops. Defaults to `3`.
        checkpoint_seconds: Interval between checkpoints of running trials, from which killed ones are resumed; longer
            where checkpoints would take more than 2% of the time. 0 for none. Defaults to `60`.
        hang_seconds: Seconds after which a run that does not return has failed; 0 for never. Defaults to `600`.
        kind: Question that the study answers. Defaults to `tune`.

    Raises:
        StudyError: Names every wrong field, the value given and what is allowed.
    """

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Yield the fields that were set, without the password of the storage and without planned trials."""
        for name, value in super().__repr_args__():
            if name in self.model_fields_set and name != "trials":
                yield name, redacted(value) if name == "storage" else value

    @model_validator(mode="before")
    @classmethod
    def _count_planned_trials(cls, data: Any) -> Any:
        data = with_objectives(data)
        if isinstance(data, dict) and data.get("trials") and "n_trials" not in data:
            return {**data, "n_trials": len(data["trials"])}
        return data

    @model_validator(mode="after")
    def _check(self) -> StudySpec:
        check_budgets(self)
        check_objectives(self)
        if len(set(self.seeds)) != len(self.seeds):
            raise StudyError(f"seeds is {list(self.seeds)}: give each one once.")
        for field in ("agent_params", "env_kwargs", "fixed", "sampler_kwargs", "pruner_kwargs"):
            for key, value in getattr(self, field).items():
                try:
                    check_json(value)
                except StudyError as error:
                    raise StudyError(f"{field}.{key}: {error}") from None
        both = sorted(set(self.fixed) & {*self.params, *(key for row in self.trials for key in row)})
        if both:
            raise StudyError(f"{both[0]!r} is both searched and fixed: leave one of them out.")
        check_agents(self)
        self._check_places()
        # The values of conditions have the types of the spaces that they refer to.
        checked = checked_conditions(self.search_space(), self.fixed)
        object.__setattr__(self, "params", {name: checked[name] for name in self.params})
        # Rows have the types of their spaces (1 becomes 1.0 in a FloatRange), as those that are read from a storage.
        object.__setattr__(self, "trials", settled_rows(self.trials, self.search_space()))
        if self.trials and self.n_trials != len(self.trials):
            raise StudyError(f"n_trials is {self.n_trials} with a plan of {len(self.trials)} trials: leave it out.")
        check_population_based(self)
        grid = self.grid()  # an impossible one is refused here, where it was written
        if grid:
            asked = self.n_trials if "n_trials" in self.model_fields_set else len(grid)
            object.__setattr__(self, "n_trials", min(asked, len(grid)))
        self._check_first()
        if not (grid or self.trials or is_population_based(self.pruner)):  # each configuration is tried once
            object.__setattr__(self, "n_trials", n_configurations(self.search_space(), self.n_trials))
        return self

    def _check_first(self) -> None:
        if self.trials or is_grid(self.sampler):
            for name in ("first", "warm_start"):
                if getattr(self, name):
                    raise StudyError(f"{name} is for samplers, and this study has a plan: leave it out.")
        spaces = self.search_space()
        object.__setattr__(self, "first", checked_first(self.first, spaces))
        planned = (*self.first, *(() if self.baseline is None else self.plan()))
        object.__setattr__(self, "baseline", checked_baseline(self.baseline, planned, spaces))
        prior = self.warm_start.trials if self.warm_start is not None else ()
        settled_rows([trial.params for trial in prior], spaces, "trial of the warm start")

    def _check_places(self) -> None:
        for name in ("trial_cpus", "trial_memory_gb"):
            if getattr(self, name) is not None and self.executor != "ray":
                raise StudyError(f"{name} is a request to a Ray cluster: use the executor 'ray' with it.")
        if self.strategy == "none" or self.executor in ("auto", "process", "ray"):
            return
        reasons = {
            "population": "the members of a population learn one after another in one compiled call",
            "inline": "its devices must be chosen before TensorFlow begins its work, which it has in this process",
        }
        raise StudyError(
            f"strategy is {self.strategy!r} with the executor {self.executor!r}, but {reasons[self.executor]}: use the "
            "executor 'process', or leave the executor out."
        )

    @property
    def report_marks(self) -> tuple[int, ...]:
        """Points at which a trial reports: up to `n_reports`, evenly spaced, the end of the budget included.

        With population-based training, also the steps at which members copy each other.

        Trials that report at these marks are compared at equal points whatever their rollout lengths.
        """
        return self.marks_of(self.budget)

    def marks_of(self, budget: int) -> tuple[int, ...]:
        """Return the points at which a trial of this budget reports; see `report_marks`."""
        marks = {round(budget * (index + 1) / self.n_reports) for index in range(self.n_reports)}
        return tuple(sorted((marks | set(exchange_marks(self))) - {0}))

    def with_trials(self, trials: Sequence[Mapping[str, Json]]) -> StudySpec:
        """Return the spec with another explicit plan.

        Raises:
            StudyError: If a row does not fit.
        """
        return StudySpec.from_json_dict({**self.to_json_dict(), "trials": tuple(trials), "n_trials": len(trials)})

    def to_json_dict(self) -> dict[str, Json]:
        """Return the spec as JSON values; `from_json_dict` restores an equal spec."""
        return self.model_dump(mode="json")

    @classmethod
    def from_json_dict(cls, data: Mapping[str, Json]) -> StudySpec:
        """Return the spec that `to_json_dict` serialized.

        Raises:
            StudyError: If a key is unknown, missing or wrong.
        """
        return cls(**data)

    @classmethod
    def from_toml(cls, path: str | PathLike[str]) -> StudySpec:
        """Read a spec from a TOML file, with tables `[params]`, `[fixed]`, `[env_kwargs]`, `[[trials]]` and so on.

        Raises:
            StudyError: If the file cannot be read or a key is unknown or mistyped; names the file, the key, its line
                and the nearest valid key.
        """
        return read_model(path, cls)
