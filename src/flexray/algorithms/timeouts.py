"""Chooses the timeout of a round, with ``timeout=auto`` (docs/algorithms.md, A timeout that chooses itself).

The farther rounds move the fewer it takes, until they move too far. With m in ``adaptive.A``, half of the rate that is
fastest, the rounds to any target go with 1 / m + m / 4, which is least at 2, and the time with

    duration(t_o) (1 / m + m / 4),    m = mean of eta_k W_k / A_k,    W_k = sum of w_k^t.

The timeout is the one at which that is least. It depends on speeds, links and rates as they are in the round, and on
nothing that happened before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator

from flexray.core.speeds import MOST_ITERATIONS

COUNTS = (*range(1, 21), *sorted({round(20 * 1.1**n) for n in range(1, 42)}))
"""Multiples of an iteration that are tried: up to 20 all, then 10 % apart, to nearly 1,000."""
FASTEST = 2.0
"""How far rounds move, in A, when a target takes the fewest of them."""

Attempt = Callable[[float], tuple[float, float]]
"""Returns the duration of a round with a timeout, and how far it reaches."""


def choose(unit_times: Collection[float], attempt: Attempt) -> float | None:
    """Return the timeout that suits a round, or None if nobody computes.

    Of timeouts whose rounds last as long and move as far it is the longest.

    Args:
        unit_times: Units per local iteration of those that compute.
        attempt: Tries a timeout.

    Example:
        >>> choose({1.0, 4.0}, lambda timeout: (max(timeout, 4.0) + 10.0, timeout / 12))
        13.0
    """
    if not unit_times:
        return None
    tried: list[tuple[float, float, float]] = []
    for timeout in _candidates(unit_times):
        duration, reach = attempt(timeout)
        tried.append((duration * rounds(reach), duration, -timeout))
        if reach >= FASTEST and timeout >= max(unit_times):
            break  # longer rounds would not be fewer
    return -min(tried)[2]


def rounds(reach: float) -> float:
    """Return to what the rounds to a target are in proportion, if each moves so far, in A.

    Example:
        >>> [rounds(reach) for reach in (0.5, 1.0, 2.0, 4.0)]
        [2.125, 1.25, 1.0, 1.25]
    """
    return 1 / reach + reach / FASTEST**2 if reach > 0 else math.inf


def _candidates(unit_times: Collection[float]) -> Iterator[float]:
    """Yield timeouts in ascending order: multiples of the quickest's and the slowest's iteration."""
    quickest, slowest = min(unit_times), max(unit_times)
    most = max(quickest * MOST_ITERATIONS, slowest) if math.isfinite(slowest) else quickest
    yield from sorted({units * n for units in (quickest, slowest) for n in COUNTS if units * n <= most})
