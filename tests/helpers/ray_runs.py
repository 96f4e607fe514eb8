"""Runs on Ray."""

from __future__ import annotations

from collections.abc import Callable

from flexray.config.job import Job
from flexray.core.messages import Ended, Record

RunOnRay = Callable[[Job], list[Record]]


def digests(records: list[Record]) -> dict[str, str]:
    """Return the digests of a run."""
    ended = records[-1]
    assert isinstance(ended, Ended)
    return ended.digests
