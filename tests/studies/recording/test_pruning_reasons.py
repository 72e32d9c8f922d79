"""Reasons of pruned trials: what stopped them, in full and in short."""

from __future__ import annotations

import pytest
from optuna.trial import TrialState, create_trial

from studies.queue.trial_endings import BUDGET, pruning, short_reason
from studies.spec.attributes import REASON_ATTR


@pytest.mark.parametrize(
    ("pruner", "reason", "short"),
    [
        ("median", "it had fallen behind with 2 after 1,200 environment steps (scheduler median)",
         "it had fallen behind (scheduler median)"),
        ("race",
         "others were expected to end better; it was stopped with 2 after 1,200 environment steps (scheduler race)",
         "others were expected to end better (scheduler race)"),
        ("asha", "it was paused and never promoted with 2 after 1,200 environment steps (scheduler asha)",
         "it was paused and never promoted (scheduler asha)"),
        (BUDGET,
         "there was no budget for all trials, and it was one of the worst with 2 after 1,200 environment steps "
         "(budget)",
         "there was no budget for all trials, and it was one of the worst (budget)"),
    ],
)  # fmt: skip
def test_reason_says_what_stopped_the_trial(pruner: str, reason: str, short: str) -> None:
    ending = pruning(pruner, 1_200, 2.0)
    assert ending.attrs["reason"] == reason
    trial = create_trial(state=TrialState.PRUNED, user_attrs=ending.attrs)
    assert short_reason(trial) == short


def test_reasons_of_earlier_versions_are_shortened() -> None:
    attrs = {REASON_ATTR: "it had fallen behind with 2 after 1,200 environment steps (pruner median)"}
    assert (
        short_reason(create_trial(state=TrialState.PRUNED, user_attrs=attrs)) == "it had fallen behind (pruner median)"
    )
