"""The cells of an experiment: composed from ``conf/experiment``, run by flexray's command line, each once.

A run folder is named after its whole configuration, so experiments share the cells they have in common, and a changed
configuration is a new run.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import io
import json
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from multiprocessing.synchronize import Event
from pathlib import Path
from types import FrameType
from typing import Any

import hydra
import yaml
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf

from flexray.config.overrides import prepare
from flexray.config.schema import config_folder, register
from flexray.config.speeds import OTHERS, PAPER
from flexray.config.timeouts import AUTO
from flexray.config.typed import key_of
from flexray.core.commands import INTERRUPTED
from flexray.core.errors import ConfigError
from flexray.core.neutral import is_under
from flexray.core.runfolder import leaves
from flexray.report.grouping import NEUTRAL
from flexray.report.runs import COMPLETED, DIVERGED
from flexray.run.command import run_command
from flexray.run.resume import SINCE

BASES = {
    "digits": (), "mosi": ("mosi",), "modelnet10": ("modelnet10_mlp",), "mosei": ("mosei",),
    "imagenet100": ("imagenet100",), "modelnet40": ("modelnet40",),
}  # fmt: skip
"""The Hydra experiments that hold a dataset's own settings."""
FOLDERS = {name: name for name in BASES} | {"modelnet10": "modelnet10_views"}
SEEDS_AND_PLACE = ("seed", "dataset.seed", "dataset.path")
TUNED = Path(__file__).with_name("tuned.yaml")


@dataclass(frozen=True)
class Cell:
    """One run: its command line, what it varies, and where it is."""

    overrides: tuple[str, ...]
    axes: dict[str, str]
    folder: Path

    @property
    def done(self) -> bool:
        """Whether the run came to its end; one that was interrupted or given up is run again."""
        summary = self.folder / "summary.json"
        return summary.exists() and json.loads(summary.read_text(encoding="utf-8"))["status"] in (COMPLETED, DIVERGED)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run: its exit status, CPU seconds, and the last line of its error."""

    exit_status: int
    cpu_s: float
    fault: str


def plan(dataset: str, sweep: Sequence[str], root: Path, data: Path | None, extra: Sequence[str]) -> list[Cell]:
    """Return the cells that the axes of the Hydra experiments ``sweep`` span on a dataset.

    Args:
        dataset: A key of ``BASES``.
        sweep: Names in ``conf/experiment``; their ``hydra.sweeper.params`` are the axes.
        root: Folder of run folders.
        data: Folder with a folder per dataset; digits need none.
        extra: Further overrides; one of an axis replaces it.
    """
    chosen = f"+experiment=[{','.join([*BASES[dataset], *sweep])}]"
    path = [] if dataset == "digits" or data is None else [f"dataset.path={(data / FOLDERS[dataset]).resolve()}"]
    common = ["cluster=inline", *path]
    cells = []
    for axes in _axes([chosen, *common], extra):
        own = tuned(dataset, [*axes, *sweep])
        words = (chosen, *_once([*common, *own, *extra, *axes]))
        name, default = identity(tuple(word for word in words if key_of(word) != "seed"))
        seed = next((word.split("=", 1)[1] for word in words if key_of(word) == "seed"), str(default))
        cells.append(Cell(words, dict(word.split("=", 1) for word in axes), root / dataset / name / seed))
    return cells


def _axes(words: Sequence[str], extra: Sequence[str]) -> Iterator[list[str]]:
    """Yield every combination of the axes, as Hydra's own sweeper makes them."""
    params = _composed((*words, *extra)).hydra.sweeper.params or {}
    given = {key_of(word): word for word in extra}
    texts = [given.get(key, f"{key}={value}") for key, value in params.items()]
    yield from BasicSweeper.split_arguments(OverridesParser.create().parse_overrides(texts), None)[0]


def _once(words: Sequence[str]) -> list[str]:
    """Return overrides with each key once; the last one holds."""
    return list({key_of(word): word for word in words}.values())


def tuned(dataset: str, has: Sequence[str]) -> list[str]:
    """Return the overrides that ``tuned.yaml`` has for a cell; a grid has its own rules only."""
    needed = {name for name in has if name.startswith("grid")}
    whens = [(set(rule.get("when", [])), rule["set"]) for rule in _rules().get(dataset, [])]
    return [word for when, words in whens if needed <= when <= set(has) for word in words]


@cache
def _rules() -> dict[str, list[dict[str, Any]]]:
    """Return what ``tuned.yaml`` sets, by dataset."""
    rules: dict[str, list[dict[str, Any]]] = yaml.safe_load(TUNED.read_text(encoding="utf-8"))
    return rules


@cache
def _composed(words: tuple[str, ...]) -> DictConfig:
    """Return what Hydra composes of a command line, its own part included."""
    register()
    with hydra.initialize_config_dir(str(config_folder()), version_base="1.3"):
        return hydra.compose("config", prepare(list(words)), return_hydra_config=True)


def compose(words: Sequence[str]) -> DictConfig:
    """Return the configuration of a command line: Hydra composes the choices, once; single keys go over it."""
    parsed = OverridesParser.create().parse_overrides(prepare(list(words)))
    values = [o for o in parsed if not (config_folder() / o.key_or_group).is_dir()]
    result = copy.deepcopy(_composed(tuple(o.input_line for o in parsed if o not in values)))
    for o in values:
        OmegaConf.update(result, o.key_or_group, o.value(), force_add=o.is_add() or o.is_force_add())
    return result


@cache
def identity(words: tuple[str, ...]) -> tuple[str, int]:
    """Return ``algorithm-digest`` of a configuration, without keys that cannot change its numbers, and its seed.

    Keys that are null, or say what runs did before there were such keys, do not count: a later flexray finds its runs.
    """
    composed = compose(words)
    choices = composed.hydra.runtime.choices
    del composed.hydra
    plain: Any = OmegaConf.to_container(composed, resolve=True)
    if plain["timeout"] != AUTO:
        plain["timeout"] = float(plain["timeout"] or PAPER.get(choices.dataset, OTHERS).timeout_units)
    kept = {key: value for key, value in leaves(plain) if value is not None and value != SINCE.get(key)}
    kept = {key: value for key, value in kept.items() if not is_under(key, (*NEUTRAL, *SEEDS_AND_PLACE))}
    digest = hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()
    return f"{choices.algo}-{digest[:10]}", plain["seed"]


def run_all(cells: Sequence[Cell], jobs: int, stops_at_refusal: bool = True) -> dict[Path, str]:
    """Run what is not there yet, ``jobs`` runs at a time, and return the folders of those that failed, and why.

    SIGTERM and Ctrl-C end the runs under way after their current round, and no other begins.

    Raises:
        ConfigError: A run refused what it was given, and ``stops_at_refusal``: the others would, too.
    """
    missing = {cell.folder: cell for cell in cells if not cell.done}
    if not missing:
        return {}
    started_s, cpu_s, failed = time.perf_counter(), 0.0, {}
    with _workers(jobs) as pool:
        running = {pool.submit(run_one, cell): cell for cell in missing.values()}
        for count, future in enumerate(as_completed(running), 1):
            cell, outcome = running[future], future.result()
            if stops_at_refusal and outcome.exit_status == ConfigError.exit_status:
                raise ConfigError(outcome.fault)
            cpu_s += outcome.cpu_s
            if not cell.done:
                failed[cell.folder] = outcome.fault
            print(f"[{count}/{len(missing)}] {cell.folder}  {outcome.cpu_s:.1f} s CPU", flush=True)
    wall_s = time.perf_counter() - started_s
    print(f"{len(missing)} runs: {wall_s:.0f} s, {cpu_s:.0f} s of CPU time", flush=True)
    return failed


@contextlib.contextmanager
def _workers(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Yield processes that end with this one, and stop their runs early if this one is asked to end."""
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["flexray.run.execution"])  # imports torch, once for all
    stopping = processes.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        again = stopping.is_set()
        stopping.set()
        for child in multiprocessing.active_children():
            child.kill() if again else child.terminate()
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    pool = ProcessPoolExecutor(jobs, processes, _begin_worker, (stopping,))
    try:
        yield pool
    except BaseException:
        stopping.set()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        for number, handler in before.items():
            signal.signal(number, handler)


_stopping: Event | None = None
"""In a worker: no further run is to begin."""


def _begin_worker(stopping: Event) -> None:
    """Leave the terminal's signals to the parent, which forwards them, and end when the parent is gone."""
    global _stopping
    _stopping = stopping
    os.setpgid(0, 0)
    parent = multiprocessing.parent_process()

    def follow() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=follow, name="follow-parent", daemon=True).start()


def run_one(cell: Cell) -> Outcome:
    """Run one cell in this process; what it says is in its folder's log."""
    if _stopping is not None and _stopping.is_set():
        return Outcome(INTERRUPTED, 0.0, "not begun")
    started_s, told = time.process_time(), io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(told):
        status = run_command([*cell.overrides, "progress=false", f"hydra.run.dir={os.fspath(cell.folder)}"])
    faults = [line.partition("flexray: ")[2] for line in told.getvalue().splitlines() if "flexray: " in line]
    return Outcome(status, time.process_time() - started_s, faults[-1] if faults else f"exit status {status}")
