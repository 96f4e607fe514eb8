"""Speed and memory of importing Google's 2011 trace, on generated shards of the exact schema.

``python experiments/bench_traces.py`` generates shards of ``task_usage`` (20 columns, gzipped), imports them with
``python -m flexray.traces import google2011``, and prints rows per second and the peak of resident memory of that
process. ``--engines`` also lets polars, pyarrow and pandas do the core of it: read the shards and add up rate x overlap
per machine and window, where every row is taken to lie in one window. polars is measured if it is installed.
"""

from __future__ import annotations

import argparse
import gzip
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
from pyarrow import csv

MACHINES, TASKS, STEP_US = 12_500, 140_000, 300_000_000
NAMES = [f"c{i}" for i in range(20)]
USED = {"c0": pyarrow.int64(), "c1": pyarrow.int64(), "c4": pyarrow.int64(), "c5": pyarrow.float64()}


def main() -> None:
    """Generate, import, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument("--rows", type=int, default=1_000_000, help="per shard")
    parser.add_argument("--month", action="store_true", help="spread the shards over 29 days: all memory is needed")
    parser.add_argument("--engines", action="store_true", help="also compare polars, pyarrow and pandas")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="keep shards here, and use those that are there")
    parser.add_argument("--engine", choices=list(ENGINES), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.engine:
        total = ENGINES[options.engine](sorted(options.folder.glob("part-*.csv.gz")), options.workers)
        print(f"rate x us = {total:.6e}")
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        shards = generate(folder, options.shards, options.rows, options.month)
        rows = options.shards * options.rows
        sizes = sum(path.stat().st_size for path in shards)
        print(f"{len(shards)} shards, {rows:,} rows, {sizes / 1e6:.0f} MB gzipped; {os.cpu_count()} cores")
        output = str(folder / "out.parquet")
        events = ["--machine-events", str(folder / "machine_events.csv.gz")]
        command = ["-m", "flexray.traces", "import", "google2011", *map(str, shards), *events, "-o", output]
        measure("flexray import", [*command, "--workers", str(options.workers)], rows)
        for engine in ENGINES if options.engines else ():
            own = [__file__, "--engine", engine, "--folder", str(folder), "--workers", str(options.workers)]
            measure(f"{engine} (sums only)", own, rows)


def measure(name: str, arguments: list[str], rows: int) -> None:
    """Run one process and print its speed and its peak memory."""
    started, cpu_s = time.perf_counter(), children_cpu_s()
    process = subprocess.Popen(
        [sys.executable, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    peak_mb = 0.0
    while process.poll() is None:
        peak_mb = max(peak_mb, tree_mb(process.pid))
        time.sleep(0.02)
    wall_s, cpu_s = time.perf_counter() - started, children_cpu_s() - cpu_s
    lines = (process.stdout.read() if process.stdout else "").strip().splitlines()
    if process.returncode:
        print(f"{name:24} failed: {lines[-1] if lines else process.returncode}")
        return
    speed = f"{rows / wall_s / 1e6:5.2f} million rows/s  {wall_s:6.1f} s  {cpu_s:6.1f} CPU s"
    print(f"{name:24} {speed}  {peak_mb:6.0f} MB  {lines[-1]}", flush=True)


def children_cpu_s() -> float:
    """Return the CPU time of all ended children; other work on the machine lengthens it little."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def tree_mb(pid: int) -> float:
    """Return the resident memory of a process and its children, in MB."""
    total = 0
    waiting = [pid]
    while waiting:
        own = waiting.pop()
        try:
            status = Path(f"/proc/{own}/status").read_text(encoding="utf-8")
            children = Path(f"/proc/{own}/task/{own}/children").read_text(encoding="utf-8")
        except OSError:  # it has just ended
            continue
        total += next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")), 0)
        waiting.extend(map(int, children.split()))
    return total / 1e3


# Shards ---------------------------------------------------------------------------------------------------------------


def generate(folder: Path, shards: int, rows: int, month: bool) -> list[Path]:
    """Write shards in time order and the events of their machines; keep files that are there."""
    folder.mkdir(parents=True, exist_ok=True)
    machines = np.arange(MACHINES) * 389_221 + 5
    events = "".join(f"0,{machine},0,platform,{0.25 * (1 + i % 4)},0.5\n" for i, machine in enumerate(machines))
    (folder / "machine_events.csv.gz").write_bytes(gzip.compress(events.encode()))
    windows = -(-rows // TASKS)
    stride = 8_352 // shards if month else windows
    paths = [folder / f"part-{i:05d}-of-00500.csv.gz" for i in range(shards)]
    with ProcessPoolExecutor() as pool:
        list(pool.map(write_shard, paths, range(shards), [rows] * shards, [stride] * shards, [month] * shards))
    return paths


def write_shard(path: Path, index: int, rows: int, stride: int, month: bool) -> None:
    """Write ``rows`` rows of task usage that begin in window ``index`` x ``stride``."""
    if path.exists():
        return
    draw = np.random.default_rng(index)
    window_n = np.arange(rows) // TASKS
    window_n = window_n * (stride // (int(window_n[-1]) + 1)) if month else window_n
    start_n = (600_000_000 + (window_n + index * stride) * STEP_US).astype(np.int64)
    end_n = start_n + np.where(draw.random(rows) < 0.1, draw.integers(1, 300, rows) * 1_000_000, STEP_US)
    task_n = np.arange(rows) % TASKS
    fixed = np.random.default_rng(10**6)
    job_n = fixed.integers(3_000_000, 6_500_000_000, TASKS)[task_n]
    machine_n = (fixed.integers(0, MACHINES, TASKS) * 389_221 + 5)[task_n]
    columns = [start_n, end_n, job_n, fixed.integers(0, 2_000, TASKS)[task_n], machine_n]
    scales = (0.01, 0.03, 0.04, 0.001, 0.002, 0.05, 3e-4, 4e-4, 0.1, 0.01, 3.0, 0.01)
    columns += [np.round(draw.lognormal(-1, 1, rows) * scale, 7).astype(np.float32) for scale in scales]
    columns += [draw.integers(0, 2, rows), np.ones(rows, np.int64)]
    columns += [np.round(draw.lognormal(-1, 1, rows) * 0.02, 7).astype(np.float32)]
    table = pyarrow.table(dict(zip(NAMES, columns, strict=True)))
    part = path.with_suffix(".part")
    with gzip.open(part, "wb", compresslevel=4) as file:
        csv.write_csv(table, file, csv.WriteOptions(include_header=False))
    part.rename(path)


# Engines --------------------------------------------------------------------------------------------------------------


def by_polars(paths: list[Path], workers: int) -> float:
    """One lazy query over all shards, on polars' streaming engine."""
    os.environ["POLARS_MAX_THREADS"] = str(workers)
    import polars as pl

    schema: dict[str, Any] = dict.fromkeys(NAMES, pl.String) | {"c0": pl.Int64, "c1": pl.Int64, "c4": pl.Int64}
    rows = pl.scan_csv(paths, has_header=False, schema=schema | {"c5": pl.Float64})
    used = (pl.col("c5") * (pl.col("c1") - pl.col("c0"))).sum().alias("used")
    sums = rows.group_by("c4", pl.col("c0") // STEP_US).agg(used).collect(engine="streaming")
    return float(sums["used"].sum())


def by_pyarrow(paths: list[Path], workers: int) -> float:
    """Stream each shard, group every batch, group the groups."""

    def shard(path: Path) -> Any:
        reader = csv.open_csv(
            pyarrow.CompressedInputStream(pyarrow.OSFile(str(path)), "gzip"),
            read_options=csv.ReadOptions(column_names=NAMES, block_size=1 << 24),
            convert_options=csv.ConvertOptions(include_columns=list(USED), column_types=USED),
        )
        return grouped([grouped([pyarrow.Table.from_batches([batch])], first=True) for batch in reader])

    with ThreadPoolExecutor(workers) as pool:
        sums = grouped(list(pool.map(shard, paths)))
    return float(sum(sums["used"].to_pylist()))


def grouped(tables: list[Any], first: bool = False) -> Any:
    """Add up per machine and window."""
    from pyarrow import compute

    table = pyarrow.concat_tables(tables)
    if first:
        span = compute.cast(compute.subtract(table["c1"], table["c0"]), pyarrow.float64())
        columns = [table["c4"], compute.divide(table["c0"], STEP_US), compute.multiply(table["c5"], span)]
        table = pyarrow.table(columns, names=["machine", "window", "used"])
    sums = table.group_by(["machine", "window"]).aggregate([("used", "sum")])
    return sums.select(["machine", "window", "used_sum"]).rename_columns(["machine", "window", "used"])


def by_pandas(paths: list[Path], workers: int) -> float:
    """Read each shard in pieces in a process of a pool, group every piece, group the groups."""
    import pandas as pd

    with ProcessPoolExecutor(workers) as pool:
        sums = pd.concat(pool.map(pandas_shard, paths)).groupby(level=[0, 1]).sum()
    return float(sums.sum())


def pandas_shard(path: Path) -> Any:
    """Return the sums of one shard."""
    import pandas as pd

    pieces = []
    for piece in pd.read_csv(path, header=None, usecols=[0, 1, 4, 5], chunksize=1 << 18):
        used = piece[5] * (piece[1] - piece[0])
        pieces.append(used.groupby([piece[4], piece[0] // STEP_US]).sum())
    return pd.concat(pieces).groupby(level=[0, 1]).sum()


ENGINES: dict[str, Callable[[list[Path], int], float]] = {
    "polars": by_polars, "pyarrow": by_pyarrow, "pandas": by_pandas,
}  # fmt: skip

if __name__ == "__main__":
    main()
