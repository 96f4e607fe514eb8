"""CSV with a header and one row per machine and time: machine, time (or time_s; seconds), cpu."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from flexray.traces import tables
from flexray.traces.kinds import SampledTable
from flexray.traces.samples import Samples


class Long(SampledTable):
    """One row per sample."""

    summary = "CSV with the columns machine,time,cpu (seconds; fractions, or --unit percent)"

    def samples(self, path: Path, progress: Callable[[int], None]) -> Iterator[Samples]:
        """Read the rows of a file."""
        return tables.long(path, progress)


FORMAT = Long()
