"""Test that the report and the command line show the same result."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.slow
def test_report_shows_the_json_output_of_best(searched: Any) -> None:
    page = Path(searched.finder("report", searched.study, "--output", "same.html").out.strip()).read_text()
    printed = searched.finder("best", searched.study, "--json").out.strip()
    assert html.escape(printed) in page
