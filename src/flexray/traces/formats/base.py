"""The interface of trace formats, from files to utilizations per machine and window."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from flexray.core.errors import ConfigError
from flexray.traces.chunks import Progress, no_progress
from flexray.traces.cleaning import Counts, Policy
from flexray.traces.files import FloatArray

DEFAULT_STEP_S = 300
PER_CENT = 100.0


@dataclass(frozen=True)
class Request:
    """The files to import, and the options.

    Args:
        files: In the order in which they are added up.
        machine_events: Capacities of machines, for the formats that need them.
        step_s: Seconds of a window; None: the format's own.
        unit: ``fraction`` or ``percent``; None: the format's own.
        policy: Repairs of faults.
        idle: Value of windows without a task on a machine that was there: ``zero``, or ``gap`` for none.
        keep_in_alloc: google2019: count tasks inside allocs although the alloc's own row includes them.
        max_machines: Machines beyond these, in order of appearance, are left out.
        workers: Files read at once.
        progress: Called with the number of bytes read since the last call.
    """

    files: tuple[Path, ...]
    machine_events: Path | None = None
    step_s: int | None = None
    unit: str | None = None
    policy: Policy = field(default_factory=Policy)
    idle: str = "zero"
    keep_in_alloc: bool = False
    max_machines: int = 15_000
    workers: int = 2
    progress: Progress = no_progress


@dataclass(frozen=True)
class Imported:
    """Utilizations as measured: NaN where a window has no usable value; machines sorted by name."""

    step_s: float
    rows: Iterator[tuple[str, FloatArray]]


class Format(ABC):
    """One kind of trace file.

    Attributes:
        summary: One line for the help text.
        unit: ``fraction`` or ``percent`` where the format fixes the unit; None: fractions, unless ``--unit percent``.
        above_one: Default of ``--above-one``.
        events: Whether ``--machine-events`` is ``needed``, ``optional`` or ``unused``.
    """

    summary: str
    unit: str | None = None
    above_one = "clip"
    events = "unused"

    @abstractmethod
    def read(self, request: Request, counts: Counts) -> Imported:
        """Read the files and count their faults."""

    def divisor(self, request: Request) -> float:
        """Return the number that values are divided by to become fractions."""
        return PER_CENT if (request.unit or self.unit) == "percent" else 1.0

    def check(self, name: str, request: Request) -> None:
        """Refuse options that the format cannot use.

        Raises:
            ConfigError: An option contradicts the format or is missing.
        """
        if request.unit and self.unit and request.unit != self.unit:
            raise ConfigError(f"--unit: {name} is in {self.unit} by definition, got '{request.unit}'")
        if self.events == "needed" and request.machine_events is None:
            raise ConfigError(f"--machine-events: {name} needs the capacities of its machines; expected a file")
        if self.events == "unused" and request.machine_events is not None:
            raise ConfigError(f"--machine-events: {name} has no use for it")
