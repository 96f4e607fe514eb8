"""Writes small trace files of every format."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow
from pyarrow import parquet

from flexray.traces.cli import main
from flexray.traces.reading import Trace, read_trace

S = 1_000_000
"""Microseconds in a second."""

Task = tuple[float, float, int, int, str]
"""Start and end (s), job, machine, rate."""


def task_usage(path: Path, tasks: Sequence[Task], columns: int = 20) -> Path:
    """Write rows of Google's 2011 task usage, gzipped if the name says so."""
    lines = []
    for start, end, job, machine, rate in tasks:
        named = "" if machine < 0 else str(machine)
        front = [str(int(start * S)), str(int(end * S)), str(job), "0", named, rate]
        lines.append(",".join(front + ["0.01"] * (columns - 6)))
    return text(path, "".join(f"{line}\n" for line in lines))


def machine_events(path: Path, events: Sequence[tuple[float, int, int, str]]) -> Path:
    """Write Google's 2011 machine events: time (s), machine, kind, capacity."""
    return text(path, "".join(f"{int(t * S)},{m},{kind},platform,{cpus},0.5\n" for t, m, kind, cpus in events))


def text(path: Path, content: str) -> Path:
    """Write a text file, gzipped if its name ends in .gz."""
    data = content.encode()
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
    return path


def native(
    path: Path,
    machine: Sequence[str],
    time: Sequence[int],
    cpu: Sequence[float | None],
    rows: int = 1 << 20,
    **said: str,
) -> Path:
    """Write a Parquet file of any content, ``rows`` to a row group."""
    columns = [pyarrow.array(machine), pyarrow.array(time, pyarrow.int64()), pyarrow.array(cpu, pyarrow.float32())]
    table = pyarrow.table(columns, names=["machine", "time_s", "cpu"])
    table = table.replace_schema_metadata({f"flexray.{key}": value for key, value in said.items()})
    parquet.write_table(table, path, row_group_size=rows)
    return path


def run(*arguments: object) -> int:
    """Run the command line."""
    return main([str(a) for a in arguments])


def imported(folder: Path, name: str, *arguments: object) -> Trace:
    """Import files, which must succeed, and return the trace."""
    output = folder / "out.parquet"
    assert run("import", name, *arguments, "-o", output) == 0
    return read_trace(output)


def close(actual: object, expected: object) -> None:
    """Compare values that went through float32."""
    np.testing.assert_allclose(np.asarray(actual, float), np.asarray(expected, float), rtol=0, atol=1e-7)
