"""Text that explains a conclusion: the origin of the value, and counts of trials."""

from __future__ import annotations

import math
import shlex
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from studies.analysis.conclusion import Status, conclusion
from studies.analysis.doubts import FEW, different_schedules
from studies.analysis.recommendation import Recommendation, pick_or_none
from studies.figures.range_tests import range_tests_data
from studies.figures.ranking import LABEL_PARAMS
from studies.figures.trials import states_data
from studies.judging.confirmation import Verdict, verdict
from studies.judging.learning_rate_estimate import LITTLE
from studies.judging.pareto_front import how_to_choose
from studies.judging.ranking import Ranked, seeds_to_settle, worst_choice
from studies.judging.robust_choice import rate_name
from studies.spec.fields import Direction
from studies.spec.metrics import metric_of
from studies.spec.scheduler_names import is_population_based
from studies.statistics.objectives import N_EPISODES
from studies.study.schedules import divergences_of
from studies.words import are, counted, failures_text, number_text, params_text, plural, rate_text, spread_text

if TYPE_CHECKING:
    from studies.spec.spec import StudySpec
    from studies.study.study import OpenStudy


MANY_SEEDS = 100
"""Number of seeds beyond which a difference is irrelevant in practice."""


def question_text(spec: StudySpec) -> str:
    """Return what a study asks in one line: agents, environment, budget and seeds."""
    seeds = f"{plural('seed', len(spec.seeds))} {', '.join(map(str, spec.seeds))}"
    return f"{' and '.join(spec.agents)} on {spec.env}, {spec.budget_text} a seed, {seeds}"


def explain(study: OpenStudy) -> str:
    """Return one paragraph that adds to the three lines of a conclusion: the origin of the value, and doubts.

    It repeats nothing of the conclusion (`studies.analysis.conclusion`), below which the report and the dashboard show
    it.
    """
    counts = f"Of {counts_text(study)}."
    pick = pick_or_none(study)
    if pick is None or study.spec.kind == "range-test":
        silent = conclusion(study).reasons if study.spec.metrics else ()
        return _joined(
            [
                *(_sentence(reason.text) for reason in silent),
                _range_test_sentence(study),
                _front_sentence(study),
                counts,
            ]
        )
    found, concluded = verdict(study), conclusion(study)
    return _joined(
        [
            *(_sentence(reason.text) for reason in concluded.reasons[1:]),
            _measured_sentence(study, pick),
            seeds_sentence(found),
            _horizon_sentence(pick),
            _bias_sentence(study, found),
            counts,
            tie_sentence(
                found.ranked,
                study.direction,
                pick.trial,
                concluded.status,
                confirmed=[each.number for each in found.confirmed],
                constant_params=not is_population_based(study.spec.pruner),
                finalists_alone=found.finalists_alone,
            ),
            _refuted_sentence(found),
            schedules_sentence(study),
            choice_sentence(study),
            _luck_sentence(found),
        ]
    )


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _joined(sentences: Sequence[str]) -> str:
    return " ".join(sentence for sentence in sentences if sentence)


def best_command(study: OpenStudy) -> str:
    """Return the command that prints the recommendation and how to use it."""
    return f"finder best {shlex.quote(study.name)} --storage {shlex.quote(study.storage.label)}"


def _measured_sentence(study: OpenStudy, pick: Recommendation) -> str:
    """Return a sentence on the trial of the value, and on the part of its runs that counts."""
    metric, text = metric_of(study.spec.metric), study.spec.metric_text
    budget = counted(pick.value_env_steps or study.spec.budget, study.spec.budget_unit)
    begin = f"The pick is trial #{pick.trial}; its value is the"
    if metric.kind == "steps-to":
        return (
            f"{begin} number of {text} on {pick.env}, the mean of {N_EPISODES} episodes; a run that did not reach it "
            f"counts with the end of its budget, {budget}."
        )
    if metric.kind == "auc":
        return f"{begin} mean {text} on {pick.env}, {budget} each."
    if metric.kind == "greedy-return":
        return (
            f"{begin} mean {text} on {pick.env}: {counted(metric.n_episodes, 'episode')} without exploration at each "
            f"report in the last part of training, {budget} each, in environments of their own."
        )
    return f"{begin} mean {text} on {pick.env} over the last part of training, {budget} each."


def _horizon_sentence(pick: Recommendation) -> str:
    """Return a sentence on why the rate for the long run differs from the tested one; "" if it does not."""
    rate = pick.rate
    if rate is None or not rate.corrected:
        return ""
    return (
        f"{rate_text(rate.tested)} was best in runs of {pick.value_env_steps:,} environment steps: the longer runs "
        "are, the lower is the best rate."
    )


def _luck_sentence(found: Verdict) -> str:
    """Return a sentence on the bias of the best of few values; with more values it is part of the conclusion."""
    if found.confirmed or not 1 < len(found.tuning) <= FEW:
        return ""
    return f"The best of {len(found.tuning)} values is slightly optimistic: expect a somewhat worse one on new seeds."


def _refuted_sentence(found: Verdict) -> str:
    """Return a sentence on the finalists that failed on further seeds; "" if none did."""
    if not found.refuted:
        return ""
    number, reason = next(iter(found.refuted.items()))
    more = f" and {counted(len(found.refuted) - 1, 'other')}" if len(found.refuted) > 1 else ""
    return f"On further seeds trial #{number}{more} failed: {reason.rstrip('.')}."


def schedules_sentence(study: OpenStudy) -> str:
    """Return a sentence on finalists that are missing because their schedules are those of others; "" if none are."""
    n = different_schedules(study, verdict(study))
    if n is None:
        return ""
    return (
        f"Population-based training led to {counted(n, 'different schedule')}, so that there {are(n)} "
        f"{counted(n, 'finalist')} instead of {study.spec.confirm}: further runs of equal schedules would be the same."
    )


def _bias_sentence(study: OpenStudy, found: Verdict) -> str:
    """Return a sentence on the value in the search; "" without confirmation."""
    if found.confirmation is None:
        return ""
    confirmation = found.confirmation
    if found.confirms_apart:
        runs = "shorter" if (found.confirm_env_steps or 0) > study.spec.budget else "longer"
        return f"In the {runs} runs of the search its value was {number_text(confirmation.tuning.value)}."
    means = (
        f"Its value was {number_text(confirmation.tuning.value)} in the search and "
        f"{number_text(confirmation.held_out.value)} on the further ones"
    )
    if math.isnan(confirmation.reach):  # one seed in the search
        return f"{means}."
    if confirmation.beyond_noise:
        misjudged = "overestimated" if study.direction == "maximize" else "underestimated"
        return f"{means}: the search {misjudged} it by {number_text(confirmation.bias)}."
    return f"{means}, which is within what seeds differ by."


def seeds_sentence(found: Verdict) -> str:
    """Return a sentence on the role of the further seeds in the choice; "" without confirmation."""
    n = len(found.confirmed)
    if found.confirmation is None:
        return ""
    if n == 1:
        return "The further seeds took no part in choosing it."
    if found.finalists_alone:
        return f"The {n} finalists were chosen by the search, the pick among them by their further runs alone."
    return f"The {n} finalists were chosen by the seeds of the search alone, the pick among them by all seeds."


def counts_text(study: OpenStudy) -> str:
    """Return the counts of trials by state, and of failures by kind: `5 trials, 3 complete, 1 pruned, 1 failed`.

    With population-based training, they are followed by the number of divergences after which a member copied another.
    """
    data = states_data(study)
    counts = [(len(data.of(state)), word) for state, word in _STATE_WORDS]
    shown = [f"{count} {word}" for count, word in counts if count or word in ("complete", "pruned", "failed")]
    if by_kind := failures_text(row.failure for row in data.of("FAIL")):
        at = next(i for i, text in enumerate(shown) if text.endswith(" failed"))
        shown[at] += f" ({by_kind})"
    total = len(data.trials)
    n_copies = sum(map(len, divergences_of(study).values()))
    copies = f", {counted(n_copies, 'divergence')} with a copy of another trial" if n_copies else ""
    return f"{counted(total, 'trial')}, {', '.join(shown)}{copies}"


_STATE_WORDS = (
    ("COMPLETE", "complete"),
    ("PRUNED", "pruned"),
    ("FAIL", "failed"),
    ("PAUSED", "paused"),
    ("INTERRUPTED", "interrupted"),
    ("RUNNING", "running"),
    ("WAITING", "waiting"),
)


def tie_sentence(
    ranked: list[Ranked],
    direction: Direction,
    pick: int,
    status: Status,
    *,
    confirmed: Collection[int] = (),
    constant_params: bool = True,
    finalists_alone: bool = False,
) -> str:
    """Return a sentence on the trials that are tied with the best, unless it is part of the conclusion.

    Args:
        ranked: The trials that are judged (`Verdict.ranked`).
        direction: Direction in which values are better.
        pick: Number of the recommended trial.
        status: Status of the conclusion.
        confirmed: Numbers of the trials that were confirmed: the pick is one of them, if there are any.
        constant_params: Whether trials kept their parameters, so that neighbours took part in the choice.
        finalists_alone: Whether finalists alone are judged, by their further runs.
    """
    chosen = next(each for each in ranked if each.number == pick)
    others = [each for each in ranked if each.tied and each.number != pick]
    noun = "finalist" if finalists_alone else "complete trial"
    if len(ranked) < 2 or not chosen.tied:  # a better trial is one of the reasons of the conclusion
        return ""
    if math.isnan(chosen.low):
        return (
            "" if status == "not safe" else "With one seed each, trials cannot be distinguished: the best is unknown."
        )
    if not others:
        return "" if status == "safe" else f"No other {noun} may be as good, with 95% confidence."
    first = others[0]
    in_all = "" if finalists_alone else " in all"
    value = f"{spread_text(first.value, first.spread)} over {counted(first.n_seeds, 'seed')}{in_all}"
    own = f"the pick {spread_text(chosen.value, chosen.spread)} over {chosen.n_seeds}"
    rest = "" if len(others) == 1 else f"; so {'is' if len(others) == 2 else 'are'} {counted(len(others) - 1, 'other')}"
    own_params = f", {params_text(dict(first.params))}," if constant_params else ""
    level = f"Trial #{first.number}{own_params} is level with the pick: {value}, {own}{rest}."
    best = max(ranked, key=lambda each: each.value if direction == "maximize" else -each.value)
    by_rate = constant_params and not finalists_alone and rate_name(ranked) is not None
    if chosen.value == best.value:
        chosen_for = "the best of them so far" + by_rate * ", its neighbours counted too"
    elif by_rate and (not confirmed or best.number in confirmed):
        chosen_for = "the best one if its neighbours count too"
    else:
        chosen_for = "the best one of those that were run on further seeds"
    needed = seeds_to_settle(ranked, direction)
    if needed is not None and needed <= MANY_SEEDS:
        more = f"about {needed:,} seeds each would distinguish them."
    else:
        more = f"even {MANY_SEEDS} seeds each would not distinguish all of them, assuming the same means and spreads."
    return f"{level} The pick is {chosen_for}; {more}"


def choice_sentence(study: OpenStudy) -> str:
    """Return a sentence on tied optimizers or agents, and whether the choice matters; "" if one is the best.

    All trials of the search are compared, by runs of one length. Where trials had one seed each, which compares
    nothing, the finalists are.
    """
    found, searched, sentences = verdict(study), study.spec.search_space(), []
    of_one_seed = found.finalists_alone and len(study.spec.seeds) == 1
    ranked = found.tuning if found.finalists_alone and not of_one_seed else found.ranked
    others = [each.value for each in found.estimated] if of_one_seed else []
    for name in LABEL_PARAMS:
        if name not in searched:
            continue
        level, cost = worst_choice(ranked, name, others, study.direction)
        if len(level) < 2 or math.isnan(cost):
            continue
        named = f"{', '.join(map(str, level[:-1]))} and {level[-1]}"
        if cost <= LITTLE:
            sentences.append(
                f"Which {name} does not matter here: {named} are level, to {cost:.0%} of the range of all trials."
            )
        else:
            sentences.append(f"Of the {name}s, {named} cannot be distinguished at the best tried settings of each.")
    return " ".join(sentences)


def _front_sentence(study: OpenStudy) -> str:
    """Return how to choose a trial of the Pareto front; empty without a front."""
    if conclusion(study).status != "front":
        return ""
    return _sentence(how_to_choose(study.name, study.spec.metrics))


def _range_test_sentence(study: OpenStudy) -> str:
    tests = range_tests_data(study)
    if not tests:
        return ""
    found = [test for test in tests if test.suggestion is not None]
    if not found:
        return f"The range test of {' and '.join(study.spec.agents)} on {study.spec.env} gives no safe suggestion."
    several = len(tests) > 1
    named = ", ".join(
        f"{rate_text(test.suggestion or 0.0)} ({test.label + ', ' if several else ''}{test.rule})" for test in found
    )
    return (
        f"The range test of {' and '.join(study.spec.agents)} on {study.spec.env} suggests a learning rate of {named}."
    )
