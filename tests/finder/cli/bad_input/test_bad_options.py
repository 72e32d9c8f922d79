"""Tests of invalid option values: one message that names the allowed ones, exit code 2."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mistakes import Mistake, check, ids, write_all

NUMBERS = [
    Mistake("lr PPO --env-steps nan", "got 'nan'", "--env-steps"),
    Mistake("lr PPO --env-steps 1.5", "got '1.5'", "--env-steps"),
    Mistake("lr PPO --env-steps HUGE", "HUGE", "9223372036854775807"),
    Mistake("lr PPO --episodes HUGE", "HUGE", "9223372036854775807"),
    Mistake("lr PPO --horizon HUGE", "HUGE", "9223372036854775807"),
    Mistake("lr PPO --horizon 0", "'--horizon'", "greater than or equal to 1"),
    Mistake("lr PPO --max-episode-steps 0", "'--max-episode-steps'", "greater than or equal to 1"),
    Mistake("lr PPO --max-episode-steps HUGE", "HUGE", "9223372036854775807"),
    Mistake("lr PPO --confirm -1", "'--confirm'", "greater than or equal to 0"),
    Mistake("lr PPO --confirm-seeds 0", "'--confirm-seeds'", "greater than or equal to 1"),
    Mistake("lr PPO --confirm-seeds 100000000", "100000000", "10000"),
    Mistake("lr PPO --seed -1", "'--seed'", "greater than or equal to 0"),
    Mistake("lr PPO --seed HUGE", "HUGE", "4294967295"),
    Mistake("lr PPO --checkpoint-seconds nan", "got 'nan'", "greater than or equal to 0"),
    Mistake("lr PPO --checkpoint-seconds inf", "checkpoint_seconds is inf", "finite number"),
    Mistake("lr PPO --checkpoint-seconds -1", "'--checkpoint-seconds'", "greater than or equal to 0"),
    Mistake("lr PPO --hang-seconds nan", "got 'nan'", "greater than or equal to 0"),
    Mistake("lr PPO --hang-seconds inf", "hang_seconds is inf", "finite number"),
    Mistake("lr PPO --n-jobs HUGE", "HUGE", "1024"),
    Mistake("lr PPO --n-jobs -3", "'--n-jobs'", "greater than or equal to 1"),
    Mistake("lr PPO --population 0", "'--population'", "greater than or equal to 1"),
    Mistake("lr PPO --population HUGE", "HUGE", "9223372036854775807"),
    Mistake("tune PPO --n-trials nan", "got 'nan'", "--n-trials"),
    Mistake("tune PPO --n-trials HUGE", "HUGE", "9223372036854775807"),
    Mistake("opt PPO --n-rates 0", "'--n-rates'", "greater than or equal to 1"),
    Mistake("opt PPO --n-rates 100000000", "100000000", "1000"),
]

RATES = [
    Mistake("lr PPO --start-lr nan", "start_lr", "finite"),
    Mistake("lr PPO --start-lr inf", "start_lr", "finite"),
    Mistake("lr PPO --start-lr abc", "got 'abc'", "--start-lr"),
    Mistake("lr PPO --start-lr -1", "start_lr must be > 0", "-1"),
    Mistake("lr PPO --end-lr nan", "end_lr", "finite"),
    Mistake("lr PPO --end-lr 1e400", "end_lr", "finite"),
    Mistake("lr PPO --end-lr 0", "start_lr must be", "0"),
    Mistake("lr PPO --n-rates 1", "n_rates must be >= 2", "got 1"),
    Mistake("lr PPO --n-rates -5", "n_rates must be >= 2", "got -5"),
    Mistake("lr PPO --n-rates 2.5", "got '2.5'", "--n-rates"),
    Mistake("lr PPO --n-rates 100000000", "100000000", "1000"),
    Mistake("lr PPO --n-rates HUGE", "HUGE", "1000"),
    Mistake("lr PPO --n-rates 50 --start-lr 0.001 --end-lr 0.001001", "50 rates", "fewer"),
    Mistake("lr PPO --rates ''", "--rates is ''", "1e-4,1e-3"),
    Mistake("lr PPO --rates abc", "--rates is 'abc'", "1e-4,1e-3"),
    Mistake("lr PPO --rates 1e-3,inf", "--rates has inf", "finite number above 0"),
    Mistake("lr PPO --rates '1e-3;1e-2'", "--rates is '1e-3;1e-2'", "1e-4,1e-3"),
    Mistake("lr PPO --range-test --n-rates 100000000", "100000000", "100000"),
    Mistake("lr PPO --range-test --n-rates 0", "N must be", "0"),
    Mistake("lr PPO --range-test --start-lr nan", "start_lr", "finite"),
    Mistake("lr PPO --range-test --end-lr inf", "end_lr", "finite"),
    Mistake("lr PPO --range-test --seeds 0", "seeds must be >= 1", "0"),
    Mistake("lr PPO --optimizer-name critc", "critc", "Did you mean critic"),
    Mistake("opt PPO --rates owm", "--rates is 'owm'", "1e-4,1e-3"),
    Mistake("opt PPO --rates 1e-3,nan", "--rates has nan", "finite number above 0"),
    Mistake("opt PPO --vary x", "--vary is 'x'", "name=0,0.9"),
    Mistake("opt PPO --vary momentum=nan", "--vary is 'momentum=nan'", "name=0,0.9"),
    Mistake("opt PPO --vary =1", "--vary is '=1'", "name=0,0.9"),
]

SEEDS = [
    Mistake("lr PPO --seeds abc", "--seeds is 'abc'", "how many, such as 3"),
    Mistake("lr PPO --seeds -1", "seeds: -1 is not a number of seeds", "from 1"),
    Mistake("lr PPO --seeds 1.5", "--seeds is '1.5'", "how many, such as 3"),
    Mistake("lr PPO --seeds ,", "--seeds is ','", "how many, such as 3"),
    Mistake("lr PPO --seeds=-1,2", "-1", "greater than or equal to 0"),
    Mistake("lr PPO --seeds nan", "--seeds is 'nan'", "how many, such as 3"),
    Mistake("lr PPO --seeds 100000000", "100000000", "10000"),
    Mistake("lr PPO --seeds HUGE,1", "HUGE", "9223372036854775807"),
    Mistake("lr PPO --range-test --seeds 100000000", "100000000", "10000"),
]

SETTINGS = [
    Mistake("lr PPO --set gamma=nan", "got nan", "gamma must be"),
    Mistake("lr PPO --set gamma=1e999", "got inf", "gamma must be"),
    Mistake("lr PPO --set n_envs=0", "n_envs must be", "0"),
    Mistake("lr PPO --set n_envs=HUGE", "got HUGE", "n_envs must be"),
    Mistake("lr PPO --set n_envs=100000000", "n_envs", "100000000"),
    Mistake("lr PPO --set hidden_sizes=[-1]", "hidden_sizes", "-1"),
    Mistake("lr PPO --set hidden_sizes=[99999999999]", "hidden_sizes", "99999999999"),
    Mistake("lr PPO --set n_steps=1.5", "n_steps", "1.5"),
    Mistake("lr PPO --set n_steps=HUGE", "got HUGE", "n_steps must be"),
    Mistake("lr PPO --set batch_size=x", "batch_size", "'x'"),
    Mistake("tune PPO -p gamma --set learning_rate=-1", "learning_rate must be", "-1"),
    Mistake("lr PPO --set =", "--set is '='", "name=value"),
    Mistake("lr PPO --set gamma", "--set is 'gamma'", "name=value"),
    Mistake("lr PPO --set gamma=0.9 --set gamma=0.8", "--set gives 'gamma' twice", "once"),
    Mistake("lr PPO --set optimizer=adma", "adma", "Did you mean adam"),
    Mistake("lr dqn --env CartPole-v1 --set policy=nowhere:X", "nowhere:X", "policy"),
    Mistake("lr dqn --env CartPole-v1 --set buffer_size=HUGE", "got HUGE", "buffer_size must be"),
    Mistake("lr dqn --env CartPole-v1 --set buffer_size=0", "buffer_size must be", "got 0"),
    Mistake("lr PPO --set hidden_sizes=NESTED", "--set", "deep"),
    Mistake("lr PPO --env-kwargs []", "--env-kwargs is '[]'", "JSON object"),
    Mistake("lr PPO --env-kwargs null", "--env-kwargs is 'null'", "JSON object"),
    Mistake("lr PPO --env-kwargs NESTED", "--env-kwargs", "deep"),
    Mistake("lr PPO --pruner-kwargs {", "--scheduler-kwargs is '{'", "JSON object"),
    Mistake("lr PPO --pruner-kwargs '{\"x\": 1}'", "'x'", "race"),
    Mistake("tune PPO --perturb-steps 0", "'--perturb-steps'", "greater than or equal to 1"),
    Mistake("tune PPO --perturb-steps 100", "perturb_steps is 100", "--scheduler"),
    Mistake("lr PPO --scheduler pbt", "use it with tune, not lr", "pbt"),
    Mistake("tune PPO --scheduler pbt -p optimizer=adam,sgd", "optimizer is searched over", "--set optimizer=VALUE"),
    Mistake("tune PPO --scheduler pbt --minutes 1", "budget is of the whole search", "give env_steps"),
    Mistake("tune PPO --sampler-kwargs [1]", "--sampler-kwargs is '[1]'", "JSON object"),
    Mistake('tune PPO --sampler-kwargs \'{"n_startup_trials": "x"}\'', "n_startup_trials", "'x'"),
]

NAMES = [
    Mistake("lr PPO --wrapper FrameStackObservatio", "'FrameStackObservatio'", "Did you mean FrameStackObservation"),
    Mistake("lr PPO --wrapper FrameStackObservation:stack=4", "FrameStackObservation", "stack"),
    Mistake("lr PPO --callback nowhere:X", "nowhere:X", "No module named 'nowhere'"),
    Mistake("lr PPO --callback Nope", "'Nope'", "module:name"),
    Mistake("lr PPO --vectorization asinc", "asinc", "async"),
    Mistake("lr PPO --strategy mirorred", "mirorred", "mirrored"),
    Mistake("lr PPO --strategy mirrored:0", "mirrored:0", "write mirrored:2"),
    Mistake("lr PPO --strategy mirrored:x", "mirrored:x", "write mirrored:2"),
    Mistake("lr PPO --executor inlin", "inlin", "inline"),
    Mistake("lr PPO --pruner wilcoxon", "wilcoxon", "scheduler"),
    Mistake("lr ppo --env ''", "''", "environment"),
    Mistake("lr '' --env CartPole-v1", "''", "Known: a2c"),
    Mistake("lr ppo --env gymnasium:CartPol-v1", "CartPol-v1", "Did you mean CartPole-v1"),
    Mistake("lr ppo --env CartPole-v99", "CartPole-v99", "CartPole-v1"),
    Mistake("agents ppo a2c --env CartPole-v1 --optimizer adam --optimizer sgd --optimizer adam", "3", "2"),
    Mistake("opt PPO --optimizer ''", "''", "optimizer"),
    Mistake("opt PPO --optimizer 'sgd(momentum=2)'", "momentum", "2"),
    Mistake("opt PPO --optimizer 'sgd(momentum=nan)'", "momentum", "nan"),
    Mistake("opt PPO --optimizer 'adam(learning_rate=-1)'", "learning_rate", "-1"),
    Mistake("opt PPO --optimizer nowhere:X", "nowhere:X", "No module named 'nowhere'"),
    Mistake("tune PPO --sampler gridd", "'gridd'", "Did you mean 'grid'"),
    Mistake("lr PPO --study-name 'a\x1b[31mb'", "'a\\x1b[31mb'", "control character"),
    Mistake("lr PPO --study-name 'a\nb'", "'a\\nb'", "control character"),
    Mistake(f"lr PPO --study-name {'x' * 1000}", "xxxx", "400"),
]

SPACES = [
    Mistake("tune PPO --param gamma=a:b", "a:b", "gamma"),
    Mistake("tune PPO --param gamma=0.9:", "0.9:", "low:high"),
    Mistake("tune PPO --param gamma=nan:1", "nan", "finite"),
    Mistake("tune PPO --param gamma=0:inf", "inf", "finite"),
    Mistake("tune PPO --param gamma=0.9:0.99:logg", "logg", "log"),
    Mistake("tune PPO --param learning_rate=0:1:log", "log", "low"),
    Mistake("tune PPO --param gamma=0.9:2", "gamma must be", "2"),
    Mistake("tune PPO --param =1", "--param is '=1'", "name=low:high"),
    Mistake("tune PPO --param gamma --param gamma", "--param gives 'gamma' twice", "once"),
    Mistake("tune PPO --param n_steps=1.5:3", "n_steps", "1.5"),
    Mistake("tune PPO --param n_steps=1:HUGE", "HUGE", "9223372036854775807"),
    Mistake("tune PPO --param optimizer=adam,adam", "'adam' twice", "once"),
    Mistake("tune PPO --param gamma=0.9:0.99 --sampler grid", "gamma", "grid"),
    Mistake("tune PPO -p gamma@optimizer=adam", "gamma depends on 'optimizer'", "give it a space"),
    Mistake("tune PPO -p optimizer=adam,sgd -p gamma@optimizer=adan", "'adan'", "give one of ['adam', 'sgd']"),
    Mistake("tune PPO -p optimizer=adam,sgd -p optimizer.momentum=0:1@optimizer=adam", "'momentum'", "r 'adam'"),
    Mistake("tune PPO -p optimizer -p optimizer.momentum@optimizer=sgd", "optimizer.momentum", "range of its own"),
    Mistake("tune PPO -p optimizer -p gamma=@optimizer=sgd", "gamma=@optimizer=sgd", "name@other=value"),
    Mistake("tune PPO -p n_steps=32,64@gamma=0.9 -p gamma=0.9:0.99", "gamma=0.9", "range of real numbers"),
    Mistake("tune PPO -p gamma@clip_range=0.1 -p clip_range=0.1,0.2@gamma=0.9", "circle", "take one of these"),
    Mistake("tune PPO -p gamma@n_envs=1 --set n_envs=1", "n_envs, which is fixed to 1", "take the condition out"),
    Mistake("tune PPO -p gamma --first gama=0.9", "'gama'", "Did you mean gamma"),
    Mistake("tune PPO -p gamma=0.9:0.99 --first gamma=0.5", "gamma: 0.5 is outside 0.9:0.99", "widen the space"),
    Mistake("tune PPO -p gamma --first gamma", "--first is 'gamma'", "learning_rate=3e-4,gamma=0.99"),
    Mistake("tune PPO -p gamma --first none.toml", "'none.toml'", "no such file"),
    Mistake("tune acer --env CartPole-v1 -p gamma --first zoo", "'acer'", "a2c, ddpg, dqn, ppo, sac, td3, trpo"),
    Mistake("tune ppo --env FrozenLake-v1 -p gamma --first zoo", "'FrozenLake-v1'", "For ppo: CartPole-v1"),
    Mistake("tune PPO -p gamma --first n_steps=64", "n_steps=64", "--set n_steps=64"),
    Mistake("tune PPO -p gamma --first gamma=0.9 --first gamma=0.9", "{'gamma': 0.9} twice", "once"),
    Mistake("tune PPO -p gamma --first gamma=0.9 --first gamma=0.99 --n-trials 1", "n_trials is 1", "--n-trials 2"),
    Mistake("tune PPO -p n_steps=32,64 --sampler grid --first n_steps=32", "first is for samplers", "plan"),
]

TRAIN = [
    Mistake("train", "Nothing to train is given", "--from STUDY"),
    Mistake("train PPO --env-steps HUGE", "HUGE", "9223372036854775807"),
    Mistake("train PPO --episodes 0", "'--episodes'", "greater than or equal to 1"),
    Mistake("train PPO --seed HUGE", "HUGE", "9223372036854775807"),
    Mistake("train PPO --target-reward nan", "target_reward is nan", "finite number"),
    Mistake("train PPO --target-reward inf", "target_reward is inf", "finite number"),
    Mistake("train PPO --plateau 0", "'--plateau'", "greater than or equal to 1"),
    Mistake("train PPO --plateau 1 --plateau-factor nan", "factor", "nan"),
    Mistake("train PPO --plateau 1 --plateau-factor 2", "factor", "2"),
    Mistake("train PPO --plateau 1 --min-learning-rate -1", "learning_rate", "-1"),
    Mistake("train PPO --plateau 1 --min-learning-rate nan", "learning_rate", "nan"),
    Mistake("train PPO --checkpoint-every abc", "--checkpoint-every: An interval must be", "10000"),
    Mistake("train PPO --checkpoint-every 0", "--checkpoint-every: An interval must be above 0", "0"),
    Mistake("train PPO --checkpoint-every 1e999s", "--checkpoint-every", "An interval"),
    Mistake("train PPO --checkpoint-every 1e999", "--checkpoint-every", "An interval"),
    Mistake("train PPO --evaluate-every -5", "--evaluate-every: An interval must be", "10000"),
    Mistake("train PPO --evaluate-every 10hours", "'10hours'", "60s"),
    Mistake("train PPO --evaluate-episodes 5", "--evaluate-episodes has no effect", "--evaluate-every"),
    Mistake("train PPO --keep 0", "'--keep'", "greater than or equal to 1"),
    Mistake("train PPO --pool 0", "'--pool'", "greater than or equal to 1"),
    Mistake("train PPO --pool HUGE", "pool is HUGE", "finite number"),
    Mistake("train PPO --hang-seconds nan", "got 'nan'", "greater than or equal to 0"),
    Mistake("train PPO --vectorization asinc", "asinc", "async"),
    Mistake("train PPO --strategy mirorred", "mirorred", "mirrored"),
    Mistake("train PPO --set gama=1", "'gama'", "Did you mean gamma"),
    Mistake("train PPO --callback nowhere:X", "nowhere:X", "No module named 'nowhere'"),
    Mistake("train ppoo --env CartPole-v1", "'ppoo'", "Did you mean ppo"),
    Mistake("train --from x --wrapper Autoreset", "--wrapper", "Leave it out"),
    Mistake("train PPO --resume x", "AGENT", "Leave them out"),
]

SERVERS = [
    Mistake("serve --storage new.db --port -1", "got '-1'", "greater than or equal to 0"),
    Mistake("serve --storage new.db --port 99999", "got '99999'", "less than or equal to 65535"),
    Mistake("serve --storage new.db --port abc", "got 'abc'", "--port"),
    Mistake("serve --storage memory", "'memory' cannot be served", "sqlite:///finder.db"),
    Mistake("serve --storage new.log", "'journal' cannot be served", "sqlite:///finder.db"),
    Mistake("serve --storage new.db --host nowhere.invalid", "'nowhere.invalid'", "127.0.0.1"),
    Mistake("serve --storage new.db --tls-cert none.pem --tls-key none.pem", "none.pem", "does not exist"),
    Mistake("serve --storage new.db --tls-cert note.txt --tls-key note.txt", "note.txt", "PEM"),
    Mistake("serve --storage new.db --tls-cert note.txt", "--tls-key", "both"),
    Mistake("serve --storage new.db --new-token --insecure", "--insecure", "leave one of them out"),
    Mistake("serve --storage new.db --host 0.0.0.0", "0.0.0.0", "FINDER_TOKEN"),
    Mistake("dashboard --storage new.db", "there is no storage 'new.db'", "check the path"),
    Mistake("dashboard --storage memory", "memory", "sqlite:///finder.db"),
    Mistake("dashboard --storage empty.db --host ''", "'' is open", "FINDER_TOKEN"),
    Mistake("dashboard --storage empty.db --port -1", "port is -1", "0 to 65535"),
    Mistake("worker x --storage new.db --executor inlin", "there is no storage 'new.db'", "check the path"),
]

ALL = [*NUMBERS, *RATES, *SEEDS, *SETTINGS, *NAMES, *SPACES, *TRAIN, *SERVERS]


def create_files(folder: Path) -> None:
    """Create the files that the commands name."""
    write_all(folder, {"empty.db": b"", "note.txt": "no certificate"})


@pytest.mark.parametrize("case", ALL, ids=ids(ALL))
def test_mistake_is_reported_in_one_line(finder: Any, case: Mistake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FINDER_TOKEN", raising=False)
    create_files(finder.folder)
    ran = finder(*case.words)
    check(case, *ran)
    assert not (finder.folder / "runs").exists()
    storage = finder.folder / "finder.db"
    assert not storage.exists() or finder("studies", "--json").json == []


def test_value_is_named_once(finder: Any) -> None:
    assert finder("lr", "ppo", "--env", "CartPole-v1", "--metric", "rewards").err.count("'rewards'") == 1
