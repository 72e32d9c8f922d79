"""Policies by name: from action values or logits to discrete actions.

A policy receives the values of N environments at once and draws its random numbers from the generator that is passed
in, never from a global one. The number of draws does not depend on their outcome: the same seed gives the same stream.
Schedules advance by environment steps through `Policy.step`; `get_state` and `set_state` save and restore the state of
a policy. In every policy a value of -inf forbids an action.
"""

from typing import Any

from agents.exploration.boltzmann import Boltzmann, BoltzmannGumbel, GumbelSoftmax
from agents.exploration.epsilon_greedy import AdaptiveEpsilonGreedy, EpsilonGreedy, MaxBoltzmann
from agents.exploration.policy import Greedy, Policy, Softmax
from agents.exploration.registry import make_by_name

POLICIES: dict[str, type[Policy]] = {
    "adaptive-epsilon-greedy": AdaptiveEpsilonGreedy,
    "boltzmann": Boltzmann,
    "boltzmann-gumbel": BoltzmannGumbel,
    "epsilon-greedy": EpsilonGreedy,
    "greedy": Greedy,
    "gumbel-softmax": GumbelSoftmax,
    "max-boltzmann": MaxBoltzmann,
    "softmax": Softmax,
}
"""Every policy class by name."""


def make_policy(name_or_policy: str | Policy, **kwargs: Any) -> Policy:
    """Make a policy by name; a policy is returned unchanged.

    Args:
        name_or_policy: A name in `POLICIES` (case, hyphens and underscores do not matter); a class of your own as
            "module:Class" or "file.py:Class"; or a policy.
        **kwargs: Arguments of that policy.

    Raises:
        ConfigurationError: Unknown name or argument (the nearest ones are given), or an argument out of range.
    """
    return make_by_name("policy", POLICIES, name_or_policy, Policy, kwargs)  # type: ignore[type-abstract]
