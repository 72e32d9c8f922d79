"""Tests of common mistakes: each raises an error with the cause and the correction."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from keras import ops

import agents
from agents import ConfigurationError, KerasAgent, RolloutBuffer, network
from agents.errors import NotMappableError
from agents.population import Population

BOX, TWO = gym.spaces.Box(-1.0, 1.0, (3,)), gym.spaces.Discrete(2)


class Own(KerasAgent):
    """Correct agent; subclasses have one mistake each."""

    def build(self) -> Any:
        return {"policy": network(self.observation_space, [4], 2)}

    def make_buffer(self, n_envs: int, rng: Any) -> Any:
        return RolloutBuffer(n_steps=8, rng=rng)

    def act(self, observations: Any, explore: bool = False) -> Any:
        return np.argmax(self.infer("policy", observations), axis=1)

    def loss(self, batch: Any) -> Any:
        return {"default": ops.mean(self.networks["policy"](batch["observations"]))}


def test_agents_are_not_copied() -> None:
    with pytest.raises(ConfigurationError, match=r"cannot be copied: make another one by agents.make"):
        copy.deepcopy(agents.make(Own, "CartPole-v1"))


@pytest.mark.parametrize("criterion", ["475", float("nan"), True, None])
def test_criteria_are_numbers(criterion: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"criterion is .*: give the mean return to reach"):
        agents.StopAtReturn(criterion)


def made(**methods: Any) -> agents.Agent:
    return agents.make(type("Mistaken", (Own,), methods), "CartPole-v1")


def trained(**methods: Any) -> None:
    with agents.Trainer(made(**methods)) as trainer:
        trainer.train(env_steps=8)


class Undecorated(agents.AgentConfig):
    """Config without its decorator."""

    width: int = agents.hyperparameter(4, "Units.")


MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "an environment in the place of spaces": (
        lambda: agents.PPO("MlpPolicy", "CartPole-v1"),  # type: ignore[arg-type]
        r"takes spaces, got 'MlpPolicy' as observation_space: agents\.make\(PPO, 'CartPole-v1'\)",
    ),
    "a name in the place of an agent": (
        lambda: agents.Trainer("ppo", "CartPole-v1"),  # type: ignore[arg-type]
        r"A trainer takes a built agent, got 'ppo': agents\.make\('ppo', ",
    ),
    "a class in the place of an agent": (
        lambda: agents.Trainer(agents.PPO, "CartPole-v1"),  # type: ignore[arg-type]
        r"agents\.make\(PPO, ",
    ),
    "a name in the place of an agent to evaluate": (
        lambda: agents.evaluate("ppo", "CartPole-v1"),  # type: ignore[arg-type]
        r"evaluate\(\) takes a built agent",
    ),
    "a network without a name": (
        lambda: made(build=lambda self: network(self.observation_space, [4], 2)),
        r"Mistaken\.build\(\) must return the networks by name, .* it returned a Sequential",
    ),
    "a network that is none": (lambda: made(build=lambda self: {"policy": 3}), "'policy' is a int"),
    "an unknown target network": (
        lambda: made(target_networks={"target": "policy"}, config_class=agents.OffPolicyConfig),
        r"target_networks names 'target', which build\(\) does not return; it returns 'policy'",
    ),
    "an unknown network of an optimizer": (
        lambda: made(optimized_networks=lambda self: {"default": ["polic"]}),
        "Unknown network 'polic'. Did you mean policy",
    ),
    "an unknown network to act with": (
        lambda: trained(act=lambda self, observations, explore=False: self.infer("pi", observations)),
        "Unknown network 'pi'. Did you mean policy",
    ),
    "logits in the place of actions": (
        lambda: trained(act=lambda self, observations, explore=False: self.infer("policy", observations)),
        r"act\(\) must return an action of Discrete\(2\) for each of 1 observations, .* returned the shape \(1, 2\)",
    ),
    "one action for all": (
        lambda: trained(act=lambda self, observations, explore=False: 0),
        r"an array of the shape \(1,\); it returned the shape \(\)",
    ),
    "probabilities in the place of actions": (
        lambda: trained(act=lambda self, observations, explore=False: np.full(len(observations), 0.7)),
        r"act\(\) must return numbers of actions of Discrete\(2\), as integers; it returned 0\.7 \(float64\)",
    ),
    "an action out of range": (
        lambda: trained(act=lambda self, observations, explore=False: np.full(len(observations), 7)),
        r"numbers of actions of Discrete\(2\), as integers; it returned 7",
    ),
    "no loss": (
        lambda: made(loss=KerasAgent.loss),
        r"The agent Mistaken has no loss\(\): define it as agents\.Agent or agents\.KerasAgent describes it",
    ),
    "no act and no build": (
        lambda: made(act=KerasAgent.act, build=KerasAgent.build),
        r"The agent Mistaken has no act\(\) and build\(\)",
    ),
    "act without explore": (
        lambda: made(act=lambda self, observations: np.zeros(len(observations), int)),
        r"Mistaken\.act\(self, observations\) must take .*: act\(self, observations, explore\)",
    ),
    "weights of another network": (
        lambda: made().set_state(
            made(build=lambda self: {"policy": network(self.observation_space, [8], 2)}).get_state()
        ),
        r"weights do not fit this Mistaken: their network policy has weights of the shapes \[\[4, 8\].*\[\[4, 4\].*"
        r"Restore its code",
    ),
    "weights of a network with another name": (
        lambda: made().set_state({**made().get_state(), "networks": {"actor": []}}),
        "they are of the networks actor; this agent has policy",
    ),
    "a misspelt event": (
        lambda: agents.Trainer(made(), callbacks=[type("Log", (agents.Callback,), {"on_epsode_end": print})()]),
        r"Log\.on_epsode_end is no event, .*: did you mean on_episode_end\? Events are on_train_begin",
    ),
    "an event of another library": (
        lambda: agents.Trainer(made(), callbacks=[type("Log", (agents.Callback,), {"on_epoch_end": print})()]),
        r"Log\.on_epoch_end is no event, .*: did you mean on_update_end\?",
    ),
    "an event without its end": (
        lambda: agents.Trainer(made(), callbacks=[type("Log", (agents.Callback,), {"on_step": print})()]),
        r"Log\.on_step is no event, .*: did you mean on_step_end\?",
    ),
    "no buffer": (lambda: trained(make_buffer=lambda self, n_envs, rng: None), r"make_buffer\(\) must return a buffer"),
    "no data": (
        lambda: trained(preprocess_batch=lambda self, data: None),
        r"preprocess_batch\(\) must return the data of the update, arrays by name; it returned None",
    ),
    "a config that is not a dataclass": (
        lambda: agents.make(type("Mistaken", (Own,), {"config_class": Undecorated}), "CartPole-v1", width=8),
        r"Undecorated declares width and is not a dataclass: write @dataclass\(frozen=True, kw_only=True\)",
    ),
    "the same without setting it": (lambda: made(config_class=Undecorated), "is not a dataclass"),
    "one callback without a list": (
        lambda: agents.Trainer(made(), callbacks=agents.Progress()),  # type: ignore[arg-type]
        "callbacks must be a list of callbacks",
    ),
    "the class of a callback": (
        lambda: agents.Trainer(made(), callbacks=[agents.Progress]),  # type: ignore[list-item]
        r"A callback must be an object, got the class: write Progress\(\.\.\.\)",
    ),
    "a function as a callback": (
        lambda: agents.Trainer(made(), callbacks=[print]),  # type: ignore[list-item]
        "A callback must be an agents.Callback",
    ),
    "one size of a layer": (lambda: network(BOX, 64, 2), r"list of whole numbers .* got 64"),  # type: ignore[arg-type]
    "half a unit": (lambda: network(BOX, [6.5], 2), r"whole numbers .* got \[6\.5\]"),  # type: ignore[list-item]
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistake_is_reported(mistake: str) -> None:
    make, message = MISTAKES[mistake]
    with pytest.raises(ConfigurationError, match=message):
        make()


def test_unknown_public_name_has_suggestions() -> None:
    with pytest.raises(AttributeError, match="module 'agents' has no attribute 'Chekpoint'") as caught:
        _ = agents.Chekpoint  # type: ignore[attr-defined]
    assert (caught.value.name, caught.value.obj) == ("Chekpoint", agents)  # Python makes the suggestions from these


def test_evaluate_and_play_accept_environment_ids() -> None:
    agent = agents.make("ppo", "CartPole-v1", hidden_sizes=[4])
    assert len(agents.evaluate(agent, "CartPole-v1", n_episodes=2, n_envs=2, max_steps=3)) == 2
    assert agents.play(agent, "CartPole-v1", max_steps=3)[0].length <= 3


class InfersTarget(agents.OffPolicyAgent):
    """Agent that evaluates its target network outside of the loss."""

    target_networks = {"target": "q"}  # noqa: RUF012

    def build(self) -> Any:
        return {name: network(self.observation_space, [4], 2) for name in ("q", "target")}

    def act(self, observations: Any, explore: bool = False) -> Any:
        return np.argmax(self.infer("q", observations), axis=1)

    def preprocess_batch(self, data: dict[str, Any]) -> dict[str, Any]:
        return {**data, "values": self.infer("target", data["next_observations"])}

    def loss(self, batch: Any) -> Any:
        return {"default": ops.mean(self.networks["q"](batch["observations"]) - batch["values"])}


def test_agent_that_infers_target_network_cannot_be_member() -> None:
    spec = agents.AgentSpec.of(InfersTarget, "CartPole-v1", {"learning_starts": 8, "batch_size": 8})
    with agents.Trainer(spec.build(0)) as trainer:
        trainer.train(env_steps=12)
    with agents.Trainer(Population(spec, [{}, {}])) as trainer, pytest.raises(NotMappableError, match="'target'"):
        trainer.train(env_steps=12)


def test_agents_are_not_pickled() -> None:
    with pytest.raises(ConfigurationError, match=r"cannot be pickled: save a checkpoint of its trainer"):
        pickle.dumps(agents.make(Own, "CartPole-v1"))


def test_checkpoint_is_a_path() -> None:
    with pytest.raises(ConfigurationError, match=r"A checkpoint is 3: give the path of a file or a folder"):
        agents.load_agent(3)  # type: ignore[arg-type]
