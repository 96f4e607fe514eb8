"""Alibaba's cluster-trace-v2018: ``machine_usage.csv``, header-less, plain, gzipped or as the published ``.tar.gz``.

Columns: machine_id, time_stamp (s), cpu_util_percent (per cent by definition), and six more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from flexray.traces.chunks import Columns
from flexray.traces.kinds import SampledFormat
from flexray.traces.samples import Samples
from flexray.traces.tables import headerless

MACHINE_USAGE = Columns(
    (9,),
    {0: "machine", 1: "time", 2: "cpu"},
    {"machine": "string", "time": "float64", "cpu": "float64"},
)


class Alibaba2018(SampledFormat):
    """Samples of machines, every ten seconds or more."""

    summary = "Alibaba's 2018 machine_usage.csv (per cent by definition), also .tar.gz"
    unit = "percent"

    def samples(self, path: Path, progress: Callable[[int], None]) -> Iterator[Samples]:
        """Read the rows of a file."""
        return headerless(path, MACHINE_USAGE, progress)


FORMAT = Alibaba2018()
