"""Tests of the streams of random numbers that are derived from one seed."""

from __future__ import annotations

import pytest

from agents import seeding


def test_streams_are_the_same_in_every_version():
    """Other numbers would be other runs for the same seed."""
    assert seeding.integers(0, "weights", 2) == [1880042887, 1891315530]
    assert seeding.integers(0, "environment", 2) == [1650919450, 1284677178]
    assert seeding.generator(0, "exploration").random() == pytest.approx(0.29982013388758055, rel=1e-15)


def test_longer_requests_extend_shorter_ones():
    assert seeding.integers(7, "environment", 9)[:4] == seeding.integers(7, "environment", 4)
    assert all(0 <= number < 2**31 for number in seeding.integers(7, "environment", 1000))


def test_streams_of_other_names_and_seeds_differ():
    drawn = [
        tuple(seeding.integers(seed, stream, 4))
        for seed in range(5)
        for stream in ("weights", "environment", "exploration")
    ]
    assert len(set(drawn)) == len(drawn)


def test_negative_seeds_are_refused():
    with pytest.raises(ValueError, match="seed must be"):
        seeding.integers(-1, "weights", 1)
