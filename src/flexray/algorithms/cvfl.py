"""C-VFL, compressed vertical federated learning (Castiglia, Das, Wang, Patterson, 2022).

In every round, on one batch:

    every party sends C(h_k), its embeddings, compressed
    the server sends its model and all C(h_k) to every party
    in parallel, Q times:
        every party steps down the loss: its own embeddings are new and not compressed, the others' are C(h_j)
        the server steps down the loss of all C(h_k)
    the round lasts as long as the slowest participant's Q iterations, plus t_comm

C is what ``network.top_k`` and ``network.bits`` say (:mod:`flexray.core.links`). Without them it is synchronous VFL
with Q local iterations.
"""

from __future__ import annotations

from flexray.algorithms.sync import SyncVFL


class CVFL(SyncVFL):
    """Everybody takes Q local iterations on embeddings that were compressed on their way."""
