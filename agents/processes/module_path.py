"""The module search path of a started process."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def search_first(path: Sequence[str]) -> None:
    """Search modules first in the `sys.path` of another process, then in the `sys.path` of this process."""
    sys.path[:] = [*path, *(own for own in sys.path if own not in path)]
