"""Tests of the message broker: every message is counted once, and those of failed attempts are discarded."""

from __future__ import annotations

import math

import numpy as np

from finder.executors.message_broker import MessageBroker
from studies.database.records import EpisodeRecord


def episodes(*values: tuple[float, float | None], first: int = 0, seed: int = 0) -> list[EpisodeRecord]:
    """Return the episodes of a run with these returns and losses."""
    return [
        EpisodeRecord(
            seed=seed, episode=first + i, env_steps=1, episode_return=value, length=1, loss=loss, wall_seconds=0.0
        )
        for i, (value, loss) in enumerate(values)
    ]


def test_broker_keeps_return_and_loss_of_every_episode():
    broker = MessageBroker(keep_values=True)
    broker.post("episodes", 0, {0: episodes((1.0, None), (3.0, 0.5))})
    broker.post("episodes", 1, {1: episodes((2.0, 0.1))})
    broker.post("episodes", 1, {1: episodes((4.0, 0.3), first=1)})
    values = broker.values()
    assert values["rewards"] == {0: [1.0, 3.0], 1: [2.0, 4.0]}
    np.testing.assert_equal(values["losses"], {0: [math.nan, 0.5], 1: [0.1, 0.3]})


def test_episodes_of_alternating_seeds_are_grouped_by_seed():
    broker = MessageBroker(keep_values=True)
    for turn in range(2):
        for seed in (1, 0):
            broker.post("episodes", 0, {0: episodes((10.0 * seed + turn, 0.1 * seed), first=turn, seed=seed)})
    assert broker.values() == {"rewards": {0: [0.0, 1.0, 10.0, 11.0]}, "losses": {0: [0.0, 0.0, 0.1, 0.1]}}


def test_episode_that_is_sent_again_is_counted_once():
    broker = MessageBroker(keep_values=True)
    broker.post("started", 0, (0, {"seeds": [0, 1]}))
    broker.post("episodes", 0, {0: episodes((9.0, 0.9), (9.0, 0.9), (9.0, 0.9))})  # then its process dies
    broker.post("started", 1, (0, {"seeds": [0, 1]}))
    broker.post("episodes", 1, {0: episodes((1.0, None), (3.0, 0.5)) + episodes((2.0, None), seed=1)})
    broker.post(
        "episodes", 1, {0: episodes((0.0, 0.1), seed=1)}
    )  # that seed restarts, as its agent cannot be a population member
    values = broker.values()
    assert values["rewards"] == {0: [1.0, 3.0, 0.0]}
    np.testing.assert_equal(values["losses"], {0: [math.nan, 0.5, 0.1]})


def test_start_of_a_part_of_a_trial_leaves_the_episodes_of_its_other_seeds():
    broker = MessageBroker(keep_values=True)
    broker.post("started", 0, (0, {"seeds": [0]}))
    broker.post("episodes", 0, {0: episodes((1.0, 0.1))})
    broker.post("started", 1, (0, {"seeds": [1]}))
    broker.post("episodes", 1, {0: episodes((2.0, 0.2), seed=1)})
    broker.post("started", 0, (0, {"seeds": [0]}))  # its process has died
    assert broker.values()["rewards"] == {0: [2.0]}


def test_stop_request_is_the_answer_to_the_next_message():
    broker = MessageBroker()
    assert broker.post("episodes", 0, {}) is None
    broker.stop(0, "enough")
    assert broker.post("episodes", 0, {}) == "enough"
    assert broker.post("episodes", 1, {}) is None
