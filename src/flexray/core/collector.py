"""The garbage collector, where very many small objects are made that no cycle holds."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

PER_PARTICIPANT = 10
"""Objects that a round makes for each participant, and more than it leaves: orders, reports, numbers of a record."""

MANY = 10_000
"""Participants of a large run."""


@contextmanager
def rarer_collections(participants: int) -> Iterator[None]:
    """Within it the collector waits for as many new objects as some rounds make.

    Those of one round are gone with the next, by their reference counts: looking at them takes as long as making them.
    A run of few participants changes nothing.
    """
    before = gc.get_threshold()
    if 0 < before[0] < PER_PARTICIPANT * participants:
        gc.set_threshold(PER_PARTICIPANT * participants, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
