#!/bin/sh
# `finder tune` of every algorithm with all that it declares a range for: 8 trials of 2 seeds each, in one SQLite file.
#
#     sh benchmarks/searches/tune_all.sh tune-all.db        studies that are done are not run again; half an hour on two cores
#     finder dashboard --storage tune-all.db
set -e
storage=${1:-tune-all.db}
finder=${FINDER:-.venv/bin/finder}
tune() {
    agent=$1 env=$2 steps=$3
    shift 3
    "$finder" tune "$agent" --env "$env" --env-steps "$steps" --n-trials 8 --seeds 2 --confirm 1 --confirm-seeds 2 \
        --storage "$storage" "$@"
}
tune ppo CartPole-v1 20000
tune a2c CartPole-v1 20000
tune trpo CartPole-v1 20000
tune acer CartPole-v1 10000
tune dqn CartPole-v1 10000
tune rainbow CartPole-v1 3000
tune ddpg Pendulum-v1 3000 --set hidden_sizes=[64,64]
tune td3 Pendulum-v1 3000 --set hidden_sizes=[64,64]
tune sac Pendulum-v1 3000 --set hidden_sizes=[64,64]
