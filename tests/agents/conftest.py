"""What the tests of agents share."""

import os
import sys
from collections.abc import Iterator

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


@pytest.fixture(scope="module")
def one_ray_for_all() -> Iterator[None]:
    """Copies connect to the Ray of this process; the first ones of a file start it, whoever else has one here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_ADDRESS", "local")
        yield
    if ray := sys.modules.get("ray"):
        ray.shutdown()
