"""Defaults that have changed since the first trials of a study, whose later trials keep the earlier values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agents.config.agent_config import AgentConfig
from agents.errors import ConfigurationError

if TYPE_CHECKING:
    from agents.contract.spec import AgentSpec
    from studies.study.study import OpenStudy

_WITHOUT_EFFECT = {"jit_compile"}
"""Hyperparameters that change no result."""


@dataclass(frozen=True, kw_only=True)
class ChangedDefaults:
    """Defaults of an agent that differ from those of the earlier trials of a study.

    Attributes:
        label: The agent's label.
        recorded: Hyperparameter -> its value in the earlier trials.
        now: Hyperparameter -> its default now.
    """

    label: str
    recorded: Mapping[str, Any]
    now: Mapping[str, Any]

    @property
    def note(self) -> str:
        """Description for the progress display."""
        values = ", ".join(
            f"{name}={value} (the default is {self.now[name]} now)" for name, value in self.recorded.items()
        )
        return f"{self.label} keeps the defaults of this study's earlier trials: {values}"


def changed_defaults(study: OpenStudy, agents: Mapping[str, AgentSpec]) -> list[ChangedDefaults]:
    """Compare the defaults of agents with the recorded configurations of the trials of a study.

    Hyperparameters that the study searches or sets for all trials, and those that are set explicitly, are left out.

    Args:
        study: The open study.
        agents: Label -> the agent with its present defaults.
    """
    found = []
    for label, recorded in _recorded_configs(study).items():
        agent = agents.get(label)
        if agent is None or not isinstance(agent.config, AgentConfig):
            continue
        now = json.loads(json.dumps(agent.config.to_dict()))
        given = {*agent.config.non_default_values(), *_given_names(study), *_WITHOUT_EFFECT}
        other = {name: recorded[name] for name in now if name in recorded and recorded[name] != now[name]}
        other = {name: value for name, value in other.items() if name not in given}
        if other and _accepts(agent, other):
            found.append(ChangedDefaults(label=label, recorded=other, now={name: now[name] for name in other}))
    return found


def _recorded_configs(study: OpenStudy) -> dict[str, dict[str, Any]]:
    """Return the first recorded configuration of each agent, by its label."""
    configs: dict[str, dict[str, Any]] = {}
    for trial in study.all_trials():
        recorded = trial.user_attrs.get("configuration", {})
        label = trial.params.get("agent") or (study.spec.agents[0] if len(study.spec.agents) == 1 else None)
        if recorded.get("config") and label is not None:
            configs.setdefault(label, recorded["config"])
    return configs


def _given_names(study: OpenStudy) -> set[str]:
    """Return the hyperparameters that the study searches or sets for all trials."""
    names = {*study.spec.fixed, *(name for trial in study.all_trials() for name in trial.params)}
    # `actor.learning_rate` is part of `learning_rate`, or of `optimizers` where the actor has one of its own.
    parts = {part for name in names for part in name.split(".")}
    whole = {"optimizers", "networks"} if any("." in name for name in names) else set()
    return names | parts | whole | ({"optimizer_kwargs"} if "optimizer" in names else set())


def _accepts(agent: AgentSpec, values: Mapping[str, Any]) -> bool:
    try:
        agent.with_params(values)
    except ConfigurationError:
        return False
    return True
