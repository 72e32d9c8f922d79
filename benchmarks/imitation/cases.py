"""Experts, and agents that learn from their demonstrations, for `imitation/returns.py`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from benchmarks.learning.returns_cases import CASES as RETURNS_CASES
from benchmarks.learning.returns_cases import Case as ReturnsCase
from benchmarks.learning.returns_cases import falling

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


# A discount of 0.9, enough for the rewards of the environment, is too short-sighted to match states. Rates fall,
# as the reward never settles. Rollouts of 2,048 steps bring GAIL to the expert in half the steps that rollouts of 4,096
# need. AIRL adds the policy's entropy to the reward, which a Gaussian policy whose actions are clipped can raise for
# ever: with fewer updates it stays lower.
_PPO_PENDULUM = {"gamma": 0.97, "learning_rate": falling(1e-3, 15_600)}
_PPO_LUNAR = {"n_envs": 16, "n_steps": 256, "n_epochs": 4, "batch_size": 128, "gae_lambda": 0.98}

# A lander on the ground hardly moves when it fires an engine, so that a reward of states alone cannot forbid that: the
# entropy in AIRL's reward keeps engines firing on the ground, and episodes do not end. Without much of a penalty such
# a reward comes closest.
_SETTINGS: dict[str, tuple[int, dict[str, Any]]] = {
    "gail-cartpole": (50_000, {}),
    "airl-cartpole": (50_000, {}),
    "gail-acrobot": (37_500, {}),
    "airl-acrobot": (37_500, {}),
    "gail-pendulum": (100_000, {**_PPO_PENDULUM, "n_envs": 8, "n_steps": 256}),
    "airl-pendulum": (100_000, {**_PPO_PENDULUM, "n_envs": 4, "n_steps": 1024}),
    "gail-lunarlander": (1_000_000, _PPO_LUNAR),
    "airl-lunarlander": (1_000_000, {**_PPO_LUNAR, "reward_of_actions": True}),
    "airl-lunarlander-states": (1_000_000, {**_PPO_LUNAR, "gradient_penalty": 0.001, "gamma": 0.98}),
}
_SETTINGS |= {f"bc-{name}": (40_000, {}) for name in EXPERTS}
"""Case -> environment steps, and hyperparameters of PPO with a learned reward or of behaviour cloning.

Behaviour cloning only plays in the environment: 40,000 steps are 5,000 gradient steps.
"""


def _cases(n: int, suffix: str = "") -> dict[str, Case]:
    made = {}
    for name, (env_steps, params) in _SETTINGS.items():
        method, expert = name.split("-")[:2]
        made[name + suffix] = Case("bc" if method == "bc" else f"{method}-ppo", expert, n, env_steps, params)
    return made


CASES = {**_cases(10), **_cases(1, "-1")}
