"""Chooses the timeout of a round, with ``timeout=auto`` (docs/algorithms.md, A timeout that chooses itself).

Local iterations pay until a round moves as far as ``adaptive.A`` says, and hardly any longer. So the time to any target
goes with the time of a round over how far it gets,

    duration(t_o) / min(1, reach(t_o)),    reach = mean of eta_k W_k / A_k,    W_k = sum of w_k^t,

and the timeout is the shortest at which that is least, or nearly. It depends on speeds, links and rates as they are in
the round, and on nothing that happened before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator

from flexray.core.speeds import MOST_ITERATIONS

COUNTS = (*range(1, 21), *sorted({round(20 * 1.1**n) for n in range(1, 42)}))
"""Multiples of an iteration that are tried: up to 20 all, then 10 % apart, to nearly 1,000."""
CLOSE = 1.01
"""Times that differ by less than this factor count as equal, and the shortest round is taken."""
ROUNDING = 1 + 1e-9

Attempt = Callable[[float], tuple[float, float]]
"""Returns the duration of a round with a timeout, and how far it reaches."""


def choose(unit_times: Collection[float], attempt: Attempt) -> float | None:
    """Return the timeout that suits a round, or None if nobody computes.

    Of timeouts with equally long rounds, in which more local iterations cost nothing, it is the longest.

    Args:
        unit_times: Units per local iteration of those that compute.
        attempt: Tries a timeout.

    Example:
        >>> choose({1.0, 4.0}, lambda timeout: (max(timeout, 4.0) + 10.0, timeout / 12))
        12.0
    """
    if not unit_times:
        return None
    tried: list[tuple[float, float, float]] = []
    for timeout in _candidates(unit_times):
        duration, reach = attempt(timeout)
        tried.append((duration / min(1.0, reach), duration, timeout))
        if reach >= 1 and timeout >= max(unit_times):
            break  # a longer round would not get further
    least = min(tried)[0]
    good = [(duration, timeout) for time, duration, timeout in tried if time <= least * CLOSE]
    shortest = min(good)[0]
    return max(timeout for duration, timeout in good if duration <= shortest * ROUNDING)


def _candidates(unit_times: Collection[float]) -> Iterator[float]:
    """Yield timeouts in ascending order: multiples of the quickest's and the slowest's iteration."""
    quickest, slowest = min(unit_times), max(unit_times)
    most = max(quickest * MOST_ITERATIONS, slowest) if math.isfinite(slowest) else quickest
    yield from sorted({units * n for units in (quickest, slowest) for n in COUNTS if units * n <= most})
