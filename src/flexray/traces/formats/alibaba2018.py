"""Alibaba's cluster-trace-v2018: ``machine_usage.csv``, header-less, plain, gzipped or as the published ``.tar.gz``.

Columns: machine_id, time_stamp (s), cpu_util_percent (per cent by definition), and six more.
"""

from __future__ import annotations

from functools import partial

from flexray.traces.chunks import Columns
from flexray.traces.cleaning import Counts
from flexray.traces.formats.base import DEFAULT_STEP_S, Format, Imported, Request
from flexray.traces.samples import average
from flexray.traces.tables import headerless

MACHINE_USAGE = Columns(
    (9,),
    {0: "machine", 1: "time", 2: "cpu"},
    {"machine": "string", "time": "float64", "cpu": "float64"},
)


class Alibaba2018(Format):
    """Samples of machines, every ten seconds or more."""

    summary = "Alibaba's 2018 machine_usage.csv (per cent by definition), also .tar.gz"
    unit = "percent"

    def read(self, request: Request, counts: Counts) -> Imported:
        """Average the samples of each machine and window."""
        jobs = [partial(headerless, path, MACHINE_USAGE, request.progress) for path in request.files]
        return average(self, jobs, request, request.step_s or DEFAULT_STEP_S, counts)


FORMAT = Alibaba2018()
