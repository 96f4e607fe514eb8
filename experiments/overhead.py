"""What checkpoints and copies for lost processes cost on the default run, as a share of the same run without any.

``python experiments/overhead.py [--pairs 7] [key=value ...]``

Runs with the defaults and runs that save nothing, not even at the end, alternate on warm processes; a run counts from
its first round until all its files are closed. One line: the median of the ratio, the middle half of the pairs, the
median seconds of both; by the clock, which counts if the machine is idle, and of CPU time.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
from kills import compose

from flexray.config.job import Job
from flexray.core.messages import Record, Started
from flexray.engine.hosts.inline import InlinePlace
from flexray.engine.hosts.ray import RayCluster
from flexray.run.execution import Execution
from flexray.run.watch.base import Observer, Observers
from flexray.run.watch.folder import ModelObserver, TableObserver
from flexray.run.watch.timeline import TimelineObserver


class StartWatch(Observer):
    """Records when the rounds begin."""

    def __init__(self) -> None:
        self.began = (0.0, 0.0)

    def on(self, record: Record) -> None:
        """Look at the clocks at the first record."""
        if isinstance(record, Started):
            self.began = clocks()


def clocks() -> tuple[float, float]:
    """Return seconds by the clock, and CPU seconds of this process and all that it started."""
    own = psutil.Process()
    used = [process.cpu_times() for process in (own, *own.children(recursive=True)) if process.is_running()]
    return time.perf_counter(), sum(times.user + times.system for times in used)


def measure(place: Any, job: Job, plain: dict[str, Any]) -> tuple[float, float]:
    """Return the seconds, by the clock and of CPU, that the rounds of a run, its end and its files take."""
    with tempfile.TemporaryDirectory(prefix="overhead") as home:
        folder, watch = Path(home), StartWatch()
        watching = Observers(
            lambda: [watch, TableObserver(folder), TimelineObserver(folder, 1000), ModelObserver(folder)]
        )
        Execution(job, place, watching, folder, plain).run(None)
        watching.close()
        passed, used = clocks()
        return passed - watch.began[0], used - watch.began[1]


def describe(pairs: list[tuple[float, float]]) -> str:
    """Return how much more the first of each pair is."""
    low, middle, high = (100 * (q - 1) for q in statistics.quantiles((a / b for a, b in pairs), n=4))
    with_s, without_s = (statistics.median(column) for column in zip(*pairs, strict=True))
    return f"{middle:+.1f} % ({low:+.1f} to {high:+.1f}; {with_s:.2f} s, without {without_s:.2f} s)"


def main() -> None:
    """Measure and print one line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("overrides", nargs="*")
    args = parser.parse_args()
    job, plain = compose("progress=false", *args.overrides)
    unsaved = replace(job, safety=replace(job.safety, saves=None, max_failures=0))
    cluster = RayCluster()
    place = InlinePlace() if job.cluster.kind == "inline" else cluster
    measure(place, unsaved, plain)  # processes start, code is imported
    pairs = []
    for number in range(args.pairs):
        order = (job, unsaved) if number % 2 else (unsaved, job)
        took = {id(one): measure(place, one, plain) for one in order}
        pairs.append(list(zip(took[id(job)], took[id(unsaved)], strict=True)))
    cluster.close()
    clock, cpu = (describe([pair[i] for pair in pairs]) for i in (0, 1))
    print(f"overhead by the clock {clock}, of CPU {cpu}; {args.pairs} pairs, load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
