"""EF-VFL, vertical federated learning with compressed error feedback (Valdeira, Xavier, Soares, Chi, 2024).

Sender and receivers keep the same surrogate G_k of the embeddings of all training samples; at first G_k = C(h_k) of the
first model. In every round, on one batch:

    every party sends C(h_k - G_k), the compressed difference, and everybody adds it to the batch's rows of G_k
    the server sends its model and these differences to every party
    every party steps down the loss: its own embeddings are not compressed, the others' are G_j
    the server steps down the loss of all G_k
    the round lasts as long as the slowest participant's iterations, plus t_comm

What a compression leaves out is thus sent later, and its error vanishes as the model settles. The paper takes one local
iteration; more are allowed, as are private labels: ``labels_at=server``.
"""

from __future__ import annotations

from flexray.algorithms.base import System
from flexray.algorithms.sync import SyncVFL


class EFVFL(SyncVFL):
    """Everybody takes local iterations on surrogates, to which every round adds a compressed difference."""

    error_feedback = True

    def __init__(self, system: System, local_iterations: int = 1) -> None:
        super().__init__(system, local_iterations)
