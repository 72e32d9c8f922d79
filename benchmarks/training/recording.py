"""What recording costs: the same study recorded to SQLite and not recorded at all, in turns.

Both run the same trials with the same seeds as one population in this process, so that they differ in nothing else.
The share of wall time is measured twice: as the difference of whole studies (noisy), and as the time that was spent
inside the recorder.

    python -m benchmarks.training.recording
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from benchmarks import folders
from finder.executors.choice import make_executor
from finder.executors.executor import Executor
from finder.search.object_resolver import ObjectResolver
from finder.search.search import Search
from finder.trials.trial import Outcome, TrialSpec
from studies import StudySpec, open_study

RATES = [1e-4, 3e-4, 1e-3, 3e-3]
ROUNDS = 5


class Nobody:
    """A listener that forgets everything."""

    def started(self, number: int, configuration: dict[str, Any]) -> None: ...

    prunes: bool = False
    pauses: bool = False
    share: int | None = None
    n_to_resume: int = 0

    def episodes(self, records: Mapping[int, list[Any]]) -> None: ...

    def rung(self, env_steps: int, values: Mapping[int, Mapping[int, float]]) -> Mapping[int, str]:
        return {}

    def exchange(
        self, env_steps: int, values: Mapping[int, Mapping[int, float]], diverged: Collection[int]
    ) -> Sequence[Any]:
        return ()

    def ended(self, number: int, outcome: Outcome) -> None: ...


def make_spec(storage: str) -> StudySpec:
    trials = tuple({"learning_rate": rate} for rate in RATES)
    return StudySpec(
        name="recording",
        storage=storage,
        agents=("ppo",),
        env="CartPole-v1",
        trials=trials,
        seeds=(0, 1, 2),
        env_steps=50_000,
        executor="population",
        n_jobs=1,
        pruner="none",
        confirm=0,
    )


def recorded(executor: Executor) -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as folder:
        spec = make_spec(f"sqlite:///{folder}/finder.db")
        began = time.perf_counter()
        with open_study(spec) as study:
            search = Search(study, ObjectResolver.of(spec), executor)
            search.run()
            return time.perf_counter() - began, search.recorder.seconds


def unrecorded(executor: Executor) -> float:
    spec = make_spec("memory")
    resolver = ObjectResolver.of(spec)
    numbers = iter(enumerate(RATES))

    def next_trial() -> TrialSpec | None:
        number, rate = next(numbers, (None, 0.0))
        if number is None:
            return None
        agent = resolver.agent({"learning_rate": rate}, "ppo")
        return TrialSpec(
            number=number, agent=agent, seeds=spec.seeds, env_steps=spec.env_steps, report_marks=spec.report_marks
        )

    began = time.perf_counter()
    executor.run(next_trial, Nobody())
    return time.perf_counter() - began


def main() -> None:
    executor = make_executor("population")
    unrecorded(executor)  # compiles
    with_, without, inside = [], [], []
    for _ in range(ROUNDS):
        seconds, recorder = recorded(executor)
        with_.append(seconds)
        inside.append(recorder / seconds)
        without.append(unrecorded(executor))
        print(f"recorded {with_[-1]:.2f} s (recorder {recorder:.3f} s), unrecorded {without[-1]:.2f} s", flush=True)
    difference = statistics.median(with_) / statistics.median(without) - 1
    text = (
        f"4 trials x 3 seeds x 50,000 environment steps, PPO on CartPole-v1, SQLite, {ROUNDS} rounds in turns.\n\n"
        f"| | share of wall time |\n|---|---|\n"
        f"| time inside the recorder, median | {statistics.median(inside):.2%} |\n"
        f"| recorded over unrecorded, medians | {difference:+.2%} |\n\n"
        f"Recorded, seconds: {', '.join(f'{s:.2f}' for s in with_)}. "
        f"Unrecorded: {', '.join(f'{s:.2f}' for s in without)}.\n"
    )
    folders.RESULTS.mkdir(exist_ok=True)
    (folders.RESULTS / "recording.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
