"""Trial of a simulated search: a configuration of a table, and what it has shown so far."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from studies.judging.search_history import ResultState, TrialResult
from studies.schedulers.trial_view import TrialView, ViewState
from studies.spaces.spaces import Json
from studies.statistics.drift import measured

_RESULT_STATES: dict[ViewState, ResultState] = {"complete": "complete", "pruned": "pruned"}


@dataclass(slots=True, kw_only=True)
class SimulatedTrial:
    """Trial of a simulated search, which changes while it runs.

    Attributes:
        number: Number of the trial.
        config: Position of its configuration in the table.
        params: Its parameters.
        seeds: Positions of its seeds in the table.
        confirms: Number of the trial that it confirms; None for a trial of the search.
        state: Its state.
        values: Environment steps of each report -> value of each seed.
        reports: Environment steps of each report -> value over seeds.
        rungs: Environment steps of the reports at which single seeds were compared.
        promoted_from: Environment steps of the last report after which it was promoted; None if it never was.
    """

    number: int
    config: int
    params: Mapping[str, Json]
    seeds: tuple[int, ...]
    confirms: int | None = None
    state: ViewState = "running"
    values: dict[int, tuple[float, ...]] = field(default_factory=dict)
    reports: dict[int, float] = field(default_factory=dict)
    rungs: list[int] = field(default_factory=list)
    promoted_from: int | None = None

    @property
    def has_ended(self) -> bool:
        """Return whether it was completed or pruned."""
        return self.state in _RESULT_STATES

    @property
    def last_step(self) -> int | None:
        """Environment steps of the last report, None before the first."""
        return max(self.values, default=None)

    @property
    def value(self) -> float:
        """Value over seeds at the last report; NaN before the first."""
        step = self.last_step
        return math.nan if step is None else self.reports[step]

    def view(self) -> TrialView:
        """Return the trial for schedulers."""
        return TrialView(
            number=self.number,
            params=self.params,
            state=self.state,
            values=dict(self.values),
            promoted_from=self.promoted_from,
        )

    def result(self) -> TrialResult:
        """Return the trial for the judgement of the search."""
        step = self.last_step
        state = _RESULT_STATES.get(self.state, "open")
        has_ended = state != "open" and step is not None
        values = () if step is None else self.values[step]
        return TrialResult(
            number=self.number,
            params=self.params,
            state=state,
            value=self.value if has_ended else None,
            seed_values=dict(zip(self.seeds, values, strict=True)) if has_ended else {},
            reports=dict(self.reports),
            at_rungs={at: self.values[at] for at in self.rungs},
            left_at=step,
            confirms=self.confirms,
            drift_known=measured(str(self.params.get("optimizer", "adam"))),
        )
