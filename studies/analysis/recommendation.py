"""Recommendation of a study: its best trial, the settings for the long run, and reasons for a missing one."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from optuna.trial import FrozenTrial, TrialState

from studies.analysis.confirmation import verdict
from studies.analysis.learning_rate_estimate import LearningRateEstimate
from studies.analysis.named_modules import check_modules
from studies.analysis.pareto_front import no_single_pick
from studies.analysis.ranking import Ranked, seeds_to_settle
from studies.analysis.return_bounds import constant_return
from studies.errors import StudyError, nearest
from studies.spec.attributes import failure_kind, seed_values
from studies.spec.metrics import metric_of
from studies.spec.spaces import Json
from studies.spec.spec import Direction
from studies.words import counted, failures_text, interval_text, number_text, params_text, spread_text, with_value

if TYPE_CHECKING:
    from studies.storage.storage import StudyStorage
    from studies.study.study import OpenStudy


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Recommendation:
    """Recommended trial of a study; for range tests, the newest one with a suggestion.

    It is the best complete trial, or the most robust of those that cannot be distinguished from it; see
    `studies.recommended`.

    Attributes:
        study: Name of the study.
        kind: Question that the study answers.
        trial: Number of the trial.
        params: Searched parameters of the trial; for a range test, the suggested rate.
        agent: Label of the agent.
        env: Id of the environment.
        env_kwargs: Arguments of the environment.
        wrappers: Wrappers of the environment.
        max_episode_steps: Step limit of the environment; None for its default.
        config: Configuration of the agent for the long run: with the suggested rate, if it differs from the tested one.
        optimizers: Name of each optimizer -> its configuration as Keras serializes it, with the same rate.
        metric: Name of the metric of the value (`studies.spec.metrics`).
        value: Mean over seeds: over the further ones if the trial was confirmed, which were not used to
            choose the finalists (`studies.analysis.confirmation`). NaN for a range test.
        spread: Sample standard deviation over seeds; NaN with fewer than two seeds.
        low: Lower end of the 95% interval of the expected value; NaN if the spread is unknown.
        high: Upper end of that interval.
        probability_best: Probability that no other complete trial has a better expected value.
        tied: Numbers of the other trials that cannot be distinguished from the best one.
        seeds_to_settle: Seeds each that would distinguish the best one from these, assuming that values and spreads
            stay as they are; None if no number would.
        seed_values: Value of each seed.
        n_seeds: Number of seeds.
        confirmed_by: Number of the trial that confirmed it; None if it was not confirmed.
        tuning_value: Mean over the seeds of the search, by which it was chosen.
        direction: Direction in which values are better.
        rate: Estimate of the best learning rate; None if no rate was searched, or only one was tried.
        configuration: Everything needed to run the trial again.
    """

    study: str
    kind: str
    trial: int
    params: dict[str, Json]
    agent: str
    env: str
    env_kwargs: dict[str, Json]
    wrappers: tuple[str, ...]
    max_episode_steps: int | None
    config: dict[str, Json]
    optimizers: dict[str, Json]
    metric: str
    value: float
    spread: float
    low: float
    high: float
    probability_best: float
    tied: list[int]
    seeds_to_settle: int | None
    seed_values: dict[int, float]
    n_seeds: int
    confirmed_by: int | None
    tuning_value: float
    direction: Direction
    rate: LearningRateEstimate | None
    configuration: dict[str, Json]

    def __repr__(self) -> str:
        where = f"(trial #{self.trial} of {self.study})"
        if self.kind == "range-test":
            return f"{params_text(self.params)}: suggested by the range test {where}"
        measured = with_value(metric_of(self.metric).text, spread_text(self.value, self.spread))
        value = f"{measured} over {self.seeds_text}"
        interval = interval_text(self.low, self.high)
        expected = f"; expected {interval} (95%)" if interval else ""
        return f"{params_text(self.params)}: {value}{expected} {where}"

    @property
    def seeds_text(self) -> str:
        """Seeds of the value: `3 seeds`, or `5 further seeds` if the trial was confirmed."""
        return counted(self.n_seeds, "seed" if self.confirmed_by is None else "further seed")

    @property
    def own_training(self) -> bool:
        """Return whether a training function was searched rather than an agent."""
        return bool(self.configuration.get("own_training"))

    def to_json(self) -> dict[str, Json]:
        """Return the recommendation as JSON values: unknown numbers are None, seeds are text keys.

        Further entries of the configuration (seeds, budget, versions) follow the fields of the recommendation.
        """
        data: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        rest = {name: value for name, value in data.pop("configuration").items() if name not in data}
        numbers = ("value", "spread", "low", "high", "probability_best", "tuning_value")
        data |= {name: None if math.isnan(data[name]) else data[name] for name in numbers}
        data["rate"] = None if self.rate is None else self.rate.to_json()
        data["seed_values"] = {str(seed): value for seed, value in self.seed_values.items()}
        return {**data, **rest}


def best(study: OpenStudy, trial: int | None = None) -> Recommendation:
    """Return the recommended trial: the best complete one, or the most robust of those that are tied with it.

    Args:
        study: The study.
        trial: Number of a complete trial that is taken in place of it, with its value in the search; in a study with
            several objectives, with that of the first one. Defaults to `None`.

    Raises:
        StudyError: If there is none; see `why_no_pick`.
    """
    if trial is not None:
        study = _with_complete(study, trial)
    elif reason := why_no_pick(study):
        raise StudyError(f"the study {study.name!r} has no pick: {reason}")
    tested = _suggestions(study)
    params: dict[str, Json]
    if study.spec.kind == "range-test" and trial is None:
        ran, params = tested[-1]
        winner, judged_on, judged, confirmation, rate = _NOTHING_KNOWN, _NOTHING_KNOWN, list[Ranked](), None, None
        values = {}
    else:
        found = verdict(study)
        judged, confirmation, rate = found.ranked, found.confirmation, found.rate
        if trial is None:
            assert found.pick is not None  # `why_no_pick` has found complete trials
            winner = judged_on = found.pick
        else:  # as it was in the search
            judged, confirmation, rate = found.tuning, None, None
            winner = judged_on = next(each for each in judged if each.number == trial)
        if confirmation is not None:
            judged_on = confirmation.held_out
        ran = next(each for each in _complete(study) if each.number == winner.number)
        params = dict(winner.params)
        values = seed_values(ran) if confirmation is None else confirmation.seed_values
    configuration: dict[str, Any] = dict(ran.user_attrs.get("configuration", {}))
    return Recommendation(
        study=study.name,
        kind=study.spec.kind,
        trial=ran.number,
        params=params,
        agent=configuration.get("agent") or params.get("agent") or study.spec.agents[0],
        env=configuration.get("env", study.spec.env),
        env_kwargs=configuration.get("env_kwargs", dict(study.spec.env_kwargs)),
        wrappers=tuple(configuration.get("wrappers", study.spec.wrappers)),
        max_episode_steps=configuration.get("max_episode_steps", study.spec.max_episode_steps),
        config=_at_rate(configuration.get("config", {}), rate),
        optimizers=_optimizers_at_rate(configuration, rate),
        metric=study.spec.metric,
        value=judged_on.value,
        spread=judged_on.spread,
        low=judged_on.low,
        high=judged_on.high,
        probability_best=next((each.probability_best for each in judged if each.number == ran.number), math.nan),
        tied=[each.number for each in judged if each.tied and each.number != ran.number],
        seeds_to_settle=seeds_to_settle(judged, study.direction),
        seed_values=values,
        n_seeds=judged_on.n_seeds or 1,
        confirmed_by=None if confirmation is None else confirmation.runs[-1].number,
        tuning_value=winner.value,
        direction=study.direction,
        rate=rate,
        configuration=configuration,
    )


def _with_complete(study: OpenStudy, number: int) -> OpenStudy:
    """Return the study, by its first objective if it has several, if it has this complete trial.

    Raises:
        StudyError: If it has not.
    """
    study = study.by_objective(study.spec.metric) if study.spec.metrics else study
    complete = [trial.number for trial in _complete(study)]
    if number not in complete:
        known = f"complete are {', '.join(map(str, complete))}" if complete else "no trial is complete"
        raise StudyError(f"the study {study.name!r} has no complete trial {number}: {known}.")
    return study


def _at_rate(config: dict[str, Any], rate: LearningRateEstimate | None) -> dict[str, Any]:
    """Return the configuration with the suggested rate; `actor.learning_rate` is that of one of several optimizers."""
    if rate is None or not rate.corrected or not config:
        return config
    owner = rate.name.rpartition(".")[0]
    if not owner:
        return {**config, "learning_rate": rate.suggested}
    overrides = config.get("optimizers", {})
    return {
        **config,
        "optimizers": {**overrides, owner: {**overrides.get(owner, {}), "learning_rate": rate.suggested}},
    }


def _optimizers_at_rate(configuration: dict[str, Any], rate: LearningRateEstimate | None) -> dict[str, Any]:
    """Return the optimizers with the suggested rate, except those with their own rate."""
    optimizers = configuration.get("optimizers", {})
    if rate is None or not rate.corrected:
        return dict(optimizers)
    owner = rate.name.rpartition(".")[0]
    overrides = configuration.get("config", {}).get("optimizers", {})
    return {
        name: {**serialised, "config": {**serialised["config"], "learning_rate": rate.suggested}}
        if owner == name or (not owner and "learning_rate" not in overrides.get(name, {}))
        else serialised
        for name, serialised in optimizers.items()
    }


_NOTHING_KNOWN = Ranked(
    label="", params={}, seed_values=(), number=0, value=math.nan, spread=math.nan, low=math.nan, high=math.nan,
    probability_best=math.nan, tied=False, n_seeds=0,
)  # fmt: skip


def why_no_pick(study: OpenStudy) -> str:
    """Return the reason why no trial can be recommended, "" if one can.

    There is none if no trial is complete; if no complete trial learned anything before its last episode ended, so that
    its value is that of the untrained agent; if all complete trials are equal, episode by episode, so that the
    searched parameters had no effect; or if all episodes of all trials have the same return.
    """
    complete = _complete(study)
    if not complete:
        return _nothing_is_complete(study)
    if study.spec.metrics:
        return no_single_pick(study.name, study.spec.metrics)
    if study.spec.kind == "range-test":
        if _suggestions(study):
            return ""
        return "the range test suggests no learning rate: its curve does not show one. Search a grid instead."
    more = f"give each run more {'environment steps' if study.spec.env_steps is not None else 'episodes'}."
    if _is_unlearned(study, complete):
        return f"no gradient step was made within this budget, or only after the last episode had ended: {more}"
    return _why_indistinguishable(study, complete, more)


def _why_indistinguishable(study: OpenStudy, complete: list[FrozenTrial], more: str) -> str:
    """Return why nothing tells the complete trials apart, "" if something does."""
    if _are_runs_identical(study, complete):
        varied = ", ".join(sorted({name for trial in complete for name in trial.params}))
        return (
            f"all trials gave exactly the same: what was varied{f' ({varied})' if varied else ''} had no effect within "
            f"this budget. If it needs longer to show one, {more}"
        )
    values = [trial.value for trial in complete if trial.value is not None]
    metric = metric_of(study.spec.metric)
    if metric.kind == "steps-to" and study.spec.env_steps is not None and min(values) >= study.spec.env_steps:
        return (
            f"no run reached a return of {metric.threshold:g} within {study.spec.env_steps:,} environment steps: give "
            f"a lower threshold, or {more}"
        )
    if len(complete) < 2 or min(values) < max(values):  # looking at all episodes takes time
        return ""
    constant = constant_return(study)
    if constant is None:
        return ""
    text = f"every episode had the return {number_text(constant)}, so that nothing tells the trials apart: {more}"
    if study.spec.learns_from_experts:
        text += " Without a reward, judge by demonstrations that are held out (metric=loss, held_out_episodes=2)."
    return text


def _nothing_is_complete(study: OpenStudy) -> str:
    pruned = study.trials(TrialState.PRUNED)
    failed = study.trials(TrialState.FAIL)
    kinds = [failure_kind(trial) for trial in failed]
    by_kind = f": {failures_text(kinds)}" if set(kinds) - {"error"} else ""
    counts = f"no trial is complete ({len(pruned)} pruned, {len(failed)} failed{by_kind})."
    if not failed:
        return f"{counts} Run its search further."
    reason = str(failed[-1].user_attrs.get("reason", "no reason was recorded")).rstrip(".")
    return f"{counts} The last failure: {reason}. Mend its cause, then run the search again."


def _is_unlearned(study: OpenStudy, complete: list[FrozenTrial]) -> bool:
    """Return whether no episode ended after a gradient step; episodes have the loss of the latest update."""
    seen = False
    for trial in complete:
        if trial.user_attrs.get("configuration", {}).get("own_training"):
            return False  # training functions may not report losses
        episodes = study.storage.episodes.curve(study.episodes_key, trial.number)
        if any(episode.loss is not None for episode in episodes):
            return False
        seen = seen or bool(episodes)
    return seen


def _are_runs_identical(study: OpenStudy, complete: list[FrozenTrial]) -> bool:
    """Return whether all trials are equal, episode by episode; equal values alone may be the highest return."""
    values = [(trial.value, seed_values(trial)) for trial in complete]
    if len(values) < 2 or any(each != values[0] for each in values):
        return False
    first = _course(study, complete[0])
    return all(_course(study, trial) == first for trial in complete[1:])


def _course(study: OpenStudy, trial: FrozenTrial) -> list[tuple[Any, ...]]:
    """Return the course of a trial: return and length of every episode, and its loss if the metric is the loss."""
    with_loss = study.spec.metric == "loss"
    return [
        (each.seed, each.episode, each.episode_return, each.length, each.loss if with_loss else None)
        for each in study.storage.episodes.curve(study.episodes_key, trial.number)
    ]


def _suggestions(study: OpenStudy) -> list[tuple[FrozenTrial, dict[str, Json]]]:
    """Return the range tests that suggest a learning rate, oldest first, each with the suggested parameter."""
    found = []
    for trial in _complete(study):
        test = trial.user_attrs.get("range_test", {})
        if test.get("suggestion") is not None:
            one_of_several = test.get("optimizer", "all") not in ("all", "default")
            name = f"{test['optimizer']}.learning_rate" if one_of_several else "learning_rate"
            found.append((trial, {name: test["suggestion"]}))
    return found


def _complete(study: OpenStudy) -> list[FrozenTrial]:
    return study.trials(TrialState.COMPLETE)


def best_optimizer(
    study_name: str, storage: StudyStorage | str, name: str = "default", *, allow_modules: Iterable[str] = ()
) -> Any:
    """Return a new Keras optimizer with the recommended settings and learning rate, ready for the long run.

    If the horizon of the study differs from its budget, the rate is corrected for it (`Recommendation.rate.suggested`).
    A warning is issued if the suggestion is not safe (`Recommendation.rate.why_unsafe`).

    Args:
        study_name: Name of the study.
        storage: An open storage, or its URL.
        name: Name of the optimizer, for agents with several such as `actor` and `critic`. Defaults to `default`.
        allow_modules: Modules beside Keras's that the study may name, if other users may have written it: its storage
            is a database server, a server of `finder serve`, or a file of another user. They extend those of
            `FINDER_ALLOW_MODULES`.

    Returns:
        A `keras.optimizers.Optimizer` without slot variables.

    Raises:
        StudyError: If the study is unknown, no trial is complete, there is no optimizer of that name, or the study
            names a module that is not allowed.
    """
    from studies.study.study import load_study

    with load_study(study_name, storage) as study:
        pick = best(study)
        if name not in pick.optimizers:
            raise StudyError(f"the pick of {study_name!r} has no optimizer {name!r}. {nearest(name, pick.optimizers)}")
        check_modules(study, pick.optimizers[name], allow_modules)
    import keras

    if pick.rate is not None and pick.rate.why_unsafe:
        warnings.warn(f"no safe suggestion of a learning rate: {pick.rate.why_unsafe}", stacklevel=2)
    return keras.saving.deserialize_keras_object(pick.optimizers[name])
