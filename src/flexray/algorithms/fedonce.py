"""FedOnce, one-shot vertical federated learning (Wu, Li, He, 2022).

First, in ``apart_rounds`` rounds, every party k alone learns to represent its features, without labels. Every training
sample i has a target c_i, at first a random point of the unit sphere:

    Q times, on one batch:
        the targets of the batch are dealt anew to its samples, so that the sum of |h_k(x_i) - c_i|^2 is least
        the party steps down the mean of |h_k(x_i) - c_i|^2

Then every party sends its embeddings of all training samples, once. From then on

    the server, with the labels, takes Q steps down the loss of a batch of these embeddings

and so does the ``guest``, if there is one: the party at the server, which has its features at hand and skips the first
part. A round lasts until the slowest has taken its iterations; links are waited for when the embeddings are sent, and
with a guest.
"""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import override

from flexray.algorithms.base import Moment, Plan, System
from flexray.algorithms.phases import Phase
from flexray.algorithms.sync import SyncVFL
from flexray.core.checks import whole
from flexray.core.errors import ConfigError, near_match


class FedOnce(SyncVFL):
    """Parties learn apart, send embeddings once, and the server learns from these.

    Args:
        system: The participants.
        local_iterations: Q.
        apart_rounds: Rounds of the first part.
        guest: The party at the server, by name; None: the server has no features of its own.
    """

    private_labels = True

    def __init__(
        self, system: System, local_iterations: int = 1, apart_rounds: int = 200, guest: str | None = None
    ) -> None:
        super().__init__(system, local_iterations)
        self.apart_rounds = whole("algo.apart_rounds", apart_rounds, low=1)
        parties = system.names[:-1]
        if guest is not None and guest not in parties:
            raise ConfigError(f"algo.guest: no party is called {guest!r}{near_match(str(guest), parties)}")
        self._guest = None if guest is None else parties.index(guest)
        self._hosts = tuple(k for k in range(len(parties)) if k != self._guest)

    @override
    def phase(self, index: int) -> Phase:
        if index >= self.apart_rounds:
            return "joint"
        return "apart" if index < self.apart_rounds - 1 else "handover"

    @override
    def leaves_out(self, index: int, utilization: Sequence[float]) -> Sequence[int]:
        if index >= self.apart_rounds:
            return self._hosts
        return () if self._guest is None else (self._guest,)

    @override
    def plan(self, now: Moment) -> Plan:
        if (phase := self.phase(now.round)) == "joint":
            return self.wait_for_all(now, self.local_iterations)
        return self.wait_for_parties(now, self.local_iterations, sends=phase == "handover")
