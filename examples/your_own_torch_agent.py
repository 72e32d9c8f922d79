"""An agent of your own in 30 lines of PyTorch, and a search of its learning rate.

REINFORCE (Williams 1992), as in `your_own_agent.py`. PyTorch is not a requirement of Finder: pip install torch.

    python examples/your_own_torch_agent.py
    finder lr examples/your_own_torch_agent.py:Reinforce --env CartPole-v1
"""

import numpy as np
import torch
from torch import nn

from agents import RolloutBuffer, TorchAgent
from agents.exploration import Softmax, greedy
from agents.functional.returns import discounted_returns


class Reinforce(TorchAgent):
    def build(self):
        size, n_actions = self.observation_space.shape[0], int(self.action_space.n)
        return {"policy": nn.Sequential(nn.Linear(size, 64), nn.Tanh(), nn.Linear(64, n_actions))}

    def make_buffer(self, n_envs, rng):
        return RolloutBuffer(n_steps=500, rng=rng)

    def act(self, observations, explore=False):
        logits = self.infer("policy", observations)
        return Softmax().select(logits, self.rng) if explore else greedy(logits)

    def preprocess_batch(self, data):
        ended = data["terminated"] | data["truncated"]
        returns = discounted_returns(data["rewards"], ended, np.zeros(ended.shape[1]), gamma=0.99)
        data["returns"] = (returns - returns.mean()) / (returns.std() + 1e-8)
        return data

    def loss(self, batch):
        log_probs = torch.log_softmax(self.networks["policy"](batch["observations"]), dim=1)
        chosen = log_probs.gather(1, batch["actions"][:, None])[:, 0]
        return {"default": -(chosen * batch["returns"]).mean()}


if __name__ == "__main__":
    from typing import Any

    from finder import LRFinder, OptFinder

    storage = "sqlite:///own-torch-agent.db"
    search: dict[str, Any] = {"env_steps": 20_000, "seeds": 2, "fixed": {"n_envs": 4}, "storage": storage}

    rates = LRFinder(Reinforce, "CartPole-v1").grid(1e-4, 1e-1, 5, **search)
    print("learning rate:", rates.best)

    optimizers = OptFinder(Reinforce, ["adam", "rmsprop"], "CartPole-v1")
    optimizers.find(n_rates=3, **search)
    print("optimizer:", optimizers.best_opt, "at", optimizers.best_learning_rate)
