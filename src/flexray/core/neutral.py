"""Keys of a configuration on which no number of a run depends."""

from __future__ import annotations

from collections.abc import Iterable

HARMLESS = (
    "progress", "cluster", "max_failures", "stall_timeout", "logger", "resume", "trust",
    "dataset.workers", "dataset.batches_ahead",
)  # fmt: skip
"""These, and those below them, may differ between runs of one configuration, and before and after a run goes on."""


def is_under(key: str, names: Iterable[str]) -> bool:
    """Whether ``key`` is one of ``names``, or below one."""
    return f"{key}.".startswith(tuple(f"{name}." for name in names))
