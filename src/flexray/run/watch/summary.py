"""``summary.json``: settings and results of a run (docs/algorithms.md, Columns and metrics), and the closing table."""

from __future__ import annotations

import math
import operator
import os
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from rich.table import Table
from typing_extensions import override

from flexray.config.hosts import described_computes
from flexray.config.job import Job
from flexray.core.costs import TITLES
from flexray.core.messages import Ended, EvalRecord, Record, RoundRecord, Started
from flexray.data.outlines import samples_by_party
from flexray.engine.driver.experiment import Experiment
from flexray.run.watch.base import Observer, ObserverState
from flexray.run.watch.totals import SumObserver, timeout_rows
from flexray.traces.speeds import followed

PACKAGES = ("flexray", "torch", "numpy", "ray", "hydra-core")


class SummaryObserver(Observer):
    """Gathers what the summary needs while records pass by.

    Args:
        job: The run.
        sums: Have further entries of the summary.
    """

    def __init__(self, job: Job, sums: Sequence[SumObserver] = ()) -> None:
        self._job = job
        self._sums = tuple(sums)
        self._names = job.experiment.names[:-1]
        self._up = [0] * len(self._names)
        self._down = [0] * len(self._names)
        self._absent = [0] * len(self._names)
        self._reached: EvalRecord | None = None
        self._reached_bytes = 0
        self._last_eval: EvalRecord | None = None
        self.ended: Ended | None = None
        self.first_s = 0.0
        self._stacked = 0

    @override
    def on(self, record: Record) -> None:
        if isinstance(record, Started):
            self.first_s = self.first_s or time.perf_counter()
            self._stacked = record.stacked
        elif isinstance(record, RoundRecord):
            self._up = list(map(operator.add, self._up, record.up_bytes))
            self._down = list(map(operator.add, self._down, record.down_bytes))
            for k in record.absent or ():
                self._absent[k] += 1
        elif isinstance(record, EvalRecord):
            self._last_eval = record
            if self._reached is None and self._job.experiment.target.met_by(record.metrics):
                self._reached = record
                self._reached_bytes = sum(self._up) + sum(self._down)
        elif isinstance(record, Ended):
            self.ended = record

    @override
    def save(self) -> ObserverState:
        reached, last = (None if r is None else vars(r) for r in (self._reached, self._last_eval))
        return {
            "up": list(self._up), "down": list(self._down), "absent": list(self._absent),
            "reached": reached, "reached_bytes": self._reached_bytes, "last_eval": last,
        }  # fmt: skip

    @override
    def load(self, state: ObserverState) -> None:
        self._up, self._down, self._absent = list(state["up"]), list(state["down"]), list(state["absent"])
        self._reached, self._last_eval = (
            None if state[key] is None else EvalRecord(**state[key]) for key in ("reached", "last_eval")
        )
        self._reached_bytes = state["reached_bytes"]

    def summary(self, wall_s: float, setup_s: float) -> dict[str, Any]:
        """Return the summary of a run that ended.

        Args:
            wall_s: Seconds from its start to its end.
            setup_s: Seconds of these before the first round.
        """
        if self.ended is None:
            raise RuntimeError("the run has not ended")
        x, ended = self._job.experiment, self.ended
        reached, last, diverged = self._reached, self._last_eval, ended.divergence
        final = {key: value if math.isfinite(value) else None for key, value in (last.metrics if last else {}).items()}
        return {
            "algo": self._job.algo,
            "dataset": self._job.dataset,
            "data_source": x.shared.outline.source, **({} if x.shared.learns else {"learn": False}), **_traces(x),
            "status": "diverged" if diverged else ended.status,
            "divergence": None if diverged is None else vars(diverged),
            "num_parties": len(self._names),
            "parties": list(self._names),
            **({"columns": {k: list(own) for k, own in cut.items()}} if (cut := x.shared.outline.columns) else {}),
            "rounds": ended.rounds,
            "sim_time": ended.sim_time,
            "time_unit": x.time_unit, **({"predicted": True} if x.algorithm.system.measured else {}),
            "wall_s": round(wall_s, 3), "setup_s": round(setup_s, 3),
            "seed": x.shared.seed,
            "num_outputs": x.shared.outline.task.num_outputs,
            **({"classes": list(classes)} if (classes := x.shared.outline.task.classes) else {}),
            "metric": x.target.metric,
            "final": final,
            "final_round": last.round if last else None,
            "target": x.target.value,
            "time_to_target": reached.sim_time if reached else None,
            "rounds_to_target": reached.round if reached else None,
            "bytes_to_target": self._reached_bytes if reached else None,
            **self._totals(),
            "model_digest": ended.digests,
            **described_computes(x),
            "peak_memory_mb": [None if mb is None else round(mb, 1) for mb in ended.peak_memory_mb],
            "cluster": self._cluster(),
            "versions": dict(versions()),
        }  # fmt: skip

    def _totals(self) -> dict[str, Any]:
        """Return what was added up over the run."""
        x, sent = self._job.experiment, zip(self._names, self._up, self._down, strict=True)
        return {
            "sent_bytes": sum(self._up) + sum(self._down),
            "bytes_by_party": {name: {"up": up, "down": down} for name, up, down in sent},
            **({"samples_by_party": samples} if (samples := samples_by_party(x.shared.outline)) else {}),
            "absent_rounds": None if x.absences is None else dict(zip(self._names, self._absent, strict=True)),
            **{name: value for observer in self._sums for name, value in observer.summary().items()},
        }

    def _cluster(self) -> dict[str, Any]:
        plan = self._job.cluster
        hosts = [host.name for host in plan.hosts]
        return {
            "kind": plan.kind, "hosts": hosts, "party_threads": plan.threads, "machine_cpus": os.cpu_count(),
            "stack": self._job.experiment.shared.stack, "stacked_parties": self._stacked,
        }  # fmt: skip


def _traces(x: Experiment) -> dict[str, Any]:
    """Return the trace that speeds follow, and that of bandwidths if there is one."""
    links = _trace(x.network and x.network.scale)
    return {"trace": _trace(x.speeds), **({"network_trace": links} if links else {})}


def _trace(speeds: object) -> dict[str, Any] | None:
    if (trace := followed(speeds)) is None:
        return None
    source = "synthetic" if trace.synthetic else "files"
    return {"path": trace.source, "source": source, "machines": dict(trace.machines)}


@cache
def versions() -> Mapping[str, str]:
    """Return the versions of Python and of the packages that numbers may depend on."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "source tree"
    return found


def summary_table(summary: dict[str, Any], folder: Path) -> Table:
    """Return the closing table of one run."""
    table = Table(title=summary_title(summary), show_header=False)
    table.add_column()
    table.add_column(justify="right", overflow="fold")
    for name, value in summary_rows(summary, folder):
        table.add_row(name, value)
    return table


def summary_title(summary: dict[str, Any]) -> str:
    """Return a run's algorithm, dataset and status."""
    return f"{summary['algo']} on {summary['dataset']}: {summary['status']}"


def summary_rows(summary: dict[str, Any], folder: Path) -> list[tuple[str, str]]:
    """Return what the closing table says: names, with units, and values."""
    unit = summary["time_unit"]
    return [
        ("data", summary["data_source"]),
        ("parties", str(summary["num_parties"])),
        ("rounds", f"{summary['rounds']:,}"),
        ("time (seconds)" if unit == "seconds" else f"simulated time ({unit})", f"{summary['sim_time']:,.6g}"),
        *_final_rows(summary),
        *_target_rows(summary),
        *_missing_rows(summary),
        *_absence_rows(summary),
        *_waiting_rows(summary),
        *timeout_rows(summary),
        ("sent (MB)", f"{summary['sent_bytes'] / 1e6:,.1f}"),
        *_cost_rows(summary),
        ("wall time (s), of it set-up", f"{summary['wall_s']:.1f}, {summary['setup_s']:.1f}"),
        *_memory_rows(summary),
        ("run folder", str(folder)),
    ]


def _final_rows(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the last metrics, with their round if that is not the last."""
    if not summary["final"]:
        return [("learned", "nothing")]
    at = "" if summary["final_round"] == summary["rounds"] else f" at round {summary['final_round']:,}"
    return [
        (f"{key.replace('_', ' ')}{at}", "-" if value is None else f"{value:.4f}")
        for key, value in summary["final"].items()
    ]


def _memory_rows(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the peak of every process that holds parties; of many, the least and the most."""
    known = [mb for mb in summary["peak_memory_mb"] if mb is not None]
    shown = ", ".join(f"{mb:,.0f}" for mb in known) if len(known) <= 4 else f"{min(known):,.0f} to {max(known):,.0f}"
    return [("peak memory by party process (MB)", shown)] if known else []


def _missing_rows(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the training and test samples that parties lack, if any do; of many parties, the fewest and the most."""
    rows = []
    for split, words in (("train", "training"), ("test", "test")):
        counts = {name: of[split] for name, of in summary.get("samples_by_party", {}).items() if split in of}
        lost = {name: count["missing"] for name, count in counts.items()}
        if any(lost.values()):
            total = sum(next(iter(counts.values())).values())
            rows.append((f"{words} samples missing, of {total:,}", _by_party(lost)))
    return rows


def _by_party(values: Mapping[str, int]) -> str:
    """Return every party's number that is not 0; of many parties, the least and the most."""
    if len(values) > 4:
        return f"{min(values.values()):,} to {max(values.values()):,} a party"
    return ", ".join(f"{name} {n:,}" for name, n in values.items() if n)


def _absence_rows(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the rounds that parties missed, if that was simulated; of many parties, the fewest and the most."""
    missed = summary["absent_rounds"]
    return [] if missed is None else [("rounds missed", _by_party(missed) or "none")]


def _waiting_rows(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """Return how long parties waited for slower ones, if they had to; of many, the shortest and the longest."""
    waited = summary.get("waited")
    if not waited:
        return []
    shown = [f"{name} {units:,.6g}" for name, units in waited.items()]
    if len(waited) > 4:
        shown = [f"{min(waited.values()):,.6g} to {max(waited.values()):,.6g} a party"]
    return [(f"waited for slower parties ({summary['time_unit']})", ", ".join(shown))]


def _cost_rows(summary: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield energy and price, where they are asked for: until the target, if there is one, and until the end."""
    for key, name in TITLES.items():
        if key in summary:
            reached = summary[f"{key}_to_target"]
            shown = [] if summary["target"] is None else ["--" if reached is None else f"{reached:,.6g}"]
            yield f"{name}{', to target' if shown else ''}", ", ".join([f"{summary[key]:,.6g}", *shown])


def _target_rows(summary: dict[str, Any]) -> list[tuple[str, str]]:
    if summary["target"] is None:
        return []
    names = (f"time to {summary['metric']} {summary['target']:g} ({summary['time_unit']})", "rounds to target")
    values = (summary["time_to_target"], summary["rounds_to_target"])
    return [(name, "--" if value is None else f"{value:,.6g}") for name, value in zip(names, values, strict=True)]
