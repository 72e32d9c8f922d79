"""What `imitation.py` trains: experts, and agents that learn from their demonstrations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from returns_cases import CASES as RETURNS_CASES
from returns_cases import Case as ReturnsCase

SEEDS = 5

EXPERTS = {
    "cartpole": RETURNS_CASES["ppo-cartpole"],
    "acrobot": RETURNS_CASES["ppo-acrobot"],
    "pendulum": RETURNS_CASES["sac-pendulum"],
    "lunarlander": RETURNS_CASES["ppo-lunarlander"],
}
"""Environment -> how its expert is trained."""


@dataclass(frozen=True)
class Case:
    """An agent that learns from demonstrations."""

    agent: str
    expert: str  # key of EXPERTS
    n_demonstrations: int
    env_steps: int
    params: dict[str, Any] = field(default_factory=dict)

    @property
    def env(self) -> str:
        """The environment, by its id in Gymnasium."""
        return self.trained_as.env

    @property
    def trained_as(self) -> ReturnsCase:
        """How the expert was trained."""
        return EXPERTS[self.expert]


_PPO_LUNAR = {"n_envs": 16, "n_steps": 256, "n_epochs": 4, "batch_size": 128, "gae_lambda": 0.98, "ent_coef": 0.01}
_PPO_PENDULUM = {"n_envs": 4, "n_steps": 1024, "gamma": 0.9, "learning_rate": 1e-3}
_SETTINGS: dict[str, tuple[int, dict[str, Any]]] = {
    "cartpole": (50_000, {}),
    "acrobot": (37_500, {}),
    "pendulum": (100_000, _PPO_PENDULUM),
    "lunarlander": (400_000, _PPO_LUNAR),
}
"""Environment -> environment steps and hyperparameters of PPO with a learned reward."""

CASES = {
    f"{reward}-{expert}" + ("" if n == 10 else f"-{n}"): Case(f"{reward}-ppo", expert, n, steps, params)
    for n in (10, 1)
    for expert, (steps, params) in _SETTINGS.items()
    for reward in ("gail", "airl")
}
