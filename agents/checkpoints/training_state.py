"""The state of a training in a checkpoint: sections that are read separately, with as few pickles as possible."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from agents.training.records import Episode
from agents.trust.signatures import from_own_bytes

if TYPE_CHECKING:
    from agents.training.trainer import Trainer

SECTIONS = ("agent", "training", "environments", "callbacks")

_COLUMNS: dict[str, Callable[[Any], Any]] = {
    "index": int, "env_steps": int, "episode_return": float, "length": int, "wall_seconds": float,
    "environment": int, "member": int,
}  # fmt: skip
"""Fields that every episode has."""


def sections_of(trainer: Trainer, *, environments: bool = True) -> dict[str, Any]:
    """Return the state of a training, by section.

    A reader of the agent alone reads no environments, and needs none of their modules.

    Args:
        trainer: The training, between two steps.
        environments: Whether copies of the environments are included.
    """
    whole = trainer.get_state(environments=environments)
    agent, collector = whole.pop("agent"), dict(whole["collector"])
    copies = collector.pop("environments")
    runs = [_plain_run(run) for run in whole["runs"]]
    training = {**whole, "collector": collector, "runs": runs}
    return {
        "agent": agent, "training": training, "environments": copies, "callbacks": trainer.callbacks.get_state()
    }  # fmt: skip


def state_of(sections: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of the trainer (`Trainer.set_state`) from its sections."""
    training = sections["training"]
    collector = {**training["collector"], "environments": sections["environments"]}
    runs = [_whole_run(run) for run in training["runs"]]
    return {**training, "agent": sections["agent"], "collector": collector, "runs": runs}


def sections_of_before(state: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return sections of a state that an earlier version stored as one pickle, of a training or of a study's trials.

    Args:
        state: The state.
        names: Names of the sections; others are left unchanged.
    """
    sections: dict[str, Any] = {"callbacks": state.get("callbacks", {})}
    if "spec" in state:  # a training, whose checkpoint has its spec
        interface = from_own_bytes(state["interface"]) if "interface" in state else None
        sections["spec"] = (state["spec"], interface)
    if "trainer" not in state and "spec" in state:
        return {**sections, "agent": state["agent"]}
    whole = dict(state.get("trainer", state))
    agent, collector = whole.pop("agent"), dict(whole["collector"])
    copies = collector.pop("environments")
    if "environments" in names and type(copies) is bytes:
        copies = from_own_bytes(copies)
    return {**sections, "agent": agent, "training": {**whole, "collector": collector}, "environments": copies}


def _plain_run(run: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of a run with its episodes as columns: there may be a hundred thousand."""
    episodes: Sequence[Episode] = run["episodes"]
    columns: dict[str, Any] = {
        name: np.array([getattr(episode, name) for episode in episodes], np.int64 if kind is int else np.float64)
        for name, kind in _COLUMNS.items()
    }
    losses = [episode.loss for episode in episodes]
    columns["loss"] = np.array([0.0 if loss is None else loss for loss in losses], np.float64)
    columns["has_loss"] = np.array([loss is not None for loss in losses], bool)
    for name in ("custom_metrics", "user_data"):
        columns[name] = {i: own for i, episode in enumerate(episodes) if (own := getattr(episode, name))}
    return {**run, "episodes": columns, "evaluations": [tuple(each) for each in run["evaluations"]]}


def _whole_run(run: Mapping[str, Any]) -> dict[str, Any]:
    episodes = run["episodes"]  # a list in states of earlier versions
    return {**run, "episodes": _episodes(episodes) if isinstance(episodes, Mapping) else episodes}


def _episodes(columns: Mapping[str, Any]) -> list[Episode]:
    lists = {name: columns[name].tolist() for name in (*_COLUMNS, "loss", "has_loss")}
    losses = [loss if there else None for loss, there in zip(lists["loss"], lists["has_loss"], strict=True)]
    metrics, data = columns["custom_metrics"], columns["user_data"]
    return [
        Episode(
            **{name: lists[name][i] for name in _COLUMNS}, loss=loss, custom_metrics=metrics.get(i, {}),
            user_data=data.get(i, {}),
        )
        for i, loss in enumerate(losses)
    ]  # fmt: skip
