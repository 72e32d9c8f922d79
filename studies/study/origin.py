"""Origin of a study: the latest command, file or Python call that ran it. Advice is given in terms of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

if TYPE_CHECKING:
    from studies.spaces.spaces import Json
    from studies.study.study import OpenStudy

ORIGIN_ATTR = "finder_begun"
"""Study attribute: origin as JSON; stored when a study is opened to run, so that a killed study has it too."""

N_BEGUN_ATTR = "finder_begun_trials"
"""Study attribute: number of trials of the call that began the plan."""

Interface = Literal["command", "file", "python", "run_file"]
"""Interface with which a study was run: a command that searches, one that runs a file, a call of a finder, or one of
`run_file` with arguments that the command has no flags for."""


@dataclass(frozen=True, slots=True)
class StudyOrigin:
    """Origin of a study.

    Attributes:
        by: Interface.
        words: Words of the command that searches or runs the file, without the storage, whose URL may contain a
            password. Empty for calls.
        plan_words: Words of the call that began the plan of trials, if later calls have added trials to it; empty if
            that was another interface. Defaults to `None`: the plan is that of this call.
    """

    by: Interface
    words: tuple[str, ...] = ()
    plan_words: tuple[str, ...] | None = None

    @property
    def is_partial(self) -> bool:
        """True if the call has a part of the planned trials, and other calls have planned the rest."""
        return self.plan_words is not None


_current: ContextVar[StudyOrigin | None] = ContextVar("origin", default=None)


@contextmanager
def started_by(origin: StudyOrigin) -> Iterator[None]:
    """Set the origin of studies that are run within the block; the outermost block counts."""
    if _current.get() is not None:
        yield
        return
    token = _current.set(origin)
    try:
        yield
    finally:
        _current.reset(token)


def store_origin(study: OpenStudy, asked: Sequence[Mapping[str, Json]] = ()) -> None:
    """Store the present origin in a study that this process is about to run.

    Args:
        study: The study, with all planned trials.
        asked: The trials that the present call plans. Where other calls have planned the rest, the origin keeps the
            words of the call that began the plan. Defaults to none.
    """
    origin, earlier, rows = _current.get() or StudyOrigin("python"), read_origin(study), study.spec.trials
    n_begun = study.study.user_attrs.get(N_BEGUN_ATTR, 0)
    # Trials after those that began the plan may be an extension of their range.
    is_first = len(asked) >= n_begun and rows[: len(asked)] == tuple(asked)
    if is_first and n_begun != len(asked):
        study.study.set_user_attr(N_BEGUN_ATTR, len(asked))
    if earlier is not None and len(asked) < len(rows):
        before = origin if is_first else earlier
        known = before.words if before.plan_words is None else before.plan_words
        if earlier.is_partial or not is_first:
            origin = replace(origin, plan_words=known if before.by == origin.by else ())
    if origin != earlier:
        study.study.set_user_attr(ORIGIN_ATTR, asdict(origin))


def read_origin(study: OpenStudy) -> StudyOrigin | None:
    """Return the origin of a study; None if an earlier version ran it, or for one that names another interface."""
    kept: Any = study.study.user_attrs.get(ORIGIN_ATTR)
    if not isinstance(kept, Mapping) or kept.get("by") not in get_args(Interface):
        return None
    lists = (kept.get(name) for name in ("words", "plan_words"))
    words, plan_words = (tuple(map(str, each)) if isinstance(each, list) else None for each in lists)
    return StudyOrigin(kept["by"], words or (), plan_words)
