"""Learning-rate schedules of Keras as data: where they end, and the same schedules for runs of another length."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from studies.words import counted, number_text, rate_text

_STEPS = ("warmup_steps", "decay_steps", "first_decay_steps", "boundaries")
"""Arguments of Keras's schedules that are numbers of gradient steps."""

_KNOWN = {
    "CosineDecay",
    "CosineDecayRestarts",
    "ExponentialDecay",
    "InverseTimeDecay",
    "PiecewiseConstantDecay",
    "PolynomialDecay",
}
"""Keras's schedules. The steps of other classes are unknown."""


class ScheduleEnd(NamedTuple):
    """The end of a schedule, after which the learning rate stays constant."""

    gradient_steps: int
    learning_rate: float


def schedules_in(config: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the schedules in the configuration of an agent, by the optimizer's name; "" for that of the agent."""
    own: dict[str, Any] = {"": config.get("learning_rate")}
    overrides = config.get("optimizers")
    if isinstance(overrides, Mapping):
        own |= {name: each.get("learning_rate") for name, each in overrides.items() if isinstance(each, Mapping)}
    return {name: each for name, each in own.items() if _is_schedule(each)}


def stretched_config(config: Mapping[str, Any], factor: float) -> dict[str, Any]:
    """Return the configuration of an agent whose schedules last `factor` times as many gradient steps."""
    result = dict(config)
    for name, schedule in schedules_in(config).items():
        rate = stretched(schedule, factor)
        if not name:
            result["learning_rate"] = rate
        else:
            result["optimizers"] = {
                **result["optimizers"],
                name: {**result["optimizers"][name], "learning_rate": rate},
            }
    return result


def stretched_optimizer(serialised: Mapping[str, Any], factor: float) -> dict[str, Any]:
    """Return a serialised optimizer whose schedule, if it has one, lasts `factor` times as many gradient steps."""
    config = serialised.get("config", {})
    rate = config.get("learning_rate")
    return (
        {**serialised, "config": {**config, "learning_rate": stretched(rate, factor)}}
        if _is_schedule(rate)
        else dict(serialised)
    )


def stretched(schedule: Mapping[str, Any], factor: float) -> dict[str, Any]:
    """Return a schedule of Keras whose numbers of gradient steps are multiplied; one of another class unchanged.

    Args:
        schedule: The schedule, as Keras serialises it.
        factor: Ratio of the gradient steps of two runs.
    """
    config = {name: _times(value, factor) if name in _STEPS else value for name, value in _config(schedule).items()}
    return {**schedule, "config": config} if _is_known(schedule) else dict(schedule)


def end_of(schedule: Mapping[str, Any]) -> ScheduleEnd | None:
    """Return the end of a schedule; None if it has none, is periodic, or is not of Keras.

    The rate after the last boundary of a piecewise constant schedule is part of it.
    """
    config = _config(schedule)
    if not _is_known(schedule):
        return None
    if schedule["class_name"] == "CosineDecay":
        highest = config.get("warmup_target")
        highest = config.get("initial_learning_rate", 0.0) if highest is None else highest
        n_steps = (config.get("warmup_steps") or 0) + config.get("decay_steps", 0)
        return ScheduleEnd(int(n_steps), (config.get("alpha") or 0.0) * highest)
    if schedule["class_name"] == "PolynomialDecay" and not config.get("cycle"):
        return ScheduleEnd(int(config.get("decay_steps", 0)), config.get("end_learning_rate", 1e-4))
    return None


def end_text(schedule: Mapping[str, Any], n_gradient_steps: float | None) -> str:
    """Return where a schedule ends early, without a full stop: "" if it does not, or has no end.

    Args:
        schedule: The schedule.
        n_gradient_steps: Approximate gradient steps of the run; None if they are unknown.
    """
    end = end_of(schedule)
    if end is None or (n_gradient_steps is not None and end.gradient_steps >= _NEAR_THE_END * n_gradient_steps):
        return ""
    of = "" if n_gradient_steps is None else f" of about {_rounded(n_gradient_steps):,}"
    rate = "0" if end.learning_rate == 0 else rate_text(end.learning_rate)
    steps = counted(end.gradient_steps, "gradient step") if not of else f"{end.gradient_steps:,}{of} gradient steps"
    return f"{schedule['class_name']} ends after {steps}: the learning rate is {rate} from then on"


def stretch_text(config: Mapping[str, Any], env_steps: int | None, long_run: int | None) -> str:
    """Return how the schedules of an agent are stretched for a long run, as sentences; "" without schedules.

    Args:
        config: The configuration of the agent in the study.
        env_steps: Environment steps of each run of the study, None for a budget in episodes.
        long_run: Environment steps of the long run, None for a budget in episodes.
    """
    return " ".join(_stretch_sentences(config, env_steps, long_run))


def kept_text(config: Mapping[str, Any], env_steps: int | None) -> str:
    """Return which schedules of an agent are not stretched for a long run, as sentences, and why; "" for none.

    Args:
        config: The configuration of the agent in the study.
        env_steps: Environment steps of each run of the study, None for a budget in episodes.
    """
    return " ".join(
        f"The schedule {_named(owner, schedule)} keeps its gradient steps, {why}."
        for owner, schedule in schedules_in(config).items()
        if (why := _why_kept(schedule, is_in_steps=env_steps is not None))
    )


def factor_of(config: Mapping[str, Any], env_steps: int | None, long_run: int | None) -> float:
    """Return the ratio of the gradient steps of a long run to those of a study's run.

    It is that of their environment steps where the configuration does not tell the gradient steps, and 1 for budgets in
    episodes, whose environment steps are unknown.

    Args:
        config: The configuration of the agent, which says from which environment step on and at which it is updated.
        env_steps: Environment steps of each run of the study, None for a budget in episodes.
        long_run: Environment steps of the long run, None for a budget in episodes.
    """
    if env_steps is None or long_run is None:
        return 1.0
    of_study, of_long_run = _updating_steps(config, env_steps), _updating_steps(config, long_run)
    return of_long_run / of_study if of_study > 0 and of_long_run > 0 else long_run / env_steps


def _updating_steps(config: Mapping[str, Any], env_steps: int) -> float:
    """Return a number of environment steps to which the gradient steps of a run are proportional.

    An agent with a replay buffer learns from `learning_starts` on; others learn after each complete rollout.
    """

    def number(name: str) -> float:
        value = config.get(name)
        return value if isinstance(value, int | float) else 0

    if config.get("replay_ratio") is not None:
        return env_steps  # the number of replays of a rollout is random
    if config.get("gradient_steps") is not None:
        return max(0, env_steps - number("learning_starts"))
    rollout = number("n_steps") * max(1, number("n_envs"))
    return env_steps // rollout * rollout if rollout > 0 else env_steps


_NEAR_THE_END = 0.9
"""Share of the gradient steps of a run from which a schedule counts as lasting to its end; the steps are estimated."""


def _stretch_sentences(config: Mapping[str, Any], env_steps: int | None, long_run: int | None) -> Iterator[str]:
    factor = factor_of(config, env_steps, long_run)
    for owner, schedule in schedules_in(config).items():
        name = _named(owner, schedule)
        if why := _why_kept(schedule, is_in_steps=env_steps is not None and long_run is not None):
            yield f"The schedule {name} keeps its gradient steps, {why}."
        elif factor != 1.0:
            longer = _config(stretched(schedule, factor))
            changes = ", ".join(
                f"{key} {_steps_text(value)} → {_steps_text(longer[key])}"
                for key, value in _config(schedule).items()
                if key in _STEPS and value
            )
            yield (
                f"The schedule {name} is stretched from {env_steps:,} to {long_run:,} environment steps: "
                f"{changes} gradient steps."
            )


def _named(owner: str, schedule: Mapping[str, Any]) -> str:
    return f"{schedule['class_name']}{f' of {owner}' if owner else ''}"


def _why_kept(schedule: Mapping[str, Any], *, is_in_steps: bool) -> str:
    """Return why a schedule cannot be stretched; "" if it can.

    Args:
        schedule: The schedule.
        is_in_steps: Whether the budgets of both runs are in environment steps.
    """
    if not _is_known(schedule):
        return "since it is none of Keras's"
    return "" if is_in_steps else "as a budget in episodes does not tell a ratio"


def _times(value: Any, factor: float) -> Any:
    """Return numbers of steps times a factor: whole ones stay whole, and none but 0 becomes 0."""
    if isinstance(value, list | tuple):
        return [_times(each, factor) for each in value]
    if not isinstance(value, int | float) or isinstance(value, bool) or not value:
        return value
    return max(1, round(value * factor))


def _steps_text(value: Any) -> str:
    return f"[{', '.join(map(_steps_text, value))}]" if isinstance(value, list | tuple) else number_text(value)


def _rounded(number: float) -> int:
    """Return a number with two significant digits."""
    return int(float(f"{number:.2g}"))


def _is_schedule(value: Any) -> bool:
    return isinstance(value, Mapping) and "class_name" in value


def _is_known(schedule: Mapping[str, Any]) -> bool:
    module = str(schedule.get("module") or "keras")
    return schedule.get("class_name") in _KNOWN and module.partition(".")[0] == "keras"


def _config(schedule: Mapping[str, Any]) -> Mapping[str, Any]:
    config = schedule.get("config", {})
    return config if isinstance(config, Mapping) else {}
