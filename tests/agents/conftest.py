"""Fixtures of the tests of agents."""

import os
import sys
from collections.abc import Iterator

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


@pytest.fixture(scope="module")
def one_ray_for_all() -> Iterator[None]:
    """Let copies connect to a Ray of this process, which the first of a module start and this fixture stops."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_ADDRESS", "local")
        yield
    if ray := sys.modules.get("ray"):
        ray.shutdown()
