"""What experiment trackers get of a run: the same series for all of them, by one seam."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping

from typing_extensions import override

from flexray.core.messages import EvalRecord, Record, RoundRecord, Started
from flexray.run.watch.base import Mark, Observer
from flexray.run.watch.timeline import busy_units


class Tracker(ABC):
    """A place that keeps named series of numbers."""

    @abstractmethod
    def log(self, values: Mapping[str, float], step: int) -> None:
        """Keep values of one round; all are finite."""

    def close(self) -> None:  # noqa: B027 - not every tracker has something to finish
        """Finish; called once, also when the run failed."""


class TrackingObserver(Observer):
    """Hands rounds and evaluations to a tracker; NaN and infinite values are left out.

    Series: ``round/train_loss``, ``round/sim_time``, ``round/sent_bytes`` (until then), ``tau/NAME``, ``lr/NAME``,
    ``waiting_share/NAME`` (those of who took part) and, at evaluations, ``eval/METRIC``. The step is the round (VAFL:
    the event).
    """

    def __init__(self, tracker: Tracker) -> None:
        self._tracker = tracker
        self._names: tuple[str, ...] = ()
        self._sent_bytes = 0

    @override
    def on(self, record: Record) -> None:
        if isinstance(record, Started):
            self._names = record.names
        elif isinstance(record, RoundRecord):
            self._sent_bytes += record.sent_bytes
            self._log(self._of_round(record), record.round)
        elif isinstance(record, EvalRecord):
            self._log({f"eval/{name}": value for name, value in record.metrics.items()}, record.round)

    @override
    def mark(self) -> Mark:
        return {"sent_bytes": self._sent_bytes}

    @override
    def rewind(self, mark: Mark) -> None:
        self._sent_bytes = mark["sent_bytes"]

    def _of_round(self, record: RoundRecord) -> dict[str, float]:
        values = {
            "round/train_loss": record.train_loss,
            "round/sim_time": record.sim_time,
            "round/sent_bytes": self._sent_bytes,
        }
        for k in record.present:
            name = self._names[k]
            values[f"tau/{name}"] = record.tau[k]
            values[f"lr/{name}"] = record.lr[k]
            values[f"waiting_share/{name}"] = waiting_share(record, k)
        return values

    def _log(self, values: Mapping[str, float], step: int) -> None:
        self._tracker.log({name: float(v) for name, v in values.items() if math.isfinite(v)}, step)

    @override
    def close(self) -> None:
        self._tracker.close()


def waiting_share(record: RoundRecord, place: int) -> float:
    """Return the part of a round's duration in which a participant waited for the others, from 0 to 1."""
    together = record.duration - record.comm_units
    return max(0.0, together - busy_units(record, place)) / record.duration if record.duration > 0 else 0.0
