"""What formats of one kind share: samples of machines, or usage of tasks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from flexray.core.errors import DataError
from flexray.traces.capacity import Capacity, add_up
from flexray.traces.cleaning import Counts
from flexray.traces.formats.base import DEFAULT_STEP_S, Format, Imported, Request, no_progress
from flexray.traces.samples import Samples, average, common_step
from flexray.traces.usage import MICRO, Cells


class SampledFormat(Format):
    """Samples of machines, averaged by machine and window."""

    @abstractmethod
    def samples(self, path: Path, progress: Callable[[int], None]) -> Iterator[Samples]:
        """Read the samples of a file, piece by piece."""

    def default_step_s(self, request: Request) -> int:
        """Return how long a window is unless the user says otherwise."""
        return DEFAULT_STEP_S

    def read(self, request: Request, counts: Counts) -> Imported:
        """Average the samples of each machine and window."""
        jobs = [partial(self.samples, path, request.progress) for path in request.files]
        return average(self, jobs, request, request.step_s or self.default_step_s(request), counts)


class SampledTable(SampledFormat):
    """A table with a header: by default a window is as long as the step between most of its samples."""

    above_one = "refuse"

    def default_step_s(self, request: Request) -> int:
        """Return the step of the first file."""
        first = next(self.samples(request.files[0], no_progress), None)
        if first is None:
            raise DataError(f"{request.files[0]}: expected samples of machines, got none")
        return common_step(first.time_n, str(request.files[0]))


class TaskFormat(Format):
    """Usage of tasks, summed by machine and window, over the machine's capacity."""

    unit = "fraction"

    @abstractmethod
    def cells(self, path: Path, step_us: int, request: Request) -> Iterator[Cells]:
        """Read the usage of a file by machine and window, piece by piece."""

    @abstractmethod
    def capacities(self, path: Path) -> dict[str, Capacity]:
        """Return capacity over time of every machine, from a file of machine events."""

    def read(self, request: Request, counts: Counts) -> Imported:
        """Sum the usage of all tasks on each machine, over its capacity."""
        step_us = (request.step_s or DEFAULT_STEP_S) * MICRO
        known = self.capacities(request.machine_events) if request.machine_events else None
        jobs = [partial(self.cells, path, step_us, request) for path in request.files]
        return add_up(jobs, request, known, step_us, counts)
