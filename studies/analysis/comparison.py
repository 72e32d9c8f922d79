"""Comparison of studies of one environment by their picks, and by how fast they found them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from optuna.trial import FrozenTrial, TrialState

from studies.analysis.conclusion import Status, conclusion
from studies.analysis.recommendation import Recommendation, pick_or_none
from studies.analysis.status import StudyStatus, study_status
from studies.errors import StudyError
from studies.judging.ranking import Candidate, Ranked, rank
from studies.judging.return_bounds import reward_threshold
from studies.spaces.spaces import Json
from studies.spec.metrics import check_metric
from studies.study.study import OpenStudy, check_open
from studies.study.time_spent import began_at
from studies.words import are, counted, spread_text, with_value

_OF_THE_ENVIRONMENT = ("env", "env_kwargs", "wrappers", "max_episode_steps")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ComparedStudy:
    """Study of a comparison.

    Attributes:
        name: Its name; with a number if another study has the same one.
        agents: Labels of its agents.
        status: Status of its conclusion.
        summary: First line of its conclusion: what to use.
        pick: Its pick, or None.
        ranked: Its pick among those of the other studies: `tied` if it cannot be distinguished from the best. None
            without a pick.
        n_ended: Its trials that have ended.
        n_complete: Its complete trials.
        unfinished: What is left to be done, such as `2 of 50 trials done`; "" if the study is complete.
        budget: Budget of each run of the value, such as `50,000 environment steps`; "" without a pick.
        minutes: Minutes from the start of its first trial to the end of its last one, pauses included.
        progress: Minutes since its start, and the best value in the search until then, at each complete trial.
    """

    name: str
    agents: tuple[str, ...]
    status: Status
    summary: str
    pick: Recommendation | None
    ranked: Ranked | None
    n_ended: int
    n_complete: int
    unfinished: str
    budget: str
    minutes: float
    progress: tuple[tuple[float, float], ...]

    def __repr__(self) -> str:
        value = f"{self.summary}: {self.value_text} over {self.seeds_text}" if self.pick else self.summary
        return f"{self.name} ({self.status}): {value}"

    @property
    def is_optimistic(self) -> bool:
        """Return whether the value of the pick is the best of several in a search, not one on further seeds."""
        return self.pick is not None and self.pick.confirmed_by is None and self.n_complete > 1

    @property
    def has_one_seed(self) -> bool:
        """Return whether the value of the pick is that of one seed."""
        return self.pick is not None and self.pick.n_seeds < 2

    @property
    def value_text(self) -> str:
        """The value of the pick with its spread; "" without a pick."""
        return "" if self.pick is None else spread_text(self.pick.value, self.pick.spread)

    @property
    def seeds_text(self) -> str:
        """The seeds of the value, such as `5 further seeds`; "" without a pick."""
        return "" if self.pick is None else self.pick.seeds_text

    def to_json(self) -> dict[str, Json]:
        """Return the study as JSON values."""
        pick = self.pick
        known = {} if pick is None else pick.to_json()
        return {
            "study": self.name,
            "agents": list(self.agents),
            "status": self.status,
            "pick": known.get("params"),
            **{name: known.get(name) for name in ("value", "spread", "low", "high", "n_seeds")},
            "confirmed": None if pick is None else pick.confirmed_by is not None,
            "env_steps": known.get("value_env_steps"),
            "n_ended": self.n_ended,
            "minutes": round(self.minutes, 2),
        }


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Comparison:
    """Comparison of the picks of studies.

    Attributes:
        env: The environment.
        metric: What the picks are compared by, as people read it (`StudySpec.metric_text`).
        studies: The best pick first; studies without a pick come last.
        caveats: Reasons why the values of the picks cannot simply be compared, as sentences; usually none.
    """

    env: str
    metric: str
    studies: tuple[ComparedStudy, ...]
    caveats: tuple[str, ...]

    def __repr__(self) -> str:
        """Return a line for each study, and the conclusion."""
        return "\n".join([*map(repr, self.studies), *self.lines])

    @property
    def lines(self) -> tuple[str, ...]:
        """The conclusion: which pick has the best value, and what limits that."""
        picked = [each for each in self.studies if each.ranked is not None]
        if not picked:
            return ("no study has a pick",)
        best = picked[0]
        level = [each.name for each in picked if each.pick and best.pick and each.pick.value == best.pick.value]
        names = best.name if len(level) == 1 else f"{', '.join(level[:-1])} and {level[-1]}"
        whose = "has the best value" if len(level) == 1 else "have equal values"
        head = f"{names} {whose}: {with_value(self.metric, best.value_text)} over {best.seeds_text}"
        if len(picked) == 1:
            return (head, "no other study has a pick", *self.caveats)
        return (head, *self._certainty(picked), *self.caveats)

    @property
    def _sure(self) -> list[ComparedStudy]:
        """Return the studies whose picks can be told apart by their values; none if the best one's value is unsure.

        The best of many values of a search is optimistic, and more so the more there were. One seed has no spread, and
        that of another study may be quite different.
        """
        picked = [each for each in self.studies if each.ranked is not None]
        sure = [each for each in picked if not (each.is_optimistic or each.has_one_seed)]
        return sure if len(sure) > 1 and sure[0] is picked[0] else []

    def _certainty(self, picked: Sequence[ComparedStudy]) -> tuple[str, ...]:
        """Return which picks may be as good as the first; nothing if values cannot tell (`caveats` has the reason)."""
        if not (sure := self._sure):
            return ()
        tied = [each.name for each in sure[1:] if each.ranked is not None and each.ranked.tied]
        if not tied and len(sure) == len(picked):
            return ("no other pick may be as good, with 95% confidence",)
        if not tied:
            worse = [each.name for each in sure[1:]]
            return (f"{', '.join(worse)} {are(len(worse))} worse, with 95% confidence",)
        return (f"{', '.join(tied)} cannot be distinguished from it, with 95% confidence",)

    def to_json(self) -> dict[str, Json]:
        """Return the comparison as JSON values."""
        return {
            "env": self.env,
            "metric": self.metric,
            "conclusion": list(self.lines),
            "studies": [
                {**each.to_json(), "tied": each.ranked.tied if each.ranked and each in self._sure else None}
                for each in self.studies
            ],
        }


def compare(studies: Sequence[OpenStudy], metric: str | None = None) -> Comparison:
    """Compare studies of one environment and one metric by the values of their picks.

    Values are those of the conclusion of each study: on further seeds where the pick was confirmed, else those of the
    search, which are optimistic. Which picks cannot be distinguished is judged as among the candidates of one study
    (`studies.judging.ranking`).

    Args:
        studies: At least two studies, which may be of different storages, and may still be running.
        metric: The metric by which is compared, which studies with several objectives need. Defaults to `None`: that of
            the studies.

    Raises:
        StudyError: There are fewer than two studies, one is a range test or has no such metric, or their environments
            or metrics differ.
    """
    given: object = studies
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise StudyError(f"studies is {given!r}: give a list of open studies (studies.load_study).")
    if len(studies) < 2:
        raise StudyError(f"a comparison needs two or more studies, got {len(studies)}.")
    for study in studies:
        check_open(study)
    chosen = [_by_metric(study, metric) for study in studies]
    first = chosen[0]
    for other in chosen[1:]:
        _check_alike(first, other)
    names = _distinct([study.name for study in chosen])
    picks = {name: pick_or_none(study) for name, study in zip(names, chosen, strict=True)}
    candidates = [
        Candidate(label=name, params=pick.params, seed_values=_seed_values(pick), number=number)
        for number, (name, pick) in enumerate(picks.items())
        if pick is not None
    ]
    ranked = rank(candidates, first.direction, reward_threshold(first)) if candidates else []
    order = {each.label: each for each in ranked}
    by_name = dict(zip(names, chosen, strict=True))
    compared = [
        _compared(by_name[name], name, picks[name], order.get(name))
        for name in (*order, *(name for name in names if name not in order))
    ]
    return Comparison(
        env=first.spec.env, metric=first.spec.metric_text, studies=tuple(compared), caveats=_caveats(compared)
    )


def check_comparison(compared: object) -> None:
    """Raise `StudyError` for something else than a comparison, such as the studies themselves."""
    if not isinstance(compared, Comparison):
        raise StudyError(f"{compared!r} is not a comparison: give the result of studies.compare([one, other]).")


def _by_metric(study: OpenStudy, metric: str | None) -> OpenStudy:
    """Return a study by one objective.

    Raises:
        StudyError: It has several, or has no value.
    """
    if study.spec.kind == "range-test":
        raise StudyError(f"{study.name!r} is a range test, which has no value that could be compared.")
    if not study.spec.metrics:
        if metric is not None and check_metric(metric) != study.spec.metric:
            raise StudyError(f"the study {study.name!r} is judged by {study.spec.metric!r}, not by {metric!r}.")
        return study
    if metric is None:
        known = ", ".join(study.spec.metrics)
        raise StudyError(
            f"the study {study.name!r} has several objectives: give one of {known} (--metric, study.by_objective)."
        )
    return study.by_objective(metric)


def _check_alike(first: OpenStudy, other: OpenStudy) -> None:
    """Check that the values of two studies have the same meaning.

    Raises:
        StudyError: They have not.
    """
    for name in (*_OF_THE_ENVIRONMENT, "metric"):
        one, two = getattr(first.spec, name), getattr(other.spec, name)
        if one != two:
            raise StudyError(
                f"the values of {first.name!r} and {other.name!r} cannot be compared: {name} is {one!r} in the first, "
                f"and {two!r} in the second."
            )


def _distinct(names: Sequence[str]) -> list[str]:
    """Return names with numbers where studies of several storages have the same one."""
    found: list[str] = []
    for name in names:
        is_taken = names.count(name) > 1
        numbered = (f"{name} ({number})" for number in itertools.count(1))
        found.append(next(each for each in numbered if each not in {*names, *found}) if is_taken else name)
    return found


def _seed_values(pick: Recommendation) -> tuple[float, ...]:
    """Return the values of the seeds of a pick; its value where seeds were not recorded."""
    return tuple(pick.seed_values.values()) or (pick.value,)


def _compared(study: OpenStudy, name: str, pick: Recommendation | None, ranked: Ranked | None) -> ComparedStudy:
    found, now = conclusion(study), study_status(study)
    began = began_at(study) or datetime.min
    return ComparedStudy(
        name=name,
        agents=tuple(study.spec.agents),
        status=found.status,
        summary=found.pick,
        pick=pick,
        ranked=ranked,
        n_ended=sum(trial.state.is_finished() for trial in study.trials()),
        n_complete=len(study.trials(TrialState.COMPLETE)),
        unfinished=_unfinished(now),
        budget="" if pick is None else counted(pick.value_env_steps or study.spec.budget, study.spec.budget_unit),
        minutes=max((_minutes(trial, began) for trial in study.all_trials()), default=0.0),
        progress=_progress(study, began),
    )


def _unfinished(now: StudyStatus) -> str:
    if now.complete:
        return ""
    if now.n_ended < now.n_total:
        return f"{now.n_ended} of {counted(now.n_total, 'trial')} done"
    return f"{counted(now.n_unconfirmed, 'finalist')} still to be confirmed"


def _minutes(trial: FrozenTrial, began: datetime) -> float:
    """Return the minutes from the start of a study to the end of a trial; 0 if it has not ended.

    They are those of the clocks of the processes, which may have been set back since: none are before the start.
    """
    if trial.datetime_complete is None:
        return 0.0
    return max(0.0, (trial.datetime_complete - began).total_seconds() / 60)


def _progress(study: OpenStudy, began: datetime) -> tuple[tuple[float, float], ...]:
    """Return the minutes at the end of each complete trial, and the best value until then."""
    complete = sorted(study.trials(TrialState.COMPLETE), key=lambda trial: _minutes(trial, began))
    better = max if study.direction == "maximize" else min
    best = itertools.accumulate((float(trial.value or 0.0) for trial in complete), better)
    return tuple(zip((_minutes(trial, began) for trial in complete), best, strict=True))


def _caveats(compared: Sequence[ComparedStudy]) -> tuple[str, ...]:
    """Return why the values of picks cannot simply be compared."""
    picked = [each for each in compared if each.pick is not None]
    optimistic = [each.name for each in picked if each.is_optimistic]
    single = [each.name for each in picked if each.has_one_seed]
    found = []
    if optimistic and len(picked) > 1:
        found.append(
            f"{', '.join(optimistic)} {are(len(optimistic))} not confirmed on further seeds: the best value of a "
            f"search is optimistic, so it is not known whether {'it is' if len(optimistic) == 1 else 'they are'} better"
        )
    if single and len(picked) > 1:
        found.append(f"one seed cannot exclude luck ({', '.join(single)})")
    if len({each.budget for each in picked}) > 1:
        lengths = ", ".join(f"{each.name} {each.budget}" for each in picked)
        found.append(f"the runs have different lengths: {lengths}")
    found += [f"{each.name} is not complete, and may change: {each.unfinished}" for each in compared if each.unfinished]
    return tuple(found)
