"""FedBCD-p, federated stochastic block coordinate descent, the parallel form (Liu et al., 2019 and 2022).

In every round, on one batch:

    every party sends its embeddings to the owner of the labels
    the owner sends every party v_k, the loss's gradient by its embeddings
    in parallel, Q times:
        every party steps along J_k^T v_k: its own Jacobian J_k is new each time, v_k is that of the round's start
        the owner steps down the loss: its own part is new each time, the others' embeddings are those of the start
    the round lasts as long as the slowest participant's Q iterations, plus t_comm

Q is the same for all and in all rounds. With Q = 1 it is split learning.
"""

from __future__ import annotations

from flexray.algorithms.sync import SyncVFL


class FedBCD(SyncVFL):
    """Everybody takes Q local iterations; a party reuses the gradient that it got for all of them."""

    private_labels = True
