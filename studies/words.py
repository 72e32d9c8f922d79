"""Text of numbers and names, the same in every message, figure and report."""

from __future__ import annotations

import itertools
import math
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

_SEARCHED_AS = {"one_minus_gamma": "gamma"}
"""Name of a searched complement -> the hyperparameter that it sets, with 1 minus its value."""

_DIGITS = 12
"""Decimals to which this value is rounded."""


def counted(number: int, word: str) -> str:
    """Return `1 trial` or `1,200 trials`."""
    return f"{number:,} {plural(word, number)}"


def plural(word: str, number: int) -> str:
    """Return `trial` for one and `trials` otherwise."""
    return word if number == 1 else f"{word}s"


def are(number: int) -> str:
    """Return `is` for one and `are` otherwise."""
    return "is" if number == 1 else "are"


def rate_text(value: float) -> str:
    """Return a learning rate in short notation: 0.0003 is `3e-4`, 0.00139 is `1.39e-3`."""
    if not math.isfinite(value):
        return f"{value:g}"
    mantissa, _, exponent = f"{value:.2e}".partition("e")
    short = mantissa.rstrip("0").rstrip(".")
    return f"{short}e{int(exponent)}" if int(exponent) else short


def exact_text(value: float) -> str:
    """Return the shortest text of a number that reads back as the same: `475`, `0.5`, `1234567`."""
    short = f"{value:g}"
    if float(short) == value:
        return short
    return str(int(value)) if float(value).is_integer() else repr(value)


def number_text(value: float) -> str:
    """Return a value with four significant digits: `478.2`, `12,345`, `0.001235`."""
    if math.isnan(value):
        return "unknown"
    value = value or 0.0  # no "-0"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def seconds_text(seconds: float) -> str:
    """Return a time: `0.3 s` below one second, else whole seconds, `12 s`."""
    return f"{seconds:.1g} s" if 0.001 <= seconds < 0.95 else f"{seconds:.0f} s"


def spread_text(value: float, spread: float) -> str:
    """Return `494 ± 11`: the spread has two significant digits, or one if the value then still has three or more.

    So 9.3460 and 0.0054 become `9.346 ± 0.005`: the spread of a few seeds is itself rough, and more digits would
    suggest false precision.
    """
    if not (math.isfinite(spread) and math.isfinite(value)):
        return number_text(value)
    if spread <= 0:
        return f"{number_text(value)} ± 0"
    one_digit, three_of_the_value = -_exponent(spread), 2 - _exponent(max(abs(value), spread))
    decimals = min(one_digit + 1, max(one_digit, three_of_the_value))
    if decimals > 6:
        return f"{value:.3g} ± {spread:.2g}"
    places = max(0, decimals)
    return f"{round(value, decimals):,.{places}f} ± {round(spread, decimals):,.{places}f}"


def over_seeds_text(number: int) -> str:
    """Return how a value combines this number of seeds: `mean over 5 seeds`."""
    return "one seed" if number <= 1 else f"mean over {number:,} seeds"


_FAILURES = {"error": "failed", "environment": "environment failed"}


def failure_word(kind: str | None) -> str:
    """Return the word for a kind of failure (`studies.spec.attributes.FailureKind`): `diverged`, `killed`, `failed`."""
    return _FAILURES.get(kind or "error", kind or "failed")


def failures_text(kinds: Iterable[str | None]) -> str:
    """Return the number of failures by kind, the most frequent first: `2 diverged, 1 environment failed`.

    A single kind has no number. Errors alone have no text: they say no more than that trials failed.
    """
    counts = Counter(kind or "error" for kind in kinds).most_common()
    if len(counts) == 1:
        [(kind, _)] = counts
        return "" if kind == "error" else failure_word(kind)
    return ", ".join(f"{n:,} {failure_word(kind)}" for kind, n in counts)


def with_value(metric: str, value: str) -> str:
    """Return a metric with its value: `return 488 ± 23`, or `environment steps to a return of 475: 9,000 ± 200`."""
    return f"{metric}{':' if metric[-1:].isdigit() else ''} {value}"


def free_name(name: str, taken: Collection[str], mark: str = "-") -> str:
    """Return a name, with the lowest number from 2 appended that makes it free if it is taken: `sac`, then `sac-2`.

    Args:
        name: The name.
        taken: Names that are in use.
        mark: Text before the number. Defaults to ``"-"``.
    """
    if name not in taken:
        return name
    return next(found for number in itertools.count(2) if (found := f"{name}{mark}{number}") not in taken)


def the_best(number: int) -> str:
    """Return `the best` for one and `the best 3` otherwise."""
    return "the best" if number == 1 else f"the best {number}"


def interval_text(low: float, high: float, value: float = math.nan) -> str:
    """Return `463 to 512`, rounded to the width of the interval; empty if an end is unknown.

    Args:
        low: Lower end.
        high: Upper end.
        value: Value that the text is to contain, if it is known. Defaults to NaN.
    """
    if not (math.isfinite(low) and math.isfinite(high)):
        return ""
    width = high - low
    if width <= 0:
        return number_text(low)
    decimals = 1 - _exponent(width)
    if low <= value <= high and not round(low, decimals) <= value <= round(high, decimals):
        decimals += 1
    if decimals > 6:
        return f"{low:.3g} to {high:.3g}"
    places = max(0, decimals)
    return " to ".join(f"{round(end, decimals) + 0.0:,.{places}f}" for end in (low, high))  # no end is -0


def _exponent(value: float) -> int:
    return math.floor(math.log10(value))


def param_text(name: str, value: Any) -> str:
    """Return the text of a parameter value; learning rates in short notation, discounts by their distance from 1."""
    if isinstance(value, float):
        if 0.99 < value < 1:
            return f"{value:.{1 - _exponent(1 - value)}f}".rstrip("0")
        tiny = 0 < abs(value) < 1e-3
        return rate_text(value) if tiny or name.endswith("learning_rate") else number_text(value)
    return str(value)


def settings_of(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return hyperparameters as people set them: `gamma`, where its distance from 1 is searched."""
    settings: dict[str, Any] = {}
    for name, value in params.items():
        if name in _SEARCHED_AS and isinstance(value, float):
            settings[_SEARCHED_AS[name]] = round(1 - value, _DIGITS)
        else:  # also the text of one that changes during training
            settings[name] = value
    return settings


def params_text(params: Mapping[str, Any]) -> str:
    """Return `optimizer adam, learning_rate 1e-3`: agent and optimizer first, then rates, then the rest by name.

    Hyperparameters are shown as people set them (`settings_of`).
    """
    params = settings_of(params)
    names = sorted(params, key=lambda name: (name != "agent", name != "optimizer", "learning_rate" not in name, name))
    return ", ".join(f"{name} {param_text(name, params[name])}" for name in names) or "default settings"


class HasEnvironment(Protocol):
    """Protocol of objects that describe an environment: studies, recommendations, settings of a run."""

    @property
    def env(self) -> str: ...

    @property
    def env_kwargs(self) -> Mapping[str, Any]: ...

    @property
    def wrappers(self) -> Sequence[str]: ...

    @property
    def max_episode_steps(self) -> int | None: ...


def class_or_id(env: str) -> str:
    """Return the id of an environment; for a class in a file, its name without the file."""
    return env.rpartition(":")[2] if ".py:" in env else env


def is_named_object(env: str) -> bool:
    """Return whether an environment was a class or function in Python, of which its name alone is known."""
    registry = getattr(sys.modules.get("gymnasium"), "registry", {})  # ids without a version are names too
    return (env.isidentifier() or env == "<lambda>") and env not in registry


def environment_code(place: HasEnvironment) -> str:
    """Return Python code for an environment: its id, or an `EnvironmentSpec` with the settings that differ.

    A class or function has its own name, which the lines before have to define (`environment_comment`).
    """
    settings = {
        "kwargs": dict(place.env_kwargs),
        "wrappers": list(place.wrappers),
        "max_episode_steps": place.max_episode_steps,
    }
    given = "".join(f", {name}={value!r}" for name, value in settings.items() if value)
    own = object_name(place.env) if is_named_object(place.env) else repr(place.env)
    return f"agents.EnvironmentSpec({own}{given})" if given else own


def object_name(env: str) -> str:
    """Return the name in printed code of an environment that was a class or function."""
    return env if env.isidentifier() else "make_env"


def environment_comment(env: str) -> str:
    """Return the line of code that says where the environment comes from; "" for an id."""
    return f"# {object_name(env)}: the environment of your script" if is_named_object(env) else ""


LONG_RUN = 1_000_000
"""Environment steps of the long run in printed code, for studies without a horizon."""


def call_lines(agent: str, environment: HasEnvironment, config: Mapping[str, Any], *, env_steps: int = LONG_RUN) -> str:
    """Return lines of Python that call a training function with the parameters that were found.

    Args:
        agent: Label of the function.
        environment: Environment of the study.
        config: Parameters of the function.
        env_steps: Environment steps of the run.
    """
    place, _, name = agent.rpartition(":")
    if place == "sb3":
        return _sb3_lines(agent, environment, config, env_steps)
    module = place.rpartition("/")[2].removesuffix(".py")
    where = environment_code(environment)
    given = "".join(f", {parameter}={value!r}" for parameter, value in config.items())
    where_from = f"from {module} import {name}" if module else f"# {name}: the training function of your script"
    lines = ["import agents", where_from, *filter(None, [environment_comment(environment.env)]), ""]
    lines += [f"with agents.TrainingRun({where}, env_steps={env_steps:_}) as run:", f"    {name}(run{given})"]
    return "\n".join(lines)


def _sb3_lines(agent: str, environment: HasEnvironment, config: Mapping[str, Any], env_steps: int) -> str:
    """Return lines of Python for a long run in Stable-Baselines3."""
    given = "".join(f"    {parameter}={value!r},\n" for parameter, value in config.items())
    return (
        f"import agents\nfrom agents.libraries import make_model\n{environment_comment(environment.env)}\n"
        f"model = make_model(\n    {agent!r},\n    {environment_code(environment)},\n{given})\n"
        f'model.learn(total_timesteps={env_steps:_})\nmodel.save("model")'
        + ('\nmodel.get_env().save("normalization.pkl")' if config.get("normalize") else "")
    )
