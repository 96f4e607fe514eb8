"""CSV with a header and one row per machine and time: machine, time (or time_s; seconds), cpu."""

from __future__ import annotations

from functools import partial

from flexray.errors import DataError
from flexray.traces import tables
from flexray.traces.cleaning import Counts
from flexray.traces.formats.base import Format, Imported, Request
from flexray.traces.samples import average, common_step


class Long(Format):
    """One row per sample."""

    summary = "CSV with the columns machine,time,cpu (seconds; fractions, or --unit percent)"
    above_one = "refuse"

    def read(self, request: Request, counts: Counts) -> Imported:
        """Take the samples; by default a window is as long as the step between most of them."""
        step_s = request.step_s
        if step_s is None:
            first = next(tables.long(request.files[0]), None)
            if first is None:
                raise DataError(f"{request.files[0]}: expected samples of machines, got none")
            step_s = common_step(first.time_n, str(request.files[0]))
        jobs = [partial(tables.long, path, request.progress) for path in request.files]
        return average(self, jobs, request, step_s, counts)


FORMAT = Long()
