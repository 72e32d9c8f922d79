"""A study, a clock and a meter for tests of the limit of a search."""

from __future__ import annotations

from typing import Any

from finder.budgets.cost import RECORDING, Costs
from finder.budgets.meters import TimeMeter
from finder.trials.speed import Speed
from studies.spec.spec import StudySpec


def spec(**fields: Any) -> StudySpec:
    rows = [{"learning_rate": 10.0**-k} for k in range(1, 9)]
    given: dict[str, Any] = {
        "name": "s", "agents": ["ppo"], "env": "CartPole-v1", "trials": rows, "env_steps": 1_000, "n_reports": 10,
        "seeds": [0], "pruner": "race", "confirm": 0,
    }  # fmt: skip
    return StudySpec(**{**given, **fields})


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def time_meter(seconds: float, clock: Clock, **fields: Any) -> TimeMeter:
    """Return a meter of runs whose steps take 1 ms each, without recording."""
    speed = Speed(n_runs=1, start_seconds=2.0, shared_seconds=0.0, run_seconds=0.001 / (1 + RECORDING))
    costs = Costs(speeds={"ppo": speed}, n_processes=1, n_cores=1, together=True, own_processes=False)
    return TimeMeter(seconds, costs, clock=clock, **fields)
