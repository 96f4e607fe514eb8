"""What the trials say: tables, and one page."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from flexray.advise.variants import Variant
from flexray.core.messages import RoundRecord
from flexray.engine.driver.experiment import Experiment
from flexray.run.watch.timeline import busy_units

if TYPE_CHECKING:
    import pandas as pd

WIDTH = 120
PARTS = ("computing", "waiting", "messages")
"""Parts of a participant's time."""


@dataclass
class Trial:
    """What one run took.

    Args:
        busy: Time that each participant computed.
        comm: Time that each participant's messages took.
        rounds: Number of rounds (VAFL: turns).
        time: Simulated time at the end.
        least_tau: Fewest local iterations of a participant that took any, and below the most.
        most_tau: The most.
        sent_bytes: Bytes sent.
        timeout: The timeout that was chosen for the first round, if it was.
        curve: Time and test loss at each evaluation.
    """

    busy: list[float]
    comm: list[float]
    rounds: int = 0
    time: float = 0.0
    least_tau: int = sys.maxsize
    most_tau: int = 0
    sent_bytes: int = 0
    timeout: float | None = None
    curve: list[tuple[float, float]] = field(default_factory=list)

    def time_to(self, loss: float) -> float | None:
        """Return the time of the first evaluation with such a test loss or a lower one; None if there is none."""
        return next((time for time, found in self.curve if found <= loss), None)

    def parts(self, place: int) -> tuple[float, float, float]:
        """Return the parts of the time in which a participant computed, waited, and waited for messages."""
        busy, comm = self.busy[place] / self.time, self.comm[place] / self.time
        return busy, max(0.0, 1 - busy - comm), comm

    def note(self, record: RoundRecord) -> None:
        """Add a round."""
        self.timeout = self.timeout or record.timeout_units
        self.rounds, self.time = record.round, record.sim_time
        self.sent_bytes += record.sent_bytes
        for k in record.present:
            self.busy[k] += busy_units(record, k)
            self.comm[k] += record.comm_units
        if record.party is not None:
            self.busy[-1] += record.server_units
        active = [tau for tau in record.tau if tau]
        self.least_tau, self.most_tau = min([self.least_tau, *active]), max([self.most_tau, *active])


@dataclass(frozen=True)
class Advice:
    """What other timeouts, quicker participants and quicker links are worth.

    Args:
        algo: Name of the algorithm.
        dataset: Name of the dataset.
        experiment: The run in question.
        horizon: Simulated time of every trial.
        trials: Those of every variant, one per seed.
        auto_timeout: What ``timeout=auto`` gives the first round; None where that is refused.
    """

    algo: str
    dataset: str
    experiment: Experiment
    horizon: float
    trials: Mapping[Variant, Sequence[Trial]]
    auto_timeout: float | None = None

    @cached_property
    def timeouts(self) -> pd.DataFrame:
        """A row per timeout: ``timeout``, ``duration`` of a round, ``least_tau``, ``most_tau``, ``time_to_loss``, ...

        ``computing``, ``waiting`` and ``messages`` are parts of the time, of all participants together.
        """
        rows = sorted(self._of("own", "timeout"), key=lambda variant: float(variant.name))
        return self._frame([{"timeout": float(variant.name), **self._row(variant)} for variant in rows])

    @cached_property
    def participants(self) -> pd.DataFrame:
        """A row per participant: parts of its time and, if it were as quick as the quickest, ``time_to_loss``."""
        own, quicker = self._own, {variant.name: variant for variant in self._of("participant")}
        rows = []
        for k, name in enumerate(self.experiment.names):
            row = {"participant": name, **_parts([trial.parts(k) for trial in own])}
            rows.append({**row, **self._worth(quicker.get(name))})
        return self._frame(rows)

    @cached_property
    def links(self) -> pd.DataFrame:
        """One row: ``time_to_loss`` if messages took no time."""
        rows = [{"links": variant.name, **self._worth(variant)} for variant in self._of("link")]
        return self._frame(rows)

    @property
    def best_timeout(self) -> float | None:
        """The timeout that met the loss first; None if nothing was learned."""
        known = [(time, float(v.name)) for v in self._of("own", "timeout") if (time := self._time(v)) is not None]
        return min(known)[1] if known else None

    @cached_property
    def loss(self) -> float | None:
        """The test loss that the setting itself ends with, median over seeds; None if nothing was learned."""
        if not self.experiment.shared.learns:
            return None
        return statistics.median(trial.curve[-1][1] for trial in self._own)

    @property
    def _own(self) -> Sequence[Trial]:
        return next(trials for variant, trials in self.trials.items() if variant.kind == "own")

    def _of(self, *kinds: str) -> list[Variant]:
        return [variant for variant in self.trials if variant.kind in kinds]

    def _time(self, variant: Variant) -> float | None:
        """Return the median time to the loss, of each seed that of the setting itself; None if one never met it."""
        if self.loss is None:
            return None
        both = zip(self.trials[variant], self._own, strict=True)
        times = [trial.time_to(own.curve[-1][1]) for trial, own in both]
        known = [time for time in times if time is not None]
        return statistics.median(known) if len(known) == len(times) else None

    def _worth(self, variant: Variant | None) -> dict[str, float | None]:
        """Return the time to the loss, and the part of the setting's own that is saved."""
        if self.loss is None:
            return {}
        own = self._time(self._of("own")[0])
        time = own if variant is None else self._time(variant)
        saved = None if own is None or time is None or variant is None else 1 - time / own
        return {"time_to_loss": time, "saved": saved}

    def _row(self, variant: Variant) -> dict[str, Any]:
        trials, places = self.trials[variant], range(len(self.experiment.names))
        turns = self.experiment.steps_per_batch
        return {
            "duration": statistics.median(trial.time / trial.rounds * turns for trial in trials),
            "least_tau": min(trial.least_tau for trial in trials),
            "most_tau": max(trial.most_tau for trial in trials),
            **_parts([trial.parts(k) for trial in trials for k in places]),
            "sent_mb": statistics.median(trial.sent_bytes / 1e6 for trial in trials),
            **({} if self.loss is None else {"time_to_loss": self._time(variant)}),
        }

    @staticmethod
    def _frame(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
        import pandas as pd

        return pd.DataFrame(rows)

    def __repr__(self) -> str:
        console = Console(width=WIDTH, no_color=True, highlight=False)
        with console.capture() as captured:
            for part in self._page():
                console.print(part)
        return captured.get().rstrip()

    def _page(self) -> Iterator[Any]:
        x = self.experiment
        yield f"{self.algo} on {self.dataset} ({x.shared.outline.source}): {len(x.parties)} parties"
        yield f"runs of {self.horizon:,.6g} {x.time_unit}, {len(self._own)} seed(s)"
        if self.loss is not None:
            yield f"time to the test loss {self.loss:.4f}, which the setting itself ends with"
        if self._of("timeout"):
            yield _table("timeout", self.timeouts)
        learned = "" if self.loss is None else "; if it were as quick as the quickest"
        yield _table(f"participant{learned}", self.participants)
        if self.loss is not None:
            yield _table("links; if messages took no time", self.links)
        yield from self._conclusions()

    def _conclusions(self) -> Iterator[str]:
        if self.loss is None:
            yield "nothing was trained (learn=false): which setting learns fastest is not known"
        elif self._of("timeout") and self.best_timeout is not None:
            yield f"best timeout of those tried: {self.best_timeout:g}"
        if self.auto_timeout is not None:
            yield f"timeout=auto would begin with {self.auto_timeout:.4g}; it depends on adaptive.A"
        learned = self.participants.dropna() if self.loss is not None else self.participants[:0]
        quicker = [(row["saved"], row["participant"]) for _, row in learned.iterrows()]
        if quicker and max(quicker)[0] > 0:
            yield f"first to upgrade: {max(quicker)[1]}, which saves {100 * max(quicker)[0]:.0f} % of the time"
        elif quicker:
            yield "no single participant is worth an upgrade"


def _parts(parts: Sequence[tuple[float, float, float]]) -> dict[str, float]:
    """Return the means of parts of the time."""
    columns = zip(*parts, strict=True)
    return {name: statistics.fmean(column) for name, column in zip(PARTS, columns, strict=True)}


def _table(title: str, frame: pd.DataFrame) -> Table:
    table = Table(title=title, title_justify="left")
    for name in frame.columns:
        table.add_column(name.replace("_", " "), justify="left" if name in ("participant", "links") else "right")
    for row in frame.itertuples(index=False):
        table.add_row(*(_cell(name, value) for name, value in zip(frame.columns, row, strict=True)))
    return table


def _cell(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None or value != value:
        return "--"
    return f"{100 * value:.0f} %" if name in (*PARTS, "saved") else f"{value:,.6g}"
