"""TDCD, tiered decentralized coordinate descent (Das, Castiglia, Wang, Patterson, 2022): parties that are silos.

The samples of a party are divided among its ``clients``, at the same client number for all parties. In every round, on
one batch:

    every party sends the embeddings h_k of all its clients' samples
    the server sends its model and all h_k to every party
    in parallel, at every client c of every party k, from theta_k, Q times:
        the client steps down the mean loss of its own samples of the batch:
            its own embeddings are new, the others' are those of the round's start
    theta_k is the mean of what its clients have; one without samples in the batch has theta_k
    the server steps down the loss of the whole batch, Q times
    the round lasts as long as the slowest participant's Q iterations, plus t_comm

A party's unit time is that of its clients, which compute side by side. With one client it is C-VFL without compression.
"""

from __future__ import annotations

from flexray.algorithms.base import System
from flexray.algorithms.sync import SyncVFL
from flexray.core.checks import whole

MOST_CLIENTS = 1000


class TDCD(SyncVFL):
    """Clients of a party take local iterations on samples of their own, and are averaged after each round.

    Args:
        system: The participants.
        local_iterations: Q.
        clients: Clients of every party.
    """

    def __init__(self, system: System, local_iterations: int = 5, clients: int = 4) -> None:
        super().__init__(system, local_iterations)
        self.clients = whole("algo.clients", clients, low=1, high=MOST_CLIENTS)
