"""The answer in words: what was picked, how sure that is, and what became of the trials. Plain text, no HTML."""

from __future__ import annotations

import math
import shlex
from typing import TYPE_CHECKING

from studies.pick import Pick, best, why_no_pick
from studies.ranking import Ranked, overlapping
from studies.reports.facts import ranking
from studies.reports.range_tests import range_tests_data
from studies.reports.states import states_data
from studies.words import counted, params_text, rate_text, spread_text

if TYPE_CHECKING:
    from studies.study import OpenStudy


def pick_or_none(study: OpenStudy) -> Pick | None:
    """Returns the pick, None if there is none; `studies.pick.why_no_pick` says why."""
    return None if why_no_pick(study) else best(study)


def answer(study: OpenStudy) -> str:
    """Returns one paragraph for a person who reads nothing else of the report."""
    sentences = [_range_test_sentence(study)] if study.spec.kind == "range-test" else []
    pick = pick_or_none(study)
    if not sentences or not sentences[0]:
        sentences = [_pick_sentence(study, pick)]
    sentences.append(f"Of {counts_text(study)}.")
    if pick is not None and study.spec.kind != "range-test":
        ranked = ranking(study).ranked
        sentences.append(tie_sentence(ranked))
        if len(ranked) > 1:
            sentences.append(
                f"The best of {len(ranked)} values is a little lucky by nature: expect somewhat less on new seeds."
            )
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
    seeds = f"over {counted(pick.n_seeds, 'seed')}"
    several = len(study.spec.agents) > 1
    settings = params_text({name: value for name, value in pick.params.items() if name != "agent" or several})
    alone = "" if not math.isnan(pick.spread) else " One seed says nothing about its spread."
    return (
        f"Use {settings}: {'it' if several else f'with it, {pick.agent}'} reached a mean {study.spec.metric} of "
        f"{spread_text(pick.value, pick.spread)} on {pick.env} ({seeds}, {budget_text(study)} each, measured over "
        f"the last part of training; trial #{pick.trial}).{alone}"
    )


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


def tie_sentence(ranked: list[Ranked]) -> str:
    """Says so when the spread of the best overlaps that of others, and names the next best; "" if it does not."""
    others = overlapping(ranked)
    if not others:
        return ""
    best, following = ranked[0], others[0]
    several = len(others) > 1
    named = f"{len(others)} other trial{'s' * several}"
    shown = f"trial #{following.number}, {params_text(dict(following.params))}"
    if all(each.mean == best.mean for each in others):
        return f"{named} gave exactly the same mean ({shown}), so this is a tie."
    overlap = f"The spread{'s' * several} of {named} overlap{'s' * (not several)} that of the best"
    following_text = f"{shown}: {spread_text(following.mean, following.spread)}"
    return f"{overlap}, so this is close to a tie (next: {following_text})."


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
