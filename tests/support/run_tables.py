"""Tables of finished runs, made up, and the design of a study that is simulated over one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from studies.simulation.design import SearchDesign, scheduler_of
from studies.simulation.run_table import RunTable
from studies.spec.spec import StudySpec


def frame_of(
    values: np.ndarray, params: list[dict[str, Any]] | None = None, marks: tuple[int, ...] = (50, 100)
) -> pd.DataFrame:
    rows = [
        {
            "config": f"c{c}",
            "seed": s,
            "env_steps": marks[t],
            "return": values[c, s, t],
            **(params[c] if params else {}),
        }
        for c in range(values.shape[0])
        for s in range(values.shape[1])
        for t in range(values.shape[2])
    ]
    return pd.DataFrame(rows)


def table_of(values: Any, **kwargs: Any) -> RunTable:
    return RunTable.of_frame(frame_of(np.asarray(values, np.float64), **kwargs))


def rates_table(n_seeds: int = 10, noise: float = 1.0, seed: int = 0) -> RunTable:
    """Return a table of two optimizers with nine rates each; the best is 1e-3 of the first, higher rates lead early."""
    rng = np.random.default_rng(seed)
    marks = tuple(range(5, 101, 5))
    shares = np.array(marks) / 100
    values, params = [], []
    for optimizer, top in (("adam", 100.0), ("sgd", 60.0)):
        for power in np.arange(-5, -0.9, 0.5):
            end = top - 20 * (power + 3) ** 2
            early = top - 20 * (power + 2.5) ** 2
            curve = (1 - shares) * early * 0.6 + shares * end
            values.append(curve[None] + noise * rng.normal(size=(n_seeds, 1)) + 0 * shares[None])
            params.append({"optimizer": optimizer, "learning_rate": float(10**power)})
    return table_of(np.array(values), params=params, marks=marks)


def design_of(spec: StudySpec, at_once: int | None = None) -> SearchDesign:
    """Return the design of a study with a budget in environment steps, whose seeds are the first ones of a table."""
    return SearchDesign(
        scheduler=scheduler_of(spec.pruner, spec.pruner_kwargs, spec.report_marks, spec.search_space()),
        n_seeds=len(spec.seeds),
        n_finalists=spec.confirm,
        n_further=spec.confirm_seeds,
        at_once=at_once,
        baseline=spec.baseline,
        horizon=spec.horizon,
    )
