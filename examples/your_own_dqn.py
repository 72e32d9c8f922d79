"""A DQN of your own: a replay, a target network and exploration that fades, and finders on it.

Deep Q-learning (Mnih et al. 2015): the value of an action is learned from the reward and from what a slower copy of the
network says of what follows.

    python examples/your_own_dqn.py
    finder lr examples/your_own_dqn.py:QLearner --env CartPole-v1
"""

from dataclasses import dataclass
from typing import ClassVar

from agents import OffPolicyAgent, OffPolicyConfig, hyperparameter, network
from agents.exploration import AdaptiveEpsilonGreedy, greedy
from agents.networks.builders import gather_actions

# isort: split
from keras import ops  # after agents, which silences TensorFlow's log


@dataclass(frozen=True, kw_only=True)
class QConfig(OffPolicyConfig):
    """Those of every agent with a replay (`gamma`, `tau`, `buffer_size`, `batch_size`, ...), and one more."""

    target_update_interval: int = hyperparameter(250, "Gradient steps between updates of the target.", low=1)
    exploration_steps: int = hyperparameter(5_000, "Environment steps until it explores least.", low=1, acting=True)


class QLearner(OffPolicyAgent):
    config: QConfig
    config_class = QConfig
    target_networks: ClassVar = {"target": "q"}  # by a share `tau`, every `target_update_interval` gradient steps

    def build(self):
        sizes, n_actions = self.config.hidden_sizes, int(self.action_space.n)
        return {name: network(self.observation_space, sizes, n_actions, activation="relu") for name in ("q", "target")}

    def start(self):
        super().start()
        self.policy = AdaptiveEpsilonGreedy(1.0, 0.05, n_steps=self.config.exploration_steps)

    def act(self, observations, explore=False):
        values = self.infer("q", observations)  # [N, A]
        return self.policy.select(values, self.rng) if explore else greedy(values)

    def advance(self, env_steps):
        super().advance(env_steps)
        self.policy.step(env_steps)

    def loss(self, batch):
        values = gather_actions(self.networks["q"](batch["observations"]), batch["actions"])  # [B]
        best = ops.max(self.networks["target"](batch["next_observations"]), axis=1)  # [B]
        errors = values - self.bootstrapped(batch, best)  # no gradient goes through the target
        return {"default": self.mean(batch, ops.square(errors)), **self.priorities(ops.abs(errors))}

    def running_state(self):
        return {"policy": self.policy.get_state()}

    def set_running_state(self, state):
        self.policy.set_state(state["policy"])


if __name__ == "__main__":
    from typing import Any

    from finder import AgentFinder, LRFinder, OptFinder, tune

    settings: dict[str, Any] = {"storage": "sqlite:///own-dqn.db", "seeds": 2}
    search = {**settings, "env_steps": 20_000, "executor": "population"}  # all rates and seeds in one population

    rates = LRFinder(QLearner, "CartPole-v1").grid(1e-4, 1e-2, 5, **search)
    print("learning rate:", rates.best)

    optimizers = OptFinder(QLearner, ["adam", "rmsprop"], "CartPole-v1")
    optimizers.find(n_rates=3, **search)
    print("optimizer:", optimizers.best_opt, "at", optimizers.best_learning_rate)

    test = LRFinder(QLearner, "CartPole-v1").find(1e-5, 1.0, N=200, metric="loss", storage=settings["storage"])
    print("range test:", test.best, "-", test.suggestion.reason)

    agents_compared = AgentFinder([QLearner, "dqn"], None, "CartPole-v1")
    agents_compared.find(env_steps=20_000, **settings)
    print("agent:", agents_compared.logs["best_agent"])

    space = {"n_step": [1, 3], "tau": [0.01, 1.0], "replay": ["uniform", "prioritized"]}
    tuned = tune(QLearner, "CartPole-v1", space, n_trials=4, **search)
    print(tuned.table()[["trial", "n_step", "tau", "replay", "value", "state"]])
