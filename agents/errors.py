"""The errors that agents raise on purpose, and how an unknown name is told."""

from __future__ import annotations

import difflib
import pickle
import traceback
from collections.abc import Iterable, Mapping


class ConfigurationError(ValueError):
    """Something the user asked for cannot be: the message names the value, what is allowed, and what to do."""


class UntrustedFileError(ConfigurationError):
    """A file can only be read by running what it says, was not written here by this user, and is not trusted."""


class NonFiniteError(FloatingPointError):
    """A reward, a loss or a network output became NaN or infinite: the run cannot go on."""


class ObservationError(ConfigurationError):
    """An environment gave an observation of another shape than its space declares."""


class MembersFailedError(Exception):
    """Some members of a population cannot go on; the others can, without them.

    Attributes:
        errors: Position in the population -> what happened.
    """

    def __init__(self, errors: Mapping[int, Exception]) -> None:
        """Args: errors: see the attribute."""
        super().__init__("; ".join(f"member at {position}: {error}" for position, error in errors.items()))
        self.errors = dict(errors)


class NotMappableError(ConfigurationError):
    """An agent cannot be trained as members of a population; the message says why. Alone it may well be trained."""


def portable(error: BaseException) -> Exception:
    """Returns what can be raised in another process instead of an error: itself, or one that says the same.

    Args:
        error: What was raised here. Where it happened is added as a note, because tracebacks stay where they are.
    """
    import cloudpickle

    error.add_note("".join(traceback.format_exception(error)).rstrip())
    try:
        pickle.loads(cloudpickle.dumps(error))
    except Exception:  # noqa: BLE001 - a foreign error may fail to be pickled, or to be made again, in any way
        sent = RuntimeError(f"{type(error).__name__}: {error}")
        sent.__notes__ = list(error.__notes__)
        return sent
    return error if isinstance(error, Exception) else RuntimeError(f"{type(error).__name__}: {error}")


def unknown_name(kind: str, name: object, allowed: Iterable[str]) -> ConfigurationError:
    """Builds the error for a name that is not known, with the nearest known ones first.

    Args:
        kind: What was named, such as ``"optimizer"`` or ``"hyperparameter of ppo"``.
        name: The name that was given.
        allowed: Every name that would have been accepted.
    """
    names = sorted(allowed)
    by_lower = {known.lower(): known for known in names}
    near = [by_lower[match] for match in difflib.get_close_matches(str(name).lower(), by_lower, n=3, cutoff=0.5)]
    hint = f"Did you mean {' or '.join(near)}? " if near else ""
    shown = ", ".join(names[:40]) + (f", … ({len(names)} in all)" if len(names) > 40 else "")
    what, of, owner = kind.partition(" of ")
    return ConfigurationError(f"Unknown {what} {name!r}{of}{owner}. {hint}Known: {shown}.")
