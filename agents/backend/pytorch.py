"""PyTorch, which is imported where it is first used: it is needed for agents in PyTorch only."""

from __future__ import annotations

import functools
from typing import Any

from agents.backend.threads import own_threads
from agents.errors import ConfigurationError


@functools.cache
def import_torch() -> Any:
    """Return PyTorch, with at most this process's share of the cores as threads.

    Raises:
        ConfigurationError: It is not installed.
    """
    try:
        import torch
    except ModuleNotFoundError as error:
        raise ConfigurationError(f"PyTorch is not installed ({error}): pip install torch.") from error
    torch.set_num_threads(min(torch.get_num_threads(), own_threads()))
    return torch
