"""What is remembered and judged: study specs, storages, records, ranking, the pick and its reports.

Names are imported when they are first used, so `import studies` costs nothing and a command pays for what it needs.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from studies.dashboard import attach_figures, serve
    from studies.episodes import EpisodeTable
    from studies.errors import StudyError
    from studies.listing import StudySummary, list_studies
    from studies.no_pick import NoPick
    from studies.opening import delete_study, join_study, open_study
    from studies.pick import Pick, best, best_optimizer
    from studies.pruners import PRUNERS, make_pruner
    from studies.ranking import Candidate, Ranked, rank
    from studies.recommending import recommended
    from studies.recorder import Recorder
    from studies.records import Ask, EpisodeRecord
    from studies.reports import (
        plot_learning_curves,
        plot_learning_rate,
        plot_optimizers,
        plot_trials,
        write_report,
    )
    from studies.samplers import SAMPLERS, make_sampler
    from studies.spaces import Choice, Fixed, FloatRange, IntRange, Space, distribution, parse_space
    from studies.spec import StudySpec
    from studies.storage import StudyStorage, open_storage
    from studies.study import OpenStudy, load_study
    from studies.values import iqm, last_part_return, windowed_mean

_HOMES = {
    "studies.dashboard": ("attach_figures", "serve"),
    "studies.episodes": ("EpisodeTable",),
    "studies.errors": ("StudyError",),
    "studies.listing": ("StudySummary", "list_studies"),
    "studies.no_pick": ("NoPick",),
    "studies.pick": ("Pick", "best", "best_optimizer"),
    "studies.pruners": ("PRUNERS", "make_pruner"),
    "studies.ranking": ("Candidate", "Ranked", "rank"),
    "studies.recommending": ("recommended",),
    "studies.recorder": ("Recorder",),
    "studies.records": ("Ask", "EpisodeRecord"),
    "studies.reports": (
        "plot_learning_curves",
        "plot_learning_rate",
        "plot_optimizers",
        "plot_trials",
        "write_report",
    ),
    "studies.samplers": ("SAMPLERS", "make_sampler"),
    "studies.spaces": ("Choice", "Fixed", "FloatRange", "IntRange", "Space", "distribution", "parse_space"),
    "studies.spec": ("StudySpec",),
    "studies.storage": ("StudyStorage", "open_storage"),
    "studies.values": ("iqm", "last_part_return", "windowed_mean"),
    "studies.opening": ("delete_study", "join_study", "open_study"),
    "studies.study": ("OpenStudy", "load_study"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "PRUNERS",
    "SAMPLERS",
    "Ask",
    "Candidate",
    "Choice",
    "EpisodeRecord",
    "EpisodeTable",
    "Fixed",
    "FloatRange",
    "IntRange",
    "NoPick",
    "OpenStudy",
    "Pick",
    "Ranked",
    "Recorder",
    "Space",
    "StudyError",
    "StudySpec",
    "StudyStorage",
    "StudySummary",
    "attach_figures",
    "best",
    "best_optimizer",
    "delete_study",
    "distribution",
    "iqm",
    "join_study",
    "last_part_return",
    "list_studies",
    "load_study",
    "make_pruner",
    "make_sampler",
    "open_storage",
    "open_study",
    "parse_space",
    "plot_learning_curves",
    "plot_learning_rate",
    "plot_optimizers",
    "plot_trials",
    "rank",
    "recommended",
    "serve",
    "windowed_mean",
    "write_report",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'studies' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
