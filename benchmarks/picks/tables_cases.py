"""The tables of finished runs that `benchmarks/picks/tables.py` makes: agents, environments, budgets and rates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

RATES = {"adam": (-6, -1), "rmsprop": (-6, -1), "sgd(momentum=0.9)": (-5, 0), "lion": (-7, -2)}
"""Optimizer -> the powers of ten between which its rates lie, half a decade apart."""

WITHOUT_MOMENTUM = {"sgd(momentum=0.9)": (-5, 0), "sgd": (-4, 1)}
"""The same to compare plain SGD with momentum."""

LENGTHS = (1, 2, 4, 8)
"""Lengths of runs in a table of many seeds, in eighths of the longest."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One table, or one for each length of runs.

    Attributes:
        agent: The agent.
        env: The environment.
        env_steps: Budget of a run, the longest if there are several lengths.
        params: Hyperparameters other than the agent's defaults.
        rates: Optimizer -> the powers of ten between which its rates lie, half a decade apart.
        reward_scale: Factor of the rewards from which the agent learns; returns are in the environment's own units.
        n_seeds: Seeds of each candidate, 0, 1, ...
        lengths: Budgets of runs that are tabulated, in eighths of `env_steps`. A shorter run is the beginning of the
            longest one, as no schedule of these agents depends on the length of a run.
    """

    agent: str
    env: str
    env_steps: int
    params: Mapping[str, Any] = field(default_factory=dict)
    rates: Mapping[str, tuple[int, int]] = field(default_factory=lambda: RATES)
    reward_scale: float = 1.0
    n_seeds: int = 10
    lengths: tuple[int, ...] = (8,)

    @property
    def budgets(self) -> tuple[int, ...]:
        """Environment steps of the runs of each length, ascending."""
        return tuple(self.env_steps * length // 8 for length in self.lengths)


def rates_of(case: Case, optimizer: str) -> list[float]:
    """Return the rates of an optimizer, half a decade apart over five decades."""
    low, high = case.rates[optimizer]
    return [float(f"{10 ** (low + i / 2):.4g}") for i in range(2 * (high - low) + 1)]


def _perturbed(name: str, case: Case) -> Iterator[tuple[str, Case]]:
    """Yield a case, and the same with rewards, width or batch so that the usual rates are wrong."""

    def other(params: Mapping[str, Any], reward_scale: float = 1.0) -> Case:
        return replace(case, params={**case.params, **params}, reward_scale=reward_scale)

    yield name, case
    yield f"{name}-rewards-0.01", other({}, 0.01)
    yield f"{name}-rewards-100", other({}, 100.0)
    yield f"{name}-width-256", other({"hidden_sizes": [256, 256]})
    yield f"{name}-batch-512", other({"batch_size": 512})


_EVERY_FOURTH = {"train_freq": 4}

CASES: dict[str, Case] = dict(
    [
        *_perturbed("ppo-cartpole", Case(agent="ppo", env="CartPole-v1", env_steps=51_200)),
        *_perturbed("dqn-cartpole", Case(agent="dqn", env="CartPole-v1", env_steps=50_000, params=_EVERY_FOURTH)),
        *_perturbed("ppo-acrobot", Case(agent="ppo", env="Acrobot-v1", env_steps=81_920)),
        ("dqn-acrobot", Case(agent="dqn", env="Acrobot-v1", env_steps=50_000, params=_EVERY_FOURTH)),
        ("ppo-pendulum", Case(agent="ppo", env="Pendulum-v1", env_steps=102_400, params={"gamma": 0.9})),
        ("ppo-mountaincarcontinuous", Case(agent="ppo", env="MountainCarContinuous-v0", env_steps=51_200)),
        ("ppo-mountaincar", Case(agent="ppo", env="MountainCar-v0", env_steps=102_400)),
        ("dqn-mountaincar", Case(agent="dqn", env="MountainCar-v0", env_steps=100_000, params=_EVERY_FOURTH)),
        ("ppo-cartpole-momentum", Case(agent="ppo", env="CartPole-v1", env_steps=51_200, rates=WITHOUT_MOMENTUM)),
        ("ppo-acrobot-momentum", Case(agent="ppo", env="Acrobot-v1", env_steps=81_920, rates=WITHOUT_MOMENTUM)),
        ("ppo-lunarlander", Case(agent="ppo", env="LunarLander-v3", env_steps=204_800, params={"gamma": 0.999})),
        ("dqn-lunarlander", Case(agent="dqn", env="LunarLander-v3", env_steps=100_000, params=_EVERY_FOURTH)),
    ]
)
"""Tables of ten seeds and one length."""


def _many(agent: str, env: str, env_steps: int, params: Mapping[str, Any] | None = None) -> Case:
    return Case(agent=agent, env=env, env_steps=env_steps, params=params or {}, n_seeds=40, lengths=LENGTHS)


NEW = ("ppo-tanks-40", "ppo-catch-40", "dqn-inventory-40")
"""Cases of environments of our own (`new_environments.py`)."""

MANY_SEEDS: dict[str, Case] = {
    "ppo-cartpole-40": _many("ppo", "CartPole-v1", 65_536),
    "dqn-cartpole-40": _many("dqn", "CartPole-v1", 64_000, _EVERY_FOURTH),
    "ppo-acrobot-40": _many("ppo", "Acrobot-v1", 131_072),
    "dqn-acrobot-40": _many("dqn", "Acrobot-v1", 64_000, _EVERY_FOURTH),
    "ppo-pendulum-40": _many("ppo", "Pendulum-v1", 163_840, {"gamma": 0.9}),
    "ppo-tanks-40": _many("ppo", "new_environments:Tanks-v0", 81_920),
    "ppo-catch-40": _many("ppo", "new_environments:Catch-v0", 163_840),
    "dqn-inventory-40": _many("dqn", "new_environments:Inventory-v0", 64_000, _EVERY_FOURTH),
}
"""Tables of 40 seeds and four lengths of runs, for `python -m benchmarks.picks.compare unseen`."""

ALL = {**CASES, **MANY_SEEDS}
