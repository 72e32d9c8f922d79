"""A training of your own, whatever it is made of: here the cross-entropy method (de Boer et al. 2005), in NumPy.

python examples/your_own_training.py
finder tune examples/your_own_training.py:train --env CartPole-v1 --param noise=0.01:3:log --param elite=0.1:0.9
"""

import numpy as np


def train(run, population: int = 20, elite: float = 0.5, noise: float = 3.0):
    rng = np.random.default_rng(run.seed)
    environment = run.environment.make()
    environment.reset(seed=run.seed)
    mean, spread = np.zeros(4), np.ones(4)
    try:
        while True:  # the run ends in a report: when its budget is used, or its trial is pruned
            policies = rng.normal(mean, spread, (population, 4))
            returns = [play(environment, policy, run) for policy in policies]
            best = policies[np.argsort(returns)[-max(2, round(elite * population)) :]]
            mean, spread = best.mean(axis=0), best.std(axis=0) + noise
    finally:
        environment.close()


def play(environment, policy, run):
    observation, _ = environment.reset()
    total, length, ended = 0.0, 0, False
    while not ended:
        observation, reward, terminated, truncated, _ = environment.step(int(observation @ policy > 0))
        total, length, ended = total + reward, length + 1, terminated or truncated
    run.report(episode_return=total, length=length)
    return total


if __name__ == "__main__":
    import agents
    from finder import tune

    found = tune(
        train,
        "CartPole-v1",
        {"noise": "0.01:3:log", "elite": "0.1:0.9"},
        env_steps=20_000,
        n_trials=12,
        storage="sqlite:///own-training.db",
    )
    print(found.best)

    with agents.TrainingRun("CartPole-v1", seed=100, env_steps=100_000) as run:
        train(run, **found.best.config)
    print("mean return of the last 100 episodes:", run.history.mean_return())
