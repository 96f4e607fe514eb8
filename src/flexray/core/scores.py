"""Which of two values of a metric is the better one. No torch here, so that reports open quickly."""

from __future__ import annotations

LOWER_IS_BETTER = frozenset({"loss", "mae", "mse"})


def meets(metric: str, value: float, target: float) -> bool:
    """Whether ``value`` is at least as good as ``target`` (``metric`` may carry a ``test_`` prefix)."""
    return value <= target if lower_is_better(metric) else value >= target


def lower_is_better(metric: str) -> bool:
    """Whether less is better (``metric`` may carry a ``test_`` prefix)."""
    return metric.rpartition("_")[2] in LOWER_IS_BETTER
