"""Exploration: policies that choose discrete actions, and noise for continuous ones."""

from agents.exploration.boltzmann import Boltzmann, BoltzmannGumbel, GumbelSoftmax
from agents.exploration.epsilon_greedy import AdaptiveEpsilonGreedy, EpsilonGreedy, MaxBoltzmann
from agents.exploration.noise import NOISES, GaussianNoise, Noise, OrnsteinUhlenbeckNoise, make_noise
from agents.exploration.policies import POLICIES, make_policy
from agents.exploration.policy import Greedy, Policy, Softmax, greedy

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
