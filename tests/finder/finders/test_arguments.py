"""Arguments of finders: numbers of NumPy, paths, and what is refused before anything is written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import finder
from agents.training.training_run import TrainingRun
from studies.spaces.spaces import Choice


def train(run: TrainingRun, width: int = 64, gamma: float = 0.9) -> None:
    while True:
        run.report(episode_return=width + gamma, length=10)


SEARCH: dict[str, Any] = {
    **{"env_steps": 100, "n_trials": 2, "seeds": 1, "confirm": 0},
    **{"storage": None, "progress": False, "executor": "inline"},
}


@pytest.mark.parametrize(
    ("params", "options"),
    [
        ({"width": "32:64"}, {"env_steps": np.int64(100), "horizon": np.int64(200)}),
        ({"width": "32:64"}, {"env_steps": None, "episodes": np.int64(10)}),
        ({"width": "32:64"}, {"confirm": np.int64(1), "confirm_seeds": np.int64(1), "n_jobs": np.int64(1)}),
        ({"width": "32:64"}, {"n_trials": np.int64(2), "seed": np.int64(3), "seeds": np.array([3, 4])}),
        ({"width": "32:64"}, {"fixed": {"gamma": np.float32(0.5)}, "first": [{"width": np.int64(40)}]}),
        ({"width": np.array([32, 64])}, {"first": ({"width": np.int64(32)},)}),
        ({"width": Choice(np.array([32, 64]))}, {"seeds": np.int32(1)}),
    ],
)
def test_a_search_takes_numbers_of_numpy(params: Any, options: dict[str, Any]) -> None:
    result = finder.tune(train, "CartPole-v1", params, **{**SEARCH, **options})
    assert len(result.table()) == 2
    assert type(result.best.params["width"]) is int
