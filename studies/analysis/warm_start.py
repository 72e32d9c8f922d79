"""Warm start from another study: its best trials are tried first, and comparable ones inform the sampler."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from optuna.trial import FrozenTrial, TrialState

from studies.analysis.recommendation import best
from studies.errors import StudyError
from studies.judging.confirmation import verdict
from studies.judging.missing_pick import why_no_pick
from studies.spaces.conditions import exists, in_order
from studies.spaces.numbers import complement, is_number
from studies.spaces.spaces import Choice, Fixed, Json, Space, extremes, settle
from studies.spec.attributes import has_diverged, last_of
from studies.spec.compatibility import differences
from studies.spec.scheduler_names import PRIOR_SAMPLERS, canonical_sampler_name, is_population_based
from studies.spec.spec import StudySpec
from studies.spec.warm_start import MOST_PRIOR_TRIALS, PriorTrial, WarmStart
from studies.statistics.values import sign_of
from studies.study.study import OpenStudy
from studies.words import counted

Row = dict[str, Json]

_OF_TRIALS = ("kind", "agents", "agent_params", "params", "fixed", "seeds")
"""Settings of studies that may differ as wholes: trials are compared one by one, and seeds change no expected value."""


class Start(NamedTuple):
    """Start of a study from another one.

    Attributes:
        first: Parameter sets of the best trials, best first, as far as they are in the search space.
        warm_start: Trials that inform the sampler, and a note on what was taken over.
    """

    first: list[Row]
    warm_start: WarmStart


def start_from(
    source: OpenStudy,
    target: StudySpec,
    n_best: int,
    opposites: Mapping[str, str],
    optimizers: Mapping[str, str] | None = None,
) -> Start:
    """Return what a study takes over from another one.

    The best trials are those of the other study's own verdict: its pick, then the others in their order. Trials inform
    the sampler if this study could have run them: same agent, environment, budget and metric, each parameter inside of
    the search space, everything else as in this study.

    Of the best trials, values of parameters that this study does not search are left out, and the note names these
    parameters. Trials with another optimizer are left out whole: a learning rate belongs to its optimizer.

    Args:
        source: The other study.
        target: Spec of the study that starts.
        n_best: Trials that are tried first, from 0.
        opposites: Hyperparameter -> its complement, which is 1 minus it, in both directions.
        optimizers: Agent -> label of its optimizer in this study, where it is not searched. Defaults to None: unknown.

    Raises:
        StudyError: If the other study has no pick, or no parameter in common with this one.
    """
    if source.spec.metrics:
        raise StudyError(
            f"the study {source.name!r} has several objectives ({', '.join(source.spec.metrics)}), and a warm start "
            "needs one value of each trial: give parameters of its trials as first trials (--first)."
        )
    if reason := why_no_pick(source):
        raise StudyError(f"there is nothing to start from: the study {source.name!r} has no pick: {reason}")
    if is_population_based(source.spec.pruner):
        raise StudyError(
            f"there is nothing to start from: trials of the study {source.name!r} changed their parameters while they "
            f"trained ({source.spec.pruner}). Give the last values of its schedule (finder best) as a trial: --first."
        )
    _require_common(source, target, opposites)
    spaces = target.search_space()
    first: list[Row] = []
    left_out, others = set[str](), set[str]()
    most = min(n_best, target.n_trials - len(target.first))
    for trial, params in _best_first(source):
        row = _row(spaces, _values(source, trial, params, spaces, opposites))
        if not row or row in (*target.first, *first) or len(first) == most:
            continue
        if other := _other_optimizer(source, trial, params, target, optimizers or {}):
            others.add(other)
            continue
        first.append(row)
        given = {**target.fixed, "agent": params.get("agent")}
        left_out |= {
            name for name, value in params.items()
            if name not in (*spaces, "optimizer") and opposites.get(name) not in spaces and given.get(name) != value
        }  # fmt: skip
    ended = source.trials(TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)
    finished = [
        trial for trial in ended
        if source.spec.kind != "range-test" and (trial.state != TrialState.FAIL or has_diverged(trial))
    ]  # fmt: skip
    obstacle = _obstacle(source, target)
    prior = [] if obstacle else _prior(source, finished, target, opposites)
    note = _note(source, len(first), len(finished), len(prior), obstacle)
    note += _left_out_text(left_out, others, set((optimizers or {}).values()))
    if not first and not prior:
        raise StudyError(f"nothing can be taken over: {note[0].lower()}{note[1:]}")
    label = source.storage.label
    warm_start = WarmStart(study=source.name, storage=label, note=note, trials=_thinned(prior, target))
    return Start(first, warm_start)


def _require_common(source: OpenStudy, target: StudySpec, opposites: Mapping[str, str]) -> None:
    searched = sorted({name for trial in source.trials() for name in trial.params} or source.spec.parameter_names)
    here = target.search_space()
    if not any(name in here or opposites.get(name) in here for name in searched):
        raise StudyError(
            f"the study {source.name!r} searched {', '.join(searched)}; this one searches {', '.join(sorted(here))}: "
            "they have no parameter in common. Start from another study, or search one of its parameters."
        )


def _best_first(source: OpenStudy) -> list[tuple[FrozenTrial, Mapping[str, Json]]]:
    """Return the complete trials with their parameters, the pick first, and those that failed on further seeds last."""
    trials = {trial.number: trial for trial in source.trials(TrialState.COMPLETE)}
    if source.spec.kind == "range-test":
        pick = best(source)
        return [(trials[pick.trial], pick.params)]
    found = verdict(source)
    best_first = [each.number for each in (*found.ranked, *found.tuning)]
    numbers = [*([found.pick.number] if found.pick else []), *(n for n in best_first if n not in found.refuted)]
    numbers += found.refuted
    return [(trials[number], source.params(trials[number])) for number in dict.fromkeys(numbers)]


def _given(source: OpenStudy, params: Mapping[str, Json]) -> Row:
    """Return the values that a study sets in a trial: its agent's, fixed ones and searched ones."""
    label = str(params.get("agent") or source.spec.agents[0])
    return {**source.spec.agent_params.get(label, {}), **source.spec.fixed, **params, "agent": label}


def _values(
    source: OpenStudy,
    trial: FrozenTrial,
    params: Mapping[str, Json],
    spaces: Mapping[str, Space],
    opposites: Mapping[str, str],
) -> Row:
    """Return the values of all hyperparameters of a trial, also those that its study left as they were.

    Args:
        source: The study of the trial.
        trial: The trial.
        params: Its parameters.
        spaces: Search space in which its optimizer is named.
        opposites: Hyperparameter -> its complement.
    """
    config = dict(trial.user_attrs.get("configuration", {}).get("config", {}))
    given = _given(source, params)
    values = {**config, **given}
    if isinstance(label := values.pop("optimizer", None), str):
        name, arguments = _parsed(label)
        own = _label_of(
            spaces.get("optimizer"), name, arguments if "optimizer" in given else config.get("optimizer_kwargs")
        )
        values |= {} if own is None else {"optimizer": own}
    for name, other in opposites.items():
        known = values.get(other)
        if name not in values and is_number(known):
            values[name] = complement(known)
    return values


def _parsed(label: str) -> tuple[str, Mapping[str, Json]]:
    """Return the name of an optimizer and its arguments, such as those of `sgd(momentum=0.9)`."""
    name, _, rest = label.partition("(")
    arguments: dict[str, Json] = {}
    for argument in filter(None, rest.removesuffix(")").split(",")):
        key, _, value = argument.partition("=")
        try:
            arguments[key.strip()] = json.loads(value.lower())
        except json.JSONDecodeError:  # a text, or a part of a schedule
            arguments[key.strip()] = value.strip()
    return name.strip(), arguments


def _label_of(space: Space | None, name: str, arguments: Mapping[str, Json] | None) -> Json:
    """Return the optimizer of a space with a name and arguments, or the only one but for `epsilon`; None without.

    Learning rates remain comparable with another `epsilon`, and do not with another `momentum`.
    """
    if not isinstance(space, Choice | Fixed):
        return None
    used = dict(arguments or {})
    known = {label: own for label in map(str, extremes(space)) for of, own in [_parsed(label)] if of == name}
    same = [label for label, own in known.items() if own == used]
    alike = [label for label, own in known.items() if {**own, "epsilon": None} == {**used, "epsilon": None}]
    return next(iter(same or alike), None) if same or len(alike) == 1 else None


def _other_optimizer(
    source: OpenStudy,
    trial: FrozenTrial,
    params: Mapping[str, Json],
    target: StudySpec,
    optimizers: Mapping[str, str],
) -> str:
    """Return the optimizer of a trial if this study has another one, "" if it has or searches the same.

    Arguments such as `epsilon` make no other optimizer: learning rates stay comparable.
    """
    spaces, given = target.search_space(), _given(source, params)
    own = optimizers.get(str(given["agent"]))
    if own is None or "optimizer" in spaces:
        return ""
    config = trial.user_attrs.get("configuration", {}).get("config", {})
    used = given.get("optimizer")
    if used is None and not config.get("optimizer_kwargs"):
        used = config.get("optimizer")
    is_other = isinstance(used, str) and _parsed(used)[0] != _parsed(own)[0]
    return str(used) if is_other else ""


def _left_out_text(params: Collection[str], others: Collection[str], own: Collection[str]) -> str:
    """Return sentences on what the first trials do not have of the other study, with a space before each."""
    text = ""
    if others:
        uses = " and ".join(sorted(own))
        text += f" Its trials with {' and '.join(sorted(others))} are not tried: this study uses {uses}."
    if params:
        it = "it" if len(params) == 1 else "them"
        text += f" Values of {' and '.join(sorted(params))} are left out, as this study does not search {it}."
    return text


def _row(spaces: Mapping[str, Space], values: Mapping[str, Json]) -> Row:
    """Return the values that lie in a search space and exist there."""
    row: Row = {}
    for name, space in in_order(spaces).items():
        if name in values and exists(space, row):
            try:
                row[name] = settle(space, values[name])
            except StudyError:
                continue
    return row


def _obstacle(source: OpenStudy, target: StudySpec) -> str:
    """Return why no trial of a study can inform the sampler of another one, "" if trials may."""
    if canonical_sampler_name(target.sampler) not in PRIOR_SAMPLERS:
        return f"the sampler {target.sampler!r} cannot use them ({' and '.join(PRIOR_SAMPLERS)} can)"
    if source.spec.kind == "range-test":
        return "a range test has no values of trials"
    alike = target.model_copy(update={name: getattr(source.spec, name) for name in _OF_TRIALS})
    pairs = differences(source.spec, alike)
    if not pairs:
        return ""
    if target.chooses_budget and source.spec.env_steps is not None:
        at_same_steps = alike.model_copy(update={"env_steps": source.spec.env_steps, "episodes": None})
        if not differences(source.spec, at_same_steps):
            steps = source.spec.env_steps
            return (
                f"they were made with {counted(steps, 'environment step')}, and those of this study are chosen for its "
                f"budget: give --env-steps {steps} (env_steps={steps}) to use them"
            )
    before, after = (" and ".join(dict.fromkeys(pair[side] for pair in pairs)) for side in (0, 1))
    return f"they were made with {before}, and this study has {after}"


def _prior(
    source: OpenStudy, finished: Iterable[FrozenTrial], target: StudySpec, opposites: Mapping[str, str]
) -> list[PriorTrial]:
    """Return the trials that the other study could have run, by number."""
    spaces = target.search_space()
    found = []
    for trial in finished:
        params = source.params(trial)
        value, pruned_at = trial.value, None
        if trial.state == TrialState.PRUNED:
            pruned_at, value = last_of(trial)
        row = _row(spaces, _values(source, trial, params, spaces, opposites))
        is_whole = all(name in row for name, space in spaces.items() if exists(space, row))
        given = _given(source, params)
        has_value = value is not None and math.isfinite(value)
        if not (has_value or has_diverged(trial)) or not is_whole or given["agent"] not in target.agents:
            continue
        own = {**target.agent_params.get(given["agent"], {}), **target.fixed, "agent": given["agent"]}
        searched = {*spaces, *(opposites[name] for name in spaces if name in opposites)}
        if {k: v for k, v in given.items() if k not in searched} == {k: v for k, v in own.items() if k not in searched}:
            found.append(PriorTrial(params=row, value=value, pruned_at=pruned_at))
    return found


def _thinned(trials: Sequence[PriorTrial], target: StudySpec) -> tuple[PriorTrial, ...]:
    """Return at most `MOST_PRIOR_TRIALS`: the better half of these, and an even selection of all others."""
    if len(trials) <= MOST_PRIOR_TRIALS:
        return tuple(trials)
    sign = -sign_of(target.direction)

    def badness(i: int) -> tuple[bool, bool, float]:
        """Pruned trials were worse than others at the same step, and diverged ones are the worst."""
        value = trials[i].value
        return value is None, trials[i].pruned_at is not None, 0.0 if value is None else sign * value

    order = sorted(range(len(trials)), key=badness)
    n_best = MOST_PRIOR_TRIALS // 2
    others, n_others = order[n_best:], MOST_PRIOR_TRIALS - n_best
    kept = {*order[:n_best], *(others[i * len(others) // n_others] for i in range(n_others))}
    return tuple(trials[i] for i in sorted(kept))


def _note(source: OpenStudy, n_first: int, n_finished: int, n_prior: int, obstacle: str) -> str:
    taken = []
    if n_first:
        taken.append("its best trial is tried first" if n_first == 1 else f"its best {n_first} trials are tried first")
    if n_prior:
        used = min(n_prior, MOST_PRIOR_TRIALS)
        taken.append(f"{used} of its {counted(n_finished, 'finished trial')} inform the sampler")
    note = f"Warm start from {source.name}: {' and '.join(taken) or 'nothing is tried first'}."
    if obstacle:
        return f"{note} Its trials do not inform the sampler: {obstacle}."
    if not n_prior:
        return (
            f"{note} Its trials do not inform the sampler: each has a value outside of this search space, or another "
            "setting."
        )
    return note
