"""Demonstrations for all tests of imitation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("minari")

from experts import balance, record_rule, swing


@pytest.fixture(scope="module", autouse=True)
def experts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Demonstrations on CartPole-v1 (``balance``) and Pendulum-v1 (``swing``), three episodes each."""
    folder = tmp_path_factory.mktemp("datasets")
    with pytest.MonkeyPatch.context() as patch:
        record_rule(folder, "CartPole-v1", balance, patch, name="balance-v0")
        record_rule(folder, "Pendulum-v1", swing, patch, name="swing-v0")
        yield folder
