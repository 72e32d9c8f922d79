"""Tests of the collector and the training loop: counts, the order of events, and the end of training."""

import io
import re
import time
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from fakes import SMALL_DQN, SMALL_PPO
from gymnasium import spaces
from gymnasium.wrappers import RecordEpisodeStatistics, TimeLimit

import agents
from agents import LambdaCallback, Progress, StopAtReturn, Trainer, evaluate
from agents.buffers import RolloutBuffer, UniformReplay
from agents.callbacks.callback import Callback
from agents.collection.collector import Collector
from agents.contract.agent import Agent, UpdateMetrics
from agents.environments import EnvironmentSpec
from agents.errors import ConfigurationError, NonFiniteError
from agents.training.call_progress import CallProgress
from agents.training.line_interval import seconds_between_lines
from agents.training.listeners import EVENTS, CallbackList
from agents.training.records import n_recent_episodes
from agents.training.run import Budget


class Steps(gym.Env):
    """Environment with given rewards; copy i (in order of construction) has episodes of `lengths[i]` steps."""

    observation_space = spaces.Box(-1e3, 1e3, (2,), np.float32)
    action_space = spaces.Discrete(2)
    made = 0

    def __init__(self, lengths=(3,), truncates=False, rewards=(1.0,)):
        self.length = lengths[Steps.made % len(lengths)]
        self.rewards = rewards
        Steps.made += 1
        self.truncates = truncates
        self.total = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.array([0.0, self.length], np.float32), {}

    def step(self, action):
        reward = self.rewards[self.total % len(self.rewards)]
        self.t += 1
        self.total += 1
        end = self.t == self.length
        observation = np.array([self.t, self.length], np.float32)
        return observation, reward, end and not self.truncates, end and self.truncates, {}


@pytest.fixture(autouse=True)
def _count_from_zero():
    Steps.made = 0


class Scripted(Agent):
    """Agent without networks that records its calls, so that the loop is tested without TensorFlow."""

    def __init__(self, n_envs=1, buffer=None, losses=(), environment=None, seed=0):
        config = Agent.config_class(n_envs=n_envs)
        super().__init__(Steps.observation_space, Steps.action_space, config, seed=seed, environment=environment)
        self.buffer = buffer or (lambda n, rng: RolloutBuffer(n_steps=4, batch_size=2, n_epochs=1, rng=rng))
        self.loss_values = list(losses)
        self.rate = 1.0
        self.updates = []
        self.log = []

    def act(self, observations, explore=True):
        return self.rng.integers(0, 2, len(observations)) if explore else np.zeros(len(observations), np.int64)

    def make_buffer(self, n_envs, rng):
        return self.buffer(n_envs, rng)

    def update(self, batches):
        n = len(batches.indices)
        self.log.append("update")
        self.updates.append(batches)
        self.gradient_steps += n
        values = np.array([self.loss_values.pop(0) if self.loss_values else 1.0 for _ in range(n)])
        return UpdateMetrics({"default": values}, {})

    @property
    def optimizers(self):
        return {}

    def get_learning_rate(self, optimizer="default"):
        return self.rate

    def set_learning_rate(self, learning_rate, optimizer=None):
        self.rate = learning_rate

    def set_hyperparameter(self, name, value, position=None):
        self.rate = value

    def reset(self, seed, values=None):
        pass

    def get_state(self):
        return {}

    def set_state(self, state):
        pass


def trainer(callbacks=(), n_envs=1, lengths=(3,), seed=None, env=None, **kwargs):
    spec = EnvironmentSpec(Steps, {"lengths": lengths, **(env or {})})
    return Trainer(Scripted(n_envs, **kwargs), spec, callbacks=callbacks, seed=seed)


def replay(**kwargs):
    return lambda n_envs, rng: UniformReplay(**{"buffer_size": 100, "batch_size": 2, **kwargs}, n_envs=n_envs, rng=rng)


# --- the collector


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1"])
def test_returns_equal_those_of_gymnasium(env_id):
    n_envs, steps = 3, 450
    discrete = env_id == "CartPole-v1"

    class Dice(Scripted):
        def act(self, observations, explore=True):
            if discrete:
                return self.rng.integers(0, 2, len(observations))
            return self.rng.uniform(-1, 1, (len(observations), 1)).astype(np.float32)

    collector = Collector(EnvironmentSpec(env_id, vectorization="sync"), n_envs, [3])
    agent, ours = Dice(), [[] for _ in range(n_envs)]
    for _ in range(steps):
        for ended in collector.step(agent).ended:
            ours[ended.environment].append((ended.episode_return, ended.length))

    agent, theirs = Dice(), [[] for _ in range(n_envs)]
    copies = [RecordEpisodeStatistics(gym.make(env_id)) for _ in range(n_envs)]
    for env, seed in zip(copies, collector._seeds[0], strict=True):
        env.reset(seed=seed)
    for _ in range(steps):
        for i, (env, action) in enumerate(zip(copies, agent.act(np.zeros(n_envs)), strict=True)):
            *_, terminated, truncated, info = env.step(action if discrete else 2.0 * action)
            if terminated or truncated:
                theirs[i].append((info["episode"]["r"], info["episode"]["l"]))
                env.reset()
    assert all(len(episodes) >= 2 for episodes in ours)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_transitions_contain_true_successors():
    collector = Collector(EnvironmentSpec(Steps, {"lengths": (2, 3)}), 2, [0])
    steps = [collector.step(Scripted()) for _ in range(6)]
    for i, length in enumerate((2, 3)):
        times = [
            (int(tr.observations[i, 0]), int(tr.next_observations[i, 0]), bool(tr.terminated[i])) for tr, *_ in steps
        ]
        assert times == [(t % length, t % length + 1, t % length + 1 == length) for t in range(6)]
    ended = [(t, *episode[1:4]) for t, (_, episodes, *_) in enumerate(steps) for episode in episodes]
    assert ended == [(1, 0, 2.0, 2), (2, 1, 3.0, 3), (3, 0, 2.0, 2), (5, 0, 2.0, 2), (5, 1, 3.0, 3)]


def test_returns_are_summed_in_double_precision():
    run = trainer(env={"rewards": (1e8, 1.0, -1e8)})
    run.train(episodes=1)
    assert run.history.returns == [1.0]


def test_same_seed_gives_same_episodes():
    def episodes(seed):
        collector, agent = Collector(EnvironmentSpec("CartPole-v1"), 2, [seed]), Scripted()
        return [ended for _ in range(100) for ended in collector.step(agent).ended]

    assert episodes(0) == episodes(0)
    assert episodes(0) != episodes(1)


def test_collector_of_uncopyable_environments_begins_new_episodes():
    collector, agent = Collector(EnvironmentSpec("LunarLander-v3"), 1, [0]), Scripted()
    agent.act = lambda observations, explore=True: np.zeros(len(observations), np.int64)
    first = [collector.step(agent)[0].observations for _ in range(5)]
    starts = []
    for _ in range(2):
        state = collector.get_state()
        collector.set_state(state)
        assert collector.get_state()["lengths"].tolist() == [0]
        starts.append(collector.step(agent)[0].observations)
    assert not np.array_equal(starts[0], first[0])  # a new episode
    assert not np.array_equal(starts[0], starts[1])
    collector.close()


# --- budgets


@pytest.mark.parametrize("episodes", [1, 2, 3, 5, 8])
def test_episode_budget_is_exact(episodes):
    run = trainer(n_envs=3, lengths=(2, 2, 4))  # several episodes end with the same step
    result = run.train(episodes=episodes)
    assert len(result.history.episodes) == episodes
    assert [episode.index for episode in result.history.episodes] == list(range(episodes))
    assert run.train(episodes=episodes).history.episodes[:episodes] == result.history.episodes[:episodes]
    assert len(run.history.episodes) == 2 * episodes


@pytest.mark.parametrize(("env_steps", "made"), [(1, 3), (3, 3), (7, 9), (30, 30)])
def test_env_steps_are_rounded_up_to_steps_of_all_copies(env_steps, made):
    run = trainer(n_envs=3)
    result = run.train(env_steps=env_steps)
    assert result.env_steps == run.agent.env_steps == made
    assert result.reason == "budget reached"
    assert run.train(env_steps=3).env_steps == made + 3


def test_updates_are_made_when_buffer_is_ready():
    run = trainer(buffer=replay(learning_starts=5, train_freq=2, gradient_steps=3))
    result = run.train(env_steps=11)
    assert len(run.agent.updates) == 3  # after 6, 8 and 10 steps
    assert result.gradient_steps == 9


def test_rollout_continues_over_calls_of_train():
    run = trainer(n_envs=2)
    run.train(env_steps=6)
    assert not run.agent.updates
    run.train(env_steps=2)
    assert len(run.agent.updates) == 1
    assert run.agent.updates[0].indices.shape == (4, 2)


@pytest.mark.parametrize("how", ["episodes", "stop"])
def test_pending_update_is_made_first_by_next_train(how):
    """Otherwise the rollout of the next call would be longer than others."""
    run = trainer(
        lengths=(4,), callbacks=[LambdaCallback(on_episode_end=lambda t, e: how == "stop" and t.stop("enough"))]
    )
    run.train(episodes=1) if how == "episodes" else run.train(env_steps=100)
    assert run.env_steps == 4
    assert not run.agent.updates
    run.train(env_steps=1)
    assert [len(batches.data["rewards"]) for batches in run.agent.updates] == [4]
    assert run.env_steps == 5


def test_criterion_is_mean_of_last_episodes():
    run = trainer(lengths=(3,))
    result = run.train(criterion=3.0, trial_count=5)
    assert len(result.history.returns) == 5
    assert "last 5 episodes reached 3" in result.reason
    assert trainer().train(criterion=3.1, trial_count=5, env_steps=60).reason == "budget reached"
    assert not run.callbacks.callbacks  # the criterion was for one call only


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({}, "needs a limit"),
        ({"env_steps": 0}, "env_steps must be >= 1, got 0"),
        ({"episodes": -3}, "episodes must be >= 1, got -3"),
        ({"criterion": 1.0, "trial_count": 0}, "trial_count must be >= 1, got 0"),
    ],
)
def test_invalid_budgets_are_refused(limits, message):
    with pytest.raises(ConfigurationError, match=message):
        trainer().train(**limits)


def test_iterate_yields_steps_after_each_update():
    run = trainer(n_envs=2)
    loop = run.iterate(Budget(env_steps=20))
    assert list(loop) == [8, 16, 20]
    assert list(run.iterate(Budget(env_steps=20))) == []  # the budget counts from the beginning of the run


# --- callbacks


def everything(log, name=""):
    return LambdaCallback(
        **{event: lambda *_, event=event: log.append(f"{name}{event.removeprefix('on_')}") for event in EVENTS}
    )


def test_order_of_events():
    log = []
    run = trainer(callbacks=[everything(log)], lengths=(3,))
    run.agent.log = log
    run.train(env_steps=5)
    step = "step_end"
    assert log == [
        *("train_begin", "episode_begin", "rollout_begin", step, step),
        *("trajectory", "episode_end", "episode_begin", step, "trajectory", step),
        *("rollout_end", "update_begin", "update", "update_end", "rollout_begin", step, "rollout_end", "run_end"),
        "train_end",
    ]


def test_callbacks_are_called_in_order():
    log = []
    trainer(callbacks=[everything(log, "a "), everything(log, "b ")]).train(env_steps=1)
    assert log[::2] == [f"a {event[2:]}" for event in log[::2]]
    assert log[1::2] == [f"b {event[2:]}" for event in log[::2]]


def test_every_copy_begins_episodes():
    began, ended = [], []
    run = trainer(
        n_envs=3,
        lengths=(2, 2, 3),
        callbacks=[
            LambdaCallback(
                on_episode_begin=lambda t, environment, member: began.append(environment),
                on_episode_end=lambda t, episode: ended.append(episode.environment),
            )
        ],
    )
    run.train(episodes=1)
    assert began == [0, 1, 2, 0, 1]  # the episode of the second copy ended beyond the budget, and a new one began
    assert ended == [0]
    run.train(episodes=1)
    assert ended == [0, 2]


def test_episode_records_are_complete():
    run = trainer(n_envs=2, lengths=(2, 3), losses=[2.0, 4.0, 6.0, 8.0])
    run.train(env_steps=12)
    seen = [(e.index, e.env_steps, e.episode_return, e.length, e.loss, e.environment) for e in run.history.episodes]
    # The update after 8 steps makes four gradient steps of mean loss 5.
    assert seen == [
        (0, 4, 2.0, 2, None, 0),
        (1, 6, 3.0, 3, None, 1),
        (2, 8, 2.0, 2, None, 0),
        (3, 12, 2.0, 2, 5.0, 0),
        (4, 12, 3.0, 3, 5.0, 1),
    ]
    assert run.newest_loss == 5.0
    seconds = [episode.wall_seconds for episode in run.history.episodes]
    assert seconds == sorted(seconds)
    assert seconds[0] > 0
    assert seconds[-1] <= run.wall_seconds


def test_unknown_events_are_refused():
    with pytest.raises(ConfigurationError, match=r"Unknown events \['on_epoch_end'\]; events are on_train_begin"):
        LambdaCallback(on_epoch_end=print)


def test_only_overridden_events_are_wanted():
    class Some(Callback):
        def on_step_end(self, trainer):
            pass

    callbacks = CallbackList([Some(), Callback()])
    assert [event for event in EVENTS if callbacks.wants(event)] == ["on_step_end"]


@pytest.mark.parametrize(
    "event", sorted(set(EVENTS) - {"on_run_end", "on_train_end", "on_evaluation_begin", "on_evaluation_end"})
)
def test_callback_may_stop_training_at_any_event(event):
    run = trainer(callbacks=[LambdaCallback(**{event: lambda trainer, *_: trainer.stop(f"at {event}")})])
    result = run.train(env_steps=1000)
    assert result.reason == f"at {event}"
    assert result.env_steps <= 4


def test_on_train_end_is_called_after_errors():
    log = []

    def breaks(trainer):
        raise RuntimeError("broken")

    run = trainer(callbacks=[LambdaCallback(on_train_end=lambda t: log.append("end"), on_step_end=breaks)])
    with pytest.raises(RuntimeError, match="broken"):
        run.train(env_steps=10)
    assert log == ["end"]
    assert run.wall_seconds > 0


def test_errors_at_the_end_do_not_replace_that_of_the_training():
    def breaks(trainer):
        raise RuntimeError("broken")

    def cannot_end(trainer):
        raise OSError("disk full")

    with pytest.raises(RuntimeError, match="broken") as caught:
        trainer(callbacks=[LambdaCallback(on_train_end=cannot_end, on_step_end=breaks)]).train(env_steps=10)
    assert caught.value.__notes__ == ["Raised in on_step_end.", "After that, on_train_end raised OSError: disk full"]
    with pytest.raises(OSError, match="disk full"):
        trainer(callbacks=[LambdaCallback(on_train_end=cannot_end)]).train(env_steps=10)


def test_states_are_stored_after_all_other_callbacks():
    order = []
    kinds = [
        type(name, (Callback,), {**flags, "on_step_end": lambda self, _: order.append(type(self).__name__)})
        for name, flags in (
            ("Stores", {"last": True, "stores_states": True}), ("Logs", {"last": True}), ("Usual", {}),
        )
    ]  # fmt: skip
    trainer(callbacks=[kind() for kind in kinds]).train(env_steps=1)
    assert order[:3] == ["Usual", "Logs", "Stores"]


def test_every_gradient_step_is_reported_on_request():
    class Each(Callback):
        every_gradient_step = True

        def __init__(self):
            self.losses = []

        def on_update_end(self, trainer, update):
            self.losses.append(update.loss)
            if len(self.losses) == 3:
                trainer.stop("three are enough")

    each = Each()
    run = trainer(n_envs=2, callbacks=[each], losses=range(1, 10))
    result = run.train(env_steps=100)
    assert each.losses == [1, 2, 3]
    assert (result.reason, result.gradient_steps) == ("three are enough", 3)
    rows = np.concatenate([batches.data["rewards"][batches.indices].ravel() for batches in run.agent.updates])
    assert len(rows) == 6
    assert all(batches.contiguous for batches in run.agent.updates)


def test_set_hyperparameter_changes_agent_and_buffer():
    run = trainer(buffer=replay(n_step=2, gamma=0.5))
    run.set_hyperparameter("gamma", 0.25)
    assert (run.agent.rate, run.buffer.gammas.tolist()) == (0.25, [0.25])


# --- non-finite numbers


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_non_finite_loss_ends_run(value):
    ends = []
    run = trainer(
        losses=[1.0, value],
        callbacks=[LambdaCallback(on_update_end=lambda t, update: ends.append(update.finite))],
    )
    message = rf"loss became default: {value} after 4 environment steps \(2 gradient"
    with pytest.raises(NonFiniteError, match=message) as error:
        run.train(env_steps=100)
    assert "learning rate is probably too high" in str(error.value)
    assert ends == [False]  # callbacks receive the update before the error


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_non_finite_first_loss_is_not_attributed_to_learning_rate(value):
    with pytest.raises(NonFiniteError, match=f"The loss was default: {value} at the very first gradient") as error:
        trainer(losses=[value]).train(env_steps=100)
    assert "at any learning rate" in str(error.value)
    assert "too high" not in str(error.value)


def test_callback_may_stop_before_divergence_error():
    run = trainer(losses=[float("nan")], callbacks=[LambdaCallback(on_update_end=lambda t, update: t.stop("diverged"))])
    assert run.train(env_steps=100).reason == "diverged"


def test_non_finite_reward_ends_run():
    with pytest.raises(NonFiniteError, match=r"'Steps' gave the reward nan \(copy 0\)"):
        trainer(env={"rewards": (1.0, float("nan"))}).train(env_steps=100)


# --- built-in callbacks


def test_progress_prints_lines():
    stream = io.StringIO()
    run = trainer(callbacks=[Progress(every_seconds=0, stream=stream, window=2)], env={"rewards": (1.0, 2.0)})
    run.train(env_steps=6)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 7  # one line per step, and one at the end
    assert re.fullmatch(r" +\d+\.\d s +1 steps +0 episodes +[\d,]+ steps/s  mean return -  best -", lines[0])
    assert lines[-1].endswith("mean return 4.5  best 5.0")
    assert "6 steps" in lines[-1]
    assert "2 episodes" in lines[-1]


@pytest.mark.parametrize(
    ("ends", "environments", "env_steps", "expected"),
    [
        ([], [], 10, 0),
        ([1500 * n for n in range(1, 41)], [0] * 40, 60_000, 8),
        ([12_000] * 4 + [24_000] * 4, [0, 1, 2, 3] * 2, 40_000, 4),  # none in the last fifth: one per copy
        ([100], [0], 1000, 1),
        (list(range(1, 2001)), [0] * 2000, 2000, 100),
        (list(range(1, 101)), [0] * 100, 100, 20),
    ],
)
def test_recent_episodes_are_those_of_the_last_fifth(
    ends: list[int], environments: list[int], env_steps: int, expected: int
) -> None:
    assert n_recent_episodes(ends, environments, env_steps) == expected


def test_progress_line_shows_the_mean_of_the_last_fifth():
    stream = io.StringIO()
    run = trainer(callbacks=[Progress(every_seconds=60, stream=stream)], env={"rewards": (1.0, 2.0)})
    run.train(env_steps=60)
    returns, n_recent = run.history.returns, run.history.n_recent(60)
    assert 0 < n_recent < len(returns)
    assert f"mean return {np.mean(returns[-n_recent:]):.1f}" in stream.getvalue().splitlines()[-1]


def test_progress_speed_is_correct_within_first_rollout():
    stream = io.StringIO()
    slow = LambdaCallback(on_step_end=lambda t: time.sleep(0.01))
    run = trainer(
        callbacks=[slow, Progress(every_seconds=0, stream=stream)],
        buffer=lambda n, rng: RolloutBuffer(n_steps=1000, rng=rng),
    )
    run.train(env_steps=4)
    lines = stream.getvalue().splitlines()
    assert lines
    for line in lines:
        assert float(line.split("episodes")[1].split("steps/s")[0].replace(",", "")) <= 100


def test_progress_prints_at_interval():
    stream = io.StringIO()
    trainer(callbacks=[Progress(every_seconds=60, stream=stream)]).train(env_steps=6)
    assert len(stream.getvalue().splitlines()) == 1


def test_long_calls_of_train_print_progress(capsys, monkeypatch):
    def train(**options):
        trainer(callbacks=options.pop("callbacks", [])).train(env_steps=6, **options)
        return capsys.readouterr().err.splitlines()

    assert train() == []  # as in all tests
    monkeypatch.delenv("FINDER_PROGRESS")
    assert train() == []  # ends before the first line is due
    monkeypatch.setattr(CallProgress, "EVERY_SECONDS", 0.0)
    assert len(train()) == 7
    assert "6 steps" in train()[-1]
    assert train(progress=False) == []
    assert len(train(callbacks=[Progress(every_seconds=1e9)])) == 1  # the last line of the callback


def test_progress_is_written_to_stderr(capsys):
    trainer(callbacks=[Progress()]).train(env_steps=1)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "1 steps" in captured.err


def test_stop_at_return_ends_training():
    run = trainer(callbacks=[StopAtReturn(3.0, trial_count=2)])
    assert run.train(env_steps=100).env_steps == 6


# --- construction


def test_trainer_needs_environment():
    with pytest.raises(ConfigurationError, match="needs an environment"):
        Trainer(Scripted())
    assert Trainer(Scripted(environment=EnvironmentSpec(Steps))).environment.label == "Steps"


@pytest.mark.parametrize("other", ["Acrobot-v1", "Pendulum-v1", "CartPole-v1"])
def test_agent_for_different_spaces_is_refused(other):
    with pytest.raises(ConfigurationError, match=rf"made for observations .*; '{other}' has"):
        Trainer(Scripted(), other)


def test_agent_for_different_number_of_actions_is_refused():
    class Three(Steps):
        action_space = spaces.Discrete(3)

    with pytest.raises(ConfigurationError, match=r"actions Discrete\(2\); 'Three' has .*Discrete\(3\)"):
        Trainer(Scripted(), Three)


def test_bounds_of_observations_may_differ():
    class Wide(Steps):
        observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)

    with Trainer(Scripted(), Wide) as run:
        run.train(env_steps=1)


# --- evaluation


def test_evaluation_plays_same_number_of_episodes_per_copy():
    agent = Scripted()
    returns = evaluate(agent, EnvironmentSpec(Steps, {"lengths": (2, 5)}), n_episodes=6, n_envs=2)
    assert sorted(returns) == [2, 2, 2, 5, 5, 5]  # short episodes are not favoured
    Steps.made = 0
    first_ones = EnvironmentSpec(Steps, {"lengths": (1, 3), "rewards": range(1, 100)})
    assert evaluate(agent, first_ones, n_episodes=4, n_envs=2).tolist() == [1, 2, 1 + 2 + 3, 4 + 5 + 6]
    assert len(evaluate(agent, EnvironmentSpec(Steps), n_episodes=5, n_envs=2)) == 6
    assert len(evaluate(agent, EnvironmentSpec(Steps), n_episodes=3, n_envs=10)) == 3


class BreaksTies(agents.DQN):
    """Agent whose greedy actions draw random numbers."""

    def act(self, observations: Any, explore: bool = False) -> Any:
        self.rng.random(len(observations))
        return super().act(observations, explore)


def test_evaluation_restores_the_random_numbers_of_greedy_actions():
    agent = agents.make(BreaksTies, "CartPole-v1", **SMALL_DQN)
    agent.reset(3)
    before = agent.rng.bit_generator.state
    agents.evaluate(agent, n_episodes=2, n_envs=2)
    assert agent.rng.bit_generator.state == before


def test_evaluation_does_not_change_agent():
    agent = Scripted()
    before = agent.rng.bit_generator.state
    first = evaluate(agent, EnvironmentSpec(Steps), n_episodes=2)
    assert agent.rng.bit_generator.state == before
    assert agent.env_steps == 0
    np.testing.assert_array_equal(first, evaluate(agent, EnvironmentSpec(Steps), n_episodes=2))
    with pytest.raises(ConfigurationError, match="An evaluation needs an environment"):
        evaluate(agent)
    with pytest.raises(ConfigurationError, match="n_episodes must be >= 1, got 0"):
        evaluate(agent, EnvironmentSpec(Steps), n_episodes=0)
    with pytest.raises(ConfigurationError, match=r"The agent was made for observations Box.*'CartPole-v1' has Box"):
        evaluate(agent, "CartPole-v1", n_episodes=1)
    with pytest.raises(ConfigurationError, match=r"n_episodes must be a whole number >= 1, got 2\.5"):
        evaluate(agent, EnvironmentSpec(Steps), n_episodes=2.5)
    with pytest.raises(ConfigurationError, match="n_envs must be >= 1, got 0"):
        evaluate(agent, EnvironmentSpec(Steps), n_envs=0)


def test_budgets_and_numbers_of_episodes_may_be_whole_floats():
    with Trainer(Scripted(n_envs=2), EnvironmentSpec(Steps)) as trainer:
        trainer.train(env_steps=1e1, progress=False)
        assert trainer.env_steps == 10
        with pytest.raises(ConfigurationError, match=r"env_steps must be >= 1, got 0\.5"):
            trainer.train(env_steps=0.5)
        with pytest.raises(ConfigurationError, match="env_steps must be a whole number >= 1, got inf"):
            trainer.train(env_steps=float("inf"))
        reached = trainer.train(criterion=3.0, trial_count=2e0, env_steps=100)
        assert reached.reason.startswith("mean return of the last 2")
    assert len(evaluate(Scripted(), EnvironmentSpec(Steps), n_episodes=2e0, n_envs=1)) == 2


def test_time_limits_of_environment_are_truncations():
    collector = Collector(EnvironmentSpec(lambda: TimeLimit(Steps(lengths=(99,)), 3)), 1, [0])
    flags = [
        (bool(tr.terminated[0]), bool(tr.truncated[0])) for tr in (collector.step(Scripted())[0] for _ in range(3))
    ]
    assert flags == [(False, False), (False, False), (False, True)]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ppo", "dqn"])
def test_error_before_update_loses_no_update(name):
    """Training that continues after the error equals training without it."""
    raised = []

    def once(trainer):
        if trainer.env_steps > 100 and not raised:
            raised.append(trainer.env_steps)
            raise RuntimeError("once")

    params = SMALL_PPO if name == "ppo" else SMALL_DQN
    with Trainer(agents.make(name, "CartPole-v1", **params)) as whole:
        whole.train(env_steps=320)
    with Trainer(
        agents.make(name, "CartPole-v1", **params), callbacks=[agents.LambdaCallback(on_update_begin=once)]
    ) as trainer:
        with pytest.raises(RuntimeError, match="once"):
            trainer.train(env_steps=320)
        trainer.train(env_steps=320 - trainer.env_steps)
    assert raised
    assert trainer.agent.gradient_steps == whole.agent.gradient_steps
    assert [episode[:5] for episode in trainer.history.episodes] == [episode[:5] for episode in whole.history.episodes]


@pytest.mark.parametrize(("elapsed", "seconds"), [(0.0, 2.0), (60.0, 2.0), (150.0, 5.0), (3600.0, 10.0)])
def test_lines_of_progress_are_close_at_first(elapsed: float, seconds: float):
    assert seconds_between_lines(elapsed) == seconds
