"""The flags of commands that learn from demonstrations: `--expert`, `--reward` and `--pretrain`."""

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
        help="Demonstrations to learn from: a Minari dataset (finder play RUN --record NAME), by name or "
        "folder. May be repeated.",
        show_default=False,
        rich_help_panel=_WHAT,
    ),
]
Reward = Annotated[
    str | None,
    typer.Option(
        metavar="gail|airl|RUN",
        help="gail or airl: learn the reward from the demonstrations of --expert (default gail). Or a run (folder or "
        "checkpoint) that has learned a reward, which is used alone, without --expert.",
        show_default=False,
        rich_help_panel=_WHAT,
    ),
]

Pretrain = Annotated[
    bool,
    typer.Option(
        "--pretrain",
        help="Start from a clone of the expert: the policy learns the demonstrations before training.",
        rich_help_panel=_WHAT,
    ),
]

_LEARNED = ("gail", "airl")


def from_expert(agent: str, expert: list[str] | None, reward: str | None, pretrain: bool) -> tuple[str, dict[str, Any]]:
    """Return the name of the agent with its prefixes, and its hyperparameters; without the flags, the agent.

    Args:
        agent: Name of the agent.
        expert: Value of `--expert`.
        reward: Value of `--reward`.
        pretrain: Value of `--pretrain`.

    Raises:
        ConfigurationError: Flags that need demonstrations without any, demonstrations that nothing learns from, or a
            reward for an agent that has another one.
    """
    from agents.contract.registry import prefixes_of

    prefixes, algorithm = prefixes_of(agent)
    given = [f"--reward {reward}"] * bool(reward) + ["--pretrain"] * pretrain
    if algorithm.lower() == "bc" and given:
        raise ConfigurationError(f"bc learns from demonstrations alone: leave out {' and '.join(given)}.")
    rewards = [prefix for prefix in prefixes if prefix != "bc"]
    own = rewards[0] if rewards else None
    cloned = ["bc"] * max(pretrain, prefixes.count("bc"))
    learns = cloned or algorithm.lower() == "bc"
    params: dict[str, Any] = {}
    if pretrain and not expert:
        raise _needs_demonstrations([*([f"--reward {reward}"] if reward in _LEARNED else []), "--pretrain"])
    if reward is not None and reward not in _LEARNED:
        params["reward_from"] = _run(agent, own, reward)
        if expert and not learns:
            raise ConfigurationError(
                f"The reward of {reward} is learned already: leave out --expert, or take --reward airl."
            )
        own = "rewarded"
    elif own == "rewarded" and (reward or (expert and not learns)):
        raise ConfigurationError(f"{agent} has the reward of an earlier run, not of demonstrations: give --reward RUN.")
    elif reward and not expert:
        raise _needs_demonstrations(given)
    elif own and reward not in (None, own):
        raise _has_one(agent, own, reward)
    if expert:
        params["expert"] = expert[0] if len(expert) == 1 else tuple(expert)
        own = own or reward or (None if learns else "gail")
    return "-".join([*cloned, *filter(None, [own, *rewards[1:]]), algorithm]), params  # several are refused with it


def _run(agent: str, own: str | None, run: str) -> str:
    """Return the absolute path of a run with a learned reward."""
    if not Path(run).exists():
        raise ConfigurationError(
            f"--reward takes gail, airl, or a run that has learned its reward (a folder or a checkpoint); no file or "
            f"folder is called {run!r}."
        )
    if own not in (None, "rewarded"):
        raise _has_one(agent, own, run)
    return str(Path(run).resolve())


def _needs_demonstrations(given: list[str]) -> ConfigurationError:
    verb = "learns" if len(given) == 1 else "learn"
    return ConfigurationError(f"{' and '.join(given)} {verb} from demonstrations: give them by --expert.")


def _has_one(agent: str, own: str | None, reward: str | None) -> ConfigurationError:
    return ConfigurationError(f"{agent} learns its reward by {own} already: leave out --reward {reward}.")
