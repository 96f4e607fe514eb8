"""Google's clusterdata-2011-2: header-less CSV shards ``task_usage`` and ``machine_events``, gzipped or not.

``task_usage``: start and end time (us), job ID, task index, machine ID, CPU rate, and 14 more columns (13 in the older
clusterdata-2011-1). ``machine_events``: time (us), machine ID, event type (0 add, 1 remove, 2 update), platform ID, CPU
capacity, memory capacity. Rates and capacities share a unit: that of the largest machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from flexray.core.errors import DataError
from flexray.traces.capacity import Events, TaskFormat
from flexray.traces.chunks import Columns, chunks, floats, whole
from flexray.traces.formats.base import Request
from flexray.traces.usage import Cells, Splitter, Usage, mix

TASK_USAGE = Columns(
    (20, 19),
    {
        "start": (0, "int64"), "end": (1, "int64"), "job": (2, "int64"), "index": (3, "int64"),
        "machine": (4, "int64"), "rate": (5, "float64"),
    },
)  # fmt: skip
MACHINE_EVENTS = Columns(
    (6,), {"time": (0, "int64"), "machine": (1, "int64"), "kind": (2, "int64"), "cpus": (4, "float64")}
)
REMOVE = 1


class Google2011(TaskFormat):
    """Task usage by machine."""

    summary = "Google's 2011 cell: task_usage shards (CSV, gzipped), with --machine-events"
    events = "needed"

    def cells(self, path: Path, step_us: int, request: Request) -> Iterator[Cells]:
        """Read the usage of a file by machine and window."""
        splitter = Splitter(step_us)
        for chunk in chunks(path, progress=request.progress):
            table = TASK_USAGE.read(chunk)
            job_n, index_n, machine_n = (whole(table[name]) for name in ("job", "index", "machine"))
            start_n, end_n, rate_n = whole(table["start"]), whole(table["end"]), floats(table["rate"])
            task_n, row_n = mix(job_n, index_n, machine_n), np.arange(len(table))
            yield splitter.cells(chunk, Usage(start_n, end_n, machine_n, rate_n, task_n, row_n))

    def read_events(self, path: Path) -> Iterator[Events]:
        """Read a file of machine events."""
        for chunk in chunks(path):
            table = MACHINE_EVENTS.read(chunk)
            kind_n = whole(table["kind"])
            if ((kind_n < 0) | (kind_n > 2)).any():
                row = int(np.flatnonzero((kind_n < 0) | (kind_n > 2))[0])
                raise DataError(f"{chunk.where(row)}: expected an event of type 0, 1 or 2, got {kind_n[row]}")
            yield Events(whole(table["time"]), whole(table["machine"]), kind_n == REMOVE, floats(table["cpus"]))


FORMAT = Google2011()
