"""The errors that agents raise on purpose, and the message for an unknown name."""

from __future__ import annotations

import difflib
import math
import pickle
import traceback
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import Any, Literal, TypeVar


class ConfigurationError(ValueError):
    """Invalid user input: the message names the value, what is allowed, and what to do."""


class UntrustedFileError(ConfigurationError):
    """A file that runs code when it is read is neither signed by this user nor trusted."""


class NonFiniteError(FloatingPointError):
    """A reward, a loss or a network output became NaN or infinite: the run cannot continue."""


class ObservationError(ConfigurationError):
    """An environment returned an observation of another shape than its space declares."""


class ConvergenceError(ArithmeticError):
    """An iteration ended before it reached its tolerance: the message names what was reached, and what to do."""


class MembersFailedError(Exception):
    """Some members of a population failed; the other members can continue without them.

    Attributes:
        errors: Position in the population -> the error of that member.
    """

    def __init__(self, errors: Mapping[int, Exception]) -> None:
        """Args: errors: see the attribute."""
        super().__init__("; ".join(f"member at {position}: {error}" for position, error in errors.items()))
        self.errors = dict(errors)


class NotMappableError(ConfigurationError):
    """An agent cannot be trained as members of a population, for the reason in the message; a single agent may be."""


Cause = Literal["environment", "code"]
"""Cause of an error that the hyperparameters of an agent have no part in."""

_Error = TypeVar("_Error", bound=BaseException)


def with_cause(error: _Error, cause: Cause) -> _Error:
    """Return an error of which `cause_of` gives the cause, also after it was pickled.

    Args:
        error: The error.
        cause: `environment`: an environment raised it, or gave numbers that are not finite. `code`: a function of the
            user, or a loss that is not finite at any hyperparameters.
    """
    error.__dict__["cause"] = cause
    return error


def cause_of(error: BaseException) -> Cause | None:
    """Return the recorded cause of an error; None if it may be due to the hyperparameters."""
    return error.__dict__.get("cause")


def check_at_least(low: float, **values: Any) -> None:
    """Raise `ConfigurationError` if an argument is below a bound, or NaN; None means that it is not given.

    Args:
        low: The lowest allowed value.
        **values: Name of the argument -> its value, a number or None.
    """
    for name, value in values.items():
        is_number = isinstance(value, Real)
        if value is not None and not (is_number and value >= low):
            raise ConfigurationError(f"{name} must be >= {low}, got {value!r}.")


def whole_number(low: int, name: str, value: float | None) -> int | None:
    """Return an argument as an integer, as which 1e6 counts; None if it is not given.

    Args:
        low: The lowest allowed value.
        name: Name of the argument.
        value: Its value.

    Raises:
        ConfigurationError: It is below the bound, or no whole number.
    """
    if value is None:
        return None
    check_at_least(low, **{name: value})
    if not math.isfinite(value) or value != int(value):
        raise ConfigurationError(f"{name} must be a whole number >= {low}, got {value}.")
    return int(value)


def check_whole(low: int, **values: object) -> None:
    """Raise `ConfigurationError` if an argument is no whole number from a bound on; None means that it is not given.

    Args:
        low: The lowest allowed value.
        **values: Name of the argument -> its value. True and False are no numbers.
    """
    for name, value in values.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, Integral) or value < low):
            raise ConfigurationError(f"{name} must be a whole number >= {low}, got {value!r}.")


def portable(error: BaseException) -> Exception:
    """Return an error that can be raised in another process: the error itself, or a substitute with the same message.

    Args:
        error: The error raised in this process. Its traceback is added as a note, because tracebacks are not pickled.
    """
    import cloudpickle

    error.add_note("".join(traceback.format_exception(error)).rstrip())
    try:
        pickle.loads(cloudpickle.dumps(error))
    except Exception:  # noqa: BLE001 - a foreign error may fail to be pickled, or unpickled, in any way
        sent = RuntimeError(f"{type(error).__name__}: {error}")
        sent.__notes__ = list(error.__notes__)
        if (cause := cause_of(error)) is not None:
            with_cause(sent, cause)
        return sent
    return error if isinstance(error, Exception) else RuntimeError(f"{type(error).__name__}: {error}")


_OTHER_WORDS = {
    **{"lr": ("learning_rate",), "n_step": ("n_steps",), "k_epochs": ("n_epochs",), "epochs": ("n_epochs",)},
    **{"eps_clip": ("clip_range",), "alpha": ("priority_alpha",), "beta": ("priority_beta",)},
    **{"initial_td": ("initial_td_error",), "reward_done_func": ("goal_function",)},
    **{"entropy_coef": ("ent_coef",), "value_coef": ("vf_coef",), "lam": ("gae_lambda",), "lambda": ("gae_lambda",)},
}
"""Words of other libraries in lower case -> names here."""


def unknown_name(kind: str, name: object, allowed: Iterable[str]) -> ConfigurationError:
    """Build the error for an unknown name, with the nearest known names first.

    Args:
        kind: What the name stands for, such as ``"optimizer"`` or ``"hyperparameter of ppo"``.
        name: The name that was given.
        allowed: Every accepted name.
    """
    names = sorted(allowed)
    by_lower = {known.lower(): known for known in names}
    meant = [known for known in _OTHER_WORDS.get(str(name).lower(), ()) if known in names]
    near = meant or [
        by_lower[match] for match in difflib.get_close_matches(str(name).lower(), by_lower, n=3, cutoff=0.5)
    ]
    hint = f"Did you mean {' or '.join(near)}? " if near else ""
    shown = ", ".join(names[:40]) + (f", … ({len(names)} in all)" if len(names) > 40 else "")
    what, of, owner = kind.partition(" of ")
    known = f"{hint}Known: {shown}." if names else "There is none."
    return ConfigurationError(f"Unknown {what} {name!r}{of}{owner}. {known}")
