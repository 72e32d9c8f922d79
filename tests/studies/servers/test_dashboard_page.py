"""Requests that a page of another site can make a browser send: without a token, they must not change studies."""

from __future__ import annotations

import io
import json
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any, NamedTuple

import optuna
import pytest
from optuna.trial import TrialState
from serving import serving

from studies.coordination.owner import Owner
from studies.recording.opening import open_study
from studies.recording.recorder import Recorder
from studies.servers.dashboard import make_dashboard
from studies.servers.dashboard_page import DashboardPage
from studies.spec.spec import StudySpec
from studies.storage.storage import StudyStorage
from studies.study.study import load_study

Make = Callable[..., StudySpec]
RENAME = "/api/studies/1/rename"
BODY = json.dumps({"study_name": "stolen"})


class Answer(NamedTuple):
    status: str
    body: str
    renamed: list[tuple[int, str]]


def request(method: str, path: str, body: str = "", **headers: str) -> Answer:
    """Return the answer of a page in front of applications that answer "passed", and the studies that were renamed."""
    started: list[Any] = []
    renamed: list[tuple[int, str]] = []

    def passed(_environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [])
        return [b"passed"]

    def rename(study_id: int, name: str) -> dict[str, Any]:
        renamed.append((study_id, name))
        return {"study_name": name}

    environ = {
        "REQUEST_METHOD": method, "PATH_INFO": path, "wsgi.input": io.BytesIO(body.encode()),
        "CONTENT_LENGTH": str(len(body)) if body else "", "CONTENT_TYPE": "text/plain", **headers,
    }  # fmt: skip
    page = DashboardPage(passed, passed, dict, rename)
    answered = page(environ, lambda status, _headers: started.append(status))
    return Answer(*started, b"".join(answered).decode(), renamed)


@pytest.mark.parametrize(
    "kind",
    [
        "",
        "text/plain",
        "text/plain;charset=UTF-8",
        "text/plain; application/json",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=application/json",
        "text/plain,application/json",
    ],
)
def test_body_that_browsers_send_for_every_page_is_refused(kind: str) -> None:
    answer = request("POST", RENAME, BODY, CONTENT_TYPE=kind)
    assert answer.status.startswith("415")
    assert "Content-Type: application/json" in json.loads(answer.body)["reason"]
    assert answer.renamed == []
    assert request("POST", "/api/studies", BODY, CONTENT_TYPE=kind).status.startswith("415")


@pytest.mark.parametrize("kind", ["application/json", "Application/JSON; charset=utf-8"])
def test_json_is_accepted(kind: str) -> None:
    answer = request("POST", RENAME, BODY, CONTENT_TYPE=kind)
    assert answer.status.startswith("201")
    assert answer.renamed == [(1, "stolen")]
    assert request("PUT", "/api/studies/1/note", BODY, CONTENT_TYPE=kind).body == "passed"


@pytest.mark.parametrize(
    ("site", "is_passed"),
    [("", True), ("same-origin", True), ("none", True), ("same-site", False), ("cross-site", False)],
)
def test_request_without_a_body_is_passed_for_its_own_page_only(site: str, is_passed: bool) -> None:
    """optuna-dashboard sends some requests without a body; `same-site` is a page of another port."""
    headers = {"HTTP_SEC_FETCH_SITE": site} if site else {}
    answer = request("POST", "/api/studies/1/2/skip", **headers)
    assert (answer.body == "passed") == is_passed
    assert answer.status.startswith("200" if is_passed else "415")


def test_body_of_unknown_length_is_refused() -> None:
    assert request("POST", RENAME, HTTP_TRANSFER_ENCODING="chunked").status.startswith("415")


@pytest.mark.parametrize(("method", "path"), [("GET", "/api/studies"), ("DELETE", "/api/studies/1")])
def test_other_requests_are_passed(method: str, path: str) -> None:
    """Links from other sites open the page; browsers ask before a page of another site deletes anything."""
    assert request(method, path, HTTP_SEC_FETCH_SITE="cross-site").body == "passed"


def status_of(url: str, **options: Any) -> int:
    """Return the status of an answer."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, **options), timeout=120) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_pages_of_other_sites_cannot_read_or_change_studies(storage: StudyStorage, make_spec: Make) -> None:
    with open_study(make_spec(name="mine"), storage) as study:
        study_id = study.study._study_id
    as_json = {"Content-Type": "application/json"}
    with make_dashboard(storage, port=0) as server, serving(server) as address:
        port = server.server_port
        for host, status in (("evil.example", 421), (f"evil.example:{port}", 421), (f"localhost:{port}", 200)):
            assert status_of(f"{address}/api/studies", headers={"Host": host}) == status
        study_url = f"{address}/api/studies/{study_id}"
        assert status_of(study_url, method="DELETE", headers={"Host": "evil.example"}) == 421
        for kind in ("text/plain", "application/x-www-form-urlencoded"):
            assert status_of(f"{study_url}/rename", data=BODY.encode(), headers={"Content-Type": kind}) == 415
        note = json.dumps({"version": 99, "body": "stolen"}).encode()
        assert status_of(f"{study_url}/note", method="PUT", data=note) == 415
        assert load_study("mine", storage).study._study_id == study_id
        # Without a body, as optuna-dashboard sends it: optuna-dashboard itself refuses it for studies such as these.
        assert status_of(f"{study_url}/0/skip", method="POST") == 400
        assert status_of(f"{study_url}/0/skip", method="POST", headers={"Sec-Fetch-Site": "cross-site"}) == 415
        renamed = json.dumps({"study_name": "renamed"}).encode()
        assert status_of(f"{study_url}/rename", data=renamed, headers=as_json) == 201
        assert status_of(study_url, method="DELETE") == 204


def test_study_that_a_process_runs_is_not_deleted(storage: StudyStorage, make_spec: Make) -> None:
    another = str(Owner.new()._replace(machine="another", host="far"))
    with open_study(make_spec(name="mine"), storage) as study:
        study_id, key = study.study._study_id, study.episodes_key
    assert storage.leases.take(key, 0, another, 60.0)
    with make_dashboard(storage, port=0) as server, serving(server) as address:
        url = f"{address}/api/studies/{study_id}"
        assert status_of(url, method="DELETE") == 409
        assert storage.leases.release(key, 0, another)
        assert status_of(url, method="DELETE") == 204
    assert not storage.leases.held(key)


def test_clients_cannot_change_trials_of_finder_but_those_of_other_programs(
    storage: StudyStorage, make_spec: Make
) -> None:
    """The configuration of the pick names the code that `finder train --from` imports."""
    others = optuna.create_study(storage=storage.optuna, study_name="another program").ask()
    attrs = json.dumps({"user_attrs": {"configuration": {"env": "stolen:Env"}}}).encode()
    told = json.dumps({"state": "Complete", "values": [1e9]}).encode()
    as_json = {"Content-Type": "application/json"}
    with open_study(make_spec(name="mine"), storage) as study, Recorder(study) as recorder:
        recorder.ask()
        [own] = study.study.get_trials()
        with make_dashboard(storage, port=0) as server, serving(server) as address:
            for trial_id, status in ((own._trial_id, 403), (others._trial_id, 204)):
                for what, data in (("user-attrs", attrs), ("tell", told)):
                    assert status_of(f"{address}/api/trials/{trial_id}/{what}", data=data, headers=as_json) == status
        [after] = study.study.get_trials()
        assert (after.state, after.user_attrs) == (TrialState.RUNNING, own.user_attrs)
    found = storage.optuna.get_trial(others._trial_id)
    assert (found.state, found.value, "configuration" in found.user_attrs) == (TrialState.COMPLETE, 1e9, True)
