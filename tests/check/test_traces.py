"""Faults that were planted in trace formats are found and said in a line that tells how to mend them."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import flexray.check
from flexray.core.errors import CheckError, ConfigError
from flexray.traces.chunks import chunks
from flexray.traces.formats.base import Format, Imported

TABLE = "".join(f"{machine},{60 * t},{30 + (7 * t) % 60}\n" for machine in ("a", "b") for t in range(6))


class Cpu(Format):
    """Rows of machine, time and per cent; the others change it in one way that breaks a promise."""

    summary = "machine, seconds, per cent"
    unit = "percent"

    def read(self, request, counts):
        rows = [line.split(",") for file in request.files for line in file.read_text().splitlines()]
        names = sorted({row[0] for row in rows})
        return Imported(60.0, self.machines(names, rows, self.divisor(request)))

    def machines(self, names, rows, divisor):
        for name in names:
            yield name, np.array([float(row[2]) for row in rows if row[0] == name]) / divisor


class PerCent(Cpu):
    def divisor(self, request):
        return 1.0


class Unsorted(Cpu):
    def machines(self, names, rows, divisor):
        return reversed(list(super().machines(names, rows, divisor)))


class OtherLengths(Cpu):
    def machines(self, names, rows, divisor):
        for place, (name, values) in enumerate(super().machines(names, rows, divisor)):
            yield name, values[place:]


class Lists(Cpu):
    def machines(self, names, rows, divisor):
        return ((name, values.tolist()) for name, values in super().machines(names, rows, divisor))


class Draws(Cpu):
    def machines(self, names, rows, divisor):
        return ((name, values * random.random()) for name, values in super().machines(names, rows, divisor))


class FirstFileOnly(Cpu):
    def read(self, request, counts):
        return super().read(replace(request, files=request.files[:1]), counts)


class LastChunkOnly(Cpu):
    def read(self, request, counts):
        rows = {}
        for file in request.files:
            for chunk in chunks(file):
                lines = [line.split(",") for line in chunk.data.decode().splitlines()]
                rows |= {name: [row for row in lines if row[0] == name] for name in {row[0] for row in lines}}
        every = [row for name in sorted(rows) for row in rows[name]]
        return Imported(60.0, self.machines(sorted(rows), every, 100.0))


class NoStep(Cpu):
    def read(self, request, counts):
        return Imported(0.0, super().read(request, counts).rows)


class NoUnit(Cpu):
    unit = "per cent"


class Idle(Cpu):
    def machines(self, names, rows, divisor):
        return ((name, 0 * values) for name, values in super().machines(names, rows, divisor))


class Raises(Cpu):
    def machines(self, names, rows, divisor):
        return super().machines(names, rows[0]["cpu"], divisor)


FAULTS: list[tuple[type[Format], str]] = [
    (PerCent, "machine 'a', window 1: 30; expected a fraction: divide by self.divisor(request)"),
    (Unsorted, "expected machines sorted by name, each once, got b, a"),
    (OtherLengths, "machine 'b': 5 windows, expected 6 as before"),
    (Lists, "machine 'a': expected an array of numbers, one per window"),
    (Draws, "they differ: draws from Python's global random module (FILE, line "),
    (FirstFileOnly, "the parts give other values; add up the files of request.files in order"),
    (LastChunkOnly, "small chunks give other values; take over from chunk to chunk what a row needs"),
    (NoStep, "step_s: expected seconds above 0, got 0.0"),
    (NoUnit, "unit is 'per cent'; expected one of: None, fraction, percent"),
    (Idle, "expected at least 1 machine, got 0 that can be used, of 2"),
    (Raises, "TypeError: list indices must be integers or slices, not str (FILE, line "),
]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "cpu.csv"
    path.write_text(TABLE, encoding="utf-8")
    return path


@pytest.mark.parametrize(("form", "said"), FAULTS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_fault_is_found_and_named(table: Path, form: type[Format], said: str) -> None:
    with pytest.raises(CheckError) as caught:
        flexray.check(form, files=table)
    assert len(caught.value.failures) == 1, str(caught.value)
    assert said.replace("FILE", __file__) in caught.value.failures[0]


def test_what_keeps_its_promises_passes(table: Path) -> None:
    assert len(flexray.check(Cpu(), files=[table]).promises) == 6


def test_a_format_is_checked_by_reading() -> None:
    with pytest.raises(ConfigError, match=r"^files: a format is checked by reading; expected files=\[cpu.csv\]$"):
        flexray.check(Cpu)
