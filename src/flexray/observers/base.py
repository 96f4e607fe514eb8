"""The seam for whatever watches a run."""

from __future__ import annotations

from abc import ABC, abstractmethod

from flexray.messages import Record


class Observer(ABC):
    """Gets every record of a run, in order, in the process that the user started."""

    @abstractmethod
    def on(self, record: Record) -> None:
        """Take note of a record."""

    def close(self) -> None:  # noqa: B027 - most observers have nothing to finish
        """Finish; called once, also when the run failed."""
