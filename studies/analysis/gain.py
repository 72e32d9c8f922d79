"""The gain of a pick over the baseline, which has the agent's own settings, as a line of text."""

from __future__ import annotations

import math

from studies.judging.baseline import BaselineComparison
from studies.judging.judgement import Verdict
from studies.words import interval_text, number_text

OWN = "the agent's own settings"


def gain_line(compared: BaselineComparison, found: Verdict) -> str:
    """Return the line that compares a pick with the baseline, and agrees with the verdict on all trials."""
    if not compared.learned:
        return (
            f"the baseline (#{compared.trial}, {OWN}) made no gradient step before the end of its last episode, so "
            "the gain is unknown: longer runs would show it"
        )
    if compared.state != "complete":
        at = "" if compared.left_at is None else f" at {compared.left_at:,} environment steps"
        there = f", with {number_text(compared.value)} where the pick had {number_text(compared.pick_value)}"
        known = at and math.isfinite(compared.value) and math.isfinite(compared.pick_value)
        ended = "was pruned" if compared.state == "pruned" else "failed"
        where = " on further seeds" if compared.confirmed else ""
        return f"the baseline (#{compared.trial}, {OWN}) {ended}{where}{at}{there if known else ''}"
    if compared.is_pick:
        return f"this is the baseline, {OWN}: no other trial was shown to be better"
    if math.isnan(compared.low) or compared.low == compared.high:  # equal seeds: their spread is not known
        between = ""
    else:
        expected = interval_text(compared.low, compared.high, compared.gain)
        between = f"; expected {expected} (95%){_beside_verdict(compared, found)}"
    where = "" if compared.confirmed else " in the search"
    return f"gain over the baseline (#{compared.trial}, {OWN}){where}: {number_text(compared.gain)}{between}"


def _beside_verdict(compared: BaselineComparison, found: Verdict) -> str:
    """Return what an expected gain means beside the verdict, which judges all trials, and may judge by more seeds."""
    tied = next((each.tied for each in found.ranked if each.number == compared.trial), None)
    if compared.low > 0:
        return ", compared with it alone; among all trials it is tied with the best" if tied else ""
    if tied is not False:
        return ", so there may be none"
    if compared.compared_low > 0:
        return ": there is one, unless runs collapse as none of these did"
    by_more_seeds = compared.confirmed and not found.finalists_alone
    return " by the further seeds alone; all seeds together distinguish the two" if by_more_seeds else ""
