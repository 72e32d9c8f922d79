"""Is population-based training worth it: against the best constant configuration of the same population?

    python -m benchmarks.searches.pbt             measures what results/pbt.jsonl lacks, and writes the table
    python -m benchmarks.searches.pbt --arms ray  measures the time of Ray Tune (pip install "ray[tune]") as well
    python -m benchmarks.searches.pbt --summary   writes the table

Five searches of 16 members in each of three environments. `pbt` and `pb2` exchange members every tenth of the budget;
`constant` trains members with the same initial numbers, weights and seeds to the end, without exchanges. The best
member of each search is trained again on five further seeds (the schedule of its weights, or its constant numbers), and
the mean returns in the last tenth of these runs are compared: those of the search are flattered by the choice among 16,
and are of the last tenth (`constant`: fifth) of the runs. `ray` is Ray Tune's PBT at the same number of members, steps
and exchanges, with the same agent, trained by a `tune.Trainable` with checkpoints as its documentation shows; only its
time is compared, with that of Finder's searches without the further seeds. Rows go to results/pbt.jsonl, the table to
results/pbt.md.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np

import agents
import finder
from benchmarks import folders
from studies.analysis.recommendation import best
from studies.spec.attributes import CONFIRMS_ATTR
from studies.study.study import OpenStudy

N_SEARCHES, N_FURTHER = 5, 5
ARMS = ("constant", "pbt", "pb2")
SPACES = {"learning_rate": "1e-5:1e-2:log", "ent_coef": "1e-5:1e-1:log", "clip_range": "0.1:0.4"}
FIXED: dict[str, Any] = {"n_envs": 4, "n_steps": 128, "batch_size": 128, "n_epochs": 8}


class Case(NamedTuple):
    """A search: the agent, its environment, the steps of each run, and the number of members."""

    agent: str
    environment: str
    env_steps: int
    members: int = 16


CASES = {
    "cartpole": Case("ppo", "CartPole-v1", 50_000),
    "acrobot": Case("ppo", "Acrobot-v1", 100_000),
    "pendulum": Case("ppo", "Pendulum-v1", 100_000),
}


def searched(case: Case, arm: str, search: int) -> dict[str, Any]:
    """Return the measurements of one search of Finder."""
    began = time.perf_counter()
    common: dict[str, Any] = {
        "fixed": FIXED, "n_trials": case.members, "env_steps": case.env_steps, "sampler": "random", "seed": search,
        "seeds": [1000 * search], "storage": None, "progress": False,
    }  # fmt: skip
    if arm == "constant":
        common |= {"scheduler": "none", "executor": "population", "population": case.members, "n_jobs": 1}
    else:
        common |= {"scheduler": arm}
    ended: list[float] = []

    class Clock:
        """Notes when the search has ended and its confirmation begins."""

        def confirmation_begins(self, n_trials: int) -> None:
            ended.append(time.perf_counter() - began)

    common |= {"confirm": 1, "confirm_seeds": N_FURTHER, "observer": Clock()}
    result = finder.tune(case.agent, case.environment, SPACES, **common)
    pick = best(result.study)
    row = {
        "in_search": pick.tuning_value,
        "on_further_seeds": further_values(result.study, pick.trial, case),
        "changes": max(0, len(pick.schedule) - 1),
        "seconds": round(ended[0], 2),
    }
    result.study.close()
    return row


def further_values(study: OpenStudy, trial: int, case: Case) -> list[float]:
    """Return the mean return in the last tenth of each confirmation run of a trial, the same for all arms."""
    returns: dict[int, list[float]] = {}
    for each in study.confirmation_trials():
        if each.user_attrs[CONFIRMS_ATTR] == trial:
            for episode in study.storage.episodes.curve(study.episodes_key, each.number):
                if episode.env_steps > 0.9 * case.env_steps:
                    returns.setdefault(episode.seed, []).append(episode.episode_return)
    return [float(np.mean(own)) for _, own in sorted(returns.items())]


class Member:
    """One member as a user of Ray Tune trains it: in parts, with a checkpoint between them."""

    def __init__(self, case: Case, config: Mapping[str, float], seed: int) -> None:
        self.every, self.seed = case.env_steps // 10, seed
        agent = agents.make(case.agent, case.environment, seed=seed, **{**FIXED, **config})
        self.trainer = agents.Trainer(agent)
        self.config = dict(config)

    def begin_again(self, config: Mapping[str, float]) -> None:
        """Begin a training with other numbers, keeping what was compiled."""
        agent = self.trainer.agent
        self.trainer.close()
        agent.reset(self.seed, config)
        self.trainer, self.config = agents.Trainer(agent), dict(config)

    def step(self) -> float:
        """Train an interval; return the mean return of the episodes in it."""
        before = len(self.trainer.history.returns)
        self.trainer.train(env_steps=self.every, progress=False)
        returns = self.trainer.history.returns[before:] or self.trainer.history.returns[-1:]
        return float(np.mean(returns)) if returns else float("-inf")

    def save(self, path: Path) -> None:
        """Write the state of the training."""
        path.write_bytes(pickle.dumps(self.trainer.get_state()))

    def load(self, path: Path) -> None:
        """Restore a state, with the present numbers in place of those of the state."""
        self.trainer.set_state(pickle.loads(path.read_bytes()))
        for name, value in self.config.items():
            self.trainer.set_hyperparameter(name, value)


def searched_by_ray(case: Case, search: int) -> dict[str, Any]:
    """Return the measurements of one search of Ray Tune."""
    import ray
    from ray import tune
    from ray.tune.schedulers import PopulationBasedTraining

    class Trainable(tune.Trainable):  # type: ignore[misc]
        """The member in a process of its own."""

        def setup(self, config: dict[str, float]) -> None:
            self.member = Member(case, config, 1000 * search)

        def reset_config(self, new_config: dict[str, float]) -> bool:
            self.member.begin_again(new_config)
            return True

        def step(self) -> dict[str, float]:
            return {"value": self.member.step()}

        def save_checkpoint(self, checkpoint_dir: str) -> None:
            self.member.save(Path(checkpoint_dir) / "state.pkl")

        def load_checkpoint(self, checkpoint: str) -> None:
            self.member.load(Path(checkpoint) / "state.pkl")

    space = {
        "learning_rate": tune.loguniform(1e-5, 1e-2),
        "ent_coef": tune.loguniform(1e-5, 1e-1),
        "clip_range": tune.uniform(0.1, 0.4),
    }
    path = {"PYTHONPATH": os.pathsep.join([str(folders.REPOSITORY), *sys.path])}
    ray.init(num_cpus=os.cpu_count(), include_dashboard=False, log_to_driver=False, runtime_env={"env_vars": path})
    began = time.perf_counter()
    folder = tempfile.TemporaryDirectory()
    try:
        scheduler = PopulationBasedTraining(
            time_attr="training_iteration", perturbation_interval=1, quantile_fraction=0.25,
            hyperparam_mutations=space, synch=True,
        )  # fmt: skip
        tuner = tune.Tuner(
            Trainable,
            param_space=space,
            tune_config=tune.TuneConfig(
                metric="value", mode="max", num_samples=case.members, scheduler=scheduler, reuse_actors=True
            ),
            run_config=tune.RunConfig(
                stop={"training_iteration": 10},
                verbose=0,
                storage_path=folder.name,
                checkpoint_config=tune.CheckpointConfig(num_to_keep=4),
            ),
        )
        found = tuner.fit().get_best_result()
        value = float(found.metrics["value"])
    finally:
        ray.shutdown()
        folder.cleanup()
    return {"in_search": value, "seconds": round(time.perf_counter() - began, 2)}


def rows_of(file: Path) -> list[dict[str, Any]]:
    """Return the rows that were measured."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def measure(file: Path, cases: Mapping[str, Case], arms: list[str], n_searches: int) -> None:
    """Measure what the file lacks, and append it."""
    there = {(row["case"], row["arm"], row["search"]) for row in rows_of(file)}
    for search in range(n_searches):
        for name, case in cases.items():
            for arm in arms:
                if (name, arm, search) in there:
                    continue
                own = searched_by_ray(case, search) if arm == "ray" else searched(case, arm, search)
                row = {"case": name, "arm": arm, "search": search, **case._asdict(), **own}
                with file.open("a") as out:
                    out.write(json.dumps(row) + "\n")
                print(row, flush=True)


def table(rows: list[dict[str, Any]]) -> str:
    """Return the table: means over searches, and how often the schedule was better than the constant numbers."""
    lines = [
        "| environment | search | value on further seeds | in the search | better than constant | changes | seconds |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(row["case"] for row in rows):
        own = [row for row in rows if row["case"] == name]
        constant = {row["search"]: np.mean(row["on_further_seeds"]) for row in own if row["arm"] == "constant"}
        for arm in dict.fromkeys(row["arm"] for row in own):
            mine = [row for row in own if row["arm"] == arm]
            further = {row["search"]: np.mean(row["on_further_seeds"]) for row in mine if "on_further_seeds" in row}
            pairs = [further[key] > constant[key] for key in further if key in constant and arm != "constant"]
            cells = [
                mine[0]["environment"], arm, f"{np.mean(list(further.values())):.1f}" if further else "",
                f"{np.mean([row['in_search'] for row in mine]):.1f}", f"{sum(pairs)} of {len(pairs)}" if pairs else "",
                f"{np.mean([row['changes'] for row in mine]):.1f}" if "changes" in mine[0] else "",
                f"{np.mean([row['seconds'] for row in mine]):.0f}",
            ]  # fmt: skip
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--arms", nargs="+", choices=[*ARMS, "ray"], default=list(ARMS))
    parser.add_argument("--searches", type=int, default=N_SEARCHES)
    parser.add_argument("--env-steps", type=int, help="steps of each run, to try this script")
    parser.add_argument("--members", type=int, help="members, to try this script")
    parser.add_argument("--file", type=Path, default=folders.RESULTS / "pbt.jsonl")
    parser.add_argument("--summary", action="store_true", help="write the table only")
    given = parser.parse_args()
    changes = {"env_steps": given.env_steps, "members": given.members}
    chosen = {name: value for name, value in changes.items() if value is not None}
    if not given.summary:
        cases = {name: CASES[name]._replace(**chosen) for name in given.cases}
        measure(given.file, cases, given.arms, given.searches)
    text = table(rows_of(given.file))
    given.file.with_suffix(".md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
