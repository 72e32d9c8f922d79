"""The whole way: find a learning rate and an optimizer, then start the long run with them.

python examples/find_and_train.py
"""

import agents
from finder import LRFinder, OptFinder

rates = LRFinder("ppo", "CartPole-v1").grid(1e-5, 1e-1, env_steps=20_000)
print(rates)  # begins with the conclusion; rates.best has the parameters and the value of the pick
rates.plot().write_html("rates.html")

optimizers = OptFinder("ppo", ["adam", "adamw", "sgd(momentum=0.9)"], "CartPole-v1")
optimizers.find(env_steps=20_000)
print(optimizers.best_opt, "at", optimizers.best_learning_rate)

agent = agents.make("ppo", "CartPole-v1", optimizer=optimizers.best_optimizer())
# For a longer run, both searches take its length: horizon=500_000.
agents.Trainer(agent, callbacks=[agents.Progress()]).train(env_steps=20_000)
