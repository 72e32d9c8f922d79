"""Curriculum: phases of an environment of increasing difficulty."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from agents.callbacks.callback import Callback
from agents.errors import ConfigurationError, check_at_least
from agents.training.records import Episode

if TYPE_CHECKING:
    from agents.training.trainer import Trainer


class Move(NamedTuple):
    """The start of a phase for a member."""

    phase: Any
    member: int
    env_steps: int  # of its run so far
    episodes: int  # complete episodes so far
    mean_return: float | None  # of the episodes that led to the promotion; None for the first phase

    def __str__(self) -> str:
        """Return a line of text."""
        reason = "" if self.mean_return is None else f", as the mean return was {self.mean_return:g}"
        return f"phase {self.phase!r} after {self.env_steps:,} steps and {self.episodes:,} episodes{reason}"


@dataclass
class _Place:
    """The phase of a member."""

    index: int
    since: int  # environment steps; later episodes belong to this phase
    returns: list[float] = field(default_factory=list)  # of the newest such episodes


class Curriculum(Callback):
    """Move the environment through phases, one after the other, when the agent is good enough at the current phase.

    The environment has a method that takes a phase: it is called before the first episode, and at each promotion. The
    environment decides when the phase takes effect, normally at its next reset: the current episode should end as it
    began. The method is called in every environment of a member, in any process: in this one, in others, in a pool or
    in Ray actors. (CartPole as one vector and EnvPool have no such method.)

    Only episodes that began in a phase count for it. A pool collects ahead, up to the next update (`learning_starts`,
    `n_steps`): these steps are processed first, and belong to the earlier phase. Members of a population are promoted
    separately. The method is not called in environments of evaluations, which are made anew in their initial phase. A
    resumed training continues in its phase.

    Args:
        phases: At least two values for the method, in order.
        promote_at: Mean return for the promotion to the next phase: one number, or one for each phase but the last.
        window: Number of episodes in the mean, >= 1. Defaults to 20.
        method: The environment's method. Defaults to ``"set_phase"``.

    Attributes:
        moves: The promotions of members, in order; ``print(*curriculum.moves, sep="\\n")`` prints them.

    Raises:
        ConfigurationError: A bad value. When training begins: the environment has no such method, or does not take
            the phase; or it has an attribute `phases` without one of these phases.

    Example:
        >>> class Maze(gym.Env):
        ...     phases = ("rooms", "corridors")
        ...     def set_phase(self, phase):
        ...         self.next_phase = phase  # `reset` makes it the current one
        >>> agents.Trainer(agent, Maze, callbacks=[agents.Curriculum(Maze.phases, promote_at=0.9)])
    """

    of_members = True
    changes_environments = True

    def __init__(
        self,
        phases: Sequence[Any],
        *,
        promote_at: float | Sequence[float],
        window: int = 20,
        method: str = "set_phase",
    ) -> None:
        if isinstance(phases, str) or len(phases) < 2:
            raise ConfigurationError(f"A curriculum needs at least two phases, got {phases!r}.")
        check_at_least(1, window=window)
        self.phases = tuple(phases)
        n_moves = len(phases) - 1
        self.promote_at = (promote_at,) * n_moves if isinstance(promote_at, int | float) else tuple(promote_at)
        if len(self.promote_at) != n_moves or not all(map(math.isfinite, self.promote_at)):
            raise ConfigurationError(
                f"promote_at must be a number, or one for each of the {n_moves} phases before the last, got "
                f"{promote_at!r}."
            )
        self.window = window
        self.method = method
        self.moves: list[Move] = []
        self._places: dict[int, _Place] = {}

    @property
    def phase(self) -> Any:
        """The phase of a single agent; of a population, that of its first member (see `phase_of`)."""
        return self.phase_of(min(self._places, default=0))

    def phase_of(self, member: int) -> Any:
        """Return the phase of a member, or its last phase if it has left."""
        return self.phases[self._places[member].index if member in self._places else 0]

    def on_train_begin(self, trainer: Trainer) -> None:
        self._check(trainer)
        for member in trainer.present:
            run = trainer.runs[member]
            if run.env_steps == 0 or member not in self._places:
                self._places[member] = _Place(0, run.env_steps or -1)
                self.moves = [move for move in self.moves if move.member != member]
                self._note(trainer, member, None)
            if (error := self._set_phase(trainer, member)) is not None:
                raise error

    def on_episode_end(self, trainer: Trainer, episode: Episode) -> None:
        place, n_envs = self._places[episode.member], trainer.collector.n_envs
        if place.index == len(self.phases) - 1 or episode.env_steps - episode.length * n_envs <= place.since:
            return
        place.returns = [*place.returns, episode.episode_return][-self.window :]
        mean = sum(place.returns) / len(place.returns)
        if len(place.returns) < self.window or mean < self.promote_at[place.index]:
            return
        self._places[episode.member] = _Place(place.index + 1, episode.env_steps)
        error = self._set_phase(trainer, episode.member)
        # Steps that a pool has already collected, but not processed, belong to the earlier phase.
        self._places[episode.member].since += trainer.collector.steps_ahead * n_envs
        self._note(trainer, episode.member, mean)
        if error is not None:
            trainer.fail(error, episode.member)

    def get_state(self) -> dict[str, Any]:
        return {
            "places": {
                member: {"phase": self.phases[place.index], **vars(place), "returns": list(place.returns)}
                for member, place in self._places.items()
            },
            "moves": [tuple(move) for move in self.moves],
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore a state of `get_state`.

        Raises:
            ConfigurationError: The phase of a member is missing from `phases`, or has another position.
        """
        for place in state["places"].values():
            if place["phase"] not in self.phases[place["index"] : place["index"] + 1]:
                raise ConfigurationError(
                    f"The training was in phase {place['phase']!r}, number {place['index'] + 1} of its curriculum; "
                    f"this one has {', '.join(map(repr, self.phases))}."
                )
        self._places = {
            member: _Place(place["index"], place["since"], list(place["returns"]))
            for member, place in state["places"].items()
        }
        self.moves = [Move(*move) for move in state["moves"]]

    def _check(self, trainer: Trainer) -> None:
        """Refuse environments without the method, or without one of the phases."""
        label = trainer.environment.label
        if not all(trainer.call_environments("has_wrapper_attr", self.method)):
            raise ConfigurationError(
                f"Environment {label!r} has no method {self.method!r} for a curriculum: write `def "
                f"{self.method}(self, phase)`, which takes effect with the next reset, or set method."
            )
        if not all(trainer.call_environments("has_wrapper_attr", "phases")):
            return
        for known in trainer.call_environments("get_wrapper_attr", "phases"):
            unknown = [phase for phase in self.phases if phase not in list(known)]
            if unknown:
                raise ConfigurationError(
                    f"Environment {label!r} has no phase {', '.join(map(repr, unknown))}; it has "
                    f"{', '.join(map(repr, known))}."
                )

    def _set_phase(self, trainer: Trainer, member: int) -> ConfigurationError | None:
        """Set the phase in a member's environments; return the error, if any."""
        phase = self.phase_of(member)
        try:
            trainer.call_environments(self.method, phase, member=member)
        except Exception as error:  # noqa: BLE001 - a user's environment may raise anything
            failure = ConfigurationError(
                f"Environment {trainer.environment.label!r} cannot be moved to phase {phase!r}: {self.method}() raised "
                f"{type(error).__name__}: {error}"
            )
            failure.__cause__ = error
            return failure
        return None

    def _note(self, trainer: Trainer, member: int, mean: float | None) -> None:
        run = trainer.runs[member]
        self.moves.append(Move(self.phase_of(member), member, run.env_steps, len(run.history.returns), mean))
