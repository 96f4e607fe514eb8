"""The tables and figures of the paper, each by one command: ``python experiments/paper.py table3``.

Runs what is not there yet, then makes table (Markdown, CSV, LaTeX) and figure (PNG, SVG) of the run folders alone.
``--scale small`` (default) takes small real data and minutes on two cores: digits, and with ``--data FOLDER`` also
FOLDER/mosi and FOLDER/modelnet10_views. ``--scale paper`` takes the paper's settings and needs FOLDER/mosei,
FOLDER/imagenet100 and FOLDER/modelnet40; what follows is given to ``python -m flexray.run``, such as ``cluster=local
cluster.gpus_per_party=0.2``.
"""

from __future__ import annotations

import argparse
import csv
import io
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from paper_runs import BASES, FOLDERS, Cell, plan, run_all
from retime import at_equal_times, with_comm_time, with_round_charge

from flexray.config.explain import HYDRA_ERRORS, explain, one_line
from flexray.core.commands import Parser, command
from flexray.core.errors import ConfigError, FlexrayError
from flexray.report import plots, tables
from flexray.report.folders import read_run
from flexray.report.grouping import make_groups
from flexray.report.published import published
from flexray.report.runs import DAMAGED, Run
from flexray.report.statistics import results

ALGORITHMS = ("pbcd", "vafl", "sync_min", "sync_max", "flex", "adaptive")
SMALL, PAPER = ("digits", "mosi", "modelnet10"), ("mosei", "imagenet100", "modelnet40")
EQUAL_UNITS = 20.0
"""Simulated time between the evaluations at which a target counts as met, the same for every algorithm."""
STANDS_FOR = {"mosi": "mosei", "modelnet10": "modelnet40"}
"""Which of the paper's datasets a small one is compared with."""


@dataclass(frozen=True)
class Entry:
    """A table or figure.

    Args:
        title: What it shows.
        sweeps: Sets of Hydra experiments, by dataset where they differ; their axes span the cells.
        datasets: By scale.
        comm: Communication times that a synchronous run is read with; none: its own.
    """

    title: str
    sweeps: tuple[tuple[str, ...], ...]
    datasets: dict[str, tuple[str, ...]]
    comm: tuple[float, ...] = ()
    own_sweeps: dict[str, tuple[tuple[str, ...], ...]] | None = None

    def sweeps_of(self, dataset: str) -> tuple[tuple[str, ...], ...]:
        """Return the sets of Hydra experiments for a dataset."""
        return (self.own_sweeps or {}).get(dataset, self.sweeps)


VIEWS = {"small": ("digits", "modelnet10"), "paper": ("modelnet40",)}
ALL = {"small": SMALL, "paper": PAPER}
SENTIMENT = {"small": ("digits", "mosi"), "paper": ("mosei",)}
ENTRIES = {
    "table2": Entry("optimizer combinations", (("table2",),), SENTIMENT, own_sweeps={"digits": (("table2_digits",),)}),
    "table3": Entry("time to target at fixed speeds", (("table3",), ("table3_vafl",)), ALL, (1, 10, 50)),
    "figure2": Entry("even and average speeds", (("figure2",), ("figure2_vafl",)), VIEWS, (1, 50)),
    "table4": Entry("timeouts", (("table4",),), VIEWS),
    "figure4": Entry(
        "adaptive against static rates", (("figure4",),), {"small": SMALL, "paper": ("modelnet40", "mosei")}
    ),
    "grid": Entry("rates of lowest training loss", (), ALL, own_sweeps={d: ((f"grid_{d}",),) for d in BASES}),
    "grid_table2": Entry(
        "rates of lowest training loss by optimizers", (), SENTIMENT, own_sweeps={
            "digits": (("table2_digits", "grid_table2_digits"),),
            **{name: (("table2", f"grid_table2_{name}"),) for name in ("mosi", "mosei")},
        },
    ),
    "grid_figure4": Entry("A of lowest training loss", (("figure4", "grid_figure4"),), {"small": SMALL, "paper": ()}),
}  # fmt: skip
NAMES = [*ENTRIES, "figure3", "all"]


@command("interrupted; the same command does what is missing")
def main(arguments: Sequence[str]) -> int:
    """Run and make what was asked for, and return the exit status."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = Parser(prog="python experiments/paper.py", description=__doc__, formatter_class=raw)
    parser.add_argument("names", nargs="+", choices=NAMES, metavar="NAME", help=f"some of {', '.join(NAMES)}")
    parser.add_argument("--scale", choices=("small", "paper"), default="small")
    parser.add_argument("--data", type=Path, help="folder with a folder for each dataset")
    parser.add_argument("--only", metavar="DATASET", choices=list(BASES), help="this dataset only")
    parser.add_argument(
        "--out", type=Path, default=Path("outputs/paper"), help="for runs and results (default: outputs/paper)"
    )
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time (default: 2)")
    parser.add_argument("--make", action="store_true", help="run nothing: make tables and figures of what is there")
    options, extra = parser.parse_known_args(arguments)
    reported = [name for name in NAMES if name != "all" and not name.startswith("grid")]
    names = reported if "all" in options.names else options.names
    try:
        return max(_entry(name, options, extra) for name in names)
    except FlexrayError:
        raise
    except HYDRA_ERRORS as error:
        raise ConfigError(one_line(explain(error))) from error


def _entry(name: str, options: argparse.Namespace, extra: Sequence[str]) -> int:
    if name == "figure3":
        return draw_utilization(options.out / name)
    status = 0
    for dataset in _datasets(ENTRIES[name].datasets[options.scale], options):
        cells = cells_of(name, dataset, options.out / "runs" / options.scale, options.data, extra)
        failed = {} if options.make else run_all(cells, options.jobs)
        for folder, fault in failed.items():
            print(f"flexray: {folder}: {fault}", file=sys.stderr)
        there = [cell for cell in cells if cell.done]
        if len(there) < len(cells):
            status = 1
            print(f"{name}, {dataset}: {len(cells) - len(there)} of {len(cells)} runs are missing", file=sys.stderr)
        if there:
            print(f"\n{name}, {dataset}: {ENTRIES[name].title}\n")
            make = make_best if name.startswith("grid") else make_report
            print(make(name, dataset, there, options.out / f"{name}-{dataset}"), flush=True)
    return status


def _datasets(wanted: Sequence[str], options: argparse.Namespace) -> Iterator[str]:
    """Yield the datasets that are there, and say which are not."""
    for dataset in wanted:
        if options.only not in (None, dataset):
            continue
        folder = options.data and options.data / FOLDERS[dataset]
        if dataset == "digits" or (folder and folder.is_dir()):
            yield dataset
        elif options.scale == "paper" or options.data:
            raise ConfigError(f"--data: expected a folder with {FOLDERS[dataset]}/ in it, got {options.data}")
        else:
            print(f"without --data FOLDER no {dataset} (FOLDER/{FOLDERS[dataset]})")


def cells_of(name: str, dataset: str, root: Path, data: Path | None, extra: Sequence[str] = ()) -> list[Cell]:
    """Return the cells of a table or figure on one dataset."""
    return [c for sweep in ENTRIES[name].sweeps_of(dataset) for c in plan(dataset, sweep, root, data, extra)]


# Results --------------------------------------------------------------------------------------------------------------


def make_report(name: str, dataset: str, cells: Sequence[Cell], folder: Path) -> str:
    """Write table and figure of run folders and return the table in Markdown."""
    runs = [read_cell(cell) for cell in cells]
    views = [view for run in runs for view in _views(run, ENTRIES[name].comm)]
    if dataset in SMALL:  # at the paper's scale at epoch ends, as in the published code
        views = [at_equal_times(view, EQUAL_UNITS) for view in views]
    if name == "table4":
        views = _both_accounts(views)
    views.sort(key=_order)
    found = results(make_groups(views))
    papers = [published(result.group.runs[0], STANDS_FOR.get(dataset)) for result in found]
    table = tables.make_table(found, papers)
    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        "table.md": tables.markdown(table), "table.tex": tables.latex(table),
        "table.csv": tables.groups_csv(found, papers),
    }  # fmt: skip
    for file, text in texts.items():
        (folder / file).write_text(text, encoding="utf-8", newline="\n")
    for _ in plots.draw_all(found, folder, ("time",), ("svg", "png")):
        pass
    return texts["table.md"]


def read_cell(cell: Cell) -> Run:
    """Return a cell's run, with its timeout, which the experiment that it was made for may have left to the default."""
    run = read_run(cell.folder, f"{cell.folder.parent.name}/{cell.folder.name}")
    if run.status == DAMAGED:
        raise ConfigError(f"{run.folder}: {run.fault}; remove the folder to run it again")
    if "timeout" not in cell.axes:
        return run
    return replace(run, config={**run.config, "timeout": float(cell.axes["timeout"])})


def _views(run: Run, comm: Sequence[float]) -> list[Run]:
    """Return a run once for each communication time; VAFL's have their own."""
    by_turns = run.series is not None and run.series.by_turns
    return [run] if by_turns or not comm else [with_comm_time(run, t_comm) for t_comm in comm]


def _both_accounts(runs: Sequence[Run]) -> list[Run]:
    """Return runs as they are, and as the paper's Table IV counts: all rounds as long as with the shortest timeout."""
    least: dict[str, tuple[float, float]] = {}
    for run in runs:
        if run.series is not None and run.length:
            own = (float(run.config["timeout"]), float(run.series.time_r[0]))
            least[run.text("algo")] = min(own, least.get(run.text("algo"), own))
    plain = [replace(run, config={**run.config, "clock.charge": "t_o + t_comm"}) for run in runs]
    printed = [
        replace(with_round_charge(run, least[run.text("algo")][1]),
                config={**run.config, "clock.charge": f"as the paper: {least[run.text('algo')][1]:g}"})
        for run in runs
    ]  # fmt: skip
    return plain + printed


def _order(run: Run) -> tuple[object, ...]:
    """Order as the paper's tables do: by speeds, accounting, communication time, algorithm, timeout."""
    config = run.config
    choice = run.choices.get("speeds", "")
    return (
        choice != "paper", str(config.get("clock.charge", "t_o")) != "t_o + t_comm", config.get("network.t_comm"),
        ALGORITHMS.index(run.text("algo")), config.get("timeout") or 0.0, str(config.get("algo.server")),
    )  # fmt: skip


def make_best(name: str, dataset: str, cells: Sequence[Cell], folder: Path) -> str:
    """Write what a grid search found, one row per run, and return the best of each algorithm in Markdown."""
    rows = []
    for cell in cells:
        run = read_run(cell.folder, cell.folder.name)
        loss = run.evals.metrics["train_loss"][-1] if run.evals and run.status == "completed" else math.inf
        rows.append(({k: v for k, v in cell.axes.items() if k != "seed"}, float(loss), run.final))
    searched = [key for key in rows[0][0] if key.startswith(("lr", "optimizer.l2", "adaptive.A"))]
    groups: dict[str, list[tuple[dict[str, str], float, float | None]]] = {}
    for row in rows:
        group = " ".join(f"{k}={v}" for k, v in row[0].items() if k not in searched) or "all"
        groups.setdefault(group, []).append(row)
    lines = ["| of | lowest training loss with | loss | test metric | runs | diverged |", "|:--|:--|--:|--:|--:|--:|"]
    for group, members in groups.items():
        axes, loss, final = min(members, key=lambda row: row[1])
        best = " ".join(f"{k}={axes[k]}" for k in searched)
        diverged = sum(not math.isfinite(row[1]) for row in members)
        lines.append(f"| {group} | {best} | {loss:.4g} | {final or math.nan:.4f} | {len(members)} | {diverged} |")
    folder.mkdir(parents=True, exist_ok=True)
    file = io.StringIO(newline="")
    csv.writer(file, lineterminator="\n").writerows(
        [[*rows[0][0], "train_loss", "test_metric"], *([*axes.values(), loss, final] for axes, loss, final in rows)]
    )
    (folder / "grid.csv").write_text(file.getvalue(), encoding="utf-8", newline="\n")
    (folder / "best.md").write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
    return "\n".join(lines)


def draw_utilization(folder: Path) -> int:
    """Draw four series of a trace over a day (the paper's Figure 3)."""
    from flexray.traces.cli import main as traces

    folder.mkdir(parents=True, exist_ok=True)
    return max(
        traces(["plot", "google2019_cell", "--draw", "4", "--days", "1", "-o", str(folder / f"cpu.{form}")])
        for form in ("svg", "png")
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
