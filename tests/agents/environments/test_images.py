"""Tests of image observations: their recognition, the order of their axes, and notes on doubtful cases."""

import logging

import numpy as np
import pytest
from gymnasium import spaces

from agents.config.network_config import NetworkConfig
from agents.environments import images
from agents.environments.images import as_image, note_on
from agents.environments.transforms import observation_transform
from agents.networks.builders import network


def pixels(shape):
    return spaces.Box(0, 255, shape, np.uint8)


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        ((84, 84, 4), (84, 84, 4)),
        ((4, 84, 84), (84, 84, 4)),
        ((3, 210, 160), (210, 160, 3)),
        ((210, 160, 3), (210, 160, 3)),
        ((1, 84, 84), (84, 84, 1)),
        ((84, 84, 1), (84, 84, 1)),
        ((84, 84), (84, 84, 1)),
        ((4, 96, 96, 3), (96, 96, 12)),
        ((7, 7, 3), (7, 7, 3)),
    ],
)
def test_images_are_converted_to_channels_last(given, seen):
    transform = observation_transform(pixels(given), "E")
    assert (transform.space.shape, transform.space.dtype) == (seen, np.uint8)
    batch = np.random.default_rng(0).integers(0, 255, (2, *given), dtype=np.uint8)
    out = transform(batch)
    assert (out.shape, out.dtype, out.flags.c_contiguous) == ((2, *seen), np.uint8, True)
    assert transform.space.contains(out[0])


def test_channels_are_moved_not_reshaped():
    image = np.arange(2 * 5 * 6, dtype=np.uint8).reshape(1, 2, 5, 6)
    seen = observation_transform(pixels((2, 5, 6)), "E")(image)
    assert seen[0, 3, 4].tolist() == [image[0, 0, 3, 4], image[0, 1, 3, 4]]


def test_colour_frames_are_concatenated_oldest_first():
    frames = np.stack([np.full((40, 40, 3), value, np.uint8) for value in (7, 9)])[None]
    seen = observation_transform(pixels((2, 40, 40, 3)), "E")(frames)
    assert seen[0, 0, 0].tolist() == [7, 7, 7, 9, 9, 9]


@pytest.mark.parametrize("shape", [(8, 8), (35, 90), (2, 8, 8, 3), (12,)])
def test_small_arrays_are_vectors(shape):
    assert as_image(pixels(shape)) is None
    assert observation_transform(pixels(shape), "E").space.dtype == np.float32


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (pixels((84, 84, 4)), ""),
        (pixels((4, 84, 84)), ""),
        (pixels((84, 84)), ""),
        (pixels((7, 7, 3)), ""),
        (spaces.Box(-1, 1, (84,)), ""),
        (spaces.Box(-1, 1, (6, 8)), ""),
        (spaces.Discrete(3), ""),
        (pixels((84, 4, 84)), "read as [height, width, channels], though the last axis is not the smallest"),
        (pixels((84, 84, 84)), "read as [height, width, channels], though the last axis is not the smallest"),
        (spaces.Box(0, 1, (84, 84, 3)), "of float32 are used as one flat vector: images are uint8"),
        (spaces.Box(0, 1, (3, 84, 84)), "of float32 are used as one flat vector"),
        (spaces.Box(0, 255, (84, 84), np.int64), "of int64 are used as one flat vector"),
        (pixels((8, 8)), "of uint8 are used as one flat vector: images have 36 pixels per side"),
    ],
)
def test_doubtful_spaces_have_notes(space, message):
    note = note_on(space)
    assert (message in note) if message else note == ""


def test_note_is_logged_once(caplog):
    images.log_note.cache_clear()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            images.log_note("Floats-v0", "observations are flat")
    assert [record.getMessage() for record in caplog.records] == ["Environment 'Floats-v0': observations are flat."]


@pytest.mark.parametrize(
    ("shape", "given", "units"),
    [((84, 84, 4), None, [512]), ((84, 84, 4), (64, 64), [64, 64]), ((3,), None, [64, 64]), ((3,), (), [])],
)
def test_default_hidden_sizes_of_images_and_vectors(shape, given, units):
    space = pixels(shape) if len(shape) == 3 else spaces.Box(-1, 1, shape)
    layers = NetworkConfig(hidden_sizes=given).layers("q", space)
    assert list(layers["hidden_sizes"]) == units
    made = network(space, given, 2)
    assert [layer.units for layer in made.layers if hasattr(layer, "units")] == [*units, 2]
