"""What parties, server and driver exchange.

Shapes: b = samples of a batch, o_k = embedding width of party k, v = number of server parameters.
"""

from dataclasses import dataclass, field  # not annotations from __future__: those of named tuples cannot be resolved
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

SERVER = "server"
SERVER_INDEX = 0
"""The server's index in the paper and in random streams; parties are 1..K there."""
LABELS_AT = ("all", "server")
"""Holders of the labels besides a single party."""

FloatArray = npt.NDArray[np.floating]
State = dict[str, npt.NDArray[Any]]
"""Parameters and buffers of one participant, in state_dict order."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How local iterations are taken in real time (``clock=wall``).

    Args:
        share: Share of the participant's own rate that it is left with, above 0, up to 1.
        seconds: How long the computing lasts at least.
        fill: Take as many iterations as fit ``seconds``, at least one, instead of the order's number.
        rehearsal: This is the dummy round: the optimizer must not change.
        overhead_s: Seconds that a round takes beside local iterations: messages, embeddings, Phi.
    """

    share: float
    seconds: float = 0.0
    fill: bool = False
    rehearsal: bool = False
    overhead_s: float = 0.0


class Order(NamedTuple):
    """What one participant is to do in a round.

    Args:
        tau: Number of local iterations; 0 leaves the participant as it is.
        lr: Learning rate eta.
        pace: How to take them in real time; None on the virtual clock.
    """

    tau: int
    lr: float
    pace: Pace | None = None


class Report(NamedTuple):
    """What one participant did in a round (VAFL: in an event).

    Args:
        tau: Local iterations taken.
        max_weight: w_bar, the largest optimizer weight of the round.
        loss: Loss of the batch before the first local iteration; None if there was none, or it is not known.
        diverged_at: First local iteration whose loss was NaN or infinite; None if there was none.
        up_bytes: Bytes that went from the party to the server.
        down_bytes: Bytes that went from the server to the party.
        unit_s: On the wall clock: seconds of computing per local iteration, rests not counted.
        span_s: On the wall clock: seconds from the first local iteration to the end of the last rest.
    """

    tau: int
    max_weight: float
    loss: float | None = None
    diverged_at: int | None = None
    up_bytes: int = 0
    down_bytes: int = 0
    unit_s: float = 0.0
    span_s: float = 0.0


PlainArray = tuple[bytes, str, tuple[int, ...]]


def _plain(array: FloatArray) -> PlainArray:
    return array.tobytes(), array.dtype.str, array.shape


def _array(raw: bytes, dtype: str, shape: tuple[int, ...]) -> FloatArray:
    array: FloatArray = np.frombuffer(raw, dtype).reshape(shape)
    return array


@dataclass(frozen=True, slots=True)
class GroupReply:
    """Embeddings and reports of the parties that live in one host, in party order.

    Args:
        blocks: One [b, o_k] array per party: the embeddings of the next batch.
        reports: One report per party on the round that was just computed.
    """

    blocks: tuple[FloatArray, ...] = ()
    reports: tuple[Report, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel as bytes and plain tuples, which pickle reads fastest: every other host does so in every round."""
        return _group_reply, ([_plain(block) for block in self.blocks], [tuple(report) for report in self.reports])


def _group_reply(blocks: list[PlainArray], reports: list[tuple[Any, ...]]) -> GroupReply:
    return GroupReply(tuple([_array(*block) for block in blocks]), tuple([Report(*fields) for fields in reports]))


@dataclass(frozen=True, slots=True)
class ServerReply:
    """The server's parameters theta_0 as one vector [v], and its report on the round."""

    state_v: FloatArray
    report: Report

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel as a :class:`GroupReply` does."""
        return _server_reply, (_plain(self.state_v), tuple(self.report))


def _server_reply(state_v: PlainArray, report: tuple[Any, ...]) -> ServerReply:
    return ServerReply(_array(*state_v), Report(*report))


@dataclass(frozen=True, slots=True)
class Turn:
    """VAFL: a party's embeddings [b, o_k] of the batch of its next turn, and its report on the turn before."""

    block_bo: FloatArray
    report: Report


@dataclass(frozen=True, slots=True)
class Answer:
    """The server's answer to one party in VAFL.

    Args:
        grad_bo: Gradient of the batch's loss with respect to the party's embedding [b, o_k].
        report: The server's report on its own step.
        staleness: Per party, mean age of the embeddings used, in server updates since they arrived.
    """

    grad_bo: FloatArray
    report: Report
    staleness: tuple[float, ...]


@dataclass(frozen=True)
class Started:
    """First record of a run; ``stacked`` is the number of parties that share operations with others."""

    names: tuple[str, ...]
    rounds: int | None
    rounds_per_epoch: int
    stacked: int = field(default=0, compare=False)


@dataclass(frozen=True)
class RoundRecord:
    """One global round (VAFL: one event), as a row of ``rounds.csv``; lists hold the parties 1..K, then the server.

    Args:
        round: 1-based number.
        start_units: Simulated time at its start.
        sim_time: Simulated time at its end, in units.
        duration: Length in units.
        tau: Local iterations.
        lr: Learning rates.
        utilization: CPU utilizations.
        comm_units: The part of the duration that is communication.
        unit_times: Units per local iteration.
        train_loss: Loss of the batch before the round's updates.
        sent_bytes: Bytes sent in the round, all parties, both directions.
        up_bytes: Per party.
        down_bytes: Per party.
        party: VAFL: index of the party that took its turn.
        staleness: VAFL: see :class:`Answer`; BS-VFL: see :class:`flexray.algorithms.base.Plan`.
        absent: The parties (0-based) that missed the round; None where no party ever does.
        server_units: VAFL: how long the server's step took, at the end of the turn.
        waited_units: VAFL: how long the party waited for slower ones, between its turn before and this one.
        party_comm_units: How long each party's messages took; None where a round's are not timed one by one.
        timeout_units: The timeout that was chosen for the round; None where it is that of the run.
    """

    round: int
    start_units: float
    sim_time: float
    duration: float
    tau: tuple[int, ...]
    lr: tuple[float, ...]
    utilization: tuple[float, ...]
    comm_units: float
    unit_times: tuple[float, ...]
    train_loss: float
    sent_bytes: int
    up_bytes: tuple[int, ...]
    down_bytes: tuple[int, ...]
    party: int | None = None
    staleness: tuple[float, ...] | None = None
    absent: tuple[int, ...] | None = None
    server_units: float = 0.0
    waited_units: float = 0.0
    party_comm_units: tuple[float, ...] | None = None
    timeout_units: float | None = None

    @property
    def present(self) -> tuple[int, ...]:
        """Participants of the round, by place: all but the absent; VAFL: the party that took its turn."""
        away = frozenset(self.absent or ())
        return tuple(k for k in range(len(self.tau)) if k not in away) if self.party is None else (self.party,)


@dataclass(frozen=True)
class EvalRecord:
    """One evaluation, as a row of ``evals.csv``; ``metrics`` has keys such as ``test_top1``."""

    round: int
    epoch: float
    sim_time: float
    metrics: dict[str, float]


@dataclass(frozen=True)
class Divergence:
    """Where a loss first became NaN or infinite, or a million times what it was.

    Args:
        round: 1-based round (VAFL: event).
        participant: The one that saw it.
        local_iteration: 0-based.
        loss: What it was, if it was finite.
    """

    round: int
    participant: str
    local_iteration: int
    loss: float | None = None


@dataclass(frozen=True)
class Saved:
    """All of one participant that outlives a round.

    Args:
        arrays: Parameters and buffers under ``model.``, and whatever else is an array.
        notes: The rest, as JSON. ``parameters``: names of the parameters, in state_dict order.
    """

    arrays: State = field(repr=False)
    notes: dict[str, Any]


@dataclass(frozen=True)
class Snapshot:
    """Everything that a run needs to go on after a round, between the records before and after that round's end.

    Random streams are named, not carried (:mod:`flexray.core.seeds`), and batches, traces and recordings are functions
    of the round or the time; so there is nothing of theirs to save.

    Args:
        round: Rounds that are done.
        sim_time: Simulated time at the end of the last one.
        driver: Clock, event heap, last reports and the like, as JSON.
        participants: Parties and server, by name.
        durable: Whether to write it to disk, too; else it only serves to replace lost processes.
    """

    round: int
    sim_time: float
    driver: dict[str, Any] = field(repr=False)
    participants: dict[str, Saved] = field(repr=False)
    durable: bool


Status = Literal["completed", "interrupted", "failed"]


@dataclass(frozen=True)
class Ended:
    """Last record of a run; ``peak_memory_mb`` has one number per host that holds parties."""

    rounds: int
    sim_time: float
    divergence: Divergence | None
    digests: dict[str, str]
    states: dict[str, State] = field(repr=False)
    status: Status = "completed"
    peak_memory_mb: tuple[float | None, ...] = ()


Record = Started | RoundRecord | EvalRecord | Snapshot | Ended
