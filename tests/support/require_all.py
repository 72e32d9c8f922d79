"""Skipped tests as failures, where all optional packages and programs must be installed."""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import Any

import pytest

VARIABLE = "FINDER_REQUIRE_ALL"
"""Environment variable: 1 if every test must run, as in continuous integration."""

NEEDS_ROOT = "needs root"
"""Beginning of the reason of skips that no installation would change."""

_FAILED = f"{VARIABLE} is set, and this was skipped: "


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skip into a failure."""
    report = yield
    return _required(report)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Turn the skip of a whole module into a failure."""
    report = yield
    return _required(report)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """List the missing packages and programs, each of them once."""
    reports = [report for key in ("failed", "error") for report in terminalreporter.stats.get(key, ())]
    texts = [str(report.longrepr) for report in reports]
    if missing := sorted({line.removeprefix(_FAILED) for line in texts if line.startswith(_FAILED)}):
        terminalreporter.section(f"missing, though {VARIABLE} is set")
        for reason in missing:
            terminalreporter.write_line(reason)


def _required(report: Any) -> Any:
    if os.environ.get(VARIABLE) != "1" or not report.skipped or hasattr(report, "wasxfail"):
        return report
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    reason = reason.removeprefix("Skipped: ")
    if not reason.startswith(NEEDS_ROOT):
        report.outcome, report.longrepr = "failed", f"{_FAILED}{reason}"
    return report
