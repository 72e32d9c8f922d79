"""The flags of commands that train from demonstrations: `--expert` and `--reward`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

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
    Literal["gail", "airl"] | None,
    typer.Option(help="How the reward is learned from them (default gail).", show_default=False, rich_help_panel=_WHAT),
]


def from_expert(agent: str, expert: list[str] | None, reward: str | None) -> tuple[str, dict[str, Any]]:
    """Return the name of the agent that learns its reward, and its hyperparameters; without demonstrations, the agent.

    Args:
        agent: Name of the agent.
        expert: Value of `--expert`.
        reward: Value of `--reward`.

    Raises:
        ConfigurationError: A way to learn the reward without demonstrations.
    """
    if not expert:
        if reward is not None:
            raise ConfigurationError(f"--reward {reward} learns from demonstrations: give them by --expert.")
        return agent, {}
    from agents.contract.registry import learned_reward_of

    own, _ = learned_reward_of(agent)
    if own and reward not in (None, own):
        raise ConfigurationError(f"{agent} learns its reward by {own} already: leave out --reward {reward}.")
    places = tuple(str(Path(each).resolve()) if Path(each).is_dir() else each for each in expert)
    return agent if own else f"{reward or 'gail'}-{agent}", {"expert": places[0] if len(places) == 1 else places}
