"""The driver: runs the rounds (or VAFL's events) of an experiment on the virtual clock.

It is a plain class whose :meth:`Driver.run` yields records; a runtime decides where the participants live and, with
Ray, an actor holds the driver itself. It reads no wall clock, and no result depends on which future finishes first.
It submits rounds ahead and reads reports later, always in order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from flexray.algorithms.base import Plan
from flexray.data.base import Split
from flexray.experiment import Experiment
from flexray.group import PartyGroup
from flexray.messages import Divergence, Ended, EvalRecord, Order, Record, Report, RoundRecord, Started
from flexray.participants import SERVER
from flexray.runtime.base import Handle, Placement, Runtime
from flexray.server import Server
from flexray.simulation.clock import Stopwatch

LOOKAHEAD = 8
"""Rounds (VAFL: events) that may be submitted before the oldest one's report is read."""
GROUP = "parties"


@dataclass(frozen=True)
class Pending:
    """A submitted round or evaluation whose results were not read yet."""

    record: Any
    handles: tuple[Handle, ...]


class Driver(ABC):
    """What rounds and events have in common: set-up, evaluation, reading results in order.

    Args:
        experiment: What to run.
        runtime: Where the participants live.
        placement: Which host holds whom.
    """

    def __init__(self, experiment: Experiment, runtime: Runtime, placement: Placement) -> None:
        self._x = experiment
        self._runtime = runtime
        self._placement = placement
        self._clock = Stopwatch()
        self._pending: deque[Pending] = deque()
        self._iterations = [0] * len(experiment.names)
        self._divergence: Divergence | None = None
        self._reached = False
        self._reports: tuple[Report, ...] | None = None
        self._epoch_rounds = experiment.shared.batches().per_epoch * self._turns_per_batch()

    def run(self) -> Iterator[Record]:
        """Run the experiment and yield its records in order: Started, rounds and evaluations, Ended."""
        self._start()
        limit = self._x.limits.in_rounds(self._epoch_rounds)
        yield Started(self._x.names, limit, self._epoch_rounds)
        done, sim_time = 0, 0.0
        for record in self._steps(limit):
            if isinstance(record, RoundRecord):
                done, sim_time = record.round, record.sim_time
            yield record
        yield self._finish(done, sim_time)

    @abstractmethod
    def _turns_per_batch(self) -> int:
        """Return how many steps make one pass of all parties over one batch each."""

    @abstractmethod
    def _steps(self, limit: int | None) -> Iterator[RoundRecord | EvalRecord]:
        """Submit rounds or events until a limit is met and yield what was read."""

    # Set-up -----------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        x, place = self._x, self._placement
        groups = [[x.parties[k] for k in group] for group in place.groups]
        created = [
            self._runtime.create(host, GROUP, PartyGroup, specs, x.shared)
            for host, specs in zip(place.group_hosts, groups, strict=True)
        ]
        self._runtime.get(created)
        widths = tuple(w for group in self._runtime.get(self._all_groups("widths")) for w in group)
        server = self._runtime.create(place.server_host, SERVER, Server, x.shared, widths)
        self._runtime.get([*self._all_groups("connect", widths), server])

    def _all_groups(self, method: str, *args: Any) -> list[Handle]:
        """Call a method of every group with plain arguments."""
        return [self._runtime.call(host, [GROUP, method, list(args)]) for host in self._placement.group_hosts]

    def _server(self, method: str, *args: Any, after: Sequence[Handle] = ()) -> Handle:
        """Call a method of the server with plain arguments, then with the results of earlier calls."""
        return self._runtime.call(self._placement.server_host, [SERVER, method, list(args)], *after)

    # Reading results, in order ----------------------------------------------------------------------------------

    def _read(self, keep: int) -> Iterator[RoundRecord | EvalRecord]:
        """Read the oldest results until ``keep`` are left; after a divergence, nothing more is read."""
        while len(self._pending) > keep and not self._divergence:
            pending = self._pending.popleft()
            values = self._runtime.get(pending.handles)
            record = pending.record
            if isinstance(record, EvalRecord):
                metrics = {key: value for part in values for key, value in part.items()}
                self._reached = self._reached or self._x.target.met_by(metrics)
                yield replace(record, metrics=metrics)
            else:
                yield self._complete(record, values)

    def _read_all(self, done: int, limit: int | None) -> Iterator[RoundRecord | EvalRecord]:
        """Evaluate at the very end, if that was not done, and read what is left."""
        if done != limit and not self._is_eval(done, last=False) and not self._stopping:
            self._evaluate(done)
        yield from self._read(0)

    @abstractmethod
    def _complete(self, record: RoundRecord, values: list[Any]) -> RoundRecord:
        """Fill in what only the reports tell."""

    def _note_divergence(self, record: RoundRecord, reports: tuple[Report, ...]) -> None:
        """Remember who saw a loss that is not finite, the earliest local iteration first."""
        found = [(r.diverged_at, k) for k, r in enumerate(reports) if r.diverged_at is not None]
        if found and not self._divergence:
            iteration, k = min(found)
            self._divergence = Divergence(record.round, self._x.names[k], iteration)

    # Evaluation -------------------------------------------------------------------------------------------------

    def _is_eval(self, done: int, last: bool) -> bool:
        every = self._x.eval_every or self._epoch_rounds
        return last or done % every == 0

    def _evaluate(self, done: int) -> None:
        """Submit an evaluation of all splits after ``done`` rounds."""
        splits: list[Split] = ["test"]
        if self._x.shared.outline.sizes["val"]:
            splits.append("val")
        if self._x.eval_train:
            splits.append("train")
        handles = tuple(
            self._server("evaluate", split, after=self._all_groups("embed_split", split)) for split in splits
        )
        record = EvalRecord(done, done / self._epoch_rounds, self._clock.now, {})
        self._pending.append(Pending(record, handles))

    @property
    def _stopping(self) -> bool:
        return bool(self._divergence) or (self._reached and self._x.target.stop)

    def _lookahead_after(self, evaluated: bool) -> int:
        return 0 if evaluated and self._x.target.stop else LOOKAHEAD

    # Plans ------------------------------------------------------------------------------------------------------

    def _orders(self, plan: Plan) -> list[Order]:
        """Return everyone's order, with decayed rates, and count the local iterations."""
        orders = []
        for k, (tau, lr, decay) in enumerate(zip(plan.tau, plan.lr, self._x.decays, strict=True)):
            orders.append(Order(tau, lr * decay.scale(self._iterations[k])))
            self._iterations[k] += tau
        return orders

    def _pass(self, watch: Stopwatch, plan: Plan) -> float:
        """Let the time of a round or turn pass on ``watch`` and return its end."""
        return watch.advance(plan.duration_units) if plan.end_units is None else watch.move_to(plan.end_units)

    def _fits(self, end_units: float) -> bool:
        limit = self._x.limits.max_time
        return limit is None or end_units <= limit * (1 + 1e-12)  # sums of units may end a rounding error late

    def _finish(self, done: int, sim_time: float) -> Ended:
        digests: dict[str, str] = {}
        states: dict[str, Any] = {}
        for part in self._runtime.get(self._all_groups("digests")):
            digests.update(part)
        for part in self._runtime.get(self._all_groups("states")):
            states.update(part)
        digests[SERVER], states[SERVER] = self._runtime.get([self._server("digest"), self._server("state")])
        return Ended(done, sim_time, self._divergence, digests, states)


def new_record(
    number: int,
    start: float,
    end: float,
    plan: Plan,
    orders: list[Order],
    utilization: tuple[float, ...],
    party: int | None = None,
) -> RoundRecord:
    """Return the record of a submitted round, before its reports are known."""
    return RoundRecord(
        round=number,
        start_units=start,
        sim_time=end,
        duration=plan.duration_units,
        tau=plan.tau,
        lr=tuple(order.lr for order in orders),
        utilization=plan.utilization or utilization,
        comm_units=plan.comm_units,
        unit_times=plan.unit_times,
        train_loss=float("nan"),
        sent_bytes=0,
        up_bytes=(),
        down_bytes=(),
        party=party,
    )


def completed(
    record: RoundRecord,
    loss: float | None,
    up: tuple[int, ...],
    down: tuple[int, ...],
    staleness: tuple[float, ...] | None = None,
) -> RoundRecord:
    """Return the record with what its reports told."""
    value = float("nan") if loss is None else loss
    sent = sum(up) + sum(down)
    return replace(record, train_loss=value, sent_bytes=sent, up_bytes=up, down_bytes=down, staleness=staleness)
