"""A run as plain, picklable objects: what configuration becomes, and all that the driver knows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from flexray.algorithms.base import EventAlgorithm, Moment, RoundAlgorithm
from flexray.core.absence import Absences
from flexray.core.messages import FloatArray
from flexray.core.network import WAYS, Network
from flexray.core.scores import meets
from flexray.core.speeds import Speeds
from flexray.engine.parties.spec import ParticipantSpec, Shared


@dataclass(frozen=True)
class Limits:
    """When a run ends: whichever comes first; at least one is given.

    Args:
        rounds: Global rounds (VAFL: updates).
        epochs: Passes over the training samples.
        max_time: Simulated time in units; no round ends later. With ``clock=wall`` no round begins that its plan has
            end later; how long it really lasts is known only then.
    """

    rounds: int | None = None
    epochs: float | None = None
    max_time: float | None = None

    def in_rounds(self, rounds_per_epoch: int) -> int | None:
        """Return the limit in rounds, or None if only time limits the run."""
        limits = [self.rounds, None if self.epochs is None else round(self.epochs * rounds_per_epoch)]
        given = [limit for limit in limits if limit is not None]
        return min(given) if given else None

    def has_time_for(self, end_units: float) -> bool:
        """Whether a round that ends at ``end_units`` ends in time."""
        return self.max_time is None or end_units <= self.max_time * (1 + 1e-12)  # sums may end a rounding error late


@dataclass(frozen=True)
class Target:
    """The metric value that ends time-to-target, for example ``test_top1`` at 0.96."""

    metric: str
    value: float | None = None
    stop: bool = False

    def met_by(self, metrics: dict[str, float]) -> bool:
        """Whether an evaluation reaches the target."""
        return self.value is not None and meets(self.metric, metrics[self.metric], self.value)


@dataclass(frozen=True)
class LearningRateDecay:
    """Multiplies a participant's rate by ``factor`` at each milestone.

    Args:
        milestones: In local iterations or epochs since the beginning.
        factor: What each one does to the rate.
        by: ``iterations``: those that the fastest participant has had time for, so that all participants decay in the
            same round (counted one by one, the slowest would decay last or never); ``epochs``: passes over the data.
    """

    milestones: tuple[int, ...] = ()
    factor: float = 0.1
    by: Literal["iterations", "epochs"] = "iterations"

    def scale(self, iterations: float, epochs: float) -> float:
        """Return the factor for a round that starts after so many local iterations and epochs."""
        passed = iterations if self.by == "iterations" else epochs
        passed *= 1 + 1e-12  # sums may end a rounding error short
        return self.factor ** sum(passed >= milestone for milestone in self.milestones)


@dataclass(frozen=True)
class Evaluations:
    """When a run is evaluated, besides before its first round.

    Args:
        every: Rounds between evaluations (VAFL: turns); None: once an epoch.
        every_units: Simulated time between them instead: after the first round that ends at or after each multiple.
        train: Evaluate the training samples, too.
        as_sent: Evaluate embeddings as they are sent, clipped, noisy and compressed; else as the parties compute them.
    """

    every: int | None = None
    every_units: float | None = None
    train: bool = True
    as_sent: bool = False

    def due(self, done: int, before_units: float, now_units: float, epoch_rounds: int) -> bool:
        """Whether to evaluate after round ``done``, which began the time ``before_units`` and ended ``now_units``."""
        if self.every_units is None:
            return done % (self.every or epoch_rounds) == 0
        return self._multiples(now_units) > self._multiples(before_units)

    def _multiples(self, units: float) -> int:
        return math.floor(units / (self.every_units or 1.0) * (1 + 1e-12))


@dataclass(frozen=True)
class WallClock:
    """Real seconds are counted instead of units.

    Args:
        static_rates: Set static learning rates once the seconds of local iterations are known.
        calibrates_s: Run nothing, but measure for about so many seconds what a run takes; None: run.
    """

    static_rates: bool = False
    calibrates_s: float | None = None


@dataclass(frozen=True)
class Experiment:
    """Everything that determines a run's numbers.

    Args:
        shared: Settings that all participants share.
        parties: The K parties.
        algorithm: Plans rounds or turns.
        speeds: Utilization over rounds or time.
        decays: Learning-rate decay per participant, parties then server.
        limits: When to end.
        target: What time-to-target waits for.
        evaluations: When the model is evaluated, and on which samples.
        time_unit: Unit of simulated time.
        wall: Count real seconds; None: the virtual clock.
        network: Links on which bytes take time, or messages are timed one by one; None: all that there is to know of
            them is the algorithm's t_comm.
        absences: The parties that miss each round; None: nobody ever does.
    """

    shared: Shared
    parties: tuple[ParticipantSpec, ...]
    algorithm: RoundAlgorithm | EventAlgorithm
    speeds: Speeds
    decays: tuple[LearningRateDecay, ...]
    limits: Limits
    target: Target
    evaluations: Evaluations = Evaluations()
    time_unit: str = "units"
    wall: WallClock | None = None
    network: Network | None = None
    absences: Absences | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parties, then ``server``."""
        return (*(party.name for party in self.parties), self.shared.server.name)

    @cached_property
    def feature_parties(self) -> tuple[int, ...]:
        """The parties (0-based) that have features; where parties take turns, they do."""
        return tuple(k for k in range(len(self.parties)) if k not in self.algorithm.system.labels_only)

    @property
    def steps_per_batch(self) -> int:
        """How many steps make one pass over a batch: one round, or a turn of each party."""
        return len(self.feature_parties) if self.algorithm.takes_turns else 1

    @property
    def steps_per_epoch(self) -> int:
        """How many rounds, or turns of all parties together, make one pass over the training samples."""
        return self.shared.batches().per_epoch * self.steps_per_batch

    @property
    def has_phases(self) -> bool:
        """Whether parties do not train on the loss in all rounds."""
        return isinstance(self.algorithm, RoundAlgorithm) and self.algorithm.has_phases

    @property
    def bounds_turns(self) -> bool:
        """Whether parties wait for slower ones between their turns."""
        return isinstance(self.algorithm, EventAlgorithm) and self.algorithm.max_ahead is not None

    @property
    def chooses_timeout(self) -> bool:
        """Whether every round has a timeout of its own."""
        return self.algorithm.system.chooses_timeout

    def moment(self, index: int, sim_time: float, everybody: bool = False) -> Moment:
        """Return what is known when a round (0-based) starts; ``everybody``: as if nobody were absent."""
        utilization = self.speeds.utilization(index, sim_time)
        absent = frozenset[int]() if everybody else self.absent(index, utilization)
        return Moment(
            index, sim_time, utilization, absent=absent, party_comm_units=self._link_units(index, sim_time, absent)
        )

    def _link_units(self, index: int, sim_time: float, absent: frozenset[int]) -> tuple[float, ...] | None:
        """Return t_comm of every party in a round, where that may differ from others; None: as ever."""
        network = self.network
        if network is None:
            return None
        hands_over = isinstance(self.algorithm, RoundAlgorithm) and self.algorithm.phase(index) == "handover"
        if hands_over:  # one message with all training samples, and no answer
            samples, batch = self.shared.outline.sizes["train"], self.shared.batch_size
            up_bytes = [math.ceil(size * samples / batch) for size in network.up_bytes]
            network = network.carrying(up_bytes, [0] * len(up_bytes))
        if network.one_by_one:
            return network.round_units(index, sim_time, absent)
        return network.usual_units if self.has_phases else None

    def turn(self, party: int, index: int, sim_time: float) -> Moment:
        """Return what is known when a turn (0-based) of a party (0-based) starts: its link as if nobody else sent."""
        utilization, units = self.speeds.utilization(index, sim_time), None
        if self.network is not None and self.network.one_by_one:
            usual, own = self.network.usual_units, self.network.turn_units(party, index, sim_time)
            units = (*usual[:party], own, *usual[party + 1 :])
        return Moment(index, sim_time, utilization, party_comm_units=units)

    def message_bytes(self, widths: Sequence[int], head_v: FloatArray) -> tuple[list[int], list[int]]:
        """Return the bytes of every party's message up and of the one down, with a whole batch.

        Args:
            widths: The parties' embedding widths.
            head_v: The server's parameters.
        """
        shared, size, itemsize = self.shared, self.shared.batch_size, head_v.itemsize
        up = [shared.wire(k).nbytes(size, width, itemsize) for k, width in enumerate(widths)]
        gets_phi = not self.algorithm.takes_turns and shared.labels_at == "all"
        phi = head_v.nbytes + sum(up)
        return up, [phi if gets_phi else size * width * itemsize for width in widths]

    def sends(self, index: int, party: int | None = None) -> tuple[tuple[int, int], ...] | None:
        """Return how often messages up and down are sent in a round, or in a turn of a party; None: all once."""
        network = self.network
        if network is None or not network.loses:
            return None
        if party is None:
            up, down = (network.in_round(way, index, 0.0).sends_p.tolist() for way in WAYS)
            return tuple(zip(up, down, strict=True))
        up, down = (int(network.in_turn(way, party, index, 0.0).sends_p[0]) for way in WAYS)
        return tuple((up, down) if k == party else (1, 1) for k in range(len(self.parties)))

    def absent(self, round_index: int, utilization: Sequence[float]) -> frozenset[int]:
        """Return the parties (0-based) that miss a round (0-based) in which CPU utilizations are these."""
        return frozenset() if self.absences is None else self.absences.of(round_index, utilization)
