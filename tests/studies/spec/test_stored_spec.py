"""Stored specs of other versions: an unreadable spec affects its own study only, with a clear message."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from studies.analysis.listing import list_studies
from studies.errors import StudyError
from studies.recording.opening import delete_study, open_study
from studies.servers.dashboard import FigureKeeper
from studies.spec.spec import StudySpec
from studies.spec.stored_spec import SPEC_ATTR, SPEC_VERSION, VERSION_ATTR, read_spec, stored_attributes
from studies.storage.dashboard_storage import DashboardStorage
from studies.storage.storage import StudyStorage
from studies.study.study import load_study

Make = Callable[..., StudySpec]


def of_later_version(stored: dict[str, Any]) -> dict[str, Any]:
    return {VERSION_ATTR: SPEC_VERSION + 1, SPEC_ATTR: {**stored, "horizons": [1, 2]}}


UNREADABLE: list[tuple[Callable[[dict[str, Any]], dict[str, Any]], str]] = [
    (
        of_later_version,
        f"later version of Finder .spec version {SPEC_VERSION + 1}, this one reads up to {SPEC_VERSION}",
    ),
    (lambda stored: {SPEC_ATTR: {**stored, "horizons": [1, 2]}}, "unknown key 'horizons'"),
    (lambda stored: {SPEC_ATTR: {**stored, "env_steps": "many", "agents": 3}}, "env_steps"),
    (lambda stored: {SPEC_ATTR: [1, 2]}, "not a mapping"),
]


@pytest.mark.parametrize(("change", "message"), UNREADABLE)
def test_unreadable_spec_affects_its_own_study_only(
    storage: StudyStorage, make_spec: Make, change: Any, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    with open_study(make_spec(name="good"), storage):
        pass
    with open_study(make_spec(name="strange"), storage) as study:
        study_id, stored = study.study._study_id, study.study.user_attrs[SPEC_ATTR]
        assert study.study.user_attrs[VERSION_ATTR] == 1
        for name, value in change(stored).items():
            study.study.set_user_attr(name, value)
    good, strange = list_studies(storage)
    assert (good.name, good.unreadable) == ("good", "")
    assert strange.name == "strange"
    assert "'strange'" in strange.unreadable
    with pytest.raises(StudyError, match=message) as caught:
        load_study("strange", storage)
    assert str(caught.value) == strange.unreadable
    with pytest.raises(StudyError, match=message):
        open_study(make_spec(name="strange"), storage)
    with caplog.at_level(logging.WARNING):
        assert FigureKeeper(storage).update() == ["good"]
    assert strange.unreadable in caplog.text
    assert "Traceback" not in caplog.text
    shown = {each.study_name: each.user_attrs for each in DashboardStorage(storage.optuna).get_all_studies()}
    assert shown["good"]["agent"] == "ppo"
    json.dumps(shown)
    assert delete_study("strange", storage) == 0
    assert [summary.name for summary in list_studies(storage)] == ["good"]
    assert study_id is not None


def test_spec_without_version_is_read(make_spec: Make) -> None:
    spec = make_spec()
    assert read_spec({SPEC_ATTR: spec.to_json_dict()}, "a study") == spec


def test_only_specs_with_later_features_have_a_later_version(make_spec: Make) -> None:
    conditional = make_spec(params={"optimizer": "adam,sgd", "optimizer.momentum": "0:0.9@optimizer=sgd"})
    assert stored_attributes(make_spec(), "memory")[VERSION_ATTR] == 1
    stored = stored_attributes(conditional, "memory")
    assert stored[VERSION_ATTR] == SPEC_VERSION == 2
    assert read_spec(stored, "a study") == conditional


def test_callbacks_have_their_present_places(make_spec: Make) -> None:
    before = make_spec(callbacks=("agents.plateaus:EarlyStop", "mine.py:Own")).to_json_dict()
    spec = read_spec({SPEC_ATTR: before}, "a study")
    assert spec.callbacks == ("agents.callbacks.plateaus:EarlyStopping", "mine.py:Own")
