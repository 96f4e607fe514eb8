"""Azure's public datasets V1 (2017) and V2 (2019): ``vm_cpu_readings`` files, header-less CSV, gzipped or not.

Columns: timestamp (s), VM id, minimum, maximum and average CPU of five minutes (per cent by definition). A virtual
machine stands for a machine here. There are millions of them, most short-lived: only the first ``--max-machines`` that
appear are kept, and ``--min-coverage`` leaves out those that are there for too little of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from flexray.traces.chunks import Columns
from flexray.traces.kinds import SampledFormat
from flexray.traces.samples import Samples
from flexray.traces.tables import headerless

READINGS = Columns(
    (5,),
    {0: "time", 1: "machine", 4: "cpu"},
    {"machine": "string", "time": "float64", "cpu": "float64"},
)


class Azure(SampledFormat):
    """Samples of virtual machines, every five minutes."""

    summary = "Azure's vm_cpu_readings files, V1 and V2 (per cent by definition)"
    unit = "percent"

    def samples(self, path: Path, progress: Callable[[int], None]) -> Iterator[Samples]:
        """Read the rows of a file."""
        return headerless(path, READINGS, progress)


FORMAT = Azure()
