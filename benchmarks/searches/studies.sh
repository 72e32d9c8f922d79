#!/usr/bin/env bash
# Real searches from the command line, all into one SQLite file: learning rates for DQN and PPO on three environments,
# five optimizers, and DQN against PPO. A study that is complete is not run again. Then look: finder dashboard.
#
#     bash benchmarks/searches/studies.sh [STORAGE]
set -euo pipefail
export OPTUNA_STORAGE="${1:-sqlite:///benchmarks-studies.db}"
finder=${FINDER:-.venv/bin/finder}
dqn=(--set train_freq=4 --set hidden_sizes=[64,64])

$finder lr ppo --env CartPole-v1 --n-rates 9 --env-steps 30000 --seeds 3
$finder lr ppo --env Acrobot-v1 --n-rates 5 --env-steps 60000 --seeds 2
$finder lr ppo --env LunarLander-v3 --n-rates 5 --env-steps 100000 --seeds 2
$finder lr dqn --env CartPole-v1 --n-rates 5 --env-steps 30000 --seeds 2 "${dqn[@]}"
$finder lr dqn --env Acrobot-v1 --n-rates 5 --env-steps 30000 --seeds 2 "${dqn[@]}"
$finder lr dqn --env LunarLander-v3 --n-rates 5 --env-steps 50000 --seeds 2 "${dqn[@]}"
$finder opt ppo --env CartPole-v1 --n-rates 4 --env-steps 20000 --seeds 2 \
  --optimizer adam --optimizer adamw --optimizer adamax --optimizer rmsprop --optimizer sgd
$finder agents dqn ppo --env CartPole-v1 --env-steps 30000 --seeds 2
$finder tune ppo --env CartPole-v1 --env-steps 20000 --seeds 2 --n-trials 12 --n-jobs 2 \
  --param learning_rate --param gamma=0.95:0.999 --param optimizer=adam,rmsprop --param n_steps=64,128
$finder lr ppo --env CartPole-v1 --range-test
$finder studies
