"""Cases of `returns.py`: settings of rl-baselines3-zoo as far as they have a counterpart here, else our defaults.

`beside` is the return to compare with. Of a single agent, that of the zoo's table for the same steps: of one run, on
LunarLander of the version before. Of several agents, that of Papoudakis et al. 2021 (2006.07869), table 3, converted
(see `_published`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from benchmarks import folders


@dataclass(frozen=True)
class Case:
    """An agent, an environment, a budget, and the return to reach."""

    agent: str
    env: str
    env_steps: int
    threshold: float | None  # None: for comparison only
    beside: float | str
    params: dict[str, Any] = field(default_factory=dict)
    seeds: int = 5
    goals: bool = False
    """True: the result is the percentage of episodes that reach their goal, where the last reward is 0."""
    env_kwargs: dict[str, Any] = field(default_factory=dict)
    wrappers: tuple[str, ...] = ()
    max_episode_steps: int | None = None
    sampled: bool = False
    """True: evaluations draw actions as in training. False: they are greedy."""
    n_episodes: int = 100
    """Episodes a seed at the end; returns that are mostly luck need more."""


def falling(rate: float, gradient_steps: int) -> dict[str, Any]:
    """A learning rate that falls on a straight line to next to nothing."""
    config = {"initial_learning_rate": rate, "decay_steps": gradient_steps, "end_learning_rate": 1e-5}
    return {"class_name": "PolynomialDecay", "config": config}


# The zoo updates targets every 10 environment steps, which is once between the 128 gradient steps of two updates. Its
# settings end where they happen to be (340, 500, 122, 118, 90); with these two parts and a rate that falls they hold.
DQN_CARTPOLE = {
    **{"double": True, "n_step": 5, "learning_rate": falling(2.3e-3, 24_500)},
    **{"batch_size": 64, "train_freq": 256, "gradient_steps": 128, "buffer_size": 100_000},
    **{"target_update_interval": 128, "hidden_sizes": [256, 256]},
    **{"exploration_final_eps": 0.04, "exploration_steps": 8_000},
}
DQN_ZOO = {
    **{"learning_rate": 6.3e-4, "batch_size": 128, "train_freq": 4, "gradient_steps": 4, "buffer_size": 50_000},
    **{"target_update_interval": 250, "hidden_sizes": [256, 256], "learning_starts": 128},
    **{"exploration_final_eps": 0.1, "exploration_steps": 12_000},
}
# With these two parts and a rate that falls, as above; the zoo's run without them ended at 154.
DQN_LUNAR = {**DQN_ZOO, "double": True, "n_step": 3, "learning_rate": falling(6.3e-4, 100_000)}
PPO_LUNAR = {"n_envs": 16, "n_steps": 1024, "n_epochs": 4, "gamma": 0.999, "gae_lambda": 0.98, "ent_coef": 0.01}
PPO_ACROBOT = {"n_envs": 16, "n_steps": 256, "n_epochs": 4, "gae_lambda": 0.94, "normalize_observations": True}
PPO_PENDULUM = {"n_envs": 4, "n_steps": 1024, "gamma": 0.9, "learning_rate": 1e-3}
# Without scaled rewards seeds end at -80 or -500: values of -80 are far away, and their gradient is all there is.
A2C_ACROBOT = {"n_envs": 16, "normalize_observations": True, "normalize_rewards": True}
# The zoo normalises both. With observations alone, two seeds of five do not reach the goal in 70,000 steps.
TRPO_ACROBOT = {"n_envs": 2, "n_steps": 1024, "normalize_observations": True, "normalize_rewards": True}
TRPO_PENDULUM = {"n_envs": 2, "n_steps": 1024, "gamma": 0.9, "learning_rate": 1e-3}
# The car must swing before it sees a reward: noise that drifts as slowly as it swings makes it do so.
DRIFT = {
    **{"noise": "ornstein-uhlenbeck", "noise_kwargs": {"theta": 0.05, "sigma": 0.5, "dt": 1.0}},
    **{"hidden_sizes": [64, 64]},
}
# The zoo gives TD3 300,000 steps.
TD3_MOUNTAINCAR = {**DRIFT, "train_freq": 8, "gradient_steps": 8}
# The zoo's 0.1 and 0.9999 are for noise that depends on the state, whose entropy is small: with our policy's they make
# moving on for ever, at an entropy of 0.7, worth more than the goal.
SAC_MOUNTAINCAR = {
    **{**DRIFT, "batch_size": 512, "train_freq": 32, "gradient_steps": 32, "buffer_size": 50_000, "ent_coef": 0.005},
    **{"gamma": 0.99, "tau": 0.01},
}
BIT_FLIP = {
    **{"replay": "hindsight", "hidden_sizes": [256], "gamma": 0.98, "tau": 0.05, "batch_size": 128, "n_envs": 8},
    **{"train_freq": 4, "gradient_steps": 4, "target_update_interval": 4, "buffer_size": 100_000},
    **{"exploration_steps": 10_000, "exploration_final_eps": 0.1},
}
FETCH_REACH = {
    **{"replay": "hindsight", "hidden_sizes": [64, 64], "gamma": 0.95, "tau": 0.05, "n_envs": 2, "gradient_steps": 2},
    **{"learning_starts": 1_000, "learning_rate": 1e-3},
}
RAINBOW = {
    **{"v_min": -300.0, "v_max": 300.0, "learning_rate": 5e-4, "batch_size": 64, "train_freq": 4, "gradient_steps": 2},
    **{"target_update_interval": 250, "hidden_sizes": [128, 128], "buffer_size": 100_000, "learning_starts": 1_000},
    # What counts only where a part is switched off.
    **{"exploration_final_eps": 0.05, "exploration_steps": 20_000},
}
WITHOUT: dict[str, dict[str, Any]] = {
    "double": {"double": False},
    "dueling": {"dueling": False},
    "multi-step": {"n_step": 1},
    "noisy": {"noisy": False},
    "priorities": {"replay": "uniform"},
    "distribution": {"n_atoms": 1},
}


def _rainbow(changes: dict[str, Any]) -> Case:
    return Case("rainbow", "LunarLander-v3", 100_000, None, "-", {**RAINBOW, **changes})


CASES = {
    "a2c-cartpole": Case("a2c", "CartPole-v1", 500_000, 475, 500),
    "dqn-cartpole": Case("dqn", "CartPole-v1", 50_000, 475, 500, DQN_CARTPOLE),
    "ppo-cartpole": Case("ppo", "CartPole-v1", 100_000, 475, 500),
    "a2c-acrobot": Case("a2c", "Acrobot-v1", 500_000, -90, -83, A2C_ACROBOT),
    "dqn-acrobot": Case("dqn", "Acrobot-v1", 100_000, -90, -77, DQN_ZOO),
    "ppo-acrobot": Case("ppo", "Acrobot-v1", 1_000_000, -90, -74, PPO_ACROBOT),
    "dqn-lunarlander": Case("dqn", "LunarLander-v3", 100_000, 200, 154, DQN_LUNAR),
    "ppo-lunarlander": Case("ppo", "LunarLander-v3", 1_000_000, 200, 242, PPO_LUNAR),
    "ddpg-pendulum": Case("ddpg", "Pendulum-v1", 20_000, -170, -152, {"gamma": 0.98}),
    "sac-pendulum": Case("sac", "Pendulum-v1", 20_000, -170, -157, {"learning_rate": 1e-3}),
    "td3-pendulum": Case("td3", "Pendulum-v1", 20_000, -170, -152, {"gamma": 0.98}),
    "ppo-pendulum": Case("ppo", "Pendulum-v1", 100_000, -180, -172, PPO_PENDULUM),
    "trpo-cartpole": Case("trpo", "CartPole-v1", 100_000, 475, 500),
    "trpo-acrobot": Case("trpo", "Acrobot-v1", 100_000, -90, -83, TRPO_ACROBOT),
    "trpo-pendulum": Case("trpo", "Pendulum-v1", 100_000, -180, -175, TRPO_PENDULUM),
    "acer-cartpole": Case("acer", "CartPole-v1", 100_000, 475, "-"),
    "sac-mountaincar": Case("sac", "MountainCarContinuous-v0", 50_000, 90, 94.7, SAC_MOUNTAINCAR),
    "td3-mountaincar": Case("td3", "MountainCarContinuous-v0", 60_000, 90, 93.5, TD3_MOUNTAINCAR),
}
# 10 bits. The discounts and rates of the paper on hindsight; FetchReach needs gymnasium-robotics and a MuJoCo below 4.
_BITS, _REACH = "agents.environments.bit_flip:BitFlip-v0", "gymnasium_robotics:FetchReach-v4"
CASES |= {
    "dqn-bitflip": Case("dqn", _BITS, 20_000, 95, "-", BIT_FLIP, goals=True),
    "dqn-bitflip-without-hindsight": Case(
        "dqn", _BITS, 20_000, None, "-", {**BIT_FLIP, "replay": "uniform"}, goals=True
    ),
    "sac-fetchreach": Case("sac", _REACH, 20_000, 90, "-", FETCH_REACH, goals=True),
    "sac-fetchreach-without-hindsight": Case(
        "sac", _REACH, 20_000, None, "-", {**FETCH_REACH, "replay": "uniform"}, goals=True
    ),
}
# Numbered states: Gymnasium's toy-text environments. Without hidden layers the network is a table of action values.
# Blackjack's observation is a tuple, and CliffWalking has no time limit of its own.
TABLE = {"hidden_sizes": (), "learning_rate": falling(0.03, 49_000), "exploration_steps": 20_000}
# Returns of -200 and less: values of that size are far away where rewards are not scaled.
PPO_SCALED = {"normalize_rewards": True, "learning_rate": 3e-3, "gamma": 0.98}
_LAKE = {"is_slippery": False}
CASES |= {
    "dqn-taxi": Case("dqn", "Taxi-v4", 50_000, 7.5, "-", TABLE),
    "dqn-frozenlake": Case("dqn", "FrozenLake-v1", 20_000, 0.99, "-", env_kwargs=_LAKE),
    "dqn-frozenlake-slippery": Case("dqn", "FrozenLake-v1", 50_000, 0.7, "-", TABLE, n_episodes=500),
    "dqn-cliffwalking": Case("dqn", "CliffWalking-v1", 20_000, -13, "-", max_episode_steps=200),
    "dqn-blackjack": Case(
        "dqn", "Blackjack-v1", 50_000, -0.07, "-", wrappers=("FlattenObservation",), n_episodes=5_000
    ),
    "ppo-frozenlake": Case("ppo", "FrozenLake-v1", 50_000, 0.99, "-", env_kwargs=_LAKE),
    "ppo-frozenlake-slippery": Case("ppo", "FrozenLake-v1", 100_000, 0.7, "-", n_episodes=500),
    "ppo-cliffwalking": Case("ppo", "CliffWalking-v1", 100_000, -13, "-", PPO_SCALED, max_episode_steps=200),
    "ppo-blackjack": Case(
        "ppo", "Blackjack-v1", 100_000, -0.07, "-", wrappers=("FlattenObservation",), n_episodes=5_000
    ),
}
CASES["rainbow-lunarlander"] = _rainbow({})
CASES |= {f"rainbow-without-{part}": _rainbow(changes) for part, changes in WITHOUT.items()}


# Several agents -----------------------------------------------------------------------------------------------------

_SPREAD, _LISTENER = "mpe2.simple_spread_v3:parallel_env", "mpe2.simple_speaker_listener_v4:parallel_env"
_GAMES = "agents.environments.multi_agent.games"


def _published(value: float) -> float:
    """Convert a published return of simple_spread into one of the environment here.

    There, each agent has the whole distance as its reward, not half of it, and every agent counts as colliding with
    itself: -1 for each of 3 agents and 25 steps. A rule that goes to the landmarks on the shortest ways, which the best
    of the table nearly equals, has -25.2 here. The values agree with another project's quotation of the table.
    """
    return (value + 3 * 25) / 2


def _several(agent: str, env: str, env_steps: int, published: float | None, params: dict[str, Any]) -> Case:
    beside = "-" if published is None else f"{_published(published):.1f}"
    return Case(agent, env, env_steps, None, beside, params)


_MAPPO = {
    **{"n_envs": 16, "n_steps": 100, "batch_size": 400, "n_epochs": 10, "gamma": 0.95, "ent_coef": 0.01},
    **{"learning_rate": falling(7e-4, 25_000)},
}
_OFF_POLICY = {
    **{"n_envs": 8, "train_freq": 8, "gradient_steps": 2, "batch_size": 512, "buffer_size": 200_000, "gamma": 0.95},
    **{"learning_rate": 1e-3, "hidden_sizes": [64, 64]},
}
_VALUES = {**_OFF_POLICY, "target_update_interval": 100, "exploration_steps": 50_000, "exploration_final_eps": 0.05}
_OWN = {"share_parameters": False}
# A twentieth of the paper's budget for MAPPO, a quarter for the others.
MULTI_AGENT_CASES = {
    "mappo-spread": _several("mappo", _SPREAD, 1_000_000, -133.54, _MAPPO),
    "vdn-spread": _several("vdn", _SPREAD, 500_000, -131.03, _VALUES),
    "qmix-spread": _several("qmix", _SPREAD, 500_000, -126.62, _VALUES),
    "maddpg-spread": _several("maddpg", _SPREAD, 500_000, -141.70, _OFF_POLICY),
    "mappo-listener": _several("mappo", _LISTENER, 1_000_000, None, {**_MAPPO, **_OWN}),
    "vdn-listener": _several("vdn", _LISTENER, 500_000, None, {**_VALUES, **_OWN}),
    "qmix-listener": _several("qmix", _LISTENER, 500_000, None, {**_VALUES, **_OWN}),
    "maddpg-listener": _several("maddpg", _LISTENER, 500_000, None, _OFF_POLICY),
}
# Level-based foraging: the share of the food that is collected. MAPPO is evaluated as it trains:
# drawn actions collected everything in a trial of two seeds, greedy ones 0.85 and 0.82.
_FORAGING = "lbforaging:Foraging-8x8-2p-3f-coop-v3"
_MAPPO_FORAGING = {
    **{"n_envs": 16, "n_steps": 64, "batch_size": 512, "n_epochs": 4, "hidden_sizes": [128, 128], "ent_coef": 0.005},
    **{"learning_rate": falling(1e-3, 7_800)},
}
MULTI_AGENT_CASES["mappo-foraging"] = Case("mappo", _FORAGING, 1_000_000, 0.9, "-", _MAPPO_FORAGING, sampled=True)
MULTI_AGENT_CASES["qmix-foraging"] = Case(
    "qmix", _FORAGING, 1_000_000, 0.9, "-", {**_VALUES, "gamma": 0.99, "hidden_sizes": [128, 128]}
)
# The second best pair of actions of the climbing game is safe, and the best one is beside the worst.
_GAME = {"learning_starts": 100, "learning_rate": 5e-4, "target_update_interval": 100}
_AT_RANDOM = {**_GAME, "policy": "epsilon-greedy", "policy_kwargs": {"epsilon": 1.0}}
for _name, _env in (("two-step", "TwoStepGame"), ("climbing", "MatrixGame")):
    for _agent, _params in (
        ("mappo", {"n_envs": 8, "n_steps": 32, "learning_rate": 1e-3, "ent_coef": 0.01}),
        ("vdn", _AT_RANDOM),
        ("qmix", _AT_RANDOM),
        ("maddpg", {"learning_starts": 100, "learning_rate": 5e-4}),
    ):
        MULTI_AGENT_CASES[f"{_agent}-{_name}"] = _several(_agent, f"{_GAMES}:{_env}", 8_000, None, _params)
CASES |= MULTI_AGENT_CASES

# Memory -------------------------------------------------------------------------------------------------------------

_POSITIONS = f"{folders.ENVIRONMENTS / 'positions.py'}:Positions"
_PPO_POSITIONS = {"n_envs": 8, "n_steps": 256, "batch_size": 512, "n_epochs": 10, "learning_rate": falling(1e-3, 5_800)}
CASES |= {
    "ppo-positions": Case(
        "ppo", _POSITIONS, 300_000, 450, "-", {**_PPO_POSITIONS, "gru_units": 64, "sequence_length": 32}
    ),
    "ppo-positions-without-memory": Case("ppo", _POSITIONS, 300_000, None, "-", _PPO_POSITIONS),
}
