"""The participants that the page shows of many: the slowest, the fastest and the server; all as groups by speed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from flexray.report.runs import FloatArray, Run
from flexray.report.schedule import Schedule

ALL = 16
"""Most parties that are shown one by one."""
SLOWEST = 10
MAX_ROUNDS = 1000
"""Rounds that count for the speeds of a run without timeline."""
MAX_SPEEDS = 6
"""Most speeds with a group each; with more, a group is a quarter of the parties."""
QUARTERS = ("slowest quarter", "second quarter", "third quarter", "fastest quarter")


@dataclass(frozen=True)
class Selection:
    """The participants of a run that are shown.

    Args:
        places: Places of the participants shown one by one, in order.
        schedule: Their schedule; None if the run has none.
        words: A description of them; empty for all.
        header: Titles of ``rows``.
        rows: Groups of parties by speed, as texts: their number, speed and shares of time.
    """

    places: tuple[int, ...]
    schedule: Schedule | None
    words: str = ""
    header: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


def select(run: Run, schedule: Schedule | None) -> Selection:
    """Return the participants to show of a run."""
    count = len(run.names)
    parties = count - 1
    if parties <= ALL:
        return Selection(tuple(range(count)), schedule)
    tau_p = _iterations(run, schedule.rounds if schedule else min(run.length, MAX_ROUNDS))
    speeds_p = _units_an_iteration(tau_p, schedule)[:parties]
    order = sorted(range(parties), key=lambda k: -speeds_p[k])
    words = f"the {SLOWEST} slowest of {parties:,} parties, the fastest one, and the server"
    places = (*order[:SLOWEST], order[-1], parties)
    if schedule is None:
        return Selection(places, None, words)
    header = ("parties", "how many", f"{run.time_unit} an iteration", "local iterations", *schedule.kinds)
    rows = [
        (name, f"{len(members):,}", _range(speeds_p[members]), f"{tau_p[members].mean():,.1f}",
         *_shares(members, schedule))
        for name, members in _groups(order, speeds_p)
    ]  # fmt: skip
    shown = replace(schedule, lanes=tuple(schedule.lanes[k] for k in places))
    return Selection(places, shown, words, header, tuple(rows))


def _range(values: FloatArray) -> str:
    low, high = f"{values.min():.4g}", f"{values.max():.4g}"
    return low if low == high else f"{low} to {high}"


def _shares(members: Sequence[int], schedule: Schedule) -> list[str]:
    """Return the share of each kind in the members' time."""
    letters = [chr(97 + k) for k in range(len(schedule.kinds))]
    units = [sum(schedule.lanes[k].total(letter) for k in members) for letter in letters]
    return [f"{100 * part / sum(units):.1f} %" if sum(units) else "--" for part in units]


def _units_an_iteration(tau_p: FloatArray, schedule: Schedule | None) -> FloatArray:
    """Return the units of a local iteration of each participant; infinite for one without any."""
    busy_p = np.ones(len(tau_p)) if schedule is None else np.array([lane.total("a") for lane in schedule.lanes])
    units_p = np.divide(busy_p, tau_p, out=np.full(len(tau_p), math.inf), where=tau_p > 0)
    return np.array([float(f"{units:.4g}") for units in units_p])  # without the noise of sums


def _iterations(run: Run, rounds: int) -> FloatArray:
    """Return the local iterations of each participant in the first rounds."""
    tau_rp = run.series.tau_rp[:rounds] if run.series else []
    return np.sum(tau_rp, axis=0, dtype=float) if tau_rp else np.zeros(len(run.names))


def _groups(order: Sequence[int], speeds_p: FloatArray) -> list[tuple[str, list[int]]]:
    """Return the parties by speed, the slowest first: those of one speed, or in quarters."""
    by_speed: dict[float, list[int]] = {}
    for k in order:
        by_speed.setdefault(float(speeds_p[k]), []).append(k)
    if len(by_speed) <= MAX_SPEEDS:
        return list(zip(_ranks(len(by_speed)), by_speed.values(), strict=True))
    edges = [round(k * len(order) / 4) for k in range(5)]
    return [(name, list(order[a:b])) for name, a, b in zip(QUARTERS, edges, edges[1:], strict=False)]


def _ranks(count: int) -> list[str]:
    return ["all"] if count == 1 else ["slowest", *(f"{k}." for k in range(2, count)), "fastest"]
