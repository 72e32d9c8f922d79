"""Exploration: policies that choose discrete actions, and noise for continuous ones."""

from agents.exploration.noise import NOISES, GaussianNoise, Noise, OrnsteinUhlenbeckNoise, make_noise
from agents.exploration.policies import (
    POLICIES,
    AdaptiveEpsilonGreedy,
    Boltzmann,
    BoltzmannGumbel,
    EpsilonGreedy,
    Greedy,
    GumbelSoftmax,
    MaxBoltzmann,
    Policy,
    Softmax,
    greedy,
    make_policy,
)

__all__ = [
    "NOISES",
    "POLICIES",
    "AdaptiveEpsilonGreedy",
    "Boltzmann",
    "BoltzmannGumbel",
    "EpsilonGreedy",
    "GaussianNoise",
    "Greedy",
    "GumbelSoftmax",
    "MaxBoltzmann",
    "Noise",
    "OrnsteinUhlenbeckNoise",
    "Policy",
    "Softmax",
    "greedy",
    "make_noise",
    "make_policy",
]
