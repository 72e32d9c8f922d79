"""The pick: a study's best trial, and what the long run needs of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from studies.errors import StudyError, nearest
from studies.ranking import Candidate, Direction, rank
from studies.spaces import Json

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

    from studies.storage import StudyStorage
    from studies.study import OpenStudy


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """The best complete trial of a study.

    Attributes:
        study: The study's name.
        trial: The trial's number.
        params: What was searched and found.
        agent: The agent's label.
        env: The environment's id.
        env_kwargs: The environment's arguments.
        config: The agent's configuration.
        optimizers: Each optimizer, serialised by Keras, by name.
        value: Mean over seeds.
        spread: Sample standard deviation over seeds; NaN with fewer than two seeds.
        seed_values: Each seed's value.
        n_seeds: How many seeds.
        direction: Whether high (`maximize`) or low values are good.
        configuration: Everything needed to run the trial again.
    """

    study: str
    trial: int
    params: dict[str, Json]
    agent: str
    env: str
    env_kwargs: dict[str, Json]
    config: dict[str, Json]
    optimizers: dict[str, Json]
    value: float
    spread: float
    seed_values: dict[int, float]
    n_seeds: int
    direction: Direction
    configuration: dict[str, Json]

    def to_json(self) -> dict[str, Json]:
        """Returns the pick as JSON values; an unknown spread is None, seeds are text keys."""
        data = asdict(self)
        data["spread"] = None if math.isnan(self.spread) else self.spread
        data["seed_values"] = {str(seed): value for seed, value in self.seed_values.items()}
        return data


def best(study: OpenStudy) -> Pick:
    """Returns the best complete trial: the best mean over seeds, then the lower spread, then the lower number.

    Raises:
        StudyError: If no trial is complete; says how many were pruned and failed, and why the last one failed.
    """
    from optuna.trial import TrialState

    trials = {trial.number: trial for trial in study.trials(TrialState.COMPLETE)}
    if not trials:
        raise StudyError(_nothing_to_pick(study))
    if study.spec.kind == "range-test":
        _refuse_without_suggestion(study, trials)
    winner = rank([candidate(study, trial) for trial in trials.values()], study.direction)[0]
    trial = trials[winner.number]
    configuration: dict[str, Any] = dict(trial.user_attrs.get("configuration", {}))
    return Pick(
        study=study.name,
        trial=trial.number,
        params=dict(winner.params),
        agent=configuration.get("agent") or winner.params.get("agent") or study.spec.agents[0],
        env=configuration.get("env", study.spec.env),
        env_kwargs=configuration.get("env_kwargs", dict(study.spec.env_kwargs)),
        config=configuration.get("config", {}),
        optimizers=configuration.get("optimizers", {}),
        value=winner.mean,
        spread=winner.spread,
        seed_values=seed_values(trial),
        n_seeds=len(seed_values(trial)) or 1,
        direction=study.direction,
        configuration=configuration,
    )


def _refuse_without_suggestion(study: OpenStudy, trials: Mapping[int, FrozenTrial]) -> None:
    if all(trial.user_attrs.get("range_test", {}).get("suggestion") is None for trial in trials.values()):
        raise StudyError(
            f"the range test {study.name!r} suggests no learning rate: its curve does not show one. Search a grid "
            f"instead (finder lr without --range-test)."
        )


def candidate(study: OpenStudy, trial: FrozenTrial) -> Candidate:
    """Returns a complete trial as something to rank; one without seed values counts as one seed."""
    values = tuple(seed_values(trial).values())
    if not values and trial.value is not None:
        values = (trial.value,)
    return Candidate(label=f"#{trial.number}", params=study.params(trial), seed_values=values, number=trial.number)


def seed_values(trial: FrozenTrial) -> dict[int, float]:
    """Returns each seed's value of a trial, {} if they were not recorded."""
    return {int(seed): float(value) for seed, value in trial.user_attrs.get("seed_values", {}).items()}


def best_optimizer(study_name: str, storage: StudyStorage | str, name: str = "default") -> Any:
    """Returns a fresh Keras optimizer with the pick's settings and learning rate, ready for the long run.

    Args:
        study_name: The study.
        storage: An open storage, or the URL of one.
        name: Which optimizer, for agents with several such as `actor` and `critic`. Defaults to `default`.

    Returns:
        A `keras.optimizers.Optimizer` without slots, bound to nothing.

    Raises:
        StudyError: If the study is unknown, nothing is complete, or the pick has no optimizer of that name.
    """
    from studies.study import load_study

    with load_study(storage, study_name) as study:
        pick = best(study)
    if name not in pick.optimizers:
        raise StudyError(f"the pick of {study_name!r} has no optimizer {name!r}. {nearest(name, pick.optimizers)}")
    import keras

    return keras.saving.deserialize_keras_object(pick.optimizers[name])


def _nothing_to_pick(study: OpenStudy) -> str:
    from optuna.trial import TrialState

    pruned, failed = study.trials(TrialState.PRUNED), study.trials(TrialState.FAIL)
    counts = f"{len(pruned)} pruned, {len(failed)} failed"
    reasons = [trial.user_attrs.get("reason") for trial in failed if trial.user_attrs.get("reason")]
    last = f" The last failure: {reasons[-1]}." if reasons else ""
    return f"the study {study.name!r} has no complete trial to pick from ({counts}).{last} Run it further."
