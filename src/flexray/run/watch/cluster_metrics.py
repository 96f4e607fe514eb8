"""Live figures for a cluster's monitoring: Ray exports them at every node's Prometheus endpoint."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from typing_extensions import override

from flexray.core.messages import Ended, Record, RoundRecord, Started
from flexray.run.watch.base import Observer
from flexray.run.watch.tracking import waiting_share

EVERY_S = 1.0
"""Ray collects them every ten seconds; more often would cost and show nothing."""


class ClusterMetrics(Observer):
    """Sets rounds, tau and waiting share, and counts bytes, per party.

    Args:
        instruments: Returns, once the cluster is there, ``rounds``, ``tau``, ``waiting_share`` with a method ``set``
            and ``sent_bytes`` with ``inc``.
        run: Name of the run.
        every_s: Seconds between updates.
    """

    def __init__(self, instruments: Callable[[], Mapping[str, Any]], run: str, every_s: float = EVERY_S) -> None:
        self._get_instruments = instruments
        self._instruments: Mapping[str, Any] = {}
        self._run = run
        self._every_s = every_s
        self._names: tuple[str, ...] = ()
        self._bytes: list[list[int]] = []
        self._latest: dict[int, RoundRecord] = {}
        self._set_s = -math.inf

    @override
    def on(self, record: Record) -> None:
        if isinstance(record, Started):
            self._instruments = self._get_instruments()
            self._names = record.names
            self._bytes = [[0, 0] for _ in record.names[:-1]]
        elif isinstance(record, RoundRecord):
            self._note(record)
            if time.monotonic() - self._set_s >= self._every_s:
                self._publish()
        elif isinstance(record, Ended):
            self._publish()

    def _note(self, record: RoundRecord) -> None:
        for k, (up, down) in enumerate(zip(record.up_bytes, record.down_bytes, strict=True)):
            self._bytes[k][0] += up
            self._bytes[k][1] += down
        for k in record.present:
            self._latest[k] = record

    def _publish(self) -> None:
        self._set_s = time.monotonic()
        tags = {"run": self._run}
        self._instruments["rounds"].set(max((r.round for r in self._latest.values()), default=0), tags)
        for k, record in self._latest.items():
            own = {**tags, "party": self._names[k]}
            self._instruments["tau"].set(record.tau[k], own)
            self._instruments["waiting_share"].set(waiting_share(record, k), own)
        for name, sent in zip(self._names, self._bytes, strict=False):
            for direction, count in zip(("up", "down"), sent, strict=True):
                if count:
                    self._instruments["sent_bytes"].inc(count, {**tags, "party": name, "direction": direction})
            sent[:] = [0, 0]
