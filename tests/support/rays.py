"""Test parameters for Ray and other vectorizations outside of this process."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

WITH_RAY = pytest.mark.skipif(find_spec("ray") is None, reason="the extra ray is not installed")
RAY = [pytest.param(kind, marks=[pytest.mark.real, WITH_RAY]) for kind in ("ray", "ray-subproc")]
ELSEWHERE = [pytest.param("async", marks=pytest.mark.real), *RAY]
"""Vectorizations that step copies of environments outside of this process."""
