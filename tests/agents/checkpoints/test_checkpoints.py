"""Tests of checkpoints: resumed training equals uninterrupted training, and unusable files are refused."""

from __future__ import annotations

import json
import pickle
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import SMALL_DQN, SMALL_PPO

import agents
from agents import Checkpoint, ConfigurationError, LambdaCallback, Trainer
from agents.callbacks.checkpoint import MOST_COST
from agents.callbacks.intervals import Every
from agents.checkpoints.file import NewEpisodesWarning
from agents.state_files import state_file
from agents.state_files.header import find, header_of, list_checkpoints
from agents.state_files.plain_state import joined, split

PARAMS = {"ppo": SMALL_PPO, "dqn": SMALL_DQN}


def make(name: str = "ppo", environment: Any = "CartPole-v1", seed: int = 0, **params: Any) -> Any:
    return agents.make(name, environment, seed=seed, **{**PARAMS[name], **params})


def leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for key in sorted(value, key=str) for leaf in leaves(value[key])]
    return [leaf for item in value for leaf in leaves(item)] if isinstance(value, list | tuple) else [value]


def same(one: Any, other: Any) -> bool:
    pairs = list(zip(leaves(one), leaves(other), strict=True))
    return all(np.array_equal(a, b, equal_nan=isinstance(a, float | np.ndarray)) for a, b in pairs)


def episodes_of(trainer: Trainer) -> list[Any]:
    return [episode._replace(wall_seconds=0.0) for episode in trainer.history.episodes]


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["ppo", "dqn"])
@pytest.mark.parametrize("steps", [96, 154], ids=["between rollouts", "in the middle of one"])
def test_resumed_training_equals_uninterrupted_training(tmp_path: Path, agent: str, steps: int) -> None:
    assert_resumed_training_equals_uninterrupted(tmp_path, agent, steps)


@pytest.mark.slow
@pytest.mark.parametrize("plain_steps", [5, 8, 30], ids=["after XLA", "with XLA", "before XLA"])
def test_resumed_training_is_equal_wherever_xla_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plain_steps: int
) -> None:
    monkeypatch.setattr("agents.updates.compiled.PLAIN_STEPS", plain_steps)
    whole = assert_resumed_training_equals_uninterrupted(
        tmp_path, "dqn", 96, jit_compile=None
    )  # after 8 of 46 gradient steps
    assert [key[-1] for key in whole.agent._update._compiled] == [False, True]


def assert_resumed_training_equals_uninterrupted(tmp_path: Path, agent: str, steps: int, **params: Any) -> Trainer:
    """Compare a training resumed from a checkpoint with an uninterrupted one, and return the latter."""
    whole = Trainer(make(agent, **params))
    whole.train(env_steps=400)

    Trainer(make(agent, **params), callbacks=[Checkpoint(tmp_path)]).train(env_steps=steps)
    rest = Trainer(make(agent, seed=7, **params), callbacks=[Checkpoint(tmp_path)])
    header = agents.resume(rest, tmp_path)
    assert (header.env_steps, header.algorithm, header.in_episodes) == (steps, agent.upper(), True)
    rest.train(env_steps=400 - steps)
    assert episodes_of(rest) == episodes_of(whole)
    assert same(rest.agent.get_state(), whole.agent.get_state())
    assert same(rest.buffer.get_state(), whole.buffer.get_state())
    return whole


def test_damaged_newest_checkpoint_is_skipped_with_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    Trainer(make(), callbacks=[Checkpoint(tmp_path, every=32)]).train(env_steps=96)
    damaged = sorted(tmp_path.glob("*96*.checkpoint"))
    for path in damaged:
        path.write_bytes(path.read_bytes()[:1000])
    assert agents.resume(Trainer(make()), tmp_path).env_steps == 64
    for path in damaged:
        assert f"{path} is damaged (cut off?): taking the newest whole checkpoint, 000000000064" in caplog.text
    for path in tmp_path.glob("*.checkpoint"):
        path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(ConfigurationError, match=rf"no checkpoint in it is whole; .*{damaged[0].name}"):
        agents.resume(Trainer(make()), tmp_path)


@pytest.mark.slow
def test_resume_without_environment_states_begins_new_episodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agents.environments.vector.sync.SyncCopies.get_state", lambda _: None)
    Trainer(make(), callbacks=[Checkpoint(tmp_path)]).train(env_steps=100)
    rest = Trainer(make())
    with pytest.warns(NewEpisodesWarning, match="stepped by 'sync', were not copied .* new episodes begin"):
        assert not agents.resume(rest, tmp_path).in_episodes
    rest.train(env_steps=100)
    assert rest.env_steps == 200


def test_checkpoints_are_written_at_interval_and_oldest_removed(tmp_path: Path) -> None:
    trainer = Trainer(make(), callbacks=[Checkpoint(tmp_path, every=50, keep=2, window=20)])
    trainer.train(env_steps=230)
    steps = [header.env_steps for header in list_checkpoints(tmp_path).values()]
    assert steps[-2:] == [200, 230]
    assert len(steps) <= 3  # the best one is kept in addition
    best = header_of(find(tmp_path, best=True)).value
    assert best == max(header.value or 0 for header in list_checkpoints(tmp_path).values())
    assert find(tmp_path) == trainer.callbacks.callbacks[0].newest


def test_value_requires_ten_episodes(tmp_path: Path) -> None:
    kept = Checkpoint(tmp_path, every=50)
    trainer = Trainer(make(), callbacks=[kept])
    trainer.train(episodes=9)
    assert kept.value(trainer) is None
    trainer.train(episodes=1)
    assert kept.value(trainer) == trainer.history.mean_return()


def test_last_checkpoint_includes_last_update(tmp_path: Path) -> None:
    trainer = Trainer(make(), callbacks=[Checkpoint(tmp_path, every=32)])
    trainer.train(env_steps=64)
    assert same(agents.load_agent(tmp_path).get_state(), trainer.agent.get_state())
    assert header_of(find(tmp_path)).gradient_steps == trainer.agent.gradient_steps > 0


class CheckpointWithValues(Checkpoint):
    """Checkpoint callback with given values after given steps."""

    def __init__(self, folder: Path, worth: dict[int, float], **arguments: Any) -> None:
        super().__init__(folder, every=20, **arguments)
        self.worth = worth

    def value(self, trainer: Trainer) -> float:
        return self.worth[trainer.env_steps]


def test_best_checkpoint_is_kept(tmp_path: Path) -> None:
    Trainer(make(), callbacks=[CheckpointWithValues(tmp_path, {20: 5.0, 40: 9.0, 60: 1.0, 80: 2.0}, keep=1)]).train(
        env_steps=80
    )
    assert [header.value for header in list_checkpoints(tmp_path).values()] == [9.0, 2.0]


@pytest.mark.slow
def test_best_only_writes_improvements_and_end(tmp_path: Path) -> None:
    worth = {20: 5.0, 40: 4.0, 60: 6.0, 80: 1.0}
    Trainer(make(), callbacks=[CheckpointWithValues(tmp_path, worth, keep=None, best_only=True)]).train(env_steps=80)
    kept = {header.env_steps: header.value for header in list_checkpoints(tmp_path).values()}
    assert kept == {20: 5.0, 60: 6.0, 80: 1.0}  # and the end of training
    rest = Trainer(
        make(), callbacks=[CheckpointWithValues(tmp_path, {100: 5.9, 120: 6.1, 126: 0.0}, keep=None, best_only=True)]
    )
    agents.resume(rest, tmp_path)
    rest.train(env_steps=45)
    assert [header.env_steps for header in list_checkpoints(tmp_path).values()] == [20, 60, 80, 120, 126]


@pytest.mark.parametrize("best_only", [True, False])
def test_best_checkpoint_by_evaluation_has_evaluated_weights(tmp_path: Path, best_only: bool) -> None:
    values = iter([3.0, 4.0, 8.0])
    weights = {}

    def judge(agent: Any, where: Any) -> list[float]:
        worth = next(values)
        weights[worth] = agent.get_state()["networks"]
        return [worth]

    every = None if best_only else 96
    kept = Checkpoint(tmp_path, every=every, keep=2, best_only=best_only, judged_by="evaluation")
    trainer = Trainer(make(), callbacks=[kept, agents.Evaluate(64, function=judge)])
    trainer.train(env_steps=192)
    found = [(header.env_steps, header.value) for header in list_checkpoints(tmp_path).values()]
    assert found[-2:] == [(192, 8.0), (192, None)]  # the last update came after the last evaluation
    assert same(agents.load_agent(tmp_path, best=True).get_state()["networks"], weights[8.0])
    assert same(agents.load_agent(tmp_path).get_state()["networks"], trainer.agent.get_state()["networks"])
    assert len(found) == 2


def test_weights_only_checkpoint_acts_and_starts_agents(tmp_path: Path) -> None:
    trainer = Trainer(make(), callbacks=[Checkpoint(tmp_path, weights_only=True)])
    trainer.train(env_steps=96)
    observations = np.zeros((2, 4), np.float32)
    agent = agents.load_agent(tmp_path)
    np.testing.assert_array_equal(agent.act(observations, False), trainer.agent.act(observations, False))
    assert not agent.fresh
    with pytest.raises(ConfigurationError, match="holds weights only: no training can be resumed"):
        agents.resume(Trainer(make()), tmp_path)
    with pytest.raises(ConfigurationError, match="is no trainer: give the trainer, then"):
        agents.resume(tmp_path, trainer)  # type: ignore[arg-type]
    recipe = replace(agents.AgentSpec.of("ppo", "CartPole-v1", SMALL_PPO), state=agents.load_weights(tmp_path))
    assert same(recipe.build(3).get_state()["networks"], trainer.agent.get_state()["networks"])


def test_weights_of_a_trained_agent_explore_by_its_policy(tmp_path: Path) -> None:
    params = {"learning_starts": 8, "batch_size": 4, "hidden_sizes": [4], "buffer_size": 100, "jit_compile": False}
    trainer = Trainer(
        agents.make("td3", "Pendulum-v1", noise=None, **params), callbacks=[Checkpoint(tmp_path, weights_only=True)]
    )
    trainer.train(env_steps=12)
    agent = agents.load_agent(tmp_path)
    observations = np.ones((3, 3), np.float32)
    greedy = agent.act(observations, False)
    np.testing.assert_array_equal(agent.act(observations, True), greedy)  # not uniform, as before `learning_starts`
    assert agent.env_steps == 12


def test_load_agent_restores_agent_and_environment(tmp_path: Path) -> None:
    trainer = Trainer(make("dqn"), callbacks=[Checkpoint(tmp_path)])
    trainer.train(env_steps=100)
    agent = agents.load_agent(tmp_path)
    assert same(agent.get_state(), trainer.agent.get_state())
    assert agent.environment is not None
    assert agent.environment.label == "CartPole-v1"


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (lambda: make("dqn"), "another algorithm: it has PPO, this training has DQN"),
        (
            lambda: make(environment="Acrobot-v1"),
            "another environment: it has CartPole-v1, this training has Acrobot-v1",
        ),
        (lambda: make(hidden_sizes=[4]), r"hidden_sizes=\[8\] \(it has \[4\]\)"),
    ],
)
def test_checkpoint_of_different_training_is_refused(tmp_path: Path, other: Any, message: str) -> None:
    Trainer(make(), callbacks=[Checkpoint(tmp_path)]).train(env_steps=40)
    with pytest.raises(ConfigurationError, match=message):
        agents.resume(Trainer(other()), tmp_path)


def test_checkpoint_with_other_environment_arguments_is_refused(tmp_path: Path) -> None:
    def trainer(**kwargs: Any) -> Trainer:
        spec = agents.EnvironmentSpec("CartPole-v1", kwargs)
        return Trainer(make(), spec, callbacks=[Checkpoint(tmp_path)])

    trainer(max_episode_steps=50).train(env_steps=40)
    with pytest.raises(ConfigurationError, match=r"it has \{'max_episode_steps': 50\}, this training has \{\}"):
        agents.resume(trainer(), tmp_path)


class TestUnusableFiles:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        Trainer(make(), callbacks=[Checkpoint(tmp_path)]).train(env_steps=40)
        return find(tmp_path)

    def refused(self, path: Path, message: str) -> None:
        with pytest.raises(ConfigurationError, match=message):
            agents.load_agent(path)
        with pytest.raises(ConfigurationError, match=message):
            agents.resume(Trainer(make()), path)

    @pytest.mark.slow
    def test_truncated_file_is_refused(self, path: Path) -> None:
        path.write_bytes(path.read_bytes()[:-20])
        self.refused(path, "not a complete checkpoint: it was cut off, or is no file of Finder")
        assert list_checkpoints(path.parent) == {}

    def test_foreign_file_is_refused(self, path: Path) -> None:
        path.write_bytes(pickle.dumps({"weights": [1.0, 2.0]}))
        self.refused(path, "not a complete checkpoint")
        path.write_bytes(b"")
        self.refused(path, "not a complete checkpoint")

    def test_file_with_wrong_checksum_is_refused(self, path: Path) -> None:
        damaged = bytearray(path.read_bytes())
        damaged[1000] ^= 1
        path.write_bytes(bytes(damaged))
        self.refused(path, r"cannot be read \(ValueError: its checksum is wrong\). It was written with agentfinder")

    def rewrite(self, path: Path, **changes: Any) -> None:
        with zipfile.ZipFile(path) as archive:
            parts = {name: archive.read(name) for name in archive.namelist()}
        parts["about.json"] = json.dumps({**json.loads(parts["about.json"]), **changes}).encode()
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in parts.items():
                archive.writestr(name, data)

    def test_file_of_newer_format_is_refused(self, path: Path) -> None:
        self.rewrite(path, format=9, versions={"agentfinder": "9.9"}, further="field")
        self.refused(path, "has format 9, and this version of Finder reads up to format 2: .* agentfinder 9.9")

    def test_checkpoint_of_trial_is_refused(self, path: Path) -> None:
        self.rewrite(path, kind=None)
        self.refused(path, "a checkpoint of a study's trials, not of a training")

    def test_missing_file_is_refused(self, tmp_path: Path) -> None:
        self.refused(tmp_path / "nowhere", "there is no such file or folder")
        (tmp_path / "empty").mkdir()
        self.refused(tmp_path / "empty", "no checkpoint of a training is in it")


def test_folder_of_another_training_is_refused(tmp_path: Path) -> None:
    Trainer(make(), callbacks=[Checkpoint(tmp_path)]).train(env_steps=40)
    with pytest.raises(ConfigurationError, match="written after 40 environment steps, and this training is at 0"):
        Trainer(make(), callbacks=[Checkpoint(tmp_path)]).train(env_steps=40)


@pytest.mark.slow
@pytest.mark.parametrize(
    "event", ["on_episode_end", "on_step_end", "on_update_end", "on_rollout_begin", "on_train_end"]
)
def test_callback_error_stops_run_and_names_checkpoint(tmp_path: Path, event: str) -> None:
    def fail(trainer: Trainer, *_: Any) -> None:
        if trainer.env_steps >= 60:
            raise RuntimeError("the disk of the notes is full")

    trainer = Trainer(make(), callbacks=[Checkpoint(tmp_path), LambdaCallback(**{event: fail})])
    with pytest.raises(RuntimeError, match="the disk of the notes is full") as raised:
        trainer.train(env_steps=300)
    path = find(tmp_path)
    assert raised.value.__notes__ == [f"Raised in {event}.", f"The training is kept in {path}."]
    rest = Trainer(make())
    agents.resume(rest, path)
    assert rest.env_steps == trainer.env_steps
    rest.train(env_steps=40)


def test_newest_checkpoint_precedes_training_error(tmp_path: Path) -> None:
    trainer = Trainer(make(learning_rate=1e30), callbacks=[Checkpoint(tmp_path, every=10)])
    with pytest.raises(agents.NonFiniteError):
        trainer.train(env_steps=400)
    assert all(np.isfinite(leaf).all() for leaf in leaves(agents.load_weights(tmp_path)["networks"]))


def test_callback_states_are_resumed(tmp_path: Path) -> None:
    class Counting(agents.Callback):
        def __init__(self) -> None:
            self.n = 0

        def on_step_end(self, trainer: Trainer) -> None:
            self.n += 1

        def get_state(self) -> dict[str, Any]:
            return {"n": self.n}

        def set_state(self, state: Any) -> None:
            self.n = state["n"]

    first = [Checkpoint(tmp_path), Counting(), Counting()]
    first[2].n = 100
    Trainer(make(), callbacks=first).train(env_steps=40)
    again = [Counting(), Counting(), Checkpoint(tmp_path)]
    agents.resume(Trainer(make(), callbacks=again), tmp_path)
    assert [each.n for each in again[:2]] == [20, 120]


def test_intervals_in_seconds_limit_cost(tmp_path: Path) -> None:
    checkpoints = Checkpoint(tmp_path, every="0.000001 s", keep=None)
    Trainer(make(), callbacks=[checkpoints]).train(env_steps=400)
    assert 0 < MOST_COST < 0.1
    assert len(list_checkpoints(tmp_path)) < 20


@pytest.mark.parametrize(
    ("written", "every"),
    [
        (5, Every(env_steps=5)), ("10000", Every(env_steps=10_000)), ("10_000 steps", Every(env_steps=10_000)),
        ("50episodes", Every(episodes=50)), ("50 Episodes", Every(episodes=50)), ("60s", Every(seconds=60.0)),
        ("1.5 s", Every(seconds=1.5)), ("1e5", Every(env_steps=100_000)), (Every(episodes=2), Every(episodes=2)),
    ],
)  # fmt: skip
def test_intervals_are_parsed(written: Any, every: Every) -> None:
    assert Every.of(written) == every
    assert Every.of(str(every)) == every


@pytest.mark.parametrize("written", ["", "often", "5 minutes", "1.5", "1.5 episodes", "-5", True, ","])
def test_invalid_interval_texts_are_refused(written: Any) -> None:
    with pytest.raises(ConfigurationError, match="An interval must be environment steps"):
        Every.of(written)


@pytest.mark.parametrize("fields", [{}, {"env_steps": 1, "episodes": 1}, {"env_steps": 0}, {"seconds": float("nan")}])
def test_invalid_interval_fields_are_refused(fields: Any) -> None:
    with pytest.raises(ConfigurationError, match="An interval"):
        Every(**fields)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"keep": 0}, "keep must be >= 1"),
        ({"window": 0}, "window must be >= 1"),
        ({"best_only": True, "judged_by": "evaluation", "every": 5}, "leave every out"),
    ],
)
def test_invalid_arguments_are_refused(arguments: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Checkpoint("anywhere", **arguments)


def test_judging_by_evaluation_without_evaluations_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no callback evaluates: add"):
        Trainer(make(), callbacks=[Checkpoint(tmp_path, judged_by="evaluation")]).train(env_steps=10)


@pytest.mark.slow
def test_best_checkpoint_is_not_overwritten_when_resumed(tmp_path: Path) -> None:
    """An update may follow an evaluation without a step in between, in a different process."""

    def trainer(**stop: Any) -> Trainer:
        kept = Checkpoint(tmp_path, every=1_000_000, judged_by="evaluation")
        return Trainer(make(), callbacks=[agents.Evaluate(32, n_episodes=1), LambdaCallback(**stop), kept])

    trainer(on_evaluation_end=lambda run, evaluation: run.stop("enough")).train(env_steps=1_000)
    [(best, header)] = list_checkpoints(tmp_path).items()
    assert (header.env_steps, header.gradient_steps, header.value is None) == (32, 0, False)
    for _ in range(2):
        rest = trainer(on_update_end=lambda run, update: run.stop("now"))
        agents.resume(rest, best)
        rest.train(env_steps=1_000)
        assert header_of(best) == header
        assert find(tmp_path, best=True) == best
        assert [each.gradient_steps > 0 for each in list_checkpoints(tmp_path).values()] == [False, True]


def test_episodes_ending_with_callback_error_are_recorded() -> None:
    def fail(trainer: Trainer, episode: Any) -> None:
        raise OSError("no space left on device")

    agent = make(environment="Pendulum-v1", n_envs=4)
    with Trainer(agent, callbacks=[LambdaCallback(on_episode_end=fail)]) as trainer:
        with pytest.raises(OSError, match="no space"):
            trainer.train(env_steps=10_000)
        assert [episode.env_steps for episode in trainer.history.episodes] == [800] * 4


def test_metrics_of_discarded_episode_are_not_passed_on() -> None:
    def note(trainer: Trainer, environment: int, member: int) -> None:
        trainer.runs[member].episode(environment).custom_metrics["began"] = trainer.env_steps

    agent = make(environment="Pendulum-v1", n_envs=4)
    with Trainer(agent, callbacks=[LambdaCallback(on_episode_begin=note)]) as trainer:
        trainer.train(episodes=1)
        trainer.train(episodes=4)
        assert [episode.custom_metrics["began"] for episode in trainer.history.episodes] == [0, 800, 800, 800, 800]


def test_invalid_custom_metric_does_not_damage_checkpoint(tmp_path: Path) -> None:
    def measure(value: Any) -> Any:
        return lambda trainer, episode: episode.custom_metrics.update(goal=value, fine=1.0)

    def trainer(value: Any) -> Trainer:
        own = [LambdaCallback(on_episode_end=measure(value)), Checkpoint(tmp_path), agents.HistoryFile(tmp_path)]
        return Trainer(make(), callbacks=own)

    with pytest.raises(ConfigurationError, match=r"custom_metrics\['goal'\] of an episode is None"):
        trainer(None).train(env_steps=1_000)
    rest = trainer(2.0)
    agents.resume(rest, tmp_path)
    rest.train(episodes=2)
    measured = [dict(row["custom_metrics"]) for row in agents.read_history(tmp_path).to_pylist()]
    assert measured == [{"fine": 1.0}, {"fine": 1.0, "goal": 2.0}, {"fine": 1.0, "goal": 2.0}]


@pytest.mark.slow
def test_history_resumes_from_initial_checkpoint(tmp_path: Path) -> None:
    def trainer() -> Trainer:
        return Trainer(make(), callbacks=[Checkpoint(tmp_path), agents.HistoryFile(tmp_path)])

    first = trainer()
    kept = first.callbacks.callbacks[-1]  # checkpoints are written after the other callbacks
    kept.folder.mkdir(exist_ok=True)
    kept.write(first)
    beginning = find(tmp_path)
    first.train(episodes=3)
    find(tmp_path).unlink()
    assert find(tmp_path) == beginning
    again = trainer()
    agents.resume(again, tmp_path)
    again.train(episodes=2)
    assert len(agents.read_history(tmp_path)) == 2


def _written(tmp_path: Path, agent: str = "ppo", environment: Any = "CartPole-v1") -> tuple[Path, Any]:
    trainer = Trainer(make(agent, environment), callbacks=[Checkpoint(tmp_path)])
    trainer.train(env_steps=100)
    return find(tmp_path), trainer.agent.get_state()


def _forbid_unpickling(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise AssertionError("something was unpickled")

    for name in ("cloudpickle.loads", "cloudpickle.load", "pickle.loads", "pickle.load", "pickle.Unpickler"):
        monkeypatch.setattr(name, refuse)


@pytest.mark.parametrize("agent", ["ppo", "dqn"])
def test_weights_are_loaded_without_unpickling(tmp_path: Path, agent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path, state = _written(tmp_path, agent)
    _forbid_unpickling(monkeypatch)
    assert same(agents.load_weights(path), {"networks": state["networks"], "extra": state["extra"]})


@pytest.mark.parametrize("agent", ["ppo", "dqn"])
def test_agent_and_training_are_restored_without_unpickling(
    tmp_path: Path, agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    native: Any = agents.EnvironmentSpec("CartPole-v1", vectorization="native")
    path, state = _written(tmp_path, agent, native)
    rest = Trainer(make(agent, native, seed=7))
    _forbid_unpickling(monkeypatch)
    assert same(agents.load_agent(path).get_state(), state)
    assert agents.resume(rest, path).in_episodes
    assert same(rest.agent.get_state(), state)


def test_damaged_weights_are_refused(tmp_path: Path) -> None:
    path, _ = _written(tmp_path)
    with zipfile.ZipFile(path) as archive:
        at = archive.getinfo("agent.arrays").header_offset + 100
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    with pytest.raises(ConfigurationError, match="its checksum is wrong"):
        agents.load_weights(path)


class _Numbers(list[int]):
    """List subclass, which is not plain."""


def test_plain_state_is_split_and_joined() -> None:
    value = {
        "a": [np.arange(6.0).reshape(2, 3), np.float32(2.5), (1, None, "x", True, float("inf"))],
        "b": {"": np.zeros((0, 2), np.int64), "t": np.arange(6).reshape(2, 3).T, "big": 2**200, "no": np.array(True)},
        "c": {3: "x", None: [()]},
    }
    parts = split(value)
    assert not parts.objects
    again = joined(json.loads(json.dumps(parts.tree)), _giving(parts.arrays), [])
    assert same(again, value)
    assert isinstance(again["a"][1], np.float32)
    assert (type(again["a"][2]), again["c"]) == (tuple, {3: "x", None: [()]})


@pytest.mark.parametrize(
    "strange", [object(), np.array([object()]), {1, 2}, b"bytes", _Numbers([1]), Every.of(5), np.dtype]
)
def test_other_types_are_kept_as_objects(strange: Any) -> None:
    parts = split({"a": [strange, strange, 1.0]})
    assert all(one is strange for one in parts.objects)
    assert joined(parts.tree, _giving([]), parts.objects)["a"][0] is strange


def test_recursive_state_is_kept_as_object() -> None:
    state: dict[str, Any] = {}
    state["own"] = state
    assert split(state) == ({"object": 0}, [], [state])


@pytest.mark.parametrize(
    "tree",
    [
        {"array": ["|O", [1]]}, {"array": ["V8", [1]]}, {"number": "|O"}, {"object": 0}, {"object": -1}, {"strange": 1},
        {"mapping": [1]}, {"tuple": 3}, {"a": 1, "b": 2}, {}, {"pairs": [[[], 1]]}, {"array": ["<f4", [-1]]},
    ],
)  # fmt: skip
def test_invalid_plain_states_are_refused(tree: Any) -> None:
    with pytest.raises(ValueError, match="it "):
        joined(tree, state_file._Arrays(None, 0), [])


def _giving(arrays: list[Any]) -> Any:
    left = iter(arrays)

    def give(dtype: Any, shape: Any) -> Any:
        array = np.asarray(next(left))
        assert (array.dtype, array.shape) == (dtype, shape)
        return array

    return give
