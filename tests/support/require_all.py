"""Continuous integration: skipped tests are failures, as everything must be installed, and no test begins too late."""

from __future__ import annotations

import os
import time
from collections.abc import Generator
from typing import Any

import pytest

VARIABLE = "FINDER_REQUIRE_ALL"
"""Environment variable: 1 if every test must run, as in continuous integration."""

NEEDS_ROOT = "needs root"
"""Beginning of the reason of skips that no installation would change."""

UNTIL = "FINDER_TESTS_UNTIL"
"""Environment variable: when no more tests begin, in seconds since 1970; empty for no limit."""

NO_TIME = "no time left for this test"
"""Reason of tests that were not begun, on a slow machine."""

_FAILED = f"{VARIABLE} is set, and this was skipped: "


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Skip a test that would begin too late."""
    until = os.environ.get(UNTIL)
    if until and time.time() > float(until):
        pytest.skip(NO_TIME)


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
    """List the missing packages and programs, each of them once, and count the tests that were not begun."""
    late = [report for report in terminalreporter.stats.get("skipped", ()) if NO_TIME in str(report.longrepr)]
    if late:
        terminalreporter.section("not begun")
        terminalreporter.write_line(
            f"{len(late)} tests were not begun by the time of {UNTIL}: the machine is too slow."
        )
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
    if not reason.startswith((NEEDS_ROOT, NO_TIME)):
        report.outcome, report.longrepr = "failed", f"{_FAILED}{reason}"
    return report
