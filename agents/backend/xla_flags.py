"""Options of XLA that make compiled updates faster, set before TensorFlow is imported."""

from __future__ import annotations

import os
from importlib import metadata
from pathlib import Path

_TESTED = "2.21."
"""Versions of TensorFlow whose XLA has these options: XLA ends the process at an option that it does not know."""

_DISTRIBUTIONS = ("tensorflow", "tensorflow-cpu")
_CPU_INFO = Path("/proc/cpuinfo")


def set_xla_flags() -> None:
    """Add options to the environment variable ``XLA_FLAGS``, for this process and its children.

    - ``xla_cpu_copy_insertion_use_region_analysis``: the members of a population are trained in a loop, which then
      updates their arrays in place instead of copying them.
    - ``xla_cpu_prefer_vector_width``: vectors of 512 bits where the processor has them; XLA's default is 256.

    Options in ``XLA_FLAGS`` that the user has set take precedence. Nothing is set for versions of TensorFlow that were
    not tested.
    """
    if not _version_of_tensorflow().startswith(_TESTED):
        return
    flags = os.environ.get("XLA_FLAGS", "")
    wanted = {"xla_cpu_copy_insertion_use_region_analysis": "true"}
    if _has_vectors_of_512_bits():
        wanted["xla_cpu_prefer_vector_width"] = "512"
    added = [f"--{name}={value}" for name, value in wanted.items() if name not in flags]
    if added:
        os.environ["XLA_FLAGS"] = " ".join([*added, *flags.split()])


def _version_of_tensorflow() -> str:
    for distribution in _DISTRIBUTIONS:
        try:
            return metadata.version(distribution)
        except metadata.PackageNotFoundError:
            continue
    return ""


def _has_vectors_of_512_bits() -> bool:
    try:
        return " avx512f " in _CPU_INFO.read_text()
    except OSError:
        return False
