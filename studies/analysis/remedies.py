"""What would make the pick of a study safe: the options of the same search that would remove a doubt, with numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from studies.analysis.learning_rate_estimate import WIDEST, LearningRateEstimate
from studies.spec.spaces import Json

if TYPE_CHECKING:
    from studies.spec.spec import StudySpec

MOST_SEEDS = 20
"""Seeds each beyond which longer runs are advised in the place of more seeds."""

MOST_CONFIRMED = 8
"""Trials beyond which a tie is settled by another search, and not by confirming all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """Options of the same search that would remove a doubt.

    Attributes:
        changes: Name and value of every option that changes, as pairs; () for the same search once more.
        purpose: What that does, a few words.
        joins: Whether what it runs joins the study; otherwise it is another study, named in the options.
    """

    changes: tuple[tuple[str, Any], ...] = ()
    purpose: str = ""
    joins: bool = True

    @property
    def options(self) -> dict[str, Json]:
        """The options by name, as JSON values."""
        values = {name: value if not isinstance(value, tuple) else list(value) for name, value in self.changes}
        return {name: dict(value) if name == "space" else value for name, value in values.items()}

    def to_json(self) -> dict[str, Json]:
        """Returns the remedy as JSON values."""
        return {"options": self.options, "purpose": self.purpose, "joins": self.joins}


def same_again(purpose: str) -> Remedy:
    """Returns the same search once more, which goes on where it was stopped."""
    return Remedy(purpose=purpose)


def more_seeds(spec: StudySpec, n: int) -> Remedy:
    """Returns the search on so many seeds, which is another study."""
    return Remedy(
        changes=(("seeds", n), ("study_name", _another_name(spec, f"{n}-seeds"))),
        purpose=f"{n} seeds each; another study",
        joins=False,
    )


def longer_runs(spec: StudySpec, budget: int) -> Remedy:
    """Returns the search with so large a budget for each run, which is another study."""
    unit, word = ("env_steps", "steps") if spec.env_steps is not None else ("episodes", "episodes")
    return Remedy(
        changes=((unit, budget), ("study_name", _another_name(spec, f"{budget}-{word}"))),
        purpose=f"runs of {budget:,} {'environment steps' if word == 'steps' else word}; another study",
        joins=False,
    )


def more_confirmed(spec: StudySpec, n: int) -> Remedy:
    """Returns the search with at least so many of its best trials confirmed, which joins the study."""
    n = max(n, spec.confirm + 1)
    return Remedy(changes=(("confirm", n),), purpose=f"the best {n} again on further seeds; they join the study")


def for_tie(spec: StudySpec, seeds_to_settle: int | None, *, n_tied: int, all_confirmed: bool) -> Remedy:
    """Returns what would tell the pick from those that are level with it.

    Args:
        spec: The study.
        seeds_to_settle: Seeds each, counting those that are there, that would tell them apart; None where none would.
        n_tied: How many are level with the pick.
        all_confirmed: Whether all of them were run on further seeds.
    """
    if seeds_to_settle is None or seeds_to_settle > MOST_SEEDS:
        return longer_runs(spec, 2 * spec.budget)
    if 1 + n_tied > MOST_CONFIRMED:
        return more_seeds(spec, max(seeds_to_settle, len(spec.seeds) + 1))
    confirm = spec.confirm if all_confirmed else max(spec.confirm, 1 + n_tied)
    further = max(seeds_to_settle - len(spec.seeds), spec.confirm_seeds + (confirm == spec.confirm))
    changes = (("confirm", confirm),) if confirm != spec.confirm else ()
    return Remedy(
        changes=(*changes, ("confirm_seeds", further)),
        purpose=f"{further} further seeds for those that are level; they join the study",
    )


def for_rate(
    spec: StudySpec,
    finding: LearningRateEstimate,
    tried: Sequence[float],
    seeds_to_settle: int | None,
    *,
    optimizer: str | None = None,
) -> Remedy | None:
    """Returns what would make a suggestion of a learning rate safe, None where there is none.

    Args:
        spec: The study.
        finding: What is known of the rate, and why that is not safe.
        tried: The rates of complete trials that differ from the pick in nothing else.
        seeds_to_settle: Seeds each that would tell the best trial from those that are level with it; None where none
            would.
        optimizer: The pick's optimizer where optimizers are compared. Defaults to `None`.
    """
    further = {
        "edge": ("beyond the edge", _beyond(finding, tried)),
        "one rate": ("on both sides", [finding.tested / 3, finding.tested * 3]),
        "untried": ("for the long run", [finding.suggested / 3, finding.suggested]),
    }
    if finding.cause in further:
        where, rates = further[finding.cause]
        return _rates(spec, finding, rates, where, optimizer)
    if finding.cause == "one seed":
        return more_seeds(spec, 3)
    if finding.cause == "short runs":
        return longer_runs(spec, _enough_steps(finding))
    if finding.cause not in ("not told apart", "wide"):
        return None
    if seeds_to_settle is None or seeds_to_settle > MOST_SEEDS:
        return longer_runs(spec, 2 * spec.budget)
    return more_seeds(spec, max(seeds_to_settle, len(spec.seeds) + 2))


def _rates(
    spec: StudySpec, finding: LearningRateEstimate, rates: Sequence[float], where: str, optimizer: str | None
) -> Remedy | None:
    """Further rates; where a sampler proposes them, a wider range."""
    rounded = tuple(float(f"{rate:.3g}") for rate in sorted(rates))
    purpose = f"two rates {where}; they join the study"
    if spec.kind == "lr" and finding.name == "learning_rate":
        return Remedy(changes=(("rates", rounded),), purpose=purpose)
    if spec.kind == "opt" and finding.name == "learning_rate":
        # Two optimizers of one label are told apart by a number, which is no part of an optimizer's name.
        own = () if optimizer is None or " #" in optimizer else (("optimizers", (optimizer,)),)
        return Remedy(changes=(*own, ("learning_rates", rounded)), purpose=purpose)
    if spec.kind != "tune":
        return None
    low, high = min(finding.lowest, *rounded), max(finding.highest, *rounded)
    space = f"{low:.3g}:{high:.3g}:log"
    name = _another_name(spec, "wider")
    return Remedy(
        changes=(("space", ((finding.name, space),)), ("study_name", name)),
        purpose=f"a wider range {where}; another study",
        joins=False,
    )


def _beyond(finding: LearningRateEstimate, tried: Sequence[float]) -> list[float]:
    """Two rates beyond the edge, as far apart as the last two that were tried, a decade at most."""
    others = sorted(rate for rate in {*tried, finding.lowest, finding.highest} if rate != finding.tested)
    neighbour = others[0] if finding.edge == "lowest" else others[-1]  # all lie on the other side of the edge
    step = min(max(finding.tested / neighbour, 0.1), 10.0)
    return [finding.tested * step**n for n in (1, 2)]


def _enough_steps(finding: LearningRateEstimate) -> int:
    """Environment steps from which on the interval for the long run is narrow enough, doubling those of the study.

    Where that run is shorter than those of the study, as many as it has.
    """
    assert finding.env_steps is not None
    assert finding.horizon is not None
    if finding.horizon < finding.env_steps:
        return finding.horizon
    sides = [math.log10(finding.suggested / finding.low), math.log10(finding.high / finding.suggested)]
    moved = 1.96 * finding.drift_error
    own = [max(0.0, side**2 - (moved * math.log10(finding.horizon / finding.env_steps)) ** 2) for side in sides]
    steps = finding.env_steps
    while steps < finding.horizon:
        steps = min(2 * steps, finding.horizon)
        if sum(math.sqrt(each + (moved * math.log10(finding.horizon / steps)) ** 2) for each in own) <= WIDEST:
            break
    return steps


def _another_name(spec: StudySpec, suffix: str) -> str:
    """The name of a study that asks the same with other options."""
    return f"{re.sub(_SUFFIX, '', spec.name)}-{suffix}"


_SUFFIX = r"-(\d+-(seeds|steps|episodes)|wider)$"


def remedy_text(remedy: Remedy) -> str:
    """Returns a remedy in words, for whoever does not have the command: `the same search with seeds=6`."""
    if not remedy.options:
        return "the same search again"
    given = [
        f"{name}={value!r}" if name != "space" else ", ".join(f"{own} searched over {range_}" for own, range_ in value)
        for name, value in remedy.changes
    ]
    return f"the same search with {', '.join(given)}"
