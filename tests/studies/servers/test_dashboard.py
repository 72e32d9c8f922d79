"""The dashboard: figures, notes, picks, the view of a storage, and errors of the server."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import optuna
import pytest
from episode_count import n_episodes
from optuna.storages import InMemoryStorage
from optuna_dashboard import get_note, save_note
from serving import serving

from studies.database.records import EpisodeRecord
from studies.errors import StudyError
from studies.recording.opening import open_study
from studies.recording.recorder import Recorder
from studies.servers.dashboard import FigureKeeper, attach_figures, make_dashboard, serve
from studies.spec.spec import StudySpec
from studies.storage.access import Access
from studies.storage.dashboard_storage import DashboardStorage
from studies.storage.storage import StudyStorage, open_storage
from studies.study.study import OpenStudy, load_study

Make = Callable[..., StudySpec]
IDS = ["finder-learning-rate", "finder-ranking", "finder-learning-curves", "finder-trials"]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def fill(storage: StudyStorage, spec: StudySpec) -> OpenStudy:
    study = open_study(spec, storage)
    with Recorder(study) as recorder:
        while (ask := recorder.ask()) is not None:
            for seed in (0, 1):
                records = [
                    EpisodeRecord(
                        seed=seed, episode=n, env_steps=10 * n + 10, episode_return=float(n + ask.number + seed),
                        length=10, loss=0.5, wall_seconds=0.1 * n,
                    )
                    for n in range(100)
                ]  # fmt: skip
                recorder.episodes(ask.number, records)
            for step in (500, 1000):
                recorder.report(ask.number, step, float(step + ask.number))
            recorder.completed(ask.number, 100.0 + ask.number, {0: 99.0 + ask.number, 1: 101.0 + ask.number})
    return study


def get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=120) as response:
        body = response.read()
        return json.loads(body) if "json" in response.headers["Content-Type"] else body.decode()


@pytest.fixture
def served_polling(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """`served`, with a dashboard that polls for changes continuously."""
    monkeypatch.setattr("studies.servers.dashboard.LOOK_SECONDS", 0.1)
    address: str = request.getfixturevalue("served")
    return address


@pytest.fixture
def served(storage_url: str, make_spec: Make) -> Iterator[str]:
    """The address of a dashboard of two studies of Finder and one of another program."""
    with open_storage(storage_url) as storage:
        fill(storage, make_spec(name="first"))
        fill(storage, make_spec(name="second", params={"gamma": "0.9:0.99"}))
        optuna.create_study(study_name="theirs", storage=storage.optuna)
        with make_dashboard(storage, port=0) as server, serving(server) as address:
            yield address


def test_attaching_again_replaces_the_figures(storage: StudyStorage, make_spec: Make) -> None:
    study = fill(storage, make_spec())
    assert attach_figures(study) == IDS
    keys = set(storage.optuna.get_study_system_attrs(study.study._study_id))
    attach_figures(study)
    assert set(storage.optuna.get_study_system_attrs(study.study._study_id)) == keys
    size = sum(len(str(value)) for value in storage.optuna.get_study_system_attrs(study.study._study_id).values())
    assert size < 250_000, "the answer is too large for the dashboard, which loads it at every poll"


@pytest.mark.slow
@pytest.mark.parametrize("storage_url", ["sqlite", "journal"], indirect=True)
def test_dashboard_has_the_figures_of_finder_studies(served: str) -> None:
    studies = {each["study_name"]: each["study_id"] for each in get(f"{served}/api/studies")["study_summaries"]}
    assert set(studies) == {"first", "second", "theirs"}
    figures = get(f"{served}/api/studies/{studies['first']}")["plotly_graph_objects"]
    assert [figure["id"] for figure in figures] == IDS
    for figure in figures:
        assert json.loads(figure["graph_object"])["data"]
    second = get(f"{served}/api/studies/{studies['second']}")["plotly_graph_objects"]
    assert [figure["id"] for figure in second] == [name for name in IDS if name != "finder-learning-rate"]
    assert get(f"{served}/api/studies/{studies['theirs']}")["plotly_graph_objects"] == []
    assert "<html" in get(f"{served}/dashboard")


@pytest.mark.parametrize("storage_url", ["journal"], indirect=True)
def test_figures_are_not_written_to_a_journal_but_notes_are(
    storage: StudyStorage, make_spec: Make, tmp_path: Path
) -> None:
    """A journal keeps everything that was ever written to it."""
    study_id = fill(storage, make_spec()).study._study_id
    with make_dashboard(storage, port=0) as server, serving(server) as address:
        detail = get(f"{address}/api/studies/{study_id}")
        assert [figure["id"] for figure in detail["plotly_graph_objects"]] == IDS
        request = urllib.request.Request(
            f"{address}/api/studies/{study_id}/note",
            data=json.dumps({"body": "mine", "version": detail["note"]["version"] + 1}).encode(),
            headers={"Content-Type": "application/json"},
            method="PUT",
        )
        urllib.request.urlopen(request, timeout=120).close()
    assert "plot_data" not in (tmp_path / "finder.log").read_text()
    with load_study("a study", storage.url) as study:
        assert get_note(study.study) == "mine"


def figures_of(served: str, study: str) -> list[str]:
    ids = {each["study_name"]: each["study_id"] for each in get(f"{served}/api/studies")["study_summaries"]}
    return [figure["id"] for figure in get(f"{served}/api/studies/{ids[study]}")["plotly_graph_objects"]]


@pytest.mark.slow
def test_study_created_later_gets_its_figures(served_polling: str, storage_url: str, make_spec: Make) -> None:
    with open_storage(storage_url) as storage:  # opened separately, as by another process
        fill(storage, make_spec(name="later"))
        deadline = time.monotonic() + 20
        while figures_of(served_polling, "later") != IDS:
            assert time.monotonic() < deadline, "the page showed no figures in time"
            time.sleep(0.2)


class TestKeeper:
    @pytest.mark.slow
    def test_only_changed_studies_are_redrawn(
        self, storage: StudyStorage, make_spec: Make, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("studies.servers.dashboard._REST", 0)
        fill(storage, make_spec(name="first"))
        fill(storage, make_spec(name="second"))
        keeper = FigureKeeper(storage)
        assert keeper.update() == ["first", "second"]
        assert keeper.update() == []
        fill(storage, make_spec(name="second", n_trials=6))
        assert keeper.update() == ["second"]

    def test_study_is_redrawn_when_a_confirmation_ends(
        self, storage: StudyStorage, make_spec: Make, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("studies.servers.dashboard._REST", 0)
        keeper = FigureKeeper(storage)
        with open_study(make_spec(n_trials=3, confirm=1, seeds=(0,)), storage) as study, Recorder(study) as recorder:
            while (ask := recorder.ask()) is not None:
                recorder.completed(ask.number, float(ask.number), {0: float(ask.number)})
            assert keeper.update() == [study.name]
            assert len(recorder.to_confirm()) == 1
            further = recorder.ask_confirmation()
            assert further is not None
            assert keeper.update() == []
            recorder.completed(further.number, 2.0, dict.fromkeys(further.seeds, 2.0))
            assert keeper.update() == [study.name]

    def test_redrawing_is_rate_limited(self, storage: StudyStorage, make_spec: Make) -> None:
        fill(storage, make_spec())
        keeper = FigureKeeper(storage)
        keeper.update()
        fill(storage, make_spec(n_trials=6))
        assert keeper.update() == []  # less than 20 times the drawing time has passed

    @pytest.mark.slow
    def test_figures_that_could_not_be_drawn_are_drawn_later(
        self, storage: StudyStorage, make_spec: Make, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(_study: OpenStudy) -> None:
            raise RuntimeError("no figure today")

        monkeypatch.setattr("studies.servers.dashboard._REST", 0)
        fill(storage, make_spec())
        keeper = FigureKeeper(storage)
        with monkeypatch.context() as patched:
            patched.setattr("studies.servers.dashboard.attach_figures", broken)
            assert keeper.update() == []
        assert keeper.update() == []  # there is a rest after a failure too
        keeper = FigureKeeper(storage)
        monkeypatch.setattr("studies.servers.dashboard._RETRY_SECONDS", 0)
        with monkeypatch.context() as patched:
            patched.setattr("studies.servers.dashboard.attach_figures", broken)
            assert keeper.update() == []
        assert keeper.update() == ["a study"]
        assert keeper.update() == []


class TestNote:
    def test_note_has_the_conclusion_and_is_updated(self, storage: StudyStorage, make_spec: Make) -> None:
        study = fill(storage, make_spec(n_trials=1))
        attach_figures(study)
        note = get_note(study.study)
        first, value, certainty = note.split("\n\n")[0].split("  \n")
        assert first.startswith("**learning_rate ")
        assert value.startswith("return 100 ± 1 in the search, over 2 seeds")
        assert certainty == "not safe: only one trial is complete, so there is nothing to compare it with"
        assert "\n\nppo on CartPole-v1, 1,000 environment steps a seed, seeds 0, 1, 2\n\n" in note
        assert "Of 1 trial, 1 complete" in get_note(study.study)
        attach_figures(fill(storage, make_spec(n_trials=2)))
        assert "Of 2 trials, 2 complete" in get_note(study.study)

    def test_note_of_a_user_is_not_overwritten(self, storage: StudyStorage, make_spec: Make) -> None:
        study = fill(storage, make_spec())
        save_note(study.study, "mine")
        attach_figures(study)
        assert get_note(study.study) == "mine"


@pytest.fixture
def confirmed(storage: StudyStorage, make_spec: Make) -> OpenStudy:
    """A study whose pick (#1) is neither the highest trial of the search (#2) nor the highest confirmation (of #2)."""
    study = open_study(make_spec(n_trials=3, confirm=2, seeds=(0, 1)), storage)
    with Recorder(study) as recorder:
        for value in (10.0, 20.0, 21.0):
            recorder.completed(recorder.ask().number, value, {0: value - 1, 1: value + 1})  # type: ignore[union-attr]
        for ask in iter(recorder.ask_confirmation, None):
            seeds = {seed: (30.0 if ask.confirms == 1 else 99.0 if seed == 2 else 0.0) for seed in ask.seeds}
            recorder.completed(ask.number, 30.0 if ask.confirms == 1 else 99.0, seeds)
    return study


class TestPick:
    def test_pick_replaces_the_best_trial(self, confirmed: OpenStudy) -> None:
        with make_dashboard(confirmed.storage, port=0) as server, serving(server) as address:
            study_id = confirmed.study._study_id
            detail = get(f"{address}/api/studies/{study_id}")
            assert [trial["number"] for trial in detail["best_trials"]] == [1]
            assert [trial["number"] for trial in detail["trials"]] == [0, 1, 2], "confirmations must not be listed"
            assert get(f"{address}/finder/picks")[str(study_id)]["name"] == "Finder's pick"
            found = get(f"{address}/api/studies/{study_id}/param_importances")
            assert found == {"param_importances": [[]]}, "three trials must have no importances, as in the report"
            drawn = get(f"{address}/api/studies/{study_id}/plot/timeline")
            assert "Trial: 3" not in str(drawn)

    def test_best_trial_of_the_search_is_shown_without_a_pick(self, confirmed: OpenStudy) -> None:
        view = DashboardStorage(confirmed.storage.optuna)
        assert view.get_best_trial(confirmed.study._study_id).number == 2
        view = DashboardStorage(confirmed.storage.optuna, pick_of=lambda study_id: 1)
        assert view.get_best_trial(confirmed.study._study_id).number == 1

    def test_confirmations_of_earlier_versions_are_hidden(self, storage: StudyStorage, make_spec: Make) -> None:
        study = fill(storage, make_spec(n_trials=2))
        old = optuna.trial.create_trial(value=999.0, user_attrs={"confirms": 1})
        study.study.add_trial(old)
        view = DashboardStorage(storage.optuna)
        assert [trial.number for trial in view.get_all_trials(study.study._study_id)] == [0, 1]
        assert view.get_best_trial(study.study._study_id).number == 1

    @pytest.mark.slow
    def test_studies_of_other_programs_keep_their_best_trial(self, served: str, storage_url: str) -> None:
        foreign = optuna.load_study(study_name="theirs", storage=storage_url)
        foreign.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=3)
        ids = {each["study_name"]: str(each["study_id"]) for each in get(f"{served}/api/studies")["study_summaries"]}
        assert ids["theirs"] not in get(f"{served}/finder/picks")
        (best,) = get(f"{served}/api/studies/{ids['theirs']}")["best_trials"]
        assert best["number"] == foreign.best_trial.number

    @pytest.mark.slow
    def test_page_loads_the_script_of_finder(self, served: str) -> None:
        for path in ("/dashboard", "/dashboard/studies/1"):
            assert get(served + path).count('src="/finder/pick.js"') == 1
        with urllib.request.urlopen(f"{served}/dashboard", timeout=120) as response:
            assert "script-src 'self'" in response.headers["Content-Security-Policy"]
        assert "Best Trial" in get(f"{served}/finder/pick.js")


class TestDashboardStorage:
    @pytest.mark.slow
    def test_internal_attributes_are_hidden(self, served: str) -> None:
        detail = get(f"{served}/api/studies/1")
        assert {each["key"]: each["value"] for each in detail["user_attrs"]} == {
            "agent": "ppo", "environment": "CartPole-v1", "budget a seed": "1,000 environment steps",
            "seeds": "0, 1, 2", "answer": "see the page Note",
        }  # fmt: skip
        assert "Of 5 trials, 5 complete" in detail["note"]["body"]

    def test_numbers_are_rounded(self, storage: StudyStorage, make_spec: Make) -> None:
        study = open_study(make_spec(), storage)
        with Recorder(study) as recorder:
            number = recorder.ask().number  # type: ignore[union-attr]
            recorder.report(number, 500, 493.6296296296296)
            recorder.completed(number, 493.6296296296296, {0: 493.6296296296296})
        view = DashboardStorage(storage.optuna)
        (shown,) = view.get_all_trials(study.study._study_id)
        assert view.get_best_trial(study.study._study_id).value == view.get_trial(shown._trial_id).value == 493.63
        assert shown.value == shown.intermediate_values[500] == shown.user_attrs["seed_values"]["0"] == 493.63
        (kept,) = study.trials()
        assert kept.value == kept.intermediate_values[500] == 493.6296296296296
        assert shown.params == kept.params

    def test_only_the_best_and_newest_of_many_trials_have_curves(
        self, storage: StudyStorage, make_spec: Make, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A browser needs minutes to draw thousands of curves."""
        monkeypatch.setattr("studies.storage.dashboard_storage.MOST_CURVES", 2)
        monkeypatch.setattr("studies.servers.dashboard.MOST_CURVES", 2)
        study = open_study(make_spec(n_trials=8), storage)
        values = [5.0, 9.0, 1.0, 7.0, 2.0, 3.0, 4.0]
        with Recorder(study) as recorder:
            for value in values:
                number = recorder.ask().number  # type: ignore[union-attr]
                recorder.report(number, 500, value)
                recorder.completed(number, value, {0: value})
            running = recorder.ask().number  # type: ignore[union-attr]
            recorder.report(running, 500, 0.0)
            view = DashboardStorage(storage.optuna)
            shown = view.get_all_trials(study.study._study_id)
            assert [trial.number for trial in shown if trial.intermediate_values] == [1, 3, 6, running]
            assert [trial.value for trial in shown[:7]] == values
            assert all(view.get_trial(trial._trial_id).intermediate_values for trial in shown)  # get_trial keeps them
        attach_figures(study)
        assert "for the best 2 trials and the newest 2" in get_note(study.study)

    @pytest.mark.parametrize("deleted_by", ["the dashboard", "another process"])
    def test_trials_of_a_deleted_study_are_not_shown_in_the_next(
        self, storage: StudyStorage, storage_url: str, make_spec: Make, deleted_by: str
    ) -> None:
        view = DashboardStorage(storage.optuna)
        with open_storage(storage_url) as another:
            old = fill(another, make_spec(name="old", n_trials=3))
            assert len(view.get_all_trials(old.study._study_id)) == 3
            deleting = view if deleted_by == "the dashboard" else another.optuna
            deleting.delete_study(old.study._study_id)
            new = open_study(make_spec(name="new", n_trials=1), another)
            with Recorder(new) as recorder:
                recorder.completed(recorder.ask().number, 7.0)  # type: ignore[union-attr]
            assert [trial.value for trial in view.get_all_trials(new.study._study_id)] == [7.0]
            assert new.study._study_id != old.study._study_id, "the new study must have an id of its own"

    def test_replaced_trial_with_the_same_id_is_read_again(self) -> None:
        """SQLite files of older versions reuse ids."""
        storage = InMemoryStorage()
        view = DashboardStorage(storage)
        study = optuna.create_study(storage=storage)
        study.add_trial(optuna.trial.create_trial(value=1.0))
        (first,) = view.get_all_trials(study._study_id)
        assert view.get_all_trials(study._study_id)[0] is first, "the view must return the same object every time"
        storage._studies[study._study_id].trials[0] = optuna.trial.create_trial(value=7.0)
        storage._studies[study._study_id].trials[0]._trial_id = first._trial_id
        assert [trial.value for trial in view.get_all_trials(study._study_id)] == [7.0]

    @pytest.mark.slow
    def test_deleting_in_the_dashboard_deletes_the_episodes(self, served: str, storage_url: str) -> None:
        ids = {each["study_name"]: each["study_id"] for each in get(f"{served}/api/studies")["study_summaries"]}
        with load_study("second", storage_url) as study:
            assert n_episodes(study.storage, study.episodes_key)
            request = urllib.request.Request(f"{served}/api/studies/{ids['second']}", method="DELETE")
            urllib.request.urlopen(request, timeout=120).close()
            assert n_episodes(study.storage, study.episodes_key) == 0

    @pytest.mark.slow
    def test_renaming_in_the_dashboard_keeps_spec_and_episodes(self, served: str, storage_url: str) -> None:
        ids = {each["study_name"]: each["study_id"] for each in get(f"{served}/api/studies")["study_summaries"]}
        request = urllib.request.Request(
            f"{served}/api/studies/{ids['second']}/rename",
            data=json.dumps({"study_name": "renamed"}).encode(),
            headers={"Content-Type": "application/json"},
        )
        urllib.request.urlopen(request, timeout=120).close()
        with load_study("renamed", storage_url) as renamed:
            assert renamed.spec.params["gamma"]
            assert n_episodes(renamed.storage, renamed.episodes_key)

    @pytest.mark.slow
    def test_renaming_in_the_dashboard_keeps_all_trials(self, confirmed: OpenStudy, storage_url: str) -> None:
        exact = 100.0 + 1 / 3
        confirmed.leases.close()  # type: ignore[union-attr]
        longer = confirmed.spec.model_copy(update={"n_trials": 4})
        with open_study(longer, confirmed.storage) as study, Recorder(study) as recorder:
            recorder.completed(recorder.ask().number, exact, {0: exact, 1: exact})  # type: ignore[union-attr]
        before = [(trial.number, trial.value, trial.user_attrs) for trial in confirmed.all_trials()]
        with make_dashboard(confirmed.storage, port=0) as server, serving(server) as address:
            request = urllib.request.Request(
                f"{address}/api/studies/{confirmed.study._study_id}/rename",
                data=json.dumps({"study_name": "renamed"}).encode(),
                headers={"Content-Type": "application/json"},
            )
            urllib.request.urlopen(request, timeout=120).close()
        with load_study("renamed", storage_url) as renamed:
            assert [(trial.number, trial.value, trial.user_attrs) for trial in renamed.all_trials()] == before
            assert len(renamed.confirmation_trials()) == 2


def test_serve_reports_its_address_and_ends_with_ctrl_c(storage_url: str, make_spec: Make) -> None:
    with open_storage(storage_url) as storage:
        fill(storage, make_spec())
    addresses = []

    def ready(address: str) -> None:
        addresses.append(address)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        serve(storage_url, port=0, on_ready=ready)
    assert addresses[0].startswith("http://127.0.0.1:")
    assert addresses[0].endswith("/dashboard")


def test_occupied_port_is_named_in_the_error(storage_url: str) -> None:
    with open_storage(storage_url):
        pass
    with socket.socket() as occupied:
        occupied.bind(("127.0.0.1", 0))
        occupied.listen()
        port = occupied.getsockname()[1]
        with pytest.raises(StudyError, match=f"port {port} on 127.0.0.1 is taken"):
            serve(storage_url, port=port)


def test_serve_raises_for_unusable_storage_port_or_host(storage_url: str, tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="in memory"):
        serve("memory")
    with pytest.raises(StudyError, match="there is no storage"):
        serve(f"{tmp_path}/typo.db")
    with open_storage(storage_url):
        pass
    with pytest.raises(StudyError, match="port is 70000"):
        serve(storage_url, port=70000)
    with pytest.raises(StudyError, match="not an address of this machine"):
        serve(storage_url, host="no.such.host.invalid", port=0)
    with pytest.raises(StudyError, match="open to other machines, and there is no token"):
        serve(storage_url, host="192.0.2.1", port=0)
    with pytest.raises(StudyError, match="not allowed"):
        serve(storage_url, host="192.0.2.1", port=0, access=Access(token="0123456789abcdef"))


def test_failing_figure_does_not_stop_the_dashboard(
    storage_url: str, make_spec: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("no figure today")

    with open_storage(storage_url) as storage:
        fill(storage, make_spec())
        monkeypatch.setattr("studies.servers.dashboard.attach_figures", broken)
        with make_dashboard(storage, port=0) as server:
            assert server.server_port > 0


@pytest.mark.real
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium")
class TestBrowser:
    def dom(self, url: str, tmp_path: Path) -> str:
        command = [
            str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
            f"--user-data-dir={tmp_path}/profile", "--virtual-time-budget=15000", "--window-size=1300,2400",
            "--dump-dom", url,
        ]  # fmt: skip
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout

    def test_browser_lists_the_studies(self, served: str, tmp_path: Path) -> None:
        page = self.dom(f"{served}/dashboard", tmp_path)
        assert all(name in page for name in ("first", "second", "theirs"))

    def test_browser_draws_figures_and_intermediate_values(self, served: str, tmp_path: Path) -> None:
        page = self.dom(f"{served}/dashboard/studies/1", tmp_path)
        for title in (
            "Learning curves",
            "Ranking of the best trials",
            "Trials in order",
            "pick: ",
            "Finder's pick: trial 4",
            "Intermediate values",
        ):
            assert title in page, title
        assert "Best Trial" not in page

    def test_browser_draws_the_report(self, storage: StudyStorage, make_spec: Make, tmp_path: Path) -> None:
        from studies.reports import write_report

        page = self.dom(write_report(fill(storage, make_spec()), tmp_path / "report.html").as_uri(), tmp_path)
        assert page.count('class="main-svg"') >= 4
        assert "pick: " in page
