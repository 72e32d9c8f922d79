"""What is remembered and judged: study specs, storages, records, ranking, the pick and its reports.

Names are imported when they are first used, so `import studies` costs nothing and a command pays for what it needs.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from studies.analysis.listing import StudySummary, list_studies
    from studies.analysis.no_pick import NoPick
    from studies.analysis.pick import Pick, best, best_optimizer
    from studies.analysis.ranking import Candidate, Ranked, rank
    from studies.analysis.recommending import recommended
    from studies.database.episodes import EpisodeTable
    from studies.database.records import Ask, EpisodeRecord
    from studies.errors import StudyError
    from studies.recording.opening import delete_study, join_study, open_study
    from studies.recording.recorder import Recorder
    from studies.reports import (
        plot_learning_curves,
        plot_learning_rate,
        plot_optimizers,
        plot_trials,
        write_report,
    )
    from studies.scheduling.pruners import PRUNERS, make_pruner
    from studies.scheduling.samplers import SAMPLERS, make_sampler
    from studies.servers.dashboard import attach_figures, serve
    from studies.spec.spaces import Choice, Fixed, FloatRange, IntRange, Space, distribution, parse_space
    from studies.spec.spec import StudySpec
    from studies.statistics.values import iqm, last_part_return, windowed_mean
    from studies.storage.storage import StudyStorage, open_storage
    from studies.study.study import OpenStudy, load_study

_HOMES = {
    "studies.servers.dashboard": ("attach_figures", "serve"),
    "studies.database.episodes": ("EpisodeTable",),
    "studies.errors": ("StudyError",),
    "studies.analysis.listing": ("StudySummary", "list_studies"),
    "studies.analysis.no_pick": ("NoPick",),
    "studies.analysis.pick": ("Pick", "best", "best_optimizer"),
    "studies.scheduling.pruners": ("PRUNERS", "make_pruner"),
    "studies.analysis.ranking": ("Candidate", "Ranked", "rank"),
    "studies.analysis.recommending": ("recommended",),
    "studies.recording.recorder": ("Recorder",),
    "studies.database.records": ("Ask", "EpisodeRecord"),
    "studies.reports": (
        "plot_learning_curves",
        "plot_learning_rate",
        "plot_optimizers",
        "plot_trials",
        "write_report",
    ),
    "studies.scheduling.samplers": ("SAMPLERS", "make_sampler"),
    "studies.spec.spaces": ("Choice", "Fixed", "FloatRange", "IntRange", "Space", "distribution", "parse_space"),
    "studies.spec.spec": ("StudySpec",),
    "studies.storage.storage": ("StudyStorage", "open_storage"),
    "studies.statistics.values": ("iqm", "last_part_return", "windowed_mean"),
    "studies.recording.opening": ("delete_study", "join_study", "open_study"),
    "studies.study.study": ("OpenStudy", "load_study"),
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
