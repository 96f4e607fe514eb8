"""What checkpoints and copies for lost processes cost on the default run, as a share of the same run without any.

``python experiments/overhead.py [--pairs 7] [key=value ...]``

Runs with the defaults and runs that save nothing, not even at the end, alternate on warm processes; a run counts from
its first round until all its files are closed. One line: the median over pairs of the ratio, the range of the middle
half of the pairs, the median seconds of both.
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

from kills import compose

from flexray.build import Job
from flexray.messages import Record, Started
from flexray.observers.base import Observer, Observers
from flexray.observers.folder import ModelObserver, TableObserver
from flexray.observers.timeline import TimelineObserver
from flexray.running import Execution
from flexray.runtime.inprocess import InlinePlace
from flexray.runtime.ray_runtime import RayCluster


class StartWatch(Observer):
    """Knows when the rounds began."""

    def __init__(self) -> None:
        self.began_s = 0.0

    def on(self, record: Record) -> None:
        """Look at the clock at the first record."""
        if isinstance(record, Started):
            self.began_s = time.perf_counter()


def seconds(place: Any, job: Job, plain: dict[str, Any]) -> float:
    """Return how long the rounds of a run, its end and its files take."""
    with tempfile.TemporaryDirectory(prefix="overhead") as home:
        folder, watch = Path(home), StartWatch()
        watching = Observers([watch, TableObserver(folder), TimelineObserver(folder, 1000), ModelObserver(folder)])
        Execution(job, place, watching, folder, plain).run(None)
        watching.close()
        return time.perf_counter() - watch.began_s


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
    seconds(place, unsaved, plain)  # processes start, code is imported
    pairs = []
    for number in range(args.pairs):
        order = (job, unsaved) if number % 2 else (unsaved, job)
        took = {id(one): seconds(place, one, plain) for one in order}
        pairs.append((took[id(job)], took[id(unsaved)]))
    cluster.close()
    ratios = sorted(saved / plain_s for saved, plain_s in pairs)
    low, middle, high = statistics.quantiles(ratios, n=4)
    saved_s, unsaved_s = (statistics.median(column) for column in zip(*pairs, strict=True))
    low, middle, high = (100 * (ratio - 1) for ratio in (low, middle, high))
    print(
        f"overhead {middle:+.1f} % ({low:+.1f} to {high:+.1f}) in {len(pairs)} pairs;"
        f" {saved_s:.3f} s with, {unsaved_s:.3f} s without; load {os.getloadavg()[0]:.1f}"
    )


if __name__ == "__main__":
    main()
