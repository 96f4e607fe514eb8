"""Observers: the interface for whatever watches a run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from typing_extensions import override

from flexray.core.messages import Record

ObserverState = Mapping[str, Any]
"""What an observer has seen and written until some record, as JSON."""


class Observer(ABC):
    """Gets every record of a run, in order, in the process that the user started.

    A run that goes on from a snapshot begins with another ``Started``; before it, :meth:`load` undoes what came after
    the snapshot.
    """

    @abstractmethod
    def on(self, record: Record) -> None:
        """Take note of a record."""

    def save(self) -> ObserverState:
        """Return the present state, for :meth:`load`."""
        return {}

    def load(self, state: ObserverState) -> None:  # noqa: B027 - most observers have no state
        """Return to a state that :meth:`save` returned, maybe in another process."""

    def close(self) -> None:  # noqa: B027 - most observers have nothing to finish
        """Finish; called once, also when the run failed."""


class Observers(Observer):
    """Several observers, made at the first record: a run that is refused before it touches no file.

    Args:
        make: Makes them.
        since: Their state at the checkpoint from which the run goes on; empty if it begins.
    """

    def __init__(self, make: Callable[[], Sequence[Observer]], since: ObserverState | None = None) -> None:
        self._make = make
        self._made: Sequence[Observer] = ()
        self._first = since or {}

    @override
    def on(self, record: Record) -> None:
        if not self._made:
            self._made = self._make()
            self.load(self._first)
            self._first = self.save()
        for observer in self._made:
            observer.on(record)

    @override
    def save(self) -> ObserverState:
        states = ((type(observer).__name__, observer.save()) for observer in self._made)
        return {name: state for name, state in states if state}

    def load(self, state: ObserverState) -> None:
        """Return to a saved state; an empty one is that at the first record."""
        for observer in self._made:
            own = (state or self._first).get(type(observer).__name__)
            if own is not None:
                observer.load(own)

    @override
    def close(self) -> None:
        for observer in self._made:
            observer.close()
