"""What workers tell is counted once, and never for somebody who has failed."""

from __future__ import annotations

import pytest

from finder.executors.board import Board
from finder.trial import Outcome
from studies.records import EpisodeRecord


def episodes(*values: tuple[float, float | None], first: int = 0, seed: int = 0) -> list[EpisodeRecord]:
    """Episodes of a run with these returns and losses."""
    return [
        EpisodeRecord(
            seed=seed, episode=first + i, env_steps=1, episode_return=value, length=1, loss=loss, wall_seconds=0.0
        )
        for i, (value, loss) in enumerate(values)
    ]


def test_the_board_keeps_every_value_and_the_best_means():
    board = Board(keep_values=True)
    assert board.values()["logs"]["best_reward"] == -1e9
    assert board.values()["logs"]["best_loss"] == 1e9
    board.post("episodes", 0, {0: episodes((1.0, None), (3.0, 0.5))})
    board.post("episodes", 1, {1: episodes((2.0, 0.1))})
    board.post("episodes", 1, {1: episodes((4.0, 0.3), first=1)})
    board.finish(0, 0, "dqn", "adam", Outcome(state="complete", value=2.0))
    board.finish(1, 1, "ppo", "sgd", Outcome(state="complete", value=3.0))
    values = board.values()
    assert values["rewards"] == {0: [1.0, 3.0], 1: [2.0, 4.0]}
    assert values["losses"] == {0: [0.5], 1: [0.1, 0.3]}
    assert values["logs"]["best_reward"] == 3.0
    assert values["logs"]["best_agent"] == "ppo"
    assert values["logs"]["best_loss"] == 0.2
    assert values["logs"]["best_loss_opt"] == "sgd"


def test_the_board_counts_an_episode_once_that_is_told_again():
    board = Board(keep_values=True)
    board.post("started", 0, (0, {}))
    board.post("episodes", 0, {0: episodes((9.0, 0.9), (9.0, 0.9), (9.0, 0.9))})  # then its process dies
    board.post("started", 1, (0, {}))
    board.post("episodes", 1, {0: episodes((1.0, None), (3.0, 0.5)) + episodes((2.0, None), seed=1)})
    board.post("episodes", 1, {0: episodes((0.0, 0.1), seed=1)})  # that seed begins anew: it can be no member
    board.finish(1, 0, "dqn", "adam", Outcome(state="complete", value=2.0))
    values = board.values()
    assert (values["rewards"], values["losses"]) == ({0: [1.0, 3.0, 0.0]}, {0: [0.5, 0.1]})
    assert values["logs"]["best_reward"] == pytest.approx(4 / 3)


def test_a_failed_agent_is_never_the_best():
    board = Board(keep_values=True)
    board.post("episodes", 0, {0: episodes((1000.0, None))})
    board.finish(0, 0, "dqn", "adam", Outcome(state="failed"))
    assert board.values()["logs"]["best_agent"] is None


def test_a_stop_request_is_the_answer_to_what_a_child_tells():
    board = Board()
    assert board.post("episodes", 0, {}) is None
    board.stop(0, "enough")
    assert board.post("episodes", 0, {}) == "enough"
    assert board.post("episodes", 1, {}) is None
