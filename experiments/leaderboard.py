"""Every algorithm on small real data, each at a learning rate of its own: ``python experiments/leaderboard.py``.

Data: digits in quadrants, and breast cancer and wine of scikit-learn, their columns cut into three parties. On each,
every algorithm has the same simulated time. Of its rates, a factor of three apart, the one with the lowest training
loss at seed 1 is taken, and more are tried while that is the smallest or the largest; with it the other seeds run.
``OUT/DATA.md`` has the table, those first that reach the target soonest.

``--algo my_package.MyAlgorithm`` puts a class of yours beside others. What is there is not run again.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sklearn import datasets

import flexray
from flexray.config.typed import choices_of
from flexray.core.commands import Parser, guarded

RATES = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
FIRST = {"lr": (4, 5, 6), "adaptive.A": (7, 8, 9)}
"""The rates that are tried at first, by their places."""
SETTINGS: dict[str, tuple[int, float, dict[str, Any]]] = {
    "digits": (2000, 0.94, {"dataset": "digits"}),
    "breast_cancer": (600, 0.97, {"embedding": 8}),
    "wine": (600, 0.97, {"embedding": 8}),
}
"""Simulated time, the test accuracy to reach, and other keys."""
HEAD = "| algorithm | rate | time to target | reached | MB to target | test accuracy | tried | diverged |"


@dataclass(frozen=True)
class Line:
    """An algorithm in the table: its rate, its runs at that rate by seed, and how many rates were tried in vain."""

    algo: str
    rate: float
    runs: list[flexray.Run]
    tried: int
    diverged: int

    @property
    def rank(self) -> tuple[float, float]:
        """Return what it is sorted by."""
        times, accuracy = self.seen("time_to_target"), self.seen("final")
        missing = len(self.runs) - len(times)
        return missing or -1.0 / (1.0 + statistics.mean(times)), -statistics.mean(accuracy or [0.0])

    def seen(self, name: str) -> list[float]:
        """Return a number of the summaries of those runs that have it."""
        found = (run.summary[name] for run in self.runs)
        numbers = (value["test_top1"] if isinstance(value, dict) else value for value in found if value is not None)
        return [float(number) for number in numbers if number is not None]

    def text(self) -> str:
        """Return its row in Markdown; times and bytes only if all seeds reach the target."""
        times, sent = self.seen("time_to_target"), [n / 1e6 for n in self.seen("bytes_to_target")]
        whole = len(times) == len(self.runs)
        cells = [
            self.algo, f"{self.rate:g}", spread(times, "{:.0f}") if whole else "--", f"{len(times)}/{len(self.runs)}",
            spread(sent, "{:.2f}") if whole else "--", spread(self.seen("final"), "{:.4f}"), str(self.tried),
            str(self.diverged),
        ]  # fmt: skip
        return f"| {' | '.join(cells)} |"


def spread(values: Sequence[float], form: str) -> str:
    """Return mean and sample standard deviation."""
    if not values:
        return "--"
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{form.format(statistics.mean(values))} ± {form.format(deviation)}"


def main(arguments: Sequence[str]) -> int:
    """Search, run, print."""
    return guarded(lambda: _main(arguments), "interrupted; the same command does what is missing")


def _main(arguments: Sequence[str]) -> int:
    raw = argparse.RawDescriptionHelpFormatter
    parser = Parser(prog="python experiments/leaderboard.py", description=__doc__, formatter_class=raw)
    parser.add_argument("--out", type=Path, default=Path("outputs/leaderboard"), help="for runs and tables")
    parser.add_argument("--data", nargs="+", choices=list(SETTINGS), default=list(SETTINGS), metavar="DATA")
    parser.add_argument("--algo", nargs="+", default=choices_of("algo"), help="names, or classes of yours")
    parser.add_argument("--seeds", type=int, default=3, help="how many (default: 3)")
    options = parser.parse_args(arguments)
    for data in options.data:
        lines = [line(algo, data, options.out, range(1, options.seeds + 1)) for algo in options.algo]
        text = "\n".join([HEAD, "|:--|--:|--:|--:|--:|--:|--:|--:|", *(found.text() for found in by_rank(lines))])
        (options.out / f"{data}.md").write_text(f"{text}\n", encoding="utf-8", newline="\n")
        print(f"\n{data}, test accuracy {SETTINGS[data][1]:g} within {SETTINGS[data][0]} units\n\n{text}", flush=True)
    return 0


def by_rank(lines: Sequence[Line]) -> list[Line]:
    """Return the lines, best first."""
    return sorted(lines, key=lambda found: found.rank)


def line(algo: str, data: str, out: Path, seeds: Sequence[int]) -> Line:
    """Search an algorithm's rate at the first seed, and run the others with it."""
    key = "adaptive.A" if algo == "adaptive" else "lr"

    def run(rate: float, seed: int) -> flexray.Run:
        return once(out, data, algo, key, rate, seed)

    losses = search(FIRST[key], lambda place: training_loss(run(RATES[place], seeds[0])))
    best = RATES[min(losses, key=lambda place: losses[place])]
    runs = [run(best, seed) for seed in seeds]
    print(f"{data} {algo}: {key}={best:g}, {spread([r.summary['wall_s'] for r in runs], '{:.1f}')} s", flush=True)
    return Line(algo, best, runs, len(losses), sum(math.isinf(loss) for loss in losses.values()))


def search(first: Sequence[int], loss_of: Callable[[int], float]) -> dict[int, float]:
    """Return losses by place among the rates: of the first ones, and of more while the best is at an edge."""
    losses = {place: loss_of(place) for place in first}
    while True:
        best = min(losses, key=lambda place: losses[place])
        if math.isinf(losses[best]):
            best = min(losses)  # all diverged: smaller ones
        beyond = [place for place in (best - 1, best + 1) if 0 <= place < len(RATES) and place not in losses]
        if not beyond:
            return losses
        losses |= {place: loss_of(place) for place in beyond}


def training_loss(run: flexray.Run) -> float:
    """Return the last training loss of a run; infinite if it diverged."""
    loss = float(run.evals["train_loss"].iloc[-1]) if run.status == "completed" else math.inf
    return loss if math.isfinite(loss) else math.inf


def once(out: Path, data: str, algo: str, key: str, rate: float, seed: int) -> flexray.Run:
    """Return a run, which is read if it is there."""
    folder = out / data / f"{algo}-{rate:g}-{seed}"
    if (folder / "summary.json").exists():
        found = flexray.read(folder)
        assert isinstance(found, flexray.Run)
        return found
    max_time, target, keys = SETTINGS[data]
    words = [f"algo._target_={algo}" if "." in algo else f"algo={algo}", f"{key}={rate:g}"]
    if data != "digits":
        keys = {**keys, "dataset": table(data, out)}
        words.append("dataset=table")
    common = {"rounds": None, "epochs": None, "max_time": max_time, "target": target, "target_metric": "test_top1",
              "eval_every_units": 20, "speeds": "paper", "cluster": "inline", "progress": False}  # fmt: skip
    return flexray.simulate(*words, folder=folder, seed=seed, **common, **keys)


def table(name: str, out: Path) -> dict[str, Any]:
    """Return the keys of a table of scikit-learn in three parties with equal numbers of columns; it becomes a CSV."""
    path = out / f"{name}.csv"
    found = getattr(datasets, f"load_{name}")(as_frame=True)
    columns, width = list(found.data.columns), math.ceil(found.data.shape[1] / 3)
    if not path.exists():
        out.mkdir(parents=True, exist_ok=True)
        found.frame.to_csv(path, index=False)
    parties = {f"columns_{k + 1}": columns[k * width : (k + 1) * width] for k in range(3)}
    return {"path": str(path.resolve()), "label": "target", "parties": parties, "batch_size": 32}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
