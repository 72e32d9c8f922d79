"""Tests of training several agents: masks, populations, resuming, refused configs, memory, the two-step game."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("pettingzoo")

from parity import assert_resumed_run_equals_uninterrupted_run, members_and_agents_alone
from several_agents import Countdown, Duel, Masked

import agents
from agents import ConfigurationError, EnvironmentSpec, LambdaCallback, Trainer
from agents.collection.collector import Collector
from agents.networks.distributions import Categorical

GAMES = "agents.environments.multi_agent.games"
SMALL: dict[str, dict[str, Any]] = {
    "mappo": {"hidden_sizes": (8,), "jit_compile": False, "n_envs": 2, "n_steps": 10, "batch_size": 10, "n_epochs": 2},
    "vdn": {"hidden_sizes": (8,), "jit_compile": False, "learning_starts": 20, "batch_size": 8},
}
SMALL |= {"qmix": {**SMALL["vdn"], "mixing_units": 4}, "maddpg": SMALL["vdn"]}
MULTI_AGENT = sorted(SMALL)


@pytest.mark.slow
@pytest.mark.parametrize("in_info", [False, True])
@pytest.mark.parametrize("algorithm", MULTI_AGENT)
def test_forbidden_actions_are_never_taken_and_losses_stay_finite(algorithm: str, in_info: bool):
    spec = EnvironmentSpec(Masked, {"in_info": in_info})  # raises at an action that its mask forbids
    agent = agents.make(algorithm, spec, **{**SMALL[algorithm], "share_parameters": False})
    updates: list[Any] = []
    watch = LambdaCallback(on_update_end=lambda trainer, update: updates.append(update))
    with Trainer(agent, callbacks=[watch]) as trainer:
        trainer.train(env_steps=60)
    assert updates
    assert all(update.finite for update in updates)
    weights = [weight.numpy() for network in agent.networks.values() for weight in network.weights]
    assert all(np.isfinite(weight).all() for weight in weights)
    assert set(trainer.history.returns) == {10.0}


PARITY = [
    ("mappo", {"normalize_values": False}),
    pytest.param(
        "mappo", {"share_parameters": False, "team_reward": False, "central_critic": False}, marks=pytest.mark.slow
    ),
    pytest.param("mappo", {"normalize_observations": True, "normalize_rewards": True}, marks=pytest.mark.slow),
    ("vdn", {}),
    ("qmix", {"target_update_interval": 5}),
    pytest.param("qmix", {"replay": "prioritized", "share_parameters": False}, marks=pytest.mark.slow),
    ("maddpg", {}),
    pytest.param("maddpg", {"share_parameters": True, "replay": "prioritized"}, marks=pytest.mark.slow),
]


@pytest.mark.slow
@pytest.mark.parametrize(("algorithm", "params"), PARITY)
def test_population_members_equal_agents_trained_alone(algorithm: str, params: dict[str, Any]):
    small = {**SMALL[algorithm], **params}
    for member, alone in members_and_agents_alone(algorithm, EnvironmentSpec(Countdown, {"lives": (3, 5)}), small):
        assert alone.history.returns == member.history.returns


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", MULTI_AGENT)
def test_resumed_run_equals_uninterrupted_run(algorithm: str):
    pytest.importorskip("mpe2")
    spec = EnvironmentSpec("mpe2.simple_spread_v3:parallel_env")

    def make() -> Trainer:
        return Trainer(agents.make(algorithm, spec, seed=1, **SMALL[algorithm]))

    assert_resumed_run_equals_uninterrupted_run(make, until=60, at=44)


@pytest.mark.parametrize(
    ("algorithm", "environment", "params", "message"),
    [
        ("mappo", "CartPole-v1", {}, "MAPPO trains several agents in one environment, and 'CartPole-v1' has one"),
        ("qmix", EnvironmentSpec(Masked), {}, r"spaces differ .* set share_parameters=false|differ \(first: 2 obs"),
        ("vdn", EnvironmentSpec(Countdown), {"noisy": True}, "noisy is for a single agent's networks"),
        ("maddpg", EnvironmentSpec(Countdown), {"n_step": 3}, "n_step must be .*1"),
        ("mappo", EnvironmentSpec(Countdown), {"share_layers": True}, "share_layers is for agents whose"),
        ("dqn", EnvironmentSpec(Countdown), {}, "a2c, maddpg, mappo, ppo, qmix, trpo and vdn take these"),
    ],
)
def test_impossible_combinations_are_refused(algorithm: str, environment: Any, params: dict[str, Any], message: str):
    with pytest.raises(ConfigurationError, match=message):
        agents.make(algorithm, environment, **params)


def test_continuous_actions_are_refused_by_action_values():
    pytest.importorskip("mpe2")
    spec = EnvironmentSpec("mpe2.simple_spread_v3:parallel_env", {"continuous_actions": True})
    with pytest.raises(ConfigurationError, match=r"VDN takes discrete actions, .* maddpg and mappo take these"):
        agents.make("vdn", spec)


@pytest.mark.slow
@pytest.mark.parametrize(("algorithm", "params"), [("mappo", {}), ("mappo", {"gru_units": 4}), ("maddpg", {})])
def test_continuous_actions_are_learned(algorithm: str, params: dict[str, Any]):
    pytest.importorskip("mpe2")
    spec = EnvironmentSpec("mpe2.simple_speaker_listener_v4:parallel_env", {"continuous_actions": True})
    agent = agents.make(algorithm, spec, **{**SMALL[algorithm], "share_parameters": False, **params})
    with Trainer(agent) as trainer:
        trainer.train(env_steps=60)
    assert agent.gradient_steps > 0


@pytest.mark.parametrize("algorithm", ["vdn", "qmix"])
def test_competing_agents_are_refused_when_learning_begins(algorithm: str):
    agent = agents.make(algorithm, EnvironmentSpec(Duel, {"lives": (9, 9)}), **{**SMALL[algorithm], "batch_size": 64})
    with Trainer(agent) as trainer, pytest.raises(ConfigurationError, match="'agent_0' and 'agent_1' in 'Duel' oppose"):
        trainer.train(env_steps=100)


@pytest.mark.slow
@pytest.mark.parametrize(("algorithm", "expected"), [("vdn", 7.0), ("qmix", 8.0), ("mappo", 8.0)])
def test_two_step_game_of_the_qmix_paper(algorithm: str, expected: float):
    exploring = {
        "policy": "epsilon-greedy", "policy_kwargs": {"epsilon": 1.0}, "target_update_interval": 100,
        "learning_starts": 100, "learning_rate": 5e-4,
    }  # fmt: skip
    on_policy = {"n_envs": 8, "n_steps": 32, "learning_rate": 1e-3, "ent_coef": 0.01}
    params: dict[str, Any] = on_policy if algorithm == "mappo" else exploring
    agent = agents.make(algorithm, f"{GAMES}:TwoStepGame", seed=0, **params)
    with Trainer(agent) as trainer:
        trainer.train(env_steps=8000, progress=False)
    assert set(agents.evaluate(agent, n_episodes=10)) == {expected}


# --- memory


def test_mappo_sequences_reproduce_the_acting_policy():
    """The loss runs through sequences; the rollout was acted step by step, in NumPy. Both give the same policy."""
    spec = EnvironmentSpec(Countdown, {"lives": (2, 3)})
    agent = agents.make("mappo", spec, seed=1, **{**SMALL["mappo"], "gru_units": 4, "sequence_length": 5})
    collector, buffer = Collector(spec, 2, [0]), agent.new_buffer(2, [0])
    while not buffer.ready:
        buffer.add(collector.step(agent, True).transition)
    batches = buffer.batches(agent.preprocess_batch(buffer.sample()))
    batch = {name: values[batches.indices[0]] for name, values in batches.data.items()}
    assert batch["begins"].any()
    assert batch["memory"].shape[1:] == (2, 8)
    logits, rows = np.asarray(agent.outputs("actor", batch)), agent.steps(batch)
    flat = Categorical.log_prob_numpy(logits.reshape(-1, 2), np.asarray(rows["actions"]).ravel())
    alive = np.asarray(rows["alive"]) > 0.0
    np.testing.assert_allclose(flat.reshape(-1, 2)[alive], np.asarray(rows["log_probs"])[alive], rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "params"),
    [
        pytest.param("mappo", {"sequence_length": 5}, marks=pytest.mark.slow),
        pytest.param("mappo", {"normalize_observations": True, "normalize_values": False}, marks=pytest.mark.slow),
        ("vdn", {"sequence_length": 3, "burn_in": 2}),
        pytest.param("qmix", {"sequence_length": 4}, marks=pytest.mark.slow),
        pytest.param("qmix", {"sequence_length": 3, "share_parameters": False}, marks=pytest.mark.slow),
        pytest.param(
            "mappo",
            {"sequence_length": 5, "share_parameters": False, "normalize_values": False},
            marks=pytest.mark.slow,
        ),
    ],
)
def test_members_with_memory_equal_agents_trained_alone(algorithm: str, params: dict[str, Any]):
    test_population_members_equal_agents_trained_alone(algorithm, {"gru_units": 4, **params})
