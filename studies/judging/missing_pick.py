"""Why a study has no pick: nothing is complete, nothing was learned, or nothing tells the trials apart."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import Any

from optuna.trial import FrozenTrial, TrialState

from studies.judging.pareto_front import no_single_pick
from studies.judging.return_bounds import constant_return
from studies.spaces.spaces import Json
from studies.spec.attributes import (
    LEARNED_ATTR,
    REASON_ATTR,
    TRACEBACK_ATTR,
    failure_kind,
    seed_values,
    state_word,
)
from studies.spec.metrics import Metric, metric_of
from studies.spec.objectives import greedy_episodes_of
from studies.study.study import OpenStudy
from studies.words import failures_text, number_text


def why_no_pick(study: OpenStudy) -> str:
    """Return the reason why no trial can be recommended, "" if one can.

    There is none if no trial is complete; if no complete trial learned anything before its last episode ended, so that
    its value is that of the untrained agent; if all complete trials are equal, episode by episode, so that the
    searched parameters had no effect; or if all episodes of all trials have the same return, no success, or the same
    custom metric.
    """
    complete = study.trials(TrialState.COMPLETE)
    if not complete:
        return _nothing_is_complete(study)
    if study.spec.metrics:
        return no_single_pick(study.name, study.spec.metrics)
    if study.spec.kind == "range-test":
        if rate_suggestions(study):
            return ""
        return "the range test suggests no learning rate: its curve does not show one. Search a grid instead."
    more = f"give each run more {study.spec.budget_unit}s."
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
    if metric.kind in ("success-rate", "custom"):
        return _why_constant(study, metric, more)
    constant = constant_return(study)
    if constant is None:
        return ""
    text = f"every episode had the return {number_text(constant)}, so that nothing tells the trials apart: {more}"
    if study.spec.learns_from_experts:
        text += " Without a reward, judge by demonstrations that are held out (metric=loss, held_out_episodes=2)."
    return text


def _why_constant(study: OpenStudy, metric: Metric, more: str) -> str:
    """Return why a metric tells nothing apart that had one value in all runs, from their beginnings to their ends."""
    values = {
        value
        for trial in study.trials()
        for value in (*trial.intermediate_values.values(), *seed_values(trial).values())
        if not math.isnan(value)
    }
    if len(values) != 1 or (metric.kind == "success-rate" and values != {0.0}):
        return ""
    if metric.kind == "success-rate":
        return f"no episode succeeded, so that nothing tells the trials apart: {more}"
    only = number_text(values.pop())
    return f"{metric.name} was {only} in every run, so that nothing tells the trials apart: judge by another metric."


def _nothing_is_complete(study: OpenStudy) -> str:
    trials = study.trials()
    failed = [trial for trial in trials if trial.state == TrialState.FAIL]
    by_kind = f": {text}" if (text := failures_text(map(failure_kind, failed))) else ""
    words = Counter(map(state_word, trials))
    others = "".join(f", {words[word]} {word}" for word in ("running", "paused", "interrupted") if words[word])
    counts = f"no trial is complete ({words['pruned']} pruned, {len(failed)} failed{by_kind}{others})."
    if not failed:
        return f"{counts} Run its search further."
    reason = str(failed[-1].user_attrs.get(REASON_ATTR, "no reason was recorded")).rstrip(".")
    where = place_of_error(str(failed[-1].user_attrs.get(TRACEBACK_ATTR, "")))
    last = f"{reason} ({where}, trial #{failed[-1].number})" if where else reason
    return f"{counts} The last failure: {last}. Mend its cause, then run the search again."


def place_of_error(traceback: str) -> str:
    """Return the file and line that raised an error, `agent.py, line 12`; "" if a traceback has none.

    Functions of a script are sent to other processes without their file.
    """
    places = re.findall(r'^  File "([^"]+)", line (\d+)', traceback, re.MULTILINE)
    if not places:
        return ""
    file, line = places[-1]
    return f"line {line} of the script" if file.startswith("<") else f"{file}, line {line}"


def _is_unlearned(study: OpenStudy, complete: list[FrozenTrial]) -> bool:
    """Return whether no episode ended after a gradient step; episodes have the loss of the latest update."""
    if greedy_episodes_of(study.spec):  # agents are evaluated apart from the episodes of their training
        return all(trial.user_attrs.get(LEARNED_ATTR) is False for trial in complete)
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


def rate_suggestions(study: OpenStudy) -> list[tuple[FrozenTrial, dict[str, Json]]]:
    """Return the range tests that suggest a learning rate, oldest first, each with the suggested parameter."""
    found = []
    for trial in study.trials(TrialState.COMPLETE):
        test = trial.user_attrs.get("range_test", {})
        if test.get("suggestion") is not None:
            one_of_several = test.get("optimizer", "all") not in ("all", "default")
            name = f"{test['optimizer']}.learning_rate" if one_of_several else "learning_rate"
            found.append((trial, {name: test["suggestion"]}))
    return found
