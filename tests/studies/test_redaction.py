"""Passwords of storage URLs appear in no repr, message or stored attribute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from studies.errors import StudyError
from studies.redaction import redacted, secrets_in
from studies.spec.spec import StudySpec
from studies.storage.storage import StudyStorage, open_storage
from studies.storage.storage_url import default_label, parse_storage_url

URL = "postgresql+psycopg://me:hunter2@127.0.0.1:1/db?sslpassword=swordfish"
SHOWN = "postgresql+psycopg://me:***@127.0.0.1:1/db?sslpassword=***"


@pytest.mark.parametrize(
    ("text", "shown", "secrets"),
    [
        (URL, SHOWN, ["hunter2", "swordfish"]),
        ("mysql://me:p/a:s?s@h/db", "mysql://me:***@h/db", ["p/a:s?s"]),
        ("--storage=mysql://me:hunter2@h/db", "--storage=mysql://me:***@h/db", ["hunter2"]),
        (SHOWN, SHOWN, []),
        ("http://h/dashboard?token=abc&tab=1", "http://h/dashboard?token=***&tab=1", ["abc"]),
        ("grpc://host:13000 and sqlite:///finder.db", "grpc://host:13000 and sqlite:///finder.db", []),
        ("mail me@home: x", "mail me@home: x", []),
    ],
)
def test_secrets_are_replaced_by_stars(text: str, shown: str, secrets: list[str]) -> None:
    assert redacted(text) == shown
    assert secrets_in(text) == secrets


def is_clean(text: str) -> bool:
    return "hunter2" not in text and "swordfish" not in text


def test_repr_of_address_spec_and_storage_has_no_secret(make_spec: Callable[..., StudySpec], tmp_path: Any) -> None:
    address = parse_storage_url(URL)
    assert address.label == SHOWN
    assert "hunter2" in address.url
    spec = make_spec(storage=URL)
    assert spec.storage == URL
    assert all(is_clean(text) for text in (repr(address), repr(spec), str(spec)))
    with open_storage(f"sqlite:///{tmp_path}/finder.db") as opened:
        names = StudyStorage.__slots__
        storage = StudyStorage(**{**{name: getattr(opened, name) for name in names}, "url": URL, "_closers": []})
        assert is_clean(repr(storage))


@pytest.mark.parametrize(
    "url", ["me:hunter2@h/db", "postgresqll://me:hunter2@h/db", "mysql://me:hunter2@h:port/db", URL]
)
def test_errors_of_open_storage_have_no_secret(url: str) -> None:
    with pytest.raises(StudyError) as caught:
        open_storage(url)
    assert is_clean(str(caught.value))


def test_errors_of_a_spec_have_no_secret(make_spec: Callable[..., StudySpec]) -> None:
    with pytest.raises(StudyError) as caught:
        make_spec(storage=["one", URL])
    assert is_clean(str(caught.value))


def test_default_label_redacts_the_environment_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPTUNA_STORAGE", URL)
    assert default_label() == SHOWN
    monkeypatch.delenv("OPTUNA_STORAGE")
    assert default_label() == "sqlite:///finder.db"
