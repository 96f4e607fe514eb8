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
from flexray.traces.capacity import Capacity, Events, capacities
from flexray.traces.chunks import Columns, chunks, floats, read_columns, whole
from flexray.traces.formats.base import Request
from flexray.traces.kinds import TaskFormat
from flexray.traces.usage import Cells, Splitter, Usage, mix

TASK_USAGE = Columns(
    (20, 19),
    {0: "start", 1: "end", 2: "job", 3: "index", 4: "machine", 5: "rate"},
    {"start": "int64", "end": "int64", "job": "int64", "index": "int64", "machine": "int64", "rate": "float64"},
)
MACHINE_EVENTS = Columns(
    (6,),
    {0: "time", 1: "machine", 2: "kind", 4: "cpus"},
    {"time": "int64", "machine": "int64", "kind": "int64", "cpus": "float64"},
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
            table = read_columns(chunk, TASK_USAGE)
            job_n, index_n, machine_n = (whole(table[name]) for name in ("job", "index", "machine"))
            start_n, end_n, rate_n = whole(table["start"]), whole(table["end"]), floats(table["rate"])
            task_n, row_n = mix(job_n, index_n, machine_n), np.arange(len(table))
            usage = Usage(start_n, end_n, machine_n, rate_n, task_n, row_n)
            yield splitter.cells(chunk, usage)

    def capacities(self, path: Path) -> dict[str, Capacity]:
        """Return capacity over time of every machine."""
        found = []
        for chunk in chunks(path):
            table = read_columns(chunk, MACHINE_EVENTS)
            kind_n = whole(table["kind"])
            if ((kind_n < 0) | (kind_n > 2)).any():
                row = int(np.flatnonzero((kind_n < 0) | (kind_n > 2))[0])
                raise DataError(f"{chunk.where(row)}: expected an event of type 0, 1 or 2, got {kind_n[row]}")
            time_n, machine_n, cpus_n = whole(table["time"]), whole(table["machine"]), floats(table["cpus"])
            found.append(Events(time_n, machine_n, kind_n == REMOVE, cpus_n))
        return capacities(path, found)


FORMAT = Google2011()
