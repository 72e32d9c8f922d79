"""Where trials run. Executors differ in where, never in what: the same trial gives the same record anywhere."""

from finder.executors.executor import Executor, StudyListener, make_executor

__all__ = ["Executor", "StudyListener", "make_executor"]
