"""VAFL, asynchronous vertical federated learning (Chen et al., 2020; SPEC 6).

The server keeps the last embedding of every sample that it got from every party. Whenever a party's turn ends:

    the party sends its embeddings of its own mini-batch
    the server puts them beside the stored, possibly stale ones of the others, takes one step on its model
    and answers with the gradient of the loss with respect to the party's embeddings
    the party takes one step, and its next turn begins

A turn lasts the party's unit time plus its t_comm. Turns that end together are taken in party order.
"""

from __future__ import annotations

import math

from flexray.algorithms.base import EventAlgorithm, Moment, Plan
from flexray.errors import ConfigError
from flexray.simulation.speeds import unit_time


class VAFL(EventAlgorithm):
    """Parties step one at a time, each at its own pace; one local iteration per turn."""

    def turn_units(self, party: int, now: Moment) -> float:  # noqa: D102
        system = self.system
        computing = unit_time(system.base_units[party], now.utilization[party])
        if math.isinf(computing):
            raise ConfigError(
                f"speeds: {system.names[party]} is at utilization 1 at time {now.sim_time:g}, so its turn would never"
                " end; expected a utilization below 1"
            )
        return computing + system.party_comm_units[party]

    def plan(self, party: int, now: Moment) -> Plan:  # noqa: D102
        system = self.system
        server = len(system.names) - 1
        tau = tuple(int(k in (party, server) and not system.frozen[k]) for k in range(server + 1))
        times = tuple(unit_time(base, c) for base, c in zip(system.base_units, now.utilization, strict=True))
        return Plan(tau, system.lr, self.turn_units(party, now), system.party_comm_units[party], times)
