"""How exactly ``clock=wall`` throttles: local iterations per second at utilization c, as a share of those at 0.

``python experiments/throttle.py`` runs two parties in Ray processes of their own. A trace lets both change together
between c and 0 every few seconds, so that a machine that gets busier or idler meanwhile does not count: for each c,
``--seconds`` at c against as many at 0. It prints the share, the wanted 1 - c and the difference, with local iterations
that are much shorter than the timeout and with longer ones, and how busy the machine was.

"of computing" is the same share of the time spent in local iterations. On a busy machine it is what the throttle can
hold: others then compute during the rests, and a throttled party's iterations are quicker than those of an unthrottled.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np

from flexray.run.command import run_command
from flexray.traces.cli import main as command_traces

PARTIES = ("a", "b")
KINDS = {
    "short": ("model.hidden=[128]", "timeout=0.3"),
    "long": ("model.hidden=[2000,2000]", "timeout=0.02"),
}
"""Models and timeouts: with ``long`` an iteration lasts several times as long as the round may."""


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30.0, help="at each utilization (default: 30)")
    parser.add_argument("--slice", type=int, default=5, help="seconds between changes (default: 5)")
    parser.add_argument("--c", type=float, nargs="+", default=[0.2, 0.5, 0.8], help="utilizations")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before")
    print("iterations    c  party   per s at 0   per s at c   share  wanted  difference   of computing   load")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_data(folder / "data")
        for kind in options.kinds:
            for c in options.c:
                run = folder / f"{kind}-{c}"
                trace = write_trace(folder, c, options.slice)
                command = ["cluster=local", "clock=wall", "dataset=bundle", f"dataset.path={folder / 'data'}"]
                command += ["dataset.batch_size=256", "speeds=trace", f"speeds.path={trace}", "speeds.advance=time"]
                command += [f"speeds.sample_units={options.slice}", "speeds.machines=[a,b,server]", "frozen=[server]"]
                command += [f"max_time={2 * options.seconds}", "rounds=null", "epochs=null", "eval_every=1000000"]
                command += [
                    "eval_train=false",
                    "timeline_rounds=1000000",
                    f"hydra.run.dir={run}",
                    "progress=false",
                    *KINDS[kind],
                ]
                with contextlib.redirect_stdout(io.StringIO()):
                    if run_command(command):
                        return 1
                report(kind, c, run)
    return 0


def write_data(folder: Path) -> None:
    """Write a bundle of two parties; what they learn does not matter."""
    draw = np.random.default_rng(0)
    for split, rows in (("train", 2048), ("test", 64)):
        (folder / split).mkdir(parents=True)
        for party in PARTIES:
            np.save(folder / split / f"{party}.npy", draw.normal(size=(rows, 256)).astype(np.float32))
        np.save(folder / split / "labels.npy", np.arange(rows) % 4)


def write_trace(folder: Path, c: float, step_s: int) -> Path:
    """Write a trace of two samples, c and 0, for both parties; the server's machine is almost idle."""
    table, path = folder / "trace.csv", folder / f"trace-{c}.parquet"
    table.write_text(f"time,a,b,server\n0,{c},{c},0.001\n{step_s},0,0,0.001\n", encoding="utf-8")
    with contextlib.redirect_stdout(io.StringIO()):
        command_traces(["import", "wide", str(table), "-o", str(path)])
    return path


def report(kind: str, c: float, run: Path) -> None:
    """Print a row per party: iterations per second of the rounds at c and of those at 0, and the same of computing."""
    with (run / "rounds.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    duration = np.array([float(row["duration"]) for row in rows])
    tau, utilization = (np.array([json.loads(row[key]) for row in rows]) for key in ("tau", "utilization"))
    computing = np.zeros((len(rows), len(PARTIES)))
    for event in json.loads((run / "timeline.json").read_text(encoding="utf-8"))["traceEvents"]:
        if event["name"] == "compute":  # rests included, which stand for what else the machine does
            row, k = event["args"]["round"] - 1, event["tid"]
            computing[row, k] = event["dur"] / 1e6 * (1 - utilization[row, k])
    for k, party in enumerate(PARTIES):
        slow = utilization[:, k] > 0
        rates = [tau[which, k].sum() / duration[which].sum() for which in (~slow, slow)]
        busy = [computing[which, k].sum() / duration[which].sum() for which in (~slow, slow)]
        share, share_busy = rates[1] / rates[0], busy[1] / busy[0]
        print(
            f"{kind:10}  {c:3.1f}  {party:5}  {rates[0]:11.2f}  {rates[1]:11.2f}  {share:6.3f}  {1 - c:6.1f}"
            f"  {100 * (share - 1 + c):+8.1f} %  {share_busy:13.3f}  {os.getloadavg()[0]:5.1f}",
            flush=True,
        )


if __name__ == "__main__":
    sys.exit(main())
