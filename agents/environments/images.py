"""Images among observation spaces, and their conversion to [height, width, channels], as networks expect.

Images are uint8: [height, width, channels]; [channels, height, width], for example stacked frames
(`FrameStackObservation`); [height, width], a single channel; and [frames, height, width, channels], a stack of frames
in colour.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

Array = np.ndarray[Any, Any]

log = logging.getLogger(__name__)

SMALLEST_SIDE = 36
"""Pixels per side that the default convolutions (Mnih et al. 2015) need."""


def as_image(space: spaces.Box) -> tuple[spaces.Box, Callable[[Any], Array]] | None:
    """Return the space [height, width, channels] of an image and the batch conversion to it, None for other spaces."""
    if space.dtype != np.uint8:
        return None
    shape = space.shape
    if len(shape) == 3:
        if not is_channels_first(shape):
            return space, np.asarray
        return _changed(space, lambda values: np.moveaxis(values, -3, -1))
    if len(shape) == 2 and min(shape) >= SMALLEST_SIDE:
        return _changed(space, lambda values: values[..., None])
    if len(shape) == 4 and min(shape[1:3]) >= SMALLEST_SIDE:  # frames in colour
        return _changed(space, _merged)
    return None


def is_image(space: spaces.Box) -> bool:
    """Return whether observations as agents see them are images: uint8 with three axes."""
    return space.dtype == np.uint8 and len(space.shape) == 3


def is_channels_first(shape: tuple[int, ...]) -> bool:
    """Return whether an image of three axes is [channels, height, width]: its first axis is the smallest one."""
    return shape[0] < min(shape[1:])


def note_on(space: gym.Space[Any]) -> str:
    """Return a note on how an observation space is interpreted; "" where there is nothing to note."""
    if not isinstance(space, spaces.Box):
        return ""
    shape = space.shape
    if space.dtype == np.uint8 and len(shape) == 3 and shape[-1] >= min(shape[:2]) and not is_channels_first(shape):
        return (
            f"the images {shape} are read as [height, width, channels], though the last axis is not the smallest: if "
            f"that is wrong, move the axis with gymnasium.wrappers.TransformObservation"
        )
    if len(shape) in (2, 3) and sorted(shape)[-2] >= SMALLEST_SIDE and as_image(space) is None:
        return (
            f"observations {shape} of {space.dtype} are used as one flat vector: images are uint8; change the "
            f"type with gymnasium.wrappers.TransformObservation"
        )
    if space.dtype == np.uint8 and len(shape) in (2, 4) and as_image(space) is None:
        return (
            f"observations {shape} of uint8 are used as one flat vector: images have {SMALLEST_SIDE} pixels per "
            f"side, or three axes"
        )
    return ""


@functools.cache  # once in a process
def log_note(label: str, note: str) -> None:
    """Log a note on an environment's observations."""
    log.warning("Environment %r: %s.", label, note)


def _changed(space: spaces.Box, change: Callable[[Array], Array]) -> tuple[spaces.Box, Callable[[Any], Array]]:
    low, high = change(space.low), change(space.high)
    return spaces.Box(low, high, dtype=np.uint8), lambda values: np.ascontiguousarray(change(np.asarray(values)))


def _merged(values: Array) -> Array:
    """Map [..., F, H, W, C] to [..., H, W, F * C]."""
    moved = np.moveaxis(values, -4, -2)  # [..., H, W, F, C]
    return moved.reshape(*moved.shape[:-2], -1)
