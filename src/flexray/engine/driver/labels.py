"""Where the labels of a run are, and the calls that take predictions there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from flexray.core.messages import Answer, GroupReply, Order, Report, Turn
from flexray.core.network import Network
from flexray.data.base import Split
from flexray.engine.driver.experiment import Experiment
from flexray.engine.driver.seam import Placement, Runtime, remote
from flexray.engine.parties.labels import BlindServer
from flexray.engine.parties.server import Server
from flexray.engine.parties.spec import Shared
from flexray.engine.parties.untrained import classes_of


class Labels:
    """Asks the server, or the party that alone holds the labels, for what needs labels.

    Args:
        experiment: The run.
        runtime: Where the participants live.
        placement: The host of every participant.
        server: The server.
    """

    def __init__(self, experiment: Experiment, runtime: Runtime, placement: Placement, server: Server) -> None:
        self.party = experiment.shared.label_party
        """The party (0-based) that alone holds the labels; None: all do, or the server."""
        self._x, self._runtime, self._server = experiment, runtime, server
        self._class = classes_of(experiment.shared)[2]
        hosts = zip(placement.group_hosts, placement.groups, strict=True)
        self._host = next((host for host, group in hosts if self.party in group), 0)
        self._holder = remote(runtime, self._host, self._class)

    def create(self, shared: Shared) -> list[Any]:
        """Start building the label holder in the process of its party, if there is one; return the promise."""
        if self.party is None:
            return []
        spec = self._x.parties[self.party]
        return [self._runtime.create(self._host, self._class, shared, spec.name, spec.compute)]

    def gradients(self, index: int, embeddings: Sequence[GroupReply]) -> tuple[int, list[Report]]:
        """Have the server compute the gradients of a round; return its promise, and that of the label holder's report.

        Args:
            index: 0-based round.
            embeddings: Promises of the groups' embeddings.
        """
        if self.party is None:
            return self._server.gradients(index, *embeddings), []
        server = cast("BlindServer", self._server)
        top = self._holder.gradient(None, index, server.predict_batch(index, *embeddings))
        return server.pass_back(index, top), [self._holder.report()]

    def answer(self, event: int, party: int, turn: int, order: Order, own: Turn) -> tuple[Answer, list[Report]]:
        """Have the server answer a turn; return the promise, and that of the label holder's report."""
        if self.party is None:
            return self._server.answer(event, party, turn, order, own), []
        server = cast("BlindServer", self._server)
        top = self._holder.gradient(party, turn, server.predict_turn(event, party, turn, own))
        return server.answer_along(event, order, top), [self._holder.report()]

    def evaluate(self, split: Split, *embeddings: GroupReply) -> dict[str, float]:
        """Have a split evaluated where the labels are; return the promise."""
        if self.party is None:
            return self._server.evaluate(split, *embeddings)
        return self._holder.evaluate(split, self._server.predict(split, *embeddings))

    def carried(self, network: Network, itemsize: int) -> Network:
        """Return the links with what the bytes of a prediction and its gradient take added to every round trip."""
        if self.party is None:
            return network
        shared, link = self._x.shared, network.links[self.party]
        size = shared.batch_size * shared.outline.task.num_outputs * itemsize
        top = size / link.up + size / link.down
        return replace(network, links=tuple(replace(own, round_trip=own.round_trip + top) for own in network.links))

    def noted(self, reports: tuple[Report, ...], found: Sequence[Report]) -> tuple[Report, ...]:
        """Return everybody's reports with what the label holder reported, if any: loss and bytes."""
        if self.party is None or not found:
            return reports
        own, (top,) = reports[self.party], found
        both = own._replace(
            loss=top.loss,
            diverged_at=own.diverged_at if top.diverged_at is None else top.diverged_at,
            up_bytes=own.up_bytes + top.up_bytes,
            down_bytes=own.down_bytes + top.down_bytes,
        )
        return (*reports[: self.party], both, *reports[self.party + 1 :])

    def loss(self, reports: Sequence[Report]) -> float | None:
        """Return the loss of a batch, which the server or the label holder knows."""
        return reports[-1 if self.party is None else self.party].loss
