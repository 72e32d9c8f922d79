"""Remedies: options of a further search that would make a recommendation safe."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from studies.judging.learning_rate_estimate import WIDEST, LearningRateEstimate
from studies.judging.search_history import n_finalists
from studies.spaces.conditions import condition_text
from studies.spaces.spaces import Choice, FloatRange, Json
from studies.spec.budget_rules import long_run_steps
from studies.spec.scheduler_names import is_grid

if TYPE_CHECKING:
    from studies.spec.spec import StudySpec

MOST_ADVISED_SEEDS = 20
"""Number of seeds beyond which longer runs are advised rather than more seeds, up to the length of the long run."""

MOST_CONFIRMED = 8
"""Number of trials beyond which a tie is settled by another search rather than by confirming all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """Options of a search that would remove a doubt.

    Attributes:
        changes: Name and value of every option that changes, as pairs; () for the same search again.
        purpose: Effect, in a few words.
        joins: Whether its trials join the study; otherwise it is another study, named in the options.
    """

    changes: tuple[tuple[str, Any], ...] = ()
    purpose: str = ""
    joins: bool = True

    @property
    def options(self) -> dict[str, Json]:
        """Options by name, as JSON values."""
        values = {name: value if not isinstance(value, tuple) else list(value) for name, value in self.changes}
        return {name: dict(value) if name == "space" else value for name, value in values.items()}

    def to_json(self) -> dict[str, Json]:
        """Return the remedy as JSON values."""
        return {"options": self.options, "purpose": self.purpose, "joins": self.joins}


def repeat_search(purpose: str) -> Remedy:
    """Return the same search again, which resumes where it was stopped."""
    return Remedy(purpose=purpose)


def more_seeds(spec: StudySpec, n: int) -> Remedy:
    """Return the search with this number of seeds, which is another study."""
    return Remedy(
        changes=(("seeds", n), ("study_name", _name_of_variant(spec, f"{n}-seeds"))),
        purpose=f"{n} seeds each; another study",
        joins=False,
    )


def longer_runs(spec: StudySpec, budget: int) -> Remedy:
    """Return the search with this budget for each run, which is another study.

    Where runs that confirm are longer than those of the search, they are those that decide, and join the study.
    """
    if spec.confirms_longer and budget >= spec.budget:
        purpose = f"finalists in runs of {budget:,} environment steps; they join the study"
        return Remedy(changes=(("confirm_env_steps", budget),), purpose=purpose)
    unit, word = ("env_steps", "steps") if spec.env_steps is not None else ("episodes", "episodes")
    # Runs that confirm are not shorter than those of the search.
    confirming = () if spec.confirm_env_steps is None else (("confirm_env_steps", budget),)
    return Remedy(
        changes=((unit, budget), *confirming, ("study_name", _name_of_variant(spec, f"{budget}-{word}"))),
        purpose=f"runs of {budget:,} {'environment steps' if word == 'steps' else word}; another study",
        joins=False,
    )


def within_limit(spec: StudySpec, remedy: Remedy, given: Collection[str] = ()) -> Remedy:
    """Return a remedy that keeps the length of the runs that confirm, with a budget of the whole search that suffices.

    More seeds and longer runs need as many times more, further runs of finalists what these cost. What joins the study
    needs more than it had, and the study's name, as another budget begins another study by default.

    Args:
        spec: Spec of the study.
        remedy: The remedy.
        given: Fields of the study that its budget has not chosen, but the user (`given_fields`). Defaults to none.
    """
    changes, purpose = dict(remedy.changes), remedy.purpose
    if not spec.has_limit:
        if spec.confirms_longer and remedy.joins and changes:  # the command that began the study may have had another
            changes.setdefault("confirm_env_steps", spec.confirm_env_steps)
        return replace(remedy, changes=tuple(changes.items()))
    if "n_trials" in changes and "n_trials" not in given:
        del changes["n_trials"]
        purpose = "more trials; they join the study"
    is_longer = "env_steps" in changes and "env_steps" not in given
    factor = 1.0 if "space" in changes and not spec.plan() else 2.0  # a grid of more values has more trials
    # Longer runs are made from their beginning; further seeds and finalists join those that there are.
    there = 0 if "confirm_env_steps" in changes else _confirming_steps(spec, {})
    more = _confirming_steps(spec, changes) - there if remedy.joins else 0
    if more > 0:
        of_search = spec.n_trials * len(spec.seeds) * spec.budget
        factor = max(2.0, 1 + more / (of_search + _confirming_steps(spec, {})))
    if "seeds" in changes and isinstance(changes["seeds"], int):
        factor = changes["seeds"] / len(spec.seeds)
    elif "env_steps" in changes:
        factor = changes["env_steps"] / spec.budget
    if spec.minutes is not None:
        minutes = math.ceil(10 * factor * spec.minutes) / 10
        changes["minutes"] = int(minutes) if minutes.is_integer() else minutes
    elif spec.total_env_steps is not None:
        total = spec.total_env_steps
        changes["total_env_steps"] = max(2 * total, total + more) if more > 0 else math.ceil(factor * total)
    if remedy.joins:
        changes["study_name"] = spec.name
    if is_longer:
        for name in {"env_steps", "confirm_env_steps"} - set(given):
            changes.pop(name, None)
        word = "minutes" if spec.minutes is not None else "total-steps"
        changes["study_name"] = _name_of_variant(spec, f"{changes[spec.limit_field]}-{word}")
        # Beyond the length of the long run, a larger budget is for seeds too.
        is_short = spec.confirm_budget < long_run_steps(spec.horizon)
        purpose = f"longer runs{'' if is_short else ' or more seeds'}; another study"
    return replace(remedy, changes=tuple(changes.items()), purpose=purpose)


def _confirming_steps(spec: StudySpec, changes: dict[str, Any]) -> int:
    """Return the environment steps of the runs of all finalists with these changes."""
    own = spec.model_copy(update={name: n for name, n in changes.items() if name in ("confirm", "confirm_seeds")})
    budget: int = changes.get("confirm_env_steps", spec.confirm_budget)
    return n_finalists(own) * own.confirm_seeds * budget


def more_confirmed(spec: StudySpec, n: int) -> Remedy:
    """Return the search with at least this number of confirmed trials, which joins the study."""
    n = max(n, spec.confirm + 1)
    return Remedy(changes=(("confirm", n),), purpose=f"the best {n} again on further seeds; they join the study")


def more_further_seeds(spec: StudySpec, n: int) -> Remedy:
    """Return the search with this number of further seeds, which joins the study."""
    return Remedy(changes=(("confirm_seeds", n),), purpose=f"{n} further seeds for each finalist; they join the study")


def for_tie(
    spec: StudySpec, seeds_to_settle: int | None, *, n_finalists: int, finalists_alone: bool = False
) -> Remedy | None:
    """Return the remedy that would distinguish the pick from its ties, None if there is none.

    Args:
        spec: Spec of the study.
        seeds_to_settle: Total seeds each that would distinguish them; None if no number would.
        n_finalists: Number of finalists of which all candidates tied with the pick are some.
        finalists_alone: Whether their further seeds alone count. Defaults to False.
    """
    in_search = 0 if finalists_alone else len(spec.seeds)
    if seeds_to_settle is None or seeds_to_settle > MOST_ADVISED_SEEDS:
        if (longer := _longer_runs_yet(spec)) is not None:
            return longer
        seeds_to_settle = MOST_ADVISED_SEEDS
        in_all = in_search + (spec.confirm_seeds if n_finalists <= spec.confirm else 0)
        if in_all >= MOST_ADVISED_SEEDS:
            return None
    if n_finalists > max(spec.confirm, MOST_CONFIRMED):
        return more_seeds(spec, max(seeds_to_settle, len(spec.seeds) + 1))
    confirm = max(spec.confirm, n_finalists)
    further = max(seeds_to_settle - in_search, spec.confirm_seeds + (confirm == spec.confirm))
    changes = (("confirm", confirm),) if confirm != spec.confirm else ()
    return Remedy(
        changes=(*changes, ("confirm_seeds", further)),
        purpose=f"{further} further seeds for those that are level; they join the study",
    )


def _longer_runs_yet(spec: StudySpec) -> Remedy | None:
    """Return the search with runs of twice the length, at most that of the long run; None if they have it already."""
    most = 2 * spec.confirm_budget
    if spec.horizon is None:
        return longer_runs(spec, most)
    return longer_runs(spec, min(most, spec.horizon)) if spec.confirm_budget < spec.horizon else None


def for_rate(
    spec: StudySpec,
    finding: LearningRateEstimate,
    tried: Sequence[float],
    seeds_to_settle: int | None,
    *,
    optimizer: str | None = None,
    finalists_alone: bool = False,
) -> Remedy | None:
    """Return the remedy that would make the suggestion of a learning rate safe, None if there is none.

    Args:
        spec: Spec of the study.
        finding: Estimate of the rate, and why it is not safe.
        tried: Rates of complete trials that differ from the pick in the rate only.
        seeds_to_settle: Seeds each that would distinguish the best trial from its ties; None if no number would.
        optimizer: Optimizer of the pick, if optimizers are compared. Defaults to `None`.
        finalists_alone: Whether the further seeds of finalists alone count. Defaults to False.
    """
    further = {
        "edge": ("beyond the edge", _beyond(finding, tried)),
        "gap": ("in the gap", _within(finding.gap or (finding.lowest, finding.highest))),
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
    more, before = (more_further_seeds, spec.confirm_seeds) if finalists_alone else (more_seeds, len(spec.seeds))
    if seeds_to_settle is not None and seeds_to_settle <= MOST_ADVISED_SEEDS:
        return more(spec, max(seeds_to_settle, before + 2))
    return _longer_runs_yet(spec) or (more(spec, MOST_ADVISED_SEEDS) if before < MOST_ADVISED_SEEDS else None)


def _rates(
    spec: StudySpec, finding: LearningRateEstimate, rates: Sequence[float], where: str, optimizer: str | None
) -> Remedy | None:
    """Return a search of further rates, or of a wider range if a sampler proposes them."""
    rounded = tuple(float(f"{rate:.3g}") for rate in sorted(rates))
    purpose = f"two rates {where}; they join the study"
    if spec.kind == "lr" and finding.name == "learning_rate":
        return Remedy(changes=(("rates", rounded),), purpose=purpose)
    if spec.kind == "opt" and finding.name == "learning_rate":
        # Two optimizers with the same label are numbered; the number is not part of the name of an optimizer.
        own = () if optimizer is None or " #" in optimizer else (("optimizers", (optimizer,)),)
        return Remedy(changes=(*own, ("learning_rates", rounded)), purpose=purpose)
    if spec.kind != "tune" or spec.trials:
        return None
    searched = spec.search_space()[finding.name]
    ends = [getattr(searched, side, end) for side, end in (("low", finding.lowest), ("high", finding.highest))]
    is_sampled = isinstance(searched, FloatRange) and searched.step is None and not is_grid(spec.sampler)
    if is_sampled and ends[0] <= rounded[0] and rounded[-1] <= ends[1]:  # no rate was proposed there yet
        n_trials = 2 * spec.n_trials
        return Remedy(changes=(("n_trials", n_trials),), purpose=f"{n_trials} trials; they join the study")
    low, high = min(ends[0], *rounded), max(ends[1], *rounded)
    space, what = f"{low:.3g}:{high:.3g}:log", "a wider range"
    if isinstance(searched, Choice) or (is_grid(spec.sampler) and getattr(searched, "step", None) is not None):
        listed = {*(row[finding.name] for row in spec.grid() if finding.name in row), *getattr(searched, "values", ())}
        space, what = ",".join(f"{rate:g}" for rate in sorted({*listed, *rounded})), "further rates"
    return Remedy(
        changes=(
            ("space", ((finding.name, f"{space}{condition_text(searched)}"),)),
            ("study_name", _name_of_variant(spec, "wider")),
        ),
        purpose=f"{what} {where}; another study",
        joins=False,
    )


def _within(gap: tuple[float, float]) -> list[float]:
    """Return two rates in a gap, which divide it evenly on a logarithmic axis."""
    low, high = gap
    return [low * (high / low) ** (n / 3) for n in (1, 2)]


def _beyond(finding: LearningRateEstimate, tried: Sequence[float]) -> list[float]:
    """Return two rates beyond the edge, spaced like the last two that were tried, a decade at most."""
    others = sorted(rate for rate in {*tried, finding.lowest, finding.highest} if rate != finding.tested)
    neighbour = others[0] if finding.edge == "lowest" else others[-1]  # all lie on the other side of the edge
    step = min(max(finding.tested / neighbour, 0.1), 10.0)
    return [finding.tested * step**n for n in (1, 2)]


def _enough_steps(finding: LearningRateEstimate) -> int:
    """Return the budget, by doubling that of the study, that would narrow the interval for the long run enough.

    It is at most the length of the long run.
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


def _name_of_variant(spec: StudySpec, suffix: str) -> str:
    """Return the name of a study with the same question and other options, in place of what it names of the same kind.

    What else it names remains, so that variants of different variants have different names.
    """
    kind = suffix.lstrip("0123456789.")
    return f"{re.sub(rf'-[0-9.]+{kind}(?=-|$)', '', spec.name)}-{suffix}"


def remedy_text(remedy: Remedy) -> str:
    """Return a remedy in words, for interfaces without a command: `the same search with seeds=6`."""
    if not remedy.options:
        return "the same search again"
    given = [
        f"{name}={value!r}" if name != "space" else ", ".join(f"{own} searched over {range_}" for own, range_ in value)
        for name, value in remedy.changes
    ]
    return f"the same search with {', '.join(given)}"
