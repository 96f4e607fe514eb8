"""Adaptive against static learning rates, parties throttled by a trace: time to the target of both.

``python experiments/adaptive_vs_static.py OUT --trace synthetic64 dataset=digits`` runs both once per published
seed in this process, prints their times to the target and the ratio, and draws rates and local iterations of the first
seed into ``OUT/traces.svg``. What follows the options is given to ``python -m flexray.run``. Runs that OUT has are not
repeated.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import json
import statistics
import sys
from pathlib import Path
from typing import Any

from flexray.core.legends import legend_below
from flexray.run.command import run_command

SEEDS = (707412115, 1928644128, 16910772, 1263880818, 1445547577)
RULES = {"adaptive": ("algo=adaptive",), "static": ("algo=flex", "rates=static")}


def main() -> int:
    """Run, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--trace", default="synthetic64", help="a trace file, or the name of one that flexray brings")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    options, overrides = parser.parse_known_args()
    folders = {(rule, seed): options.out / f"{rule}-{seed}" for seed in options.seeds for rule in RULES}
    for (rule, seed), folder in folders.items():
        command = ["cluster=inline", "progress=false", "stop_at_target=true", "eval_train=false", "speeds=trace"]
        command += [f"speeds.path={options.trace}", f"seed={seed}", f"hydra.run.dir={folder}", *overrides, *RULES[rule]]
        if not (folder / "summary.json").exists():
            with contextlib.redirect_stdout(io.StringIO()):
                if run_command(command):
                    return 1
            print(folder, summary_of(folder)["time_to_target"], flush=True)
    print(table({key: summary_of(folder) for key, folder in folders.items()}, options.seeds))
    draw({rule: folders[rule, options.seeds[0]] for rule in RULES}, options.out / "traces.svg")
    return 0


def summary_of(folder: Path) -> dict[str, Any]:
    """Return the summary of a run."""
    found: dict[str, Any] = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    return found


def table(found: dict[tuple[str, int], dict[str, Any]], seeds: list[int]) -> str:
    """Return the times to the target by seed, and their means and ratio over the seeds at which both reached it."""
    first = next(iter(found.values()))
    lines = [f"time to {first['metric']} {first['target']} ({first['time_unit']}) on {first['dataset']}, by seed"]
    times = {rule: [found[rule, seed]["time_to_target"] for seed in seeds] for rule in RULES}
    for rule, row in times.items():
        lines.append(f"{rule:>9}  " + "  ".join("--".rjust(8) if t is None else f"{t:8.6g}" for t in row))
    both = [pair for pair in zip(*times.values(), strict=True) if None not in pair]
    if both:
        means = [statistics.mean(column) for column in zip(*both, strict=True)]
        ratios = [a / s for a, s in both]
        spread = statistics.stdev(ratios) if len(ratios) > 1 else 0.0
        lines.append(
            f"means {means[0]:.6g} and {means[1]:.6g}, ratio of means adaptive / static {means[0] / means[1]:.3f}"
        )
        lines.append(f"ratio by seed {statistics.mean(ratios):.3f} ± {spread:.3f} ({len(both)} of {len(seeds)} seeds)")
    return "\n".join(lines)


def draw(folders: dict[str, Path], path: Path) -> None:
    """Draw learning rate and local iterations of the slowest, the fastest party and the server over the rounds."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 2, sharex=True, sharey="row", figsize=(10, 6), layout="constrained")
    colours: dict[str, str] = {}
    for column, (rule, folder) in enumerate(folders.items()):
        names = [*summary_of(folder)["parties"], "server"]
        with (folder / "rounds.csv").open(encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        tau, lr = ([json.loads(row[key]) for row in rows] for key in ("tau", "lr"))
        parties = sorted(range(len(names) - 1), key=lambda k: sum(row[k] for row in tau))
        for k in (parties[0], parties[-1], len(names) - 1):
            colour = colours.setdefault(names[k], f"C{len(colours)}")
            axes[0, column].plot([row[k] for row in lr], color=colour, label=names[k], linewidth=0.8)
            axes[1, column].plot([row[k] for row in tau], color=colour, linewidth=0.8)
        axes[0, column].set(title=rule, yscale="log")
        axes[1, column].set(xlabel="global round")
    axes[0, 0].set(ylabel="learning rate")
    axes[1, 0].set(ylabel="local iterations")
    lines = {line.get_label(): line for panel in axes[0] for line in panel.lines}
    legend_below(figure, list(lines.values()), list(lines))
    figure.savefig(path)


if __name__ == "__main__":
    sys.exit(main())
