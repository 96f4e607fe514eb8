"""The driver: runs the rounds (or VAFL's events) of an experiment on the virtual clock.

It is a plain class whose :meth:`Driver.run` yields records; a runtime decides where the participants live and, with
Ray, an actor holds the driver itself. It reads no wall clock, and no result depends on which future finishes first.
It submits rounds ahead and reads reports later, always in order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import repeat
from typing import Any, cast

from flexray.algorithms.base import EventAlgorithm, Plan, RoundAlgorithm
from flexray.core.clock import Stopwatch
from flexray.core.columns import Rows
from flexray.core.conforming import as_it_was_saved
from flexray.core.messages import (
    SERVER,
    Ended,
    EvalRecord,
    Order,
    Record,
    Report,
    RoundRecord,
    Saved,
    Snapshot,
    Started,
    Status,
)
from flexray.core.network import Network
from flexray.data.base import Split
from flexray.engine.driver.divergence import Watch
from flexray.engine.driver.experiment import Experiment
from flexray.engine.driver.labels import Labels
from flexray.engine.driver.limits import check_max_time
from flexray.engine.driver.records import Pending, sent_again
from flexray.engine.driver.seam import Placement, Runtime, T, remote
from flexray.engine.driver.snapshots import Saves, check_state, pack
from flexray.engine.parties.group import PartyGroup
from flexray.engine.parties.server import Server
from flexray.engine.parties.state import Codec
from flexray.engine.parties.untrained import classes_of

CODEC = Codec((Plan, Report, Stopwatch))


class Driver(ABC):
    """What rounds and events have in common: set-up, evaluation, reading results in order.

    Args:
        experiment: What to run.
        runtime: Where the participants live.
        placement: The host of every participant.
    """

    _algorithm: RoundAlgorithm | EventAlgorithm
    _lookahead: int
    """How many steps (rounds, or VAFL's events) may be submitted before the oldest one's report is read."""
    _stacks: bool = False
    """Whether parties of one process may share operations: not in turns, nor where each one's seconds are measured."""

    def __init__(self, experiment: Experiment, runtime: Runtime, placement: Placement) -> None:
        self._x = experiment
        self._runtime = runtime
        self._placement = placement
        self._classes = classes_of(experiment.shared)
        self._groups = [remote(runtime, host, self._classes[0]) for host in placement.group_hosts]
        self._server = remote(runtime, placement.server_host, self._classes[1])
        self._labels = Labels(experiment, runtime, placement, self._server)
        self._clock = Stopwatch()
        self._pending: deque[Pending] = deque()
        self._computed = [0.0]
        self._decays = frozenset(experiment.decays)
        self._order_rows = Rows(Order, repeat(None))
        self._watch = Watch(experiment.names)
        self._reached = False
        self._reports: tuple[Report, ...] | None = None
        self._epoch_rounds = experiment.steps_per_epoch
        self._saves = Saves()
        self._done = 0
        self._evaluated, self._evaluated_units = -1, 0.0
        self._out_of_time = False
        self._interrupted = False

    def run(self, saves: Saves | None = None, since: Snapshot | None = None) -> Iterator[Record]:
        """Run the experiment and yield its records in order: Started, rounds and evaluations, Ended.

        Args:
            saves: When to yield a :class:`Snapshot`, too; None: never.
            since: Go on from there instead of beginning.
        """
        self._saves = saves or self._saves
        stacked = self._start()
        limit = self._x.limits.in_rounds(self._epoch_rounds)
        done, sim_time = 0, 0.0
        if since is not None:
            self._restore(since)
            done, sim_time = since.round, since.sim_time
        yield Started(self._x.names, limit, self._epoch_rounds, stacked)
        for record in self._steps(limit):
            if isinstance(record, RoundRecord):
                done, sim_time = record.round, record.sim_time
            yield record
        yield self._finish(done, sim_time, limit)

    def stop(self) -> None:
        """End after the current round, with a snapshot; may be called from another thread or a signal's handler."""
        self._interrupted = True

    @abstractmethod
    def _steps(self, limit: int | None) -> Iterator[RoundRecord | EvalRecord | Snapshot]:
        """Submit rounds or events until a limit is met and yield what was read."""

    # Set-up -----------------------------------------------------------------------------------------------------

    def _start(self) -> int:
        """Create and connect the participants; return the number of stacked parties."""
        x, place, create = self._x, self._placement, self._runtime.create
        shared = x.shared if self._stacks and not x.shared.selects else replace(x.shared, stack="off")
        groups = [[x.parties[k] for k in group] for group in place.groups]
        hosts = zip(place.group_hosts, groups, strict=True)
        self._runtime.get([create(host, self._classes[0], specs, shared) for host, specs in hosts])
        widths = tuple(w for group in self._runtime.get([group.widths() for group in self._groups]) for w in group)
        server = create(place.server_host, self._classes[1], shared, widths)
        made = [*self._everywhere(lambda group: group.connect(widths)), server, *self._labels.create(shared)]
        stacked = self._runtime.get(made)[: len(groups)]
        if x.network is not None:
            self._connect_links(x.network, widths)
        return sum(stacked)

    def _connect_links(self, network: Network, widths: tuple[int, ...]) -> Network:
        """Return the links with the messages of a whole batch; add what these take to every party's t_comm."""
        head = self._runtime.get([self._server.start()])[0]
        network = network.carrying(*self._x.message_bytes(widths, head.state_v))
        network = self._labels.carried(network, head.state_v.itemsize)
        system = replace(self._algorithm.system, party_comm_units=network.usual_units)
        self._algorithm = self._algorithm.for_system(system)
        self._x = replace(self._x, network=network)
        check_max_time(replace(self._x, algorithm=self._algorithm))
        return network

    def _everywhere(self, call: Callable[[PartyGroup], T]) -> list[T]:
        """Start a call in every group; return the promises."""
        return [call(group) for group in self._groups]

    def _keep_first(self) -> None:
        """Have parties store their first embeddings of all training samples, if any may have to."""
        if self._x.absences is not None or self._x.shared.error_feedback:
            self._runtime.get(self._everywhere(lambda group: group.keep_first()))

    def _at_server(self, call: Callable[[Server], T]) -> list[T]:
        """Start a call at the server; return its promise, alone."""
        return [call(self._server)]

    # Reading results, in order ----------------------------------------------------------------------------------

    def _read(self, keep: int) -> Iterator[RoundRecord | EvalRecord | Snapshot]:
        """Read the oldest results until ``keep`` are left; after a divergence, nothing more is read."""
        while len(self._pending) > keep and not self._watch.found:
            pending = self._pending.popleft()
            values = self._runtime.get(pending.promises)
            record = pending.record
            if isinstance(record, Snapshot):
                state = {"reports": CODEC.encode(self._reports, {}), "reached": self._reached}
                state |= {**record.driver, "first_loss": self._watch.first_loss}
                yield replace(record, driver=state, participants=pack(values))
            elif isinstance(record, EvalRecord):
                metrics = {key: value for part in values for key, value in part.items()}
                self._reached = self._reached or self._x.target.met_by(metrics)
                self._watch.losses(record.round, (value for key, value in metrics.items() if key.endswith("_loss")))
                yield replace(record, metrics=metrics)
            else:
                record = self._complete(record, values)
                yield record if pending.sends is None else sent_again(record, pending.sends)

    def _read_all(self, done: int, limit: int | None) -> Iterator[RoundRecord | EvalRecord | Snapshot]:
        """Save and evaluate at the very end, if that was not done, and read what is left."""
        if self._saves.at_end and done != self._done:  # before an evaluation that a longer run would not have
            self._save(done, durable=True)
        if self._evaluated != done and not self._stopping:
            self._evaluate(done)
        yield from self._read(0)

    @abstractmethod
    def _complete(self, record: RoundRecord, values: list[Any]) -> RoundRecord:
        """Complete the record from the reports."""

    # Evaluation -------------------------------------------------------------------------------------------------

    def _is_eval(self, done: int, end_units: float) -> bool:
        """Whether to evaluate after ``done`` rounds, the last of which ends then."""
        return self._x.evaluations.due(done, self._evaluated_units, end_units, self._epoch_rounds)

    def _evaluate(self, done: int) -> None:
        """Submit an evaluation of all splits after ``done`` rounds, if anything is learned."""
        self._evaluated, self._evaluated_units = done, self._clock.now
        if not self._x.shared.learns:
            return
        wanted = {"test": True, "val": self._x.shared.outline.sizes["val"], "train": self._x.evaluations.train}
        splits = [cast("Split", split) for split, is_wanted in wanted.items() if is_wanted]
        as_sent = self._x.evaluations.as_sent
        metrics = tuple(
            self._labels.evaluate(split, *[group.embed_split(split, "eval", as_sent) for group in self._groups])
            for split in splits
        )
        record = EvalRecord(done, done / self._epoch_rounds, self._clock.now, {})
        self._pending.append(Pending(record, metrics))

    @property
    def _stopping(self) -> bool:
        return bool(self._watch.found) or self._interrupted or (self._reached and self._x.target.stop)

    def _lookahead_after(self, evaluated: bool) -> int:
        return 0 if evaluated and self._x.target.stop else self._lookahead

    # Snapshots --------------------------------------------------------------------------------------------------

    def _save_if_due(self, done: int, limit: int | None) -> None:
        """Submit a snapshot after ``done`` rounds, if it is time for one and the end does not bring one anyway."""
        if self._saves.due(done) and not (done == limit and self._saves.at_end):
            self._save(done, self._saves.durable(done))

    def _save(self, done: int, durable: bool) -> None:
        """Submit a snapshot of all that was submitted before."""
        saved = (*(group.save() for group in self._groups), self._server.save())
        self._pending.append(Pending(Snapshot(done, self._clock.now, self._state(), {}, durable), saved))

    def _state(self) -> dict[str, Any]:
        """Return the state of this class and the algorithm after the last submitted round, as JSON."""
        state = {
            "clock": self._clock, "computed": self._computed, "algorithm": self._algorithm.save(),
            "evaluated": (self._evaluated, self._evaluated_units),
        }  # fmt: skip
        return {key: CODEC.encode(value, {}) for key, value in state.items()}

    def _restore(self, since: Snapshot) -> None:
        """Load a snapshot into all participants and this class."""
        place, saved, names = self._placement, since.participants, self._x.names
        with as_it_was_saved("the driver"):
            state = {key: CODEC.decode(value, {}) for key, value in since.driver.items()}
            check_state(state, self._kinds(), names)
            self._algorithm.load(state["algorithm"])
            self._take_over(state)
        parts: Iterator[dict[str, Saved]] = ({names[k]: saved[names[k]] for k in group} for group in place.groups)
        loaded = self._everywhere(lambda group: group.load(next(parts)))
        self._runtime.get([*loaded, *self._at_server(lambda server: server.load(saved[SERVER]))])
        self._clock, self._computed = state["clock"], state["computed"]
        self._reports, self._reached = state["reports"], state["reached"]
        self._watch.first_loss = state["first_loss"]
        self._done = since.round
        self._evaluated, self._evaluated_units = state["evaluated"]

    def _kinds(self) -> dict[str, Any]:
        """Return of what types the values of :meth:`_state` are."""
        return {
            "clock": Stopwatch, "computed": list[float], "reports": tuple[Report, ...] | None, "reached": bool,
            "algorithm": Any, "evaluated": tuple[int, float], "first_loss": float | None,
        }  # fmt: skip

    def _take_over(self, state: dict[str, Any]) -> None:  # noqa: B027 - most have nothing
        """Take over what a subclass added to :meth:`_state`."""

    # Plans ------------------------------------------------------------------------------------------------------

    def _orders(self, plan: Plan, done: int) -> list[Order]:
        """Return everyone's order after ``done`` rounds, with decayed rates."""
        iterations = max(self._computed) / min(self._algorithm.system.base_units)
        scales = {decay: decay.scale(iterations, done / self._epoch_rounds) for decay in self._decays}
        if len(scales) == 1:
            (scale,) = scales.values()
            rates = plan.lr if scale == 1.0 else [lr * scale for lr in plan.lr]
            return self._order_rows(plan.tau, rates)
        each = zip(plan.tau, plan.lr, self._x.decays, strict=True)
        return [Order(tau, lr * scales[decay]) for tau, lr, decay in each]

    def _fits(self, end_units: float) -> bool:
        self._out_of_time = not self._x.limits.has_time_for(end_units)
        return not self._out_of_time

    def _finish(self, done: int, sim_time: float, limit: int | None) -> Ended:
        get, groups, server = self._runtime.get, self._groups, self._server
        digests = {name: text for part in get([g.digests() for g in groups]) for name, text in part.items()}
        states = {name: state for part in get([g.get_states() for g in groups]) for name, state in part.items()}
        if self._x.shared.learns:
            digests[SERVER], states[SERVER] = get([server.digest()])[0], get([server.get_state()])[0]
        memory = tuple(get([group.peak_memory_mb() for group in groups]))
        is_cut = self._interrupted and done != limit and not self._out_of_time
        status: Status = "interrupted" if is_cut else "completed"
        return Ended(done, sim_time, self._watch.found, digests, states, status, memory)
