"""CSV with a header and one row per time: time (or time_s; seconds), then one column per machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from flexray.traces import tables
from flexray.traces.kinds import SampledTable
from flexray.traces.samples import Samples


class Wide(SampledTable):
    """One row per time."""

    summary = "CSV with time, then one column per machine (seconds; fractions, or --unit percent)"

    def samples(self, path: Path, progress: Callable[[int], None]) -> Iterator[Samples]:
        """Read the rows of a file."""
        return tables.wide(path, progress)


FORMAT = Wide()
