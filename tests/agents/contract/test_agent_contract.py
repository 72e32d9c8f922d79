"""Contract tests of agents, built-in and user-defined."""

import keras
import numpy as np
import pytest
from agent_contract import SMALL, AgentContract

import agents
from agents.buffers import RolloutBuffer
from agents.contract.keras_agent import KerasAgent
from agents.functional.returns import discounted_returns
from agents.networks.builders import network


class TestDQN(AgentContract):
    params = {**SMALL, "learning_starts": 20, "batch_size": 8, "target_update_interval": 5}  # noqa: RUF012


class TestDQNWithAllOptions(AgentContract):
    params = {  # noqa: RUF012
        **TestDQN.params,
        **{
            "double": True,
            "dueling": True,
            "n_step": 3,
            "n_envs": 2,
            "gradient_steps": 2,
            "policy": "boltzmann-gumbel",
        },
    }


class TestPrioritizedDQN(TestDQN):
    params = {**TestDQN.params, "replay": "prioritized", "n_step": 2, "n_envs": 2, "buffer_size": 40}  # noqa: RUF012
    live = "priority_alpha"
    live_value = 0.0


@pytest.mark.slow
class TestNoisyDQN(TestDQN):
    params = {**TestDQN.params, "noisy": True, "double": True, "dueling": True, "gradient_steps": 2}  # noqa: RUF012


class TestCategoricalDQN(TestDQN):
    params = {**TestDQN.params, "n_atoms": 11, "v_min": 0.0, "v_max": 20.0}  # noqa: RUF012
    live = "v_max"
    live_value = 10.0


@pytest.mark.slow
class TestRainbow(TestDQN):
    agent_class = "rainbow"
    params = {**TestDQN.params, "n_envs": 2, "gradient_steps": 2, "buffer_size": 60}  # noqa: RUF012


class TestPPO(AgentContract):
    agent_class = "ppo"
    params = {**SMALL, "n_envs": 2, "n_steps": 8, "batch_size": 8, "n_epochs": 2}  # noqa: RUF012
    live = "clip_range"
    live_value = 0.001


class TestPPONormalised(TestPPO):
    params = {**TestPPO.params, "normalize_observations": True, "optimizer": "nadam"}  # noqa: RUF012


class TestPPOContinuous(TestPPO):
    environment = "Pendulum-v1"
    live = "ent_coef"
    live_value = 0.5


class TestA2C(TestPPO):
    agent_class = "a2c"
    params = {**SMALL, "n_envs": 2}  # noqa: RUF012
    live = "ent_coef"
    live_value = 0.5


class TestA2CContinuous(TestA2C):
    environment = "Pendulum-v1"


class TestTRPO(TestPPO):
    agent_class = "trpo"
    live = "target_kl"
    live_value = 1e-4


class TestTRPONormalised(TestTRPO):
    params = {**TestTRPO.params, "normalize_observations": True, "max_grad_norm": 0.5}  # noqa: RUF012
    live = "cg_damping"
    live_value = 2.0


class TestTRPOContinuous(TestTRPO):
    environment = "Pendulum-v1"
    live = "gae_lambda"


class TestACER(AgentContract):
    agent_class = "acer"
    params = {**SMALL, "n_envs": 2, "n_steps": 4, "replay_ratio": 2, "learning_starts": 20}  # noqa: RUF012


class TestACERWithoutReplay(TestACER):
    params = {**SMALL, "n_envs": 2, "n_steps": 8, "replay_ratio": 0, "optimizer": "rmsprop"}  # noqa: RUF012
    live = "vf_coef"
    live_value = 0.1


class TestSAC(AgentContract):
    agent_class = "sac"
    environment = "Pendulum-v1"
    params = {**SMALL, "learning_starts": 20, "batch_size": 8}  # noqa: RUF012


class TestSACWithFixedTemperature(TestSAC):
    params = {**TestSAC.params, "ent_coef": 0.2, "n_envs": 2, "gradient_steps": 2}  # noqa: RUF012
    live = "ent_coef"


class TestPrioritizedSAC(TestSAC):
    params = {**TestSAC.params, "replay": "prioritized", "gradient_steps": 2}  # noqa: RUF012
    live = "priority_beta"
    live_value = 1.0


class TestDDPG(AgentContract):
    agent_class = "ddpg"
    environment = "Pendulum-v1"
    params = {**SMALL, "learning_starts": 20, "batch_size": 8}  # noqa: RUF012


class TestDDPGWithOrnsteinUhlenbeckNoise(TestDDPG):
    params = {**TestDDPG.params, "noise": "ornstein-uhlenbeck"}  # noqa: RUF012


class TestTD3(AgentContract):
    agent_class = "td3"
    environment = "Pendulum-v1"
    params = {**SMALL, "learning_starts": 20, "batch_size": 8, "gradient_steps": 2, "n_envs": 2}  # noqa: RUF012
    live = "target_noise"


class Reinforce(KerasAgent):
    """User-defined agent: REINFORCE (Williams 1992)."""

    config_class = agents.AgentConfig

    def build(self):
        return {"policy": network(self.observation_space, (8,), int(self.action_space.n))}

    def make_buffer(self, n_envs, rng):
        return RolloutBuffer(n_steps=16, rng=rng)

    def act(self, observations, explore=True):
        logits = self.infer("policy", observations)
        return np.argmax(logits + (self.rng.gumbel(size=logits.shape) if explore else 0.0), axis=1)

    def preprocess_batch(self, data):
        ended = data["terminated"] | data["truncated"]
        return data | {"returns": discounted_returns(data["rewards"], ended, np.zeros(ended.shape[1]), 0.99)}

    def loss(self, batch):
        log_probs = keras.ops.log_softmax(self.networks["policy"](batch["observations"]))
        chosen = keras.ops.take_along_axis(log_probs, keras.ops.expand_dims(batch["actions"], 1), 1)[:, 0]
        return {"default": -keras.ops.mean(chosen * batch["returns"])}


class TestUserAgent(AgentContract):
    agent_class = Reinforce
    params = {"jit_compile": False, "n_envs": 2}  # noqa: RUF012
    live = "learning_rate"
    live_value = 0.5


class ActorCritic(Reinforce):
    """User-defined agent with two optimizers."""

    def build(self):
        return {**super().build(), "critic": network(self.observation_space, (8,), 1)}

    def optimized_networks(self):
        return {"actor": ["policy"], "critic": ["critic"]}

    def loss(self, batch):
        values = self.networks["critic"](batch["observations"])[:, 0]
        error = batch["returns"] - values
        actor = super().loss(batch | {"returns": keras.ops.stop_gradient(error)})["default"]
        return {"actor": actor, "critic": keras.ops.mean(error**2), "value": keras.ops.mean(values)}


class TestUserAgentWithTwoOptimizers(TestUserAgent):
    agent_class = ActorCritic
    params = {**TestUserAgent.params, "critic.learning_rate": 0.1, "critic.optimizer": "sgd(momentum=0.9)"}  # noqa: RUF012

    def test_each_network_has_its_own_optimizer(self, agent):
        assert {name: type(live).__name__ for name, live in agent.optimizers.items()} == {
            "actor": "Adam",
            "critic": "SGD",
        }
        assert agent.optimizers["critic"].momentum == 0.9
