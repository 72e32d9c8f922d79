"""Search for the largest number whose cost is within an amount."""

from __future__ import annotations

from collections.abc import Callable, Iterator


def largest_within(cost: Callable[[int], float], amount: float, low: int, high: int) -> int | None:
    """Return the largest number whose cost, which grows with it, is within an amount; None if `low` costs more.

    The result may be too small by a thousandth.
    """
    found = [within for within, _ in brackets(cost, amount, low, high)]
    return found[-1] if found else None


def brackets(cost: Callable[[int], float], amount: float, low: int, high: int) -> Iterator[tuple[int, int]]:
    """Yield ever closer pairs of a number within an amount and one beyond it; none if `low` costs more.

    The one beyond is `high` + 1 while none is known. The first number of the last pair is that of `largest_within`.
    """
    if cost(low) > amount:
        return
    within, beyond = low, low
    yield within, high + 1
    while beyond < high:
        beyond = min(high, 2 * beyond)
        if cost(beyond) > amount:
            break
        within = beyond
        yield within, high + 1
    else:
        return
    yield within, beyond
    while beyond - within > max(1, within // 1_000):
        middle = (within + beyond) // 2
        if cost(middle) > amount:
            beyond = middle
        else:
            within = middle
        yield within, beyond
