"""Executors run trials: in this process, in processes of their own, or many at a time in populations.

The room imports `finder.trials`; a search chooses an executor and listens to its events.
"""

from finder.executors.choice import choose_executor, make_executor, prepare_workers, probably_uses_processes
from finder.executors.executor import Executor, StudyListener

__all__ = [
    "Executor",
    "StudyListener",
    "choose_executor",
    "make_executor",
    "prepare_workers",
    "probably_uses_processes",
]
