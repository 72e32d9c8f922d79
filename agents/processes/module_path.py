"""Where a process that another one has started finds modules."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def search_first(path: Sequence[str]) -> None:
    """Has modules be found where another process finds them (its `sys.path`), then where they are found here."""
    sys.path[:] = [*path, *(own for own in sys.path if own not in path)]
