"""When a run is saved, and the parts of a snapshot."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from flexray.core.conforming import conforms
from flexray.core.errors import ConfigError
from flexray.core.messages import SERVER, Saved, Snapshot


@dataclass(frozen=True)
class Saves:
    """After which rounds (VAFL: updates) a run is saved.

    Args:
        every: Durably each that many rounds; 0 or None: not between beginning and end.
        recover_every: To replace lost processes; 0 or None: never.
        at_end: Durably at the end, however it comes.
    """

    every: int | None = None
    recover_every: int | None = None
    at_end: bool = False

    def due(self, done: int) -> bool:
        """Whether to save after ``done`` rounds."""
        return self.durable(done) or bool(self.recover_every and done % self.recover_every == 0)

    def durable(self, done: int) -> bool:
        """Whether that is to be kept on disk."""
        return bool(self.every and done % self.every == 0)


def pack(values: Sequence[dict[str, Saved] | Saved]) -> dict[str, Saved]:
    """Return what the groups and, last, the server answered, by name."""
    participants: dict[str, Saved] = {}
    for value in values:
        participants.update({SERVER: value} if isinstance(value, Saved) else value)
    return participants


def check_state(state: Mapping[str, Any], kinds: Mapping[str, Any], names: Sequence[str]) -> None:
    """Refuse a driver's saved state that no driver of these participants had.

    Args:
        state: The decoded state.
        kinds: The types of its values, see :func:`flexray.core.conforming.conforms`.
        names: The parties, then the server.

    Raises:
        ValueError: It names the part.
    """
    if state.keys() != kinds.keys():
        raise ValueError(f"expected {', '.join(kinds)}, got {', '.join(state) or 'nothing'}")
    for key, kind in kinds.items():
        if not conforms(state[key], kind):
            raise ValueError(f"{key}: no such value can be: {str(state[key])[:80]}")
    clocks = len(names) - 1 if "turn" in state else 1
    parties = len(names) - 1
    for key, count in (("computed", clocks), ("reports", len(names)), ("turn", parties), ("waited", parties)):
        if state.get(key) is not None and len(state[key]) != count:
            raise ValueError(f"{key}: expected {count} values, got {len(state[key])}")
    for watch in (state["clock"], *state.get("watches", ()), *([state["serving"]] if "serving" in state else ())):
        if not 0 <= watch.now < math.inf:
            raise ValueError(f"clock: expected a time of at least 0, got {watch.now}")


def check_not_passed(since: Snapshot, rounds: int | None, max_time: float | None) -> None:
    """Refuse limits that were passed already."""
    if rounds is not None and rounds < since.round:
        raise ConfigError(f"rounds: the run is to end after {rounds} rounds, but it has {since.round} already")
    if max_time is not None and max_time * (1 + 1e-12) < since.sim_time:
        raise ConfigError(f"max_time: the run is to end at {max_time:g}, but it is at {since.sim_time:g} already")


def detached(snapshot: Snapshot) -> Snapshot:
    """Return a copy that shares no memory with Ray's object store."""
    parts = snapshot.participants.items()
    copies = {n: Saved({k: np.array(v) for k, v in saved.arrays.items()}, saved.notes) for n, saved in parts}
    return replace(snapshot, participants=copies)
