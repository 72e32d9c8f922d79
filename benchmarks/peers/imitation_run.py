"""One run of the library `imitation`, in its own environment: started by `library.py`, answers with JSON."""
# mypy: ignore-errors

from __future__ import annotations

import json
import sys
import time

import numpy as np
import torch
from imitation.algorithms.adversarial.airl import AIRL
from imitation.algorithms.adversarial.gail import GAIL
from imitation.algorithms.bc import BC
from imitation.data.types import Trajectory
from imitation.rewards.reward_nets import BasicRewardNet, BasicShapedRewardNet
from imitation.util.logger import configure
from imitation.util.networks import RunningNorm
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy

torch.set_num_threads(1)

# `docs/tutorials/3_train_gail.ipynb` and `4_train_airl.ipynb` of imitation 1.0.1.
ADVERSARIAL = {
    "gail": (GAIL, BasicRewardNet, 1024, 8),
    "airl": (AIRL, BasicShapedRewardNet, 2048, 16),
}
CAPACITY, BC_BATCHES = 512, 10_000  # batches of 32 rows, the default


def trajectories(path: str, n_episodes: int) -> list[Trajectory]:
    """Return the first episodes of an exported dataset."""
    with np.load(path) as file:
        data = dict(file)
    found, start = [], 0
    for episode, length in enumerate(data["lengths"][:n_episodes]):
        states = data["states"][start + episode : start + episode + length + 1]
        actions = data["actions"][start : start + length]
        found.append(Trajectory(obs=states, acts=actions, infos=None, terminal=bool(data["terminated"][episode])))
        start += length
    return found


def falling(rate: float, end: float):
    """Return a learning rate that falls on a straight line."""
    return lambda remaining: end + (rate - end) * remaining


class OnePPO(PPO):
    """PPO whose learning rate falls over a given number of steps, as each call of `learn` is one round here."""

    all_steps = 1

    def _update_current_progress_remaining(self, num_timesteps: int, total_timesteps: int) -> None:
        del total_timesteps
        self._current_progress_remaining = max(0.0, 1.0 - num_timesteps / self.all_steps)


def main(given: dict) -> dict:
    """Train and evaluate."""
    method, seed, settings = given["method"], given["seed"], given["ppo"]
    demonstrations = trajectories(given["demonstrations"], given["n_demonstrations"])
    wall, processor = time.perf_counter(), time.process_time()
    where = make_vec_env(given["env"], settings.pop("n_envs"), seed=seed)
    torch.manual_seed(seed)
    np.random.seed(seed)
    spaces = where.observation_space, where.action_space
    silent = configure(format_strs=[])
    if method == "bc":
        rng = np.random.default_rng(seed)
        trainer = BC(
            observation_space=spaces[0], action_space=spaces[1], demonstrations=demonstrations, rng=rng,
            custom_logger=silent,
        )  # fmt: skip
        trainer.train(n_batches=BC_BATCHES, progress_bar=False)
    else:
        if isinstance(settings["learning_rate"], list):
            settings["learning_rate"] = falling(*settings["learning_rate"])
        learner = OnePPO("MlpPolicy", where, seed=seed, device="cpu", **settings)
        learner.all_steps = given["env_steps"]
        algorithm, network, batch_size, n_updates = ADVERSARIAL[method]
        trainer = algorithm(
            demonstrations=demonstrations,
            demo_batch_size=min(batch_size, sum(map(len, demonstrations))),
            gen_replay_buffer_capacity=CAPACITY,
            n_disc_updates_per_round=n_updates * given["more_updates"],
            venv=where,
            gen_algo=learner,
            reward_net=network(*spaces, normalize_input_layer=RunningNorm),
            allow_variable_horizon=True,
            custom_logger=silent,
        )
        trainer.train(given["env_steps"])
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    judged = make_vec_env(given["env"], 10, seed=1_000_000)
    returns, _ = evaluate_policy(trainer.policy, judged, 100, deterministic=True, return_episode_rewards=True)
    return {"mean": np.mean(returns), "std": np.std(returns), "seconds": wall, "processor_seconds": processor}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
