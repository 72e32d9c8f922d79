"""Names of metrics: their canonical forms, directions and texts, and errors for what is not understood."""

from __future__ import annotations

import pytest

from studies import StudyError, StudySpec
from studies.spec.metrics import check_metric, metric_of


@pytest.mark.parametrize(
    ("name", "canonical", "direction", "text"),
    [
        ("return", "return", "maximize", "return"),
        ("loss", "loss", "minimize", "loss"),
        ("greedy-return", "greedy-return", "maximize", "greedy return"),
        ("greedy-return:10", "greedy-return", "maximize", "greedy return"),
        ("greedy-return: 25", "greedy-return:25", "maximize", "greedy return"),
        ("auc", "auc", "maximize", "return over the whole training"),
        ("steps-to: 475.0", "steps-to:475", "minimize", "environment steps to a return of 475"),
        ("steps-to:-90", "steps-to:-90", "minimize", "environment steps to a return of -90"),
        ("steps-to:1234567", "steps-to:1234567", "minimize", "environment steps to a return of 1234567"),
        ("steps-to:-1234.5678", "steps-to:-1234.5678", "minimize", "environment steps to a return of -1234.5678"),
        ("success-rate", "success-rate", "maximize", "success rate"),
        ("custom:coverage", "custom:coverage", "maximize", "coverage"),
        ("custom:energy:minimize", "custom:energy:minimize", "minimize", "energy"),
        ("custom:coverage:maximize", "custom:coverage", "maximize", "coverage"),
    ],
)
def test_names(name: str, canonical: str, direction: str, text: str) -> None:
    spec = StudySpec(name="n", agents="ppo", env="CartPole-v1", env_steps=100, metric=name)
    assert check_metric(name) == spec.metric == canonical
    assert (spec.direction, spec.metric_text) == (direction, text)
    assert StudySpec.from_json_dict(spec.to_json_dict()) == spec


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("retrun", "there is no metric 'retrun'.*return"),
        ("steps-to", "steps-to:475"),
        ("steps-to:fast", "steps-to:475"),
        ("steps-to:nan", "steps-to:475"),
        ("custom", "custom:NAME"),
        ("custom:", "custom:NAME"),
        ("custom:energy:down", "custom:energy:down.*custom:NAME:minimize"),
        ("greedy-return:", "greedy-return:' needs a number of episodes from 1 to 1,000.*greedy-return:20"),
        ("greedy-return:0", "greedy-return:0' needs a number of episodes from 1 to 1,000"),
        ("greedy-return:1001", "greedy-return:1001' needs a number of episodes from 1 to 1,000"),
        ("greedy-return:2.5", "greedy-return:2.5' needs a number of episodes"),
        ("greedy", "there is no metric 'greedy'.*greedy-return"),
        ("auc:3", "'auc' takes nothing after a colon, but '3' was given"),
    ],
)
def test_what_is_not_understood_is_refused(name: str, message: str) -> None:
    with pytest.raises(StudyError, match=message):
        StudySpec(name="n", agents="ppo", env="CartPole-v1", env_steps=100, metric=name)


@pytest.mark.parametrize(
    ("name", "description"),
    [
        ("return", "mean return of the episodes in the last fifth of training"),
        ("greedy-return:25", "mean return of greedy episodes, 25 at each report in the last fifth of training"),
        ("auc", "mean return over the whole training"),
        ("steps-to:475", "environment steps to a return of 475, fewer are better"),
        ("success-rate", "share of successful episodes in the last fifth of training"),
        ("custom:coverage", "mean of coverage over the episodes in the last fifth of training"),
        ("custom:energy:minimize", "mean of energy over the episodes in the last fifth of training, lower is better"),
        ("loss", "mean loss of the updates in the last fifth of training, lower is better"),
    ],
)
def test_descriptions(name: str, description: str) -> None:
    assert metric_of(name).description == description


def test_only_whole_curve_metrics_look_beyond_the_last_part() -> None:
    assert not metric_of("auc").of_last_part
    assert not metric_of("steps-to:1").of_last_part
    assert all(metric_of(name).of_last_part for name in ("return", "loss", "success-rate", "custom:x"))


def test_names_of_custom_metrics_keep_their_spaces() -> None:
    assert check_metric("custom:episode length") == "custom:episode length"
    assert check_metric(" custom : episode length : minimize") == "custom:episode length:minimize"
    assert check_metric("steps-to: 475") == "steps-to:475"
