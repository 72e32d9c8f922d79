"""The flags of commands that train with a learned reward: `--expert` and `--reward`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from agents.errors import ConfigurationError

_WHAT = "What is trained"

Expert = Annotated[
    list[str] | None,
    typer.Option(
        metavar="DATASET",
        help="Demonstrations to learn the reward from: a Minari dataset (finder play RUN --record NAME), by name or "
        "folder. May be repeated.",
        show_default=False,
        rich_help_panel=_WHAT,
    ),
]
Reward = Annotated[
    str | None,
    typer.Option(
        metavar="gail|airl|RUN",
        help="How the reward is learned from them (default gail); or the folder or a checkpoint of a run that has "
        "learned its reward, which is used alone, without demonstrations.",
        show_default=False,
        rich_help_panel=_WHAT,
    ),
]

_LEARNED = ("gail", "airl")


def from_expert(agent: str, expert: list[str] | None, reward: str | None) -> tuple[str, dict[str, Any]]:
    """Return the name of the agent with the learned reward, and its hyperparameters; without the flags, the agent.

    Args:
        agent: Name of the agent.
        expert: Value of `--expert`.
        reward: Value of `--reward`.

    Raises:
        ConfigurationError: A way to learn the reward without demonstrations, a run with them, or a reward for an agent
            that has another one.
    """
    from agents.contract.registry import learned_reward_of

    own, _ = learned_reward_of(agent)
    if reward is not None and reward not in _LEARNED:
        return _from_run(agent, own, expert, reward)
    if own == "rewarded" and (expert or reward):
        raise ConfigurationError(f"{agent} has the reward of an earlier run, not of demonstrations: give --reward RUN.")
    if not expert:
        if reward is not None:
            raise ConfigurationError(f"--reward {reward} learns from demonstrations: give them by --expert.")
        return agent, {}
    if own and reward not in (None, own):
        raise _has_one(agent, own, reward)
    places = tuple(str(Path(each).resolve()) if Path(each).is_dir() else each for each in expert)
    return agent if own else f"{reward or 'gail'}-{agent}", {"expert": places[0] if len(places) == 1 else places}


def _from_run(agent: str, own: str, expert: list[str] | None, run: str) -> tuple[str, dict[str, Any]]:
    """Return the agent that is trained by the reward of a run, and its hyperparameters."""
    if not Path(run).exists():
        raise ConfigurationError(
            f"--reward takes gail, airl, or a run that has learned its reward (a folder or a checkpoint); no file or "
            f"folder is called {run!r}."
        )
    if expert:
        raise ConfigurationError(f"The reward of {run} is learned already: leave out --expert, or take --reward airl.")
    if own not in ("", "rewarded"):
        raise _has_one(agent, own, run)
    return agent if own else f"rewarded-{agent}", {"reward_from": str(Path(run).resolve())}


def _has_one(agent: str, own: str, reward: str | None) -> ConfigurationError:
    return ConfigurationError(f"{agent} learns its reward by {own} already: leave out --reward {reward}.")
