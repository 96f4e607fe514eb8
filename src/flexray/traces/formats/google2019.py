"""Google's clusterdata-2019: ``instance_usage`` exported from BigQuery as JSON lines, CSV or Parquet, gzipped or not.

Columns used: ``start_time``, ``end_time`` (us), ``machine_id``, ``average_usage.cpus`` (nested; or flattened to
``average_usage.cpus`` or ``average_usage_cpus``; or, in a CSV, ``average_usage`` as JSON text) and, if they are there,
``collection_id``, ``instance_index`` and ``alloc_collection_id``. Rows of tasks inside an alloc are left out, as in
Google's own analysis notebook: the row of the alloc includes their usage.

``machine_events`` (the same kinds of file): ``time``, ``machine_id``, ``type`` (1 or ADD, 2 or REMOVE, 3 or UPDATE) and
``capacity.cpus``. Without it every machine counts as capacity 1, the largest of the cell, since usage is in its units.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from flexray.core.errors import DataError
from flexray.traces.capacity import Events, TaskFormat
from flexray.traces.formats.base import Request
from flexray.traces.records import Field, batches
from flexray.traces.usage import Cells, Splitter, Usage, mix

TIME, NUMBER = "int64", "float64"
USAGE = (
    Field("start_time", TIME),
    Field("end_time", TIME),
    Field("machine_id", TIME),
    Field("average_usage.cpus", NUMBER),
    Field("collection_id", TIME, optional=True),
    Field("instance_index", TIME, optional=True),
    Field("alloc_collection_id", TIME, optional=True),
)
EVENTS = (Field("time", TIME), Field("machine_id", TIME), Field("type", "string"), Field("capacity.cpus", NUMBER))
REMOVE, KNOWN = ("2", "REMOVE"), ("0", "1", "2", "3", "EVENT_TYPE_UNKNOWN", "ADD", "REMOVE", "UPDATE")


class Google2019(TaskFormat):
    """Instance usage by machine."""

    summary = "Google's 2019 cells: instance_usage as JSON lines, CSV or Parquet; better with --machine-events"
    events = "optional"

    def cells(self, path: Path, step_us: int, request: Request) -> Iterator[Cells]:
        """Read the usage of a file by machine and window."""
        splitter: Splitter | None = None
        for batch in batches(path, USAGE, request.progress):
            names_tasks = batch.has("collection_id") and batch.has("instance_index")
            splitter = splitter or Splitter(step_us, names_tasks)
            row_n, machine_n = np.arange(batch.size), batch.whole("machine_id")
            task_n = mix(batch.whole("collection_id"), batch.whole("instance_index"), machine_n)
            start_n, end_n = batch.whole("start_time"), batch.whole("end_time")
            usage = Usage(start_n, end_n, machine_n, batch.floats("average_usage.cpus"), task_n, row_n)
            in_alloc_n = (batch.whole("alloc_collection_id", 0) > 0) & (not request.keep_in_alloc)
            cells = splitter.cells(batch.chunk, usage.pick(~in_alloc_n) if in_alloc_n.any() else usage)
            cells.counts.add("in_alloc", int(in_alloc_n.sum()))
            yield cells

    def read_events(self, path: Path) -> Iterator[Events]:
        """Read a file of machine events."""
        for batch in batches(path, EVENTS):
            kind_n = np.array([str(kind) for kind in batch.strings("type")])
            unknown_n = ~np.isin(kind_n, KNOWN)
            if unknown_n.any():
                row = int(np.flatnonzero(unknown_n)[0])
                raise DataError(f"{batch.chunk.where(row)}: expected an event of type 1, 2 or 3, got {kind_n[row]}")
            time_n, machine_n, cpus_n = batch.whole("time"), batch.whole("machine_id"), batch.floats("capacity.cpus")
            yield Events(time_n, machine_n, np.isin(kind_n, REMOVE), cpus_n)


FORMAT = Google2019()
