"""Maximum causal entropy inverse reinforcement learning, computed exactly.

Ziebart, Bagnell and Dey 2010, "Modeling Interaction via the Principle of Maximum Causal Entropy"; Ziebart 2010,
"Modeling Purposeful Adaptive Behavior with the Principle of Maximum Causal Entropy". Of all policies with the expert's
expected features f_E, that of largest causal entropy is soft-optimal for a reward that is linear in the features. Its
weights w minimise the dual

    D(w) = E[V_w(s_0)] − f_E · w

which is convex. Its gradient is f_w − f_E, where f_w are the expected features of the soft-optimal policy. For an
expert that acts in the model, −D(w) / τ is the expected discounted log likelihood of its actions.

Where we differ from the paper: the dual is minimised by Newton steps instead of gradient steps, with exact products of
its second derivative. A process may be discounted without a horizon; entropies are discounted then as rewards are. The
dual is never below τ times the causal entropy of a policy with the features f_E, hence not below 0: if it becomes
negative, no policy has these features, and the fit ends with an error.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agents.errors import ConfigurationError, ConvergenceError, check_at_least
from agents.functional.newton import Point, minimum
from agents.functional.soft_optimal import check_temperature, soft_optimal
from agents.functional.tabular import Array, TabularModel, check_finite, of_states_or_actions, reward_parts
from agents.functional.visits import Chain

NEGATIVE = 1e-9
"""Negative values of the dual that may be rounding errors, relative to its two terms."""

NO_VISITS = 1e-12
"""Largest number of visits, positive or negative, that may be a rounding error."""


@dataclass(frozen=True, eq=False)
class FittedReward:
    """A reward that explains an expert's visits, and its soft-optimal policy.

    Attributes:
        weights: [K] of the features; without features, the reward itself, flattened.
        reward: [S] or [S, A], as the expert's visits. 0 where it has no effect, as in states that cannot be reached.
        policy: [T, S, A] with a horizon T; [S, A] without a horizon.
        visits: [S] or [S, A] visits of this policy.
        gap: Largest absolute difference between an expected feature of this policy and of the expert; without
            features, of visits.
        n_steps: Newton steps that were tried.
    """

    weights: Array
    reward: Array
    policy: Array
    visits: Array
    gap: float
    n_steps: int


def fit_reward(
    model: TabularModel,
    expert_visits: Array,
    *,
    features: Array | None = None,
    temperature: float = 1.0,
    penalty: float = 0.0,
    tolerance: float = 1e-6,
    max_steps: int = 500,
) -> FittedReward:
    """Return the reward whose soft-optimal policy has the expert's expected features.

    The reward is determined up to changes that no policy of the model can distinguish: by features that always have
    the same sum in an episode, and by potential shaping as far as the features express it. Weights start at 0 and move
    only where they change the policy.

    Args:
        model: The process. Its own `rewards` are not used.
        expert_visits: [S] expected discounted visits of states in an episode, the last state included (`visits_of`,
            `empirical_visits`), for a reward of states; or [S, A] visits of actions, for a reward of actions.
        features: [S, K] or [S, A, K], as the expert's visits. Defaults to None: one for each state, or each state and
            action.
        temperature: Weight τ of the entropy, > 0; rewards are in proportion to it. Defaults to `1.0`.
        penalty: λ >= 0 of λ/2 |w|² in the dual. Expected features then differ from the expert's by λ |w_k|. Visits that
            were counted in episodes need one, since they are hardly ever those of a policy. With n episodes, τ / (n σ²)
            is a Gaussian prior of standard deviation σ on each weight; σ = 10 τ, a penalty of 0.01 / (n τ), is a good
            first choice. Defaults to `0.0`: the expert's features are matched exactly.
        tolerance: Largest absolute value of the gradient's elements: without a penalty, that of `gap`. > 0. Defaults to
            `1e-6`. Where an expert is almost deterministic, tolerances far below take long.
        max_steps: Largest number of Newton steps. Defaults to `500`; about 20 are usual.

    Raises:
        ConfigurationError: The visits cannot be those of an expert in this model (the state or the sum is named; with a
            penalty of 0 also where only the dual shows it), or another argument has another shape or is out of range.
        ConvergenceError: The tolerance was not reached.
    """
    check_temperature(temperature)
    check_at_least(1, max_steps=max_steps)
    if not 0.0 <= penalty < np.inf:
        raise ConfigurationError(f"penalty must be a finite number >= 0, got {penalty}.")
    if not 0.0 < tolerance < np.inf:
        raise ConfigurationError(f"tolerance must be a finite number > 0, got {tolerance}.")
    dual = Dual(model, expert_visits, features, penalty=penalty * temperature)
    found = minimum(dual, np.zeros(dual.wanted.shape), tolerance=tolerance, max_steps=max_steps)
    soft = soft_optimal(model, dual.reward(found.point.x))
    visits = dual.visits(Chain(model, soft.policy))
    gap = float(np.abs(dual.features_of(visits) - dual.wanted).max())
    if not found.converged:
        raise ConvergenceError(
            f"No reward was found within {max_steps} Newton steps: expected features still differ from the expert's by "
            f"{gap:.1e}, and the gradient is up to {np.abs(found.point.gradient).max():.1e}, above the tolerance of "
            f"{tolerance:.1e}. Give a higher penalty, tolerance or max_steps."
        )
    weights = temperature * found.point.x
    return FittedReward(weights, dual.reward(weights), soft.policy, visits, gap, found.n_steps)


class Dual:
    """The dual at temperature 1, as a function of the weights; see the module's docstring.

    At another temperature, weights are in proportion to it, and the dual is this one times the temperature.

    Args:
        model: The process.
        expert_visits: [S] or [S, A].
        features: [S, K] or [S, A, K], or None for one feature for each element of the visits.
        penalty: λ of λ/2 |w|², which is added.

    Attributes:
        wanted: [K] expected features of the expert.

    Raises:
        ConfigurationError: Shapes do not fit, or the visits cannot be those of an expert in this model.
    """

    def __init__(
        self, model: TabularModel, expert_visits: Array, features: Array | None, *, penalty: float = 0.0
    ) -> None:
        self.model, self.penalty = model, penalty
        expert_visits = _checked_visits(model, expert_visits)
        self._shape = expert_visits.shape
        self._features = None if features is None else _checked_features(features, self._shape)
        self.wanted = self.features_of(expert_visits)

    def reward(self, weights: Array) -> Array:
        """Return the reward [S] or [S, A] of weights [K]."""
        result: Array = weights.reshape(self._shape) if self._features is None else self._features @ weights
        return result

    def features_of(self, visits: Array) -> Array:
        """Return the expected features [K] of visits [S] or [S, A]."""
        return visits.ravel() if self._features is None else np.tensordot(visits, self._features, axes=visits.ndim)

    def visits(self, chain: Chain) -> Array:
        """Return the visits of a policy, [S] or [S, A] as the expert's."""
        return self._visits(chain, chain.occupancy())

    def _visits(self, chain: Chain, occupancy: Array, additions: Array | None = None) -> Array:
        if len(self._shape) == 1:
            return chain.states_of(occupancy)
        return chain.actions_of(occupancy, additions)

    def __call__(self, weights: Array) -> Point:
        """Return value, gradient and products with the second derivative at weights [K].

        Raises:
            ConfigurationError: Without a penalty, the value is negative: no policy has the expert's expected features.
        """
        model = self.model
        soft = soft_optimal(model, self.reward(weights))
        chain = Chain(model, soft.policy)
        occupancy = chain.occupancy()
        of_policy = float(model.initial @ (soft.values if model.horizon is None else soft.values[0]))
        of_expert = float(self.wanted @ weights)
        value = of_policy - of_expert
        if not self.penalty and value < -NEGATIVE * max(1.0, abs(of_policy), abs(of_expert)):
            raise ConfigurationError(
                f"No policy of the model has the expert's expected features: the dual is {value:.1e}, below 0. Visits "
                "that were counted in n episodes need a penalty, for example 0.01 / (n * temperature). Exact visits "
                "must be those of a policy in a model with the same transitions, initial states, horizon and gamma."
            )

        def product(direction: Array) -> Array:
            return self._change(chain, occupancy, self.reward(direction)) + self.penalty * direction

        value += 0.5 * self.penalty * float(weights @ weights)
        gradient = self.features_of(self._visits(chain, occupancy)) - self.wanted + self.penalty * weights
        return Point(weights, value, gradient, product)

    def _change(self, chain: Chain, occupancy: Array, reward: Array) -> Array:
        """Return the derivative of the policy's expected features [K] when its reward changes by `reward`.

        The soft values change by the policy's values of that reward, the policy by its advantages.
        """
        model = self.model
        of_states, of_actions = reward_parts(model, reward)
        values = chain.values(of_states, of_actions)
        now, later, acting = values, values, occupancy
        if model.horizon is not None:
            now, later, acting = values[:-1], values[1:], occupancy[:-1]
        advantages = of_states[:, None] + of_actions + model.gamma * model.expected(later) - now[..., None]
        additions = acting[..., None] * chain.policy * advantages  # [T, S, A] or [S, A]
        return self.features_of(self._visits(chain, chain.occupancy(additions), additions))


def _checked_visits(model: TabularModel, visits: Array) -> Array:
    visits = of_states_or_actions("expert_visits", visits, model)
    states = visits if visits.ndim == 1 else visits.sum(axis=1)
    if visits.min() < -NO_VISITS:
        state = np.unravel_index(int(visits.argmin()), visits.shape)[0]
        raise ConfigurationError(f"expert_visits must be >= 0; those of state {state} are {visits.min():.6g}.")
    lost = np.flatnonzero((states > NO_VISITS) & ~model.reachable())
    if lost.size:
        raise ConfigurationError(
            f"The expert visits state {lost[0]} {states[lost[0]]:.6g} times an episode, but no policy can reach it."
        )
    if states.sum() > model.longest * (1.0 + 1e-9):
        raise ConfigurationError(
            f"expert_visits sum to {states.sum():.6g}, but an episode has at most {model.longest:.6g} states, "
            "discounts included: divide counts by the number of episodes."
        )
    return visits


def _checked_features(features: Array, shape: tuple[int, ...]) -> Array:
    features = np.asarray(features, np.float64)
    if features.ndim != len(shape) + 1 or features.shape[:-1] != shape or not features.shape[-1]:
        raise ConfigurationError(
            f"features must have the shape {[*shape, 'K']}, as expert_visits, got {list(features.shape)}."
        )
    check_finite("features", features)
    return features
