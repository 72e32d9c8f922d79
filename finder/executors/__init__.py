"""Where trials run: in this process, in processes of their own, or many at a time in populations."""

from finder.executors.choice import choose_executor, make_executor, prepare_for
from finder.executors.executor import Executor, StudyListener

__all__ = ["Executor", "StudyListener", "choose_executor", "make_executor", "prepare_for"]
