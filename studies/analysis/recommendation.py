"""Recommendation of a study: its best trial, the settings for the long run, and reasons for a missing one."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, fields
from numbers import Integral
from typing import TYPE_CHECKING, Any

from optuna.trial import FrozenTrial, TrialState

from studies.analysis.named_modules import check_modules
from studies.analysis.schedules import schedule_text
from studies.errors import StudyError, nearest
from studies.judging.confirmation import verdict
from studies.judging.learning_rate_estimate import LearningRateEstimate
from studies.judging.missing_pick import rate_suggestions, why_no_pick
from studies.judging.ranking import Ranked, seeds_to_settle
from studies.population_based.schedule import Schedule
from studies.redaction import has_hidden
from studies.spaces.numbers import whole_number
from studies.spaces.rate_schedules import factor_of, kept_text, stretched_optimizer
from studies.spaces.spaces import Json
from studies.spec.attributes import CONFIRMS_ATTR, seed_values
from studies.spec.fields import Direction
from studies.spec.metrics import metric_of
from studies.study.schedules import lineage_of
from studies.study.study import OpenStudy, check_open
from studies.words import counted, interval_text, params_text, spread_text, with_value

if TYPE_CHECKING:
    from studies.study.study import AnyStorage


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Recommendation:
    """Recommended trial of a study; for range tests, the newest one with a suggestion.

    It is the best complete trial, or the most robust of those that cannot be distinguished from it; see
    `studies.recommended`.

    Attributes:
        study: Name of the study.
        kind: Question that the study answers.
        trial: Number of the trial.
        params: Searched parameters of the trial, with the tested rate; for a range test, the suggested one.
        agent: Label of the agent.
        env: Id of the environment.
        env_kwargs: Arguments of the environment.
        wrappers: Wrappers of the environment.
        max_episode_steps: Step limit of the environment; None for its default.
        config: Configuration of the agent for the long run: with the suggested rate, if it differs from the tested one.
        optimizers: Name of each optimizer -> its configuration as Keras serializes it, with the same rate.
        metric: Name of the metric of the value (`studies.spec.metrics`).
        value: Mean over seeds: over the further ones if the trial was confirmed, which were not used to
            choose the finalists (`studies.judging.confirmation`). NaN for a range test.
        spread: Sample standard deviation over seeds; NaN with fewer than two seeds.
        low: Lower end of the 95% interval of the expected value; NaN if the spread is unknown.
        high: Upper end of that interval.
        probability_best: Probability that no other trial that is judged (`Verdict.ranked`) has a better expected value.
        tied: Numbers of the other ones that cannot be distinguished from the best one.
        seeds_to_settle: Seeds each that would distinguish the best one from these, assuming that values and spreads
            stay as they are; None if no number would.
        seed_values: Value of each seed.
        n_seeds: Number of seeds.
        confirmed_by: Number of the trial that confirmed it; None if it was not confirmed.
        value_env_steps: Environment steps of each run of the value; None if the budget is in episodes.
        tuning_value: Mean over the seeds of the search, by which it was chosen, or became a finalist.
        direction: Direction in which values are better.
        rate: Estimate of the best learning rate; None if no rate was searched, or only one was tried.
        configuration: Everything needed to run the trial again.
        schedule: Numbers with which its weights were trained, from which step on, with population-based training; the
            parameters and the configuration are those that these weights began with. Empty for constant numbers.
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
    value_env_steps: int | None
    tuning_value: float
    direction: Direction
    rate: LearningRateEstimate | None
    configuration: dict[str, Json]
    schedule: Schedule = ()

    def __repr__(self) -> str:
        where = f"(trial #{self.trial} of {self.study})"
        if self.kind == "range-test":
            return f"{params_text(self.params)}: suggested by the range test {where}"
        measured = with_value(metric_of(self.metric).text, spread_text(self.value, self.spread))
        value = f"{measured} over {self.seeds_text}"
        interval = interval_text(self.low, self.high, self.value)
        expected = f"; expected {interval} (95%)" if interval else ""
        return f"{self.settings_text}: {value}{expected} {where}"

    @property
    def settings_text(self) -> str:
        """The parameters, or in short their schedule."""
        return schedule_text(self.schedule) if self.schedule else params_text(self.params)

    @property
    def name_in_study(self) -> str:
        """Name of the agent in its study: its label, with a number if the study compares several of that label."""
        return str(self.params.get("agent", self.agent))

    @property
    def long_run_params(self) -> dict[str, Json]:
        """The parameters with the suggested rate, as in `config`."""
        if self.rate is None or not self.rate.corrected:
            return self.params
        return {**self.params, self.rate.name: self.rate.suggested}

    @property
    def seeds_text(self) -> str:
        """Seeds of the value: `3 seeds`, or `5 further seeds` if the trial was confirmed."""
        return counted(self.n_seeds, "seed" if self.confirmed_by is None else "further seed")

    @property
    def own_training(self) -> bool:
        """Return whether a training function was searched rather than an agent."""
        return bool(self.configuration.get("own_training"))

    @property
    def is_agent_named(self) -> bool:
        """Return whether the agent can be made by its label: one of the product or the place of a class.

        It is False for a class or a training function that was given in Python. Studies of earlier versions do not
        record it: the names of the product are in lower case.
        """
        built_in = self.configuration.get("built_in", self.agent == self.agent.lower() and not self.own_training)
        return ":" in self.agent or bool(built_in)

    def to_json(self) -> dict[str, Json]:
        """Return the recommendation as JSON values: unknown numbers are None, seeds are text keys.

        Further entries of the configuration (seeds, budget, versions) follow the fields of the recommendation.
        """
        data: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        rest = {name: value for name, value in data.pop("configuration").items() if name not in data}
        numbers = ("value", "spread", "low", "high", "probability_best", "tuning_value")
        data |= {name: None if math.isnan(data[name]) else data[name] for name in numbers}
        data["rate"] = None if self.rate is None else self.rate.to_json()
        data["schedule"] = [entry.to_json() for entry in self.schedule]
        data["seed_values"] = {str(seed): value for seed, value in self.seed_values.items()}
        return {**data, **rest}


def best(study: OpenStudy, trial: int | None = None) -> Recommendation:
    """Return the recommended trial: the best complete one, or the most robust of those that are tied with it.

    Args:
        study: The study.
        trial: Number of a complete trial that is taken in place of it, with its value in the search; in a study with
            several objectives, with that of the first one. Defaults to `None`.

    Raises:
        StudyError: If there is none (see `why_no_pick`), or no such trial.
    """
    check_open(study)
    if trial is not None:
        study = _with_complete(study, trial)
    elif reason := why_no_pick(study):
        raise StudyError(f"the study {study.name!r} has no pick: {reason}")
    tested = rate_suggestions(study)
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
        ran = next(each for each in study.trials(TrialState.COMPLETE) if each.number == winner.number)
        params = dict(winner.params)
        values = seed_values(ran) if confirmation is None else confirmation.seed_values
    began, schedule = _beginning(study, ran)
    params |= schedule[0].params if schedule else {}
    configuration: dict[str, Any] = dict(began.user_attrs.get("configuration", {}))
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
        value_env_steps=study.spec.env_steps if confirmation is None else found.confirm_env_steps,
        tuning_value=winner.value,
        direction=study.direction,
        rate=rate,
        configuration=configuration,
        schedule=schedule,
    )


def pick_or_none(study: OpenStudy) -> Recommendation | None:
    """Return the recommendation, None if there is none (`studies.judging.missing_pick.why_no_pick`)."""
    return None if why_no_pick(study) else best(study)


def is_interval_known(rate: LearningRateEstimate, low: float) -> bool:
    """Return whether the interval of the best rate says anything.

    Of one seed, it is that of all rates that were tried; without a worse rate it is arbitrary.

    Args:
        rate: Estimate of the best rate.
        low: Lower end of the interval of the pick's value; NaN if it is unknown.
    """
    return math.isfinite(low) and rate.cause != "not told apart"


def _beginning(study: OpenStudy, trial: FrozenTrial) -> tuple[FrozenTrial, Schedule]:
    """Return the trial with whose configuration the weights of a trial began, and their schedule; () if constant."""
    lineage = lineage_of(study, trial.number)
    if lineage is None:
        return trial, ()
    return next(each for each in study.trials() if each.number == lineage.root), lineage.schedule


def _with_complete(study: OpenStudy, number: Any) -> OpenStudy:
    """Return the study, by its first objective if it has several, if it has this complete trial.

    Raises:
        StudyError: If it has not, or this is no whole number.
    """
    if isinstance(number, bool) or not isinstance(number, Integral):
        raise StudyError(f"trial is {number!r}: give the number of a complete trial.")
    study = study.by_objective(study.spec.metric) if study.spec.metrics else study
    complete = [trial.number for trial in study.trials(TrialState.COMPLETE)]
    if number not in complete:
        confirms = {trial.number: trial.user_attrs[CONFIRMS_ATTR] for trial in study.confirmation_trials()}
        known = f"complete are {', '.join(map(str, complete))}" if complete else "no trial is complete"
        known = f"it confirms trial {confirms[int(number)]}" if number in confirms else known
        raise StudyError(f"the study {study.name!r} has no complete trial {number}: {known}.")
    return study


def _at_rate(config: dict[str, Any], rate: LearningRateEstimate | None) -> dict[str, Any]:
    """Return the configuration with the suggested rate; `actor.learning_rate` is that of one of several optimizers."""
    if rate is None or not rate.corrected or not config:
        return config
    owner = rate.name.rpartition(".")[0]
    if not owner or rate.name in config:
        return {**config, rate.name: rate.suggested}
    overrides = config.get("optimizers", {})
    return {
        **config,
        "optimizers": {**overrides, owner: {**overrides.get(owner, {}), "learning_rate": rate.suggested}},
    }


def _optimizers_at_rate(configuration: dict[str, Any], rate: LearningRateEstimate | None) -> dict[str, Any]:
    """Return the optimizers with the suggested rate, except those with their own rate."""
    optimizers = configuration.get("optimizers", {})
    if rate is None or not rate.corrected or rate.name.rpartition(".")[2] != "learning_rate":
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


def optimizer_call(study: OpenStudy, env_steps: int | None = None) -> str:
    """Return the Python code of the call of `best_optimizer` for the optimizer of the pick.

    Args:
        study: The study.
        env_steps: Environment steps of the long run, if its schedule is stretched to these. Defaults to None.
    """
    metric = f", metric={study.objective!r}" if study.objective else ""
    metric += f", env_steps={env_steps:_}" if env_steps is not None else ""
    label = study.storage.label
    storage = 'os.environ["OPTUNA_STORAGE"]' if has_hidden(label) else repr(label)  # its URL, with the password
    return f"studies.best_optimizer({study.name!r}, {storage}{metric})"


def best_optimizer(
    study_name: str,
    storage: AnyStorage,
    name: str = "default",
    *,
    metric: str | None = None,
    env_steps: int | None = None,
    allow_modules: Iterable[str] = (),
) -> Any:
    """Return a new Keras optimizer with the recommended settings and learning rate, ready for the long run.

    If the horizon of the study differs from its budget, the rate is corrected for it (`Recommendation.rate.suggested`).
    A warning is issued if the suggestion is not safe (`Recommendation.rate.why_unsafe`).

    Args:
        study_name: Name of the study.
        storage: An open storage, or its URL.
        name: Name of the optimizer, for agents with several such as `actor` and `critic`. Defaults to `default`.
        metric: The objective by which is picked, for studies with several. Defaults to `None`.
        env_steps: Environment steps of the long run, >= 1, to which a learning-rate schedule of Keras is stretched. A
            warning is issued if it cannot be: the budget of the study is in episodes, or the schedule is not of Keras.
            Defaults to `None`: it keeps the gradient steps that it has in the runs of the study.
        allow_modules: Modules beside Keras's that the study may name, if other users may have written it: its storage
            is a database server, a server of `finder serve`, or a file of another user. They extend those of
            `FINDER_ALLOW_MODULES`.

    Returns:
        A `keras.optimizers.Optimizer` without slot variables; for an optimizer of PyTorch its class and arguments, as
        `optimizer=` of an agent takes them.

    Raises:
        StudyError: If the study is unknown, no trial is complete, there is no optimizer of that name (training
            functions have none), `env_steps` is no whole number from 1, or the study names a module that is not
            allowed.
    """
    from studies.study.study import load_study

    long_run = whole_number("env_steps", env_steps)
    with load_study(study_name, storage) as study:
        pick = best(study if metric is None else study.by_objective(metric))
        if pick.own_training:
            raise StudyError(
                f"the pick of {study_name!r} is of the training function {pick.agent}, which makes its own optimizer: "
                "its parameters are in best.config."
            )
        if name not in pick.optimizers:
            raise StudyError(f"the pick of {study_name!r} has no optimizer {name!r}. {nearest(name, pick.optimizers)}")
        serialised, of_study = pick.optimizers[name], study.spec.env_steps
        config = stretched_optimizer(serialised, factor_of(pick.config, of_study, long_run))
        check_modules(study, config, allow_modules)
    if pick.rate is not None and pick.rate.why_unsafe:
        warnings.warn(f"no safe suggestion of a learning rate: {pick.rate.why_unsafe}", stacklevel=2)
    kept = kept_text({"learning_rate": serialised.get("config", {}).get("learning_rate")}, of_study)
    if long_run is not None and kept:
        warnings.warn(kept, stacklevel=2)
    if str(config.get("module")).partition(".")[0] == "torch":
        return config
    import keras

    return keras.saving.deserialize_keras_object(config)
