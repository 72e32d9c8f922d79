"""Names and argument orders of earlier versions are accepted with a DeprecationWarning."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import studies
from studies import StudyError, StudySpec, delete_study, join_study, load_study, open_study

NAME = "a study"
MESSAGE = r"call \w+_study\(study_name, storage\)"


@pytest.mark.parametrize(("former", "name"), [("Pick", "Recommendation"), ("NoPick", "NoRecommendation")])
def test_former_class_name_is_an_alias(former: str, name: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"studies.{former} is deprecated: use studies.{name}"):
        assert getattr(studies, former) is getattr(studies, name)
    assert former not in dir(studies)


def test_unknown_name_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Pyck"):
        studies.Pyck  # noqa: B018


@pytest.fixture
def url(tmp_path: Path, make_spec: Callable[..., StudySpec]) -> str:
    url = f"sqlite:///{tmp_path}/finder.db"
    open_study(make_spec(name=NAME, storage=url)).close()
    return url


FORMER: dict[str, Callable[[Any, str], Any]] = {
    "two strings": lambda function, url: function(url, NAME),
    "a path": lambda function, url: function(url.removeprefix("sqlite:///"), NAME),
    "keywords": lambda function, url: function(storage=url, name=NAME),
    "one keyword": lambda function, url: function(url, name=NAME),
}
CURRENT: dict[str, Callable[[Any, str], Any]] = {
    "two strings": lambda function, url: function(NAME, url),
    "keywords": lambda function, url: function(study_name=NAME, storage=url),
    "one keyword": lambda function, url: function(NAME, storage=url),
}


@pytest.mark.parametrize("call", FORMER.values(), ids=FORMER)
def test_former_argument_order_is_accepted(url: str, call: Callable[[Any, str], Any]) -> None:
    for function in (load_study, join_study):
        with (
            pytest.warns(DeprecationWarning, match=r"call \w+_study\(study_name, storage\)"),
            call(function, url) as study,
        ):
            assert study.name == NAME
    with pytest.warns(DeprecationWarning, match=MESSAGE):
        assert call(delete_study, url) == 0


@pytest.mark.parametrize("call", CURRENT.values(), ids=CURRENT)
def test_current_argument_order_does_not_warn(
    url: str, call: Callable[[Any, str], Any], recwarn: pytest.WarningsRecorder
) -> None:
    for function in (load_study, join_study):
        with call(function, url) as study:
            assert study.name == NAME
    assert call(delete_study, url) == 0
    assert [each for each in recwarn if "_study(" in str(each.message)] == []


def test_open_storage_as_first_argument_is_accepted(url: str) -> None:
    with studies.open_storage(url) as storage:
        with pytest.warns(DeprecationWarning, match=MESSAGE):
            assert load_study(storage, NAME).name == NAME  # type: ignore[arg-type]
        assert load_study(NAME, storage).name == NAME


def test_study_name_that_looks_like_a_file_is_a_name(tmp_path: Path, make_spec: Callable[..., StudySpec]) -> None:
    url = f"sqlite:///{tmp_path}/finder.db"
    open_study(make_spec(name="curves.db", storage=url)).close()
    with load_study("curves.db", url) as study:
        assert study.name == "curves.db"


def test_missing_argument_raises_type_error(url: str) -> None:
    with pytest.raises(TypeError):
        load_study(NAME)  # type: ignore[call-arg]
    with pytest.raises(StudyError, match="there is no study 'another'"):
        load_study("another", url)
