"""The answer in words: what was picked, how sure that is, and what became of the trials. Plain text, no HTML."""

from __future__ import annotations

import math
import shlex
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from studies.confirmation import Verdict, verdict
from studies.pick import Pick, best, why_no_pick
from studies.ranking import Direction, Ranked, seeds_to_settle, worst_choice
from studies.rates import LITTLE
from studies.recommending import rate_name
from studies.reports.facts import LABEL_PARAMS
from studies.reports.range_tests import range_tests_data
from studies.reports.states import states_data
from studies.words import counted, interval_text, number_text, params_text, rate_text, spread_text

if TYPE_CHECKING:
    from studies.study import OpenStudy


MANY_SEEDS = 100
"""Seeds each beyond which a difference is of no use to anybody."""


def pick_or_none(study: OpenStudy) -> Pick | None:
    """Returns the pick, None if there is none; `studies.pick.why_no_pick` says why."""
    return None if why_no_pick(study) else best(study)


def answer(study: OpenStudy) -> str:
    """Returns one paragraph for a person who reads nothing else of the report."""
    sentences = [_range_test_sentence(study)] if study.spec.kind == "range-test" else []
    pick = pick_or_none(study)
    if not sentences or not sentences[0]:
        sentences = [_pick_sentence(study, pick)]
    counts = f"Of {counts_text(study)}."
    if pick is None or study.spec.kind == "range-test":
        return _joined([*sentences, counts])
    found = verdict(study)
    sentences += [
        _rate_sentence(pick),
        _bias_sentence(found, pick),
        counts,
        how_sure(found.ranked, study.direction, pick.trial),
        _refuted_sentence(found),
        which_matters(found.tuning, study.spec.search_space()),
    ]
    n = len(found.tuning)
    if n > 1 and not found.confirmed:
        sentences.append(f"The best of {n} values is a little lucky by nature: expect somewhat less on new seeds.")
    return _joined(sentences)


def _joined(sentences: Sequence[str]) -> str:
    return " ".join(sentence for sentence in sentences if sentence)


def best_command(study: OpenStudy) -> str:
    """Returns the command line that prints the pick and how to use it."""
    return f"finder best {shlex.quote(study.name)} --storage {shlex.quote(study.storage.label)}"


def budget_text(study: OpenStudy) -> str:
    """Returns each seed's budget, such as `50,000 environment steps`."""
    unit = "environment steps" if study.spec.env_steps is not None else "episodes"
    return f"{study.spec.budget:,} {unit}"


def _pick_sentence(study: OpenStudy, pick: Pick | None) -> str:
    if pick is None:
        why = why_no_pick(study)
        return f"There is no pick for {' and '.join(study.spec.agents)} on {study.spec.env}: {why}"
    unbiased = "" if pick.confirmed_by is None else " that took no part in choosing it"
    several = len(study.spec.agents) > 1
    settings = params_text({name: value for name, value in pick.params.items() if name != "agent" or several})
    interval = interval_text(pick.low, pick.high)
    expected = f" Its expected value lies in {interval} (95%)." if interval else ""
    seeds = f"over {pick.seeds_text}{unbiased}, {budget_text(study)} each"
    return (
        f"Use {settings}: {'it' if several else f'with it, {pick.agent}'} reached a mean {study.spec.metric} of "
        f"{spread_text(pick.value, pick.spread)} on {pick.env} ({seeds}, measured over the last part of training; "
        f"trial #{pick.trial}).{expected}"
    )


def _rate_sentence(pick: Pick) -> str:
    """Says between which rates the best one lies, what to use for a longer run, and whether that is safe."""
    rate = pick.rate
    if rate is None:
        return ""
    between = f"between {rate_text(rate.low)} and {rate_text(rate.high)} (95%, {rate.decades:.1f} decades)"
    if rate.corrected:
        use = "it would be" if rate.why_unsafe else "use"
        told = (
            f"For a run of {rate.horizon:,} environment steps {use} {rate_text(rate.suggested)}: the best rate falls "
            f"as runs get longer, and lies {between} there."
        )
    else:
        told = f"The best rate lies {between}."
    return f"{told} This is no safe suggestion: {rate.why_unsafe}" if rate.why_unsafe else told


def _refuted_sentence(found: Verdict) -> str:
    """Says which finalists failed on further seeds; "" if none did."""
    if not found.refuted:
        return ""
    number, reason = next(iter(found.refuted.items()))
    more = f" and {counted(len(found.refuted) - 1, 'other')}" if len(found.refuted) > 1 else ""
    return f"On further seeds trial #{number}{more} failed: {reason.rstrip('.')}."


def _bias_sentence(found: Verdict, pick: Pick) -> str:
    """Says what the pick was worth on the seeds that chose it; "" if it was not confirmed."""
    if found.confirmation is None:
        return ""
    told = f"On the seeds of the search it was {number_text(pick.tuning_value)}"
    if found.confirmation.beyond_noise:
        return f"{told}: choosing it flattered it by {number_text(found.confirmation.bias)}."
    return f"{told}, which is within what seeds differ by."


def counts_text(study: OpenStudy) -> str:
    """Returns what became of the trials: `5 trials, 3 complete, 1 pruned, 1 failed`."""
    data = states_data(study)
    counts = [(len(data.of(state)), word) for state, word in _STATE_WORDS]
    shown = [f"{count} {word}" for count, word in counts if count or word in ("complete", "pruned", "failed")]
    total = len(data.trials)
    return f"{counted(total, 'trial')}, {', '.join(shown)}"


_STATE_WORDS = (
    ("COMPLETE", "complete"),
    ("PRUNED", "pruned"),
    ("FAIL", "failed"),
    ("INTERRUPTED", "interrupted"),
    ("RUNNING", "running"),
    ("WAITING", "waiting"),
)


def how_sure(ranked: list[Ranked], direction: Direction, pick: int) -> str:
    """Says how sure it is that a trial is the best: alone, or which others cannot be told from it."""
    chosen = next(each for each in ranked if each.number == pick)
    others = [each for each in ranked if each.tied and each.number != pick]
    if len(ranked) < 2:
        return ""
    if math.isnan(chosen.low):
        return "One seed each cannot tell trials apart: which is the best is open."
    if not others:
        return "No other complete trial may be as good, with 95% confidence."
    if not chosen.tied:
        better = f"trial #{others[0].number}, {params_text(dict(others[0].params))}"
        return (
            f"In the search {better} did clearly better than this was on all its seeds, but it was not run on further "
            f"ones. Train both, or confirm more trials (--confirm)."
        )
    first = others[0]
    value = f"{spread_text(first.value, first.spread)} over {counted(first.n_seeds, 'seed')} in all"
    own = f"{spread_text(chosen.value, chosen.spread)} over {chosen.n_seeds}"
    shown = f"trial #{first.number}, {params_text(dict(first.params))}: {value}, the pick {own}"
    following = shown if len(others) == 1 else f"first {shown}"
    best = max(ranked, key=lambda each: each.value if direction == "maximize" else -each.value)
    by_rate = rate_name(ranked) is not None
    if chosen.value == best.value:
        chosen_for = "the best of them so far" + by_rate * ", its neighbours counted too"
    elif by_rate:
        chosen_for = "the best one if its neighbours count too"
    else:
        chosen_for = "the best one of those that were run on further seeds"
    needed = seeds_to_settle(ranked, direction)
    if needed is not None and needed <= MANY_SEEDS:
        more = f"about {needed:,} seeds each would tell them apart."
    else:
        more = f"even {MANY_SEEDS} seeds each would not tell all of them apart, if they go on as they did."
    return f"This is a tie with {counted(len(others), 'other trial')} ({following}); the pick is {chosen_for}; {more}"


def which_matters(ranked: list[Ranked], searched: Collection[str]) -> str:
    """Says which optimizers or agents cannot be told apart, and whether the choice matters; "" if one is the best."""
    told = []
    for name in LABEL_PARAMS:
        if name not in searched:
            continue
        level, cost = worst_choice(ranked, name)
        if len(level) < 2 or math.isnan(cost):
            continue
        named = f"{', '.join(map(str, level[:-1]))} and {level[-1]}"
        if cost <= LITTLE:
            told.append(
                f"Which {name} does not matter here: {named} are level, to {cost:.0%} of the range of all trials."
            )
        else:
            told.append(f"Of the {name}s, {named} cannot be told apart, each at its own best settings.")
    return " ".join(told)


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
