"""Algorithms side by side, each at a learning rate of its own: ``python experiments/leaderboard.py``.

Every algorithm has the same simulated time on each of several data sets and systems: machines as fast as each other,
machines of which some are four times slower, and machines throttled by a trace behind thin links. Of its rates, a
factor of about three apart, the one with the lowest mean training loss of the first two seeds is taken, and more are
tried while that is the smallest or the largest; with it the other seeds run. Digits and two tables come with
scikit-learn; ``--data FOLDER`` adds FOLDER/mosi, FOLDER/modelnet10_views (4 of 12 views) and FOLDER/tiny_imagenet100
(20 of 100 classes), as far as they are there.

OUT then holds ``leaderboard.md`` (ranks, a table per data set and system), ``leaderboard.png`` and one per data set
(times to the target), ``report.html`` (every run behind it, to filter and draw), curves, and ``runs/``. Runs that are
there are not run again. ``--algo my_package.MyAlgorithm`` puts a class of yours beside others.
"""

from __future__ import annotations

import argparse
import itertools
import math
import re
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from leaderboard_figure import draw_board
from paper_runs import Cell, identity, run_all
from sklearn import datasets

from flexray.config.typed import choices_of
from flexray.core.commands import Parser, command
from flexray.core.errors import ConfigError
from flexray.report import tables
from flexray.report.contents import Wanted, make_report
from flexray.report.page import make_page
from flexray.report.plots import draw_all
from flexray.report.runs import COMPLETED
from flexray.report.statistics import MEASURES, Result, Spread

RATES = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
FIRST = {"lr": (4, 5, 6), "adaptive.A": (7, 8, 9)}
"""The rates that are tried at first, by their places."""
SYSTEMS = {
    "even": ("speeds=uniform",),
    "stragglers": ("speeds=paper",),
    "trace": ("speeds=trace", "speeds.path=google2019_cell"),
}
OWN = {
    "laser": ("server=laser",),
    "fedonce": ("algo.apart_rounds=20",),
    "less": ("algo.pretrain_rounds=20", "algo.component_rounds=50", "algo.component_penalty=0.03",
             "algo.feature_rounds=50", "algo.feature_penalty=0.06"),
}  # fmt: skip
"""What single algorithms need beside their names."""
Key = tuple[str, str]
"""A data set and a system."""
SEARCHED = (1, 2)
"""The seeds that rates are searched with: what is good for one may diverge with another."""


@dataclass(frozen=True)
class Data:
    """A data set: its keys, the simulated time of a run, the test accuracy to reach.

    Args:
        words: Keys of a run.
        max_time: Units.
        target: Of test top-1.
        bandwidth: Bytes per unit of every thin link; a P-BCD round then takes some 20 units more.
        folder: Its folder below ``--data``.
        evaluations: How many, at equal simulated times; the large sets have fewer, or these would be most of the work.
        table: It comes with scikit-learn, and is cut into three parties of equal numbers of columns.
        without: Algorithms that its models do not suit.
    """

    words: tuple[str, ...]
    max_time: int
    target: float
    bandwidth: int
    folder: str = ""
    evaluations: int = 100
    table: bool = False
    without: tuple[str, ...] = ()


TABLE = ("dataset=table", "dataset.label=target", "dataset.batch_size=32", "embedding=8")
DATA = {
    "digits": Data(("dataset=digits",), 3000, 0.94, 2500),
    "breast_cancer": Data(TABLE, 800, 0.97, 200, table=True),
    "wine": Data(TABLE, 800, 0.97, 200, table=True),
    "mosi": Data(("+experiment=mosi",), 1000, 0.75, 500, "mosi"),
    "modelnet10": Data(
        ("+experiment=modelnet10_mlp", "dataset.parties=[view_00,view_03,view_06,view_09]"), 2000, 0.7, 1000,
        "modelnet10_views", 20,
    ),
    "tiny_imagenet20": Data(
        ("dataset=imagenet100", "dataset.num_classes=20", "dataset.seed=0", "dataset.size=32", "dataset.augment=false",
         "dataset.batch_size=64", "model=strided_cnn", "model.channels=[8,16]", "server=linear"),
        800, 0.2, 8000, "tiny_imagenet100", 20, without=("less",),  # it has no first linear layer
    ),
}  # fmt: skip


@dataclass
class Entry:
    """An algorithm on a data set and a system: the mean training losses of its rates, and failed rates, by places."""

    algo: str
    data: str
    system: str
    root: Path
    words: tuple[str, ...]
    losses: dict[int, float] = field(default_factory=dict)
    failed: set[int] = field(default_factory=set)

    @property
    def key(self) -> str:
        """The key of its rate."""
        return "adaptive.A" if self.algo == "adaptive" else "lr"

    @property
    def best(self) -> int:
        """The place of the rate with the lowest training loss; of the smallest if all diverged."""
        place = min(self.losses, key=lambda place: self.losses[place])
        return min(self.losses) if math.isinf(self.losses[place]) else place

    def wanted(self) -> list[int]:
        """Return the places of rates to try next: the first ones, then those beyond the best."""
        tried = {*self.losses, *self.failed}
        if not tried:
            return list(FIRST[self.key])
        beside = (self.best - 1, self.best + 1) if self.losses else ()
        return [place for place in beside if 0 <= place < len(RATES) and place not in tried]

    def cell(self, place: int, seed: int) -> Cell:
        """Return a run at a rate."""
        words = (*self.words, f"{self.key}={RATES[place]:g}")
        name, _ = identity(words)
        axes = {self.key: f"{RATES[place]:g}", "seed": str(seed)}
        return Cell((*words, f"seed={seed}"), axes, self.root / f"{self.data}-{self.system}" / name / str(seed))


@command("interrupted; the same command does what is missing")
def main(arguments: Sequence[str]) -> int:
    """Search, run, write."""
    options = build_parser().parse_args(arguments)
    chosen = options.only or [name for name in DATA if is_there(name, options.data)]
    entries = [
        Entry(algo, data, system, options.out / "runs", (*words_of(data, system, options), *algorithm(algo)))
        for data, system, algo in itertools.product(chosen, options.systems, options.algo)
        if algo not in DATA[data].without
    ]
    failed = search(entries, options.jobs)
    searched = [entry for entry in entries if entry.losses]
    cells = [[entry.cell(entry.best, seed) for seed in range(1, options.seeds + 1)] for entry in searched]
    failed |= run_all(list(itertools.chain(*cells)), options.jobs, stops_at_refusal=False)
    if searched:
        print(write(searched, cells, options.out), flush=True)
    for folder, fault in failed.items():
        print(f"flexray: {folder}: {fault}", file=sys.stderr)
    for entry in entries:
        if not entry.losses:
            print(f"flexray: {entry.algo} on {entry.data}, {entry.system}: all rates failed, no row", file=sys.stderr)
    return 1 if failed else 0


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = Parser(prog="python experiments/leaderboard.py", description=__doc__, formatter_class=raw)
    add = parser.add_argument
    add("--out", type=Path, default=Path("outputs/leaderboard"), help="for runs and results")
    add("--data", type=Path, metavar="FOLDER", help="folder with a folder for each further data set")
    add("--only", nargs="+", choices=list(DATA), metavar="DATA", help=f"of {', '.join(DATA)} (default: all there are)")
    add("--systems", nargs="+", choices=list(SYSTEMS), default=list(SYSTEMS), help="default: all")
    add("--algo", nargs="+", default=choices_of("algo"), help="names, or classes of yours (default: all shipped)")
    add("--seeds", type=int, default=5, help="how many (default: 5)")
    add("--jobs", type=int, default=2, help="runs at a time (default: 2)")
    return parser


def is_there(name: str, folder: Path | None) -> bool:
    """Whether a data set is there; scikit-learn brings those without a folder."""
    found = DATA[name].folder
    return not found or (folder is not None and (folder / found).is_dir())


def words_of(name: str, system: str, options: argparse.Namespace) -> tuple[str, ...]:
    """Return the keys that all algorithms share."""
    data = DATA[name]
    if not is_there(name, options.data):
        raise ConfigError(f"--data: expected a folder with {data.folder}/ in it, got {options.data}")
    thin = (f"network.bandwidth={data.bandwidth}",) if system == "trace" else ()
    path = (f"dataset.path={(options.data / data.folder).resolve()}",) if data.folder else ()
    return (
        *data.words, *path, *(table(name, options.out) if data.table else ()), *SYSTEMS[system], *thin,
        "cluster=inline", "rounds=null", "epochs=null", f"max_time={data.max_time}", f"target={data.target}",
        "target_metric=test_top1", "eval_every=null", f"eval_every_units={data.max_time / data.evaluations:g}",
        "eval_train=true",
    )  # fmt: skip


def table(name: str, out: Path) -> tuple[str, ...]:
    """Return the keys of a table of scikit-learn, which is written as CSV, in three parties."""
    path = out / f"{name}.csv"
    found = getattr(datasets, f"load_{name}")(as_frame=True)
    columns = [re.sub(r"\W+", "_", column) for column in found.data.columns]
    if not path.exists():
        out.mkdir(parents=True, exist_ok=True)
        found.frame.set_axis([*columns, "target"], axis=1).to_csv(path, index=False)
    width = math.ceil(len(columns) / 3)
    parties = (f"columns_{k + 1}:[{','.join(columns[k * width : (k + 1) * width])}]" for k in range(3))
    return f"dataset.path={path.resolve()}", f"dataset.parties={{{','.join(parties)}}}"


def algorithm(name: str) -> tuple[str, ...]:
    """Return the keys of an algorithm, or of a class."""
    return (f"algo._target_={name}" if "." in name else f"algo={name}", *OWN.get(name, ()))


def search(entries: Sequence[Entry], jobs: int) -> dict[Path, str]:
    """Try rates until the best of each entry has been compared with one on both sides; fills ``losses``.

    A rate of which a run fails does not count. Returns the folders of those runs, and why.
    """
    failed: dict[Path, str] = {}
    while tries := [(entry, place) for entry in entries for place in entry.wanted()]:
        cells = [[entry.cell(place, seed) for seed in SEARCHED] for entry, place in tries]
        failed |= run_all(list(itertools.chain(*cells)), jobs, stops_at_refusal=False)
        for (entry, place), own in zip(tries, cells, strict=True):
            if all(cell.done for cell in own):
                entry.losses[place] = statistics.mean(training_loss(cell) for cell in own)
            else:
                entry.failed.add(place)
    return failed


def training_loss(cell: Cell) -> float:
    """Return the last training loss of a run; infinite if it diverged."""
    (run,) = make_report([cell.folder], Wanted()).runs
    loss = run.evals.metrics["train_loss"][-1] if run.evals and run.status == COMPLETED else math.inf
    return float(loss) if math.isfinite(loss) else math.inf


# Results --------------------------------------------------------------------------------------------------------------


def write(entries: Sequence[Entry], cells: Sequence[Sequence[Cell]], out: Path) -> str:
    """Write page, figures and tables of the runs that are there, and return the tables in Markdown."""
    there = {id(e): [cell.folder for cell in own if cell.done] for e, own in zip(entries, cells, strict=True)}
    found: dict[Key, dict[str, tuple[Entry, Result]]] = {}
    for (data, system), group in itertools.groupby(entries, key=lambda e: (e.data, e.system)):
        members = [entry for entry in group if there[id(entry)]]
        lines = {e.algo: (e, make_report(there[id(e)], Wanted(by=("algo",))).results[0]) for e in members}
        found[data, system] = lines
        drawn = make_report([folder for e in members for folder in there[id(e)]], Wanted(by=("algo",)))
        pictures = out / f"{data}-{system}"
        pictures.mkdir(exist_ok=True)
        for _ in draw_all(drawn.results, pictures, ("time", "bytes"), ("svg", "png")):
            pass
    order = by_rank({key: list(ranked(lines)) for key, lines in found.items()})
    text = "\n\n".join([ranks(order, list(found)), *texts(found)])
    results = {key: {algo: result for algo, (_, result) in lines.items()} for key, lines in found.items()}
    titles = {data: f"{data}, to {DATA[data].target:g}" for data, _ in found}
    for name, panels in {"leaderboard": titles, **{data: {data: title} for data, title in titles.items()}}.items():
        draw_board(results, list(order), panels, [out / f"{name}.{form}" for form in ("svg", "png")])
    (out / "leaderboard.md").write_text(f"{text}\n", encoding="utf-8", newline="\n")
    tables_too = ("dataset.path",) if any(DATA[entry.data].table for entry in entries) else ()
    report = make_report(list(itertools.chain(*there.values())), Wanted(by=(*tables_too, "speeds", "algo")))
    (out / "report.html").write_text(make_page(report, tables.make_table(report.results, report.papers)), "utf-8")
    return text


def ranked(lines: Mapping[str, tuple[Entry, Result]]) -> Iterator[str]:
    """Yield the algorithms, best first: most seeds at the target, then soonest, then highest accuracy."""

    def order(algo: str) -> tuple[float, float, float]:
        result = lines[algo][1]
        time = statistics.mean(reached.time for reached in result.reached) if result.reached else math.inf
        return -len(result.reached), time, -(result.final.mean if result.final else -math.inf)

    yield from sorted(lines, key=order)


def by_rank(orders: Mapping[Key, Sequence[str]]) -> dict[str, dict[Key, int]]:
    """Return the ranks of every algorithm by data set and system, the lowest mean first."""
    found: dict[str, dict[Key, int]] = {}
    for key, order in orders.items():
        for number, algo in enumerate(order, 1):
            found.setdefault(algo, {})[key] = number
    return dict(sorted(found.items(), key=lambda item: (statistics.mean(item[1].values()), item[0])))


def ranks(order: Mapping[str, Mapping[Key, int]], keys: Sequence[Key]) -> str:
    """Return a table of ranks by data set and system."""
    rows = [
        [algo, f"{statistics.mean(own.values()):.1f}", *(str(own.get(key, "")) for key in keys)]
        for algo, own in order.items()
    ]
    return markdown(["algorithm", "mean rank", *(" ".join(key) for key in keys)], rows)


def texts(found: Mapping[Key, Mapping[str, tuple[Entry, Result]]]) -> Iterator[str]:
    """Yield a table per data set and system."""
    head = ["algorithm", "rate", "reached", "time to target", "rounds", "MB", "test accuracy", "tried", "diverged"]
    for (data, system), lines in found.items():
        yield f"{data}, {system}: test accuracy {DATA[data].target:g} within {DATA[data].max_time} units"
        yield markdown(head, [row(*lines[algo]) for algo in ranked(lines)])


def row(entry: Entry, result: Result) -> list[str]:
    """Return an algorithm's row; numbers to the target only if all seeds reach it."""
    time, rounds, sent = (result.spreads[measure] for measure in MEASURES)
    edge = "" if 0 < entry.best < len(RATES) - 1 else " (edge)"
    return [
        entry.algo, f"{RATES[entry.best]:g}{edge}", f"{len(result.reached)}/{result.runs}", text(time), text(rounds),
        text(sent, 1e6, 2), text(result.final, 1, 4), str(len(entry.losses)),
        str(sum(map(math.isinf, entry.losses.values()))),
    ]  # fmt: skip


def text(spread: Spread | None, unit: float = 1, digits: int = 0) -> str:
    """Return mean and sample standard deviation."""
    if spread is None:
        return "--"
    return f"{spread.mean / unit:.{digits}f} ± {(spread.std or 0.0) / unit:.{digits}f}"


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    rule = "|".join(["", ":--", *["--:"] * (len(head) - 1), ""])
    return "\n".join([f"| {' | '.join(head)} |", rule, *(f"| {' | '.join(row)} |" for row in rows)])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
