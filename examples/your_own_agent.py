"""An agent of your own in 30 lines of Keras, and every finder on it.

REINFORCE (Williams 1992): the log-probability of each action, weighted by the return that followed it.

    python examples/your_own_agent.py
    finder lr examples/your_own_agent.py:Reinforce --env CartPole-v1
"""

import numpy as np

from agents import KerasAgent, RolloutBuffer, network  # before Keras, so that TensorFlow's log is silenced
from agents.exploration import Softmax, greedy
from agents.functional.returns import discounted_returns

# isort: split
from keras import ops


class Reinforce(KerasAgent):
    def build(self):
        return {"policy": network(self.observation_space, [64], int(self.action_space.n))}

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
        log_probs = ops.log_softmax(self.networks["policy"](batch["observations"]))
        chosen = ops.take_along_axis(log_probs, batch["actions"][:, None], axis=1)[:, 0]
        return {"default": -ops.mean(chosen * batch["returns"])}


if __name__ == "__main__":
    from typing import Any

    from finder import AgentFinder, LRFinder, OptFinder, tune

    settings: dict[str, Any] = {"storage": "sqlite:///own-agent.db", "seeds": 2}
    search = {**settings, "env_steps": 20_000, "executor": "inline", "fixed": {"n_envs": 4}}

    rates = LRFinder(Reinforce, "CartPole-v1").grid(1e-4, 1e-1, 5, **search)
    print("learning rate:", rates.best)

    optimizers = OptFinder(Reinforce, ["adam", "rmsprop"], "CartPole-v1")
    optimizers.find(n_rates=3, **search)
    print("optimizer:", optimizers.best_opt, "at", optimizers.best_learning_rate)

    test = LRFinder(Reinforce, "CartPole-v1").find(1e-5, 1.0, N=200, storage=settings["storage"])
    print("range test:", test.best, "-", test.suggestion.reason)

    agents_compared = AgentFinder([Reinforce, "ppo"], None, "CartPole-v1")
    agents_compared.find(env_steps=20_000, **settings)
    print("agent:", agents_compared.logs["best_agent"])

    tuned = tune(
        Reinforce, "CartPole-v1", {"learning_rate": "1e-4:1e-1", "optimizer": "adam,sgd"}, n_trials=4, **search
    )
    print(tuned.table()[["trial", "learning_rate", "optimizer", "value", "state"]])
