"""Options of XLA: set for tested versions of TensorFlow only, and never in place of the user's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agents.backend import xla_flags

IN_PLACE = "--xla_cpu_copy_insertion_use_region_analysis=true"
WIDE = "--xla_cpu_prefer_vector_width=512"


@pytest.fixture
def flags(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Return a function: the options after `set_xla_flags`, given those before, the version and the processor."""

    def set_flags(before: str, version: str = "2.21.0", processor: str = "fpu avx2 avx512f sse") -> list[str]:
        (tmp_path / "cpuinfo").write_text(f"flags : {processor} \n")
        monkeypatch.setattr(xla_flags, "_CPU_INFO", tmp_path / "cpuinfo")
        monkeypatch.setattr(xla_flags, "_version_of_tensorflow", lambda: version)
        monkeypatch.setenv("XLA_FLAGS", before)
        xla_flags.set_xla_flags()
        return os.environ["XLA_FLAGS"].split()

    return set_flags


def test_updates_in_place_and_wide_vectors(flags):
    assert flags("") == [IN_PLACE, WIDE]


def test_no_wide_vectors_without_avx512(flags):
    assert flags("", processor="fpu avx2 sse") == [IN_PLACE]


def test_the_users_options_are_kept_and_not_replaced(flags):
    assert flags("--xla_dump_to=/x --xla_cpu_prefer_vector_width=256") == [
        IN_PLACE,
        "--xla_dump_to=/x",
        "--xla_cpu_prefer_vector_width=256",
    ]


def test_setting_twice_adds_nothing(flags):
    once = flags("")
    assert flags(" ".join(once)) == once


@pytest.mark.parametrize("version", ["2.20.0", "2.22.0", ""])
def test_nothing_is_set_for_other_versions(flags, version):
    assert flags("--xla_dump_to=/x", version=version) == ["--xla_dump_to=/x"]
