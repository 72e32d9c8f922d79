"""Renaming a study in the dashboard keeps all of its data: nothing is copied, rounded or lost."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from death import lease_to_another_process
from optuna.distributions import FloatDistribution
from optuna.trial import create_trial
from serving import serving

from studies.errors import StudyError
from studies.recording.opening import open_study, rename_study
from studies.recording.recorder import Recorder
from studies.servers.dashboard import make_dashboard
from studies.spec.spec import StudySpec
from studies.storage.storage import StudyStorage, open_storage
from studies.study.study import load_study

Make = Callable[..., StudySpec]


class TestEveryStorage:
    @pytest.mark.slow
    @pytest.mark.between_processes
    def test_renamed_study_keeps_trials_episodes_and_id(self, storage: StudyStorage, make_spec: Make) -> None:
        study = open_study(make_spec(name="long", n_trials=310), storage)
        rate = FloatDistribution(1e-5, 1e-1, log=True)
        exact = [100.0 + number / 3 for number in range(210)]
        study.study.add_trials(
            create_trial(
                params={"learning_rate": 1e-3},
                distributions={"learning_rate": rate},
                value=value,
                intermediate_values={step: value / step for step in (1, 3)},
            )
            for value in exact
        )
        is_journal = storage.url.startswith("journal")
        recorder = Recorder(study)
        ask = recorder.ask()
        assert ask is not None
        if is_journal:
            recorder.close()
        with make_dashboard(storage, port=0) as server, serving(server) as address:
            request = urllib.request.Request(
                f"{address}/api/studies/{study.study._study_id}/rename",
                data=json.dumps({"study_name": "renamed"}).encode(),
                headers={"Content-Type": "application/json"},
            )
            with urllib.request.urlopen(request, timeout=120) as answer:
                assert json.load(answer)["study_name"] == "renamed"
        if not is_journal:  # the process that runs the study continues
            recorder.completed(ask.number, 1 / 3)
            recorder.close()
        renamed = load_study("renamed", storage)
        trials = renamed.trials()
        assert [trial.value for trial in trials[:210]] == exact
        assert [trial.intermediate_values for trial in trials[:210]] == [{1: each, 3: each / 3} for each in exact]
        assert trials[ask.number].value == (None if is_journal else 1 / 3)
        assert renamed.episodes_key == study.episodes_key
        assert is_journal or renamed.study._study_id == study.study._study_id
        with pytest.raises(StudyError, match="there is no study 'long'"):
            load_study("long", storage)


def test_renaming_to_an_existing_name_raises(storage: StudyStorage, make_spec: Make) -> None:
    for name in ("one", "another"):
        open_study(make_spec(name=name), storage).close()
    one = load_study("one", storage)
    with pytest.raises(StudyError, match="there is a study 'another' already"):
        rename_study(storage, one.study._study_id, "another")
    with pytest.raises(StudyError, match="no study of the id 99"):
        rename_study(storage, 99, "third")


@pytest.mark.slow
def test_renaming_to_an_existing_name_raises_through_the_proxy(proxy_url: str, make_spec: Make) -> None:
    with open_storage(proxy_url) as storage:
        for name in ("one", "another"):
            open_study(make_spec(name=name), storage).close()
        one = load_study("one", storage)
        with make_dashboard(storage, port=0) as server, serving(server) as address:
            request = urllib.request.Request(
                f"{address}/api/studies/{one.study._study_id}/rename",
                data=json.dumps({"study_name": "another"}).encode(),
                headers={"Content-Type": "application/json"},
            )
            with pytest.raises(urllib.error.HTTPError) as caught:
                urllib.request.urlopen(request, timeout=120)
            assert caught.value.code == 400
            assert "there is a study 'another' already" in json.load(caught.value)["reason"]


def test_journal_study_cannot_be_renamed_while_it_runs(tmp_path: Path, make_spec: Make) -> None:
    with open_storage(f"journal:///{tmp_path}/finder.log") as storage:
        study = open_study(make_spec(), storage)
        lease_to_another_process(study)
        with pytest.raises(StudyError, match="is being run by process 1"):
            rename_study(storage, study.study._study_id, "renamed")
