"""The seam for whatever watches a run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from typing_extensions import override

from flexray.core.messages import Record

Mark = Mapping[str, Any]
"""Where an observer was at some record, as JSON."""


class Observer(ABC):
    """Gets every record of a run, in order, in the process that the user started.

    A run that goes on from a snapshot begins with another ``Started``; before it, :meth:`rewind` undoes what came after
    the snapshot.
    """

    @abstractmethod
    def on(self, record: Record) -> None:
        """Take note of a record."""

    def mark(self) -> Mark:
        """Return, as JSON, where it is now, for :meth:`rewind`."""
        return {}

    def rewind(self, mark: Mark) -> None:  # noqa: B027 - most observers look forward only
        """Be as it was when :meth:`mark` was called, maybe in another process."""

    def close(self) -> None:  # noqa: B027 - most observers have nothing to finish
        """Finish; called once, also when the run failed."""


class Late(Observer):
    """Observers that are made when the run begins: one that is refused before that touches no file.

    Args:
        make: Makes them, where they are to begin or go on.
    """

    def __init__(self, make: Callable[[], Observer]) -> None:
        self._make = make
        self._made: Observer | None = None
        self._first: Mark = {}

    @override
    def on(self, record: Record) -> None:
        if self._made is None:
            self._made = self._make()
            self._first = self._made.mark()
        self._made.on(record)

    def mark(self) -> Mark:
        """Return where they are; nothing before the run begins."""
        return self._made.mark() if self._made else {}

    def rewind(self, mark: Mark) -> None:
        """Be as when ``mark`` was made; an empty one: as they began."""
        if self._made:
            self._made.rewind(mark or self._first)

    @override
    def close(self) -> None:
        if self._made:
            self._made.close()


class Observers(Observer):
    """Several as one."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = tuple(observers)

    @override
    def on(self, record: Record) -> None:
        for observer in self._observers:
            observer.on(record)

    @override
    def mark(self) -> Mark:
        marks = ((type(observer).__name__, observer.mark()) for observer in self._observers)
        return {name: mark for name, mark in marks if mark}

    @override
    def rewind(self, mark: Mark) -> None:
        for observer in self._observers:
            if type(observer).__name__ in mark:
                observer.rewind(mark[type(observer).__name__])

    @override
    def close(self) -> None:
        for observer in self._observers:
            observer.close()
