"""The report and the command line say the same."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any


def test_the_report_shows_what_best_prints_as_json(searched: Any) -> None:
    page = Path(searched.finder("report", searched.study, "--output", "same.html").out.strip()).read_text()
    printed = searched.finder("best", searched.study, "--json").out.strip()
    assert html.escape(printed) in page
