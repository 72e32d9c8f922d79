"""Continuous integration fails if a dependency of the tests is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import require_all
from require_all import UNTIL, VARIABLE

ROOT = Path(__file__).parent.parent
SKIPPING = """
import pytest

pytest.importorskip("{module}", reason="no such module")


@pytest.fixture
def database():
    pytest.skip("needs a database")


@pytest.mark.skipif(True, reason="needs a browser")
def test_a_page():
    pass


def test_a_row(database):
    pass


@pytest.mark.skipif(True, reason="needs root, to become another user")
def test_another_user():
    pass
"""


def pytest_in(folder: Path, module: str, required: str | None, until: str = "") -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text((ROOT / "tests" / "support" / "require_all.py").read_text())
    (folder / "test_it.py").write_text(SKIPPING.format(module=module))
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    environment |= {UNTIL: until, **({} if required is None else {VARIABLE: required})}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", str(folder), str(folder)],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("required", [None, "0"])
def test_missing_dependencies_are_skipped_by_default(tmp_path: Path, required: str | None) -> None:
    done = pytest_in(tmp_path, "json", required)
    assert done.returncode == 0, done.stdout
    assert "3 skipped" in done.stdout
    assert "FINDER_REQUIRE_ALL" not in done.stdout


@pytest.mark.slow
def test_missing_dependencies_fail_and_are_listed_when_required(tmp_path: Path) -> None:
    done = pytest_in(tmp_path, "json", "1")
    assert done.returncode == 1, done.stdout
    assert "1 skipped, 2 errors" in done.stdout
    listed = done.stdout.partition("missing, though FINDER_REQUIRE_ALL is set")[2].splitlines()
    assert listed[1:3] == ["needs a browser", "needs a database"]


@pytest.mark.slow
def test_skipped_module_fails_when_required(tmp_path: Path) -> None:
    done = pytest_in(tmp_path, "no_such_module_anywhere", "1")
    assert done.returncode != 0, done.stdout
    assert "no such module" in done.stdout.partition("missing, though FINDER_REQUIRE_ALL is set")[2]


@pytest.mark.slow
def test_no_test_begins_after_the_end_and_the_others_are_counted(tmp_path: Path) -> None:
    done = pytest_in(tmp_path, "json", "1", until="1.0")
    assert done.returncode == 0, done.stdout
    assert "not begun" in done.stdout
    assert f"tests were not begun by the time of {UNTIL}: the machine is too slow." in done.stdout
    assert pytest_in(tmp_path, "json", "1", until="1e11").returncode == 1


def test_hooks_are_registered(pytestconfig: pytest.Config) -> None:
    hooks = require_all.pytest_runtest_setup, require_all.pytest_runtest_makereport
    for hook in (*hooks, require_all.pytest_make_collect_report):
        known = getattr(pytestconfig.hook, hook.__name__).get_hookimpls()
        assert hook in [each.function for each in known]


def stub(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize(
    ("installed", "installs", "code"),
    [
        (("chromium", "mariadbd"), None, 0),
        (("mariadbd",), None, 1),
        (("chromium",), None, 1),
        ((), "exit 100", 1),  # the exit code of apt-get without a network
        ((), "exit 0", 1),  # success without an installation
        ((), 'for name in chromium mariadbd; do cp "$STUBS/make" "$STUBS/$name"; done', 0),
    ],
)
def test_ci_command_installs_dependencies_or_fails(
    tmp_path: Path, installed: tuple[str, ...], installs: str | None, code: int
) -> None:
    """Run `.ci/run` with a PATH of stubs: it starts the tests if all dependencies exist, and fails otherwise."""
    for name in ("dirname", "cp"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    stub(tmp_path, "id", "echo 0")
    stub(tmp_path, "make", 'echo "$1 with $FINDER_REQUIRE_ALL"')
    for name in installed:
        stub(tmp_path, name, "exit 0")
    if installs is not None:
        stub(tmp_path, "apt-get", installs)
    done = subprocess.run(
        ["/bin/bash", str(ROOT / ".ci" / "run")],
        env={"PATH": str(tmp_path), "STUBS": str(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    assert ("test-all with 1" in done.stdout) == (code == 0)
    if code:
        missing = [name for name in ("chromium", "mariadbd") if name not in installed]
        assert [line for line in done.stderr.splitlines() if line.startswith("Missing: ")] == [
            f"Missing: {' '.join(missing)}"
        ]
