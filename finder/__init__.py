"""How to search: which learning rate, which optimizer, which agent, which hyperparameters.

Names are imported when they are first used, so that the command line answers at once.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from finder.histories import histories_data as histories_data
    from finder.histories import plot_losses as plot_losses
    from finder.histories import plot_returns as plot_returns
    from finder.lr import LRFinder as LRFinder
    from finder.optimizer import OptFinder as OptFinder
    from finder.parallel import AgentFinder as AgentFinder
    from finder.parallel import ParallelFinder as ParallelFinder
    from finder.picked import picked_agent as picked_agent
    from finder.range_test import RangeTestResult as RangeTestResult
    from finder.results import SearchResult as SearchResult
    from finder.search import run_search as run_search
    from finder.tuning import run_file as run_file
    from finder.tuning import submit_file as submit_file
    from finder.tuning import tune as tune
    from finder.worker import work as work

_HOME = {
    "finder.histories": ("histories_data", "plot_losses", "plot_returns"),
    "finder.lr": ("LRFinder",),
    "finder.optimizer": ("OptFinder",),
    "finder.parallel": ("AgentFinder", "ParallelFinder"),
    "finder.picked": ("picked_agent",),
    "finder.range_test": ("RangeTestResult",),
    "finder.results": ("SearchResult",),
    "finder.search": ("run_search",),
    "finder.tuning": ("run_file", "submit_file", "tune"),
    "finder.worker": ("work",),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}
__all__ = [
    "AgentFinder",
    "LRFinder",
    "OptFinder",
    "ParallelFinder",
    "RangeTestResult",
    "SearchResult",
    "histories_data",
    "picked_agent",
    "plot_losses",
    "plot_returns",
    "run_file",
    "run_search",
    "submit_file",
    "tune",
    "work",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'finder' has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
