"""VAFL, asynchronous vertical federated learning (Chen et al., 2020).

The server keeps the last embedding of every sample that it got from every party. In its turn

    a party computes, and sends its embeddings of its own mini-batch
    the server puts them beside the stored, possibly stale ones of the others, takes one step on its model
    and answers with the gradient of the loss with respect to the party's embeddings
    the party takes one step, and its next turn begins

A party's message is at the server after the party's unit time and its t_comm (the round trip). The server is one
machine: it takes its steps one after another, each of its own unit time, and messages that find it busy wait, first
come, first served; of those that arrive together the party with the lower number comes first. With ``server="free"``
its steps take no time, as in the Flex-VFL paper's text: the n-th update of a party counts at n (unit time + t_comm).

With ``max_ahead=s`` staleness is bounded (as in SSP, Ho et al., 2013): a party that has taken more than s turns more
than the slowest one waits with its next until that one has caught up. With s = 0 all take their turns side by side.
"""

from __future__ import annotations

from typing import Literal

from flexray.algorithms.base import EventAlgorithm, Moment, Plan, System
from flexray.core.errors import ConfigError, near_match
from flexray.core.speeds import all_unit_times

SERVERS = ("queue", "free")


class VAFL(EventAlgorithm):
    """Parties step one at a time, each at its own pace; one local iteration per turn.

    Args:
        system: The participants.
        server: ``queue``: the server's steps take time, one after another; ``free``: they take none.
        max_ahead: How many turns a party may be ahead of the slowest one before it waits; None: it never waits.
    """

    def __init__(
        self, system: System, server: Literal["queue", "free"] = "queue", max_ahead: int | None = None
    ) -> None:
        super().__init__(system)
        if server not in SERVERS:
            raise ConfigError(f"algo.server: unknown value '{server}'{near_match(str(server), SERVERS)}")
        self.server = server
        self.max_ahead = max_ahead

    def plan(self, party: int, now: Moment) -> Plan:
        """Return one local iteration of the party and of the server."""
        system, comm = self.system, self.system.party_comm_units[party]
        last = len(system.names) - 1
        tau = tuple(int(k in (party, last) and not system.frozen[k]) for k in range(last + 1))
        times = all_unit_times(system.base_units, now.utilization)
        busy = times[last] if tau[last] and self.server == "queue" else 0.0
        return Plan(tau, system.lr, times[party] + comm, comm, times, server_units=busy)
