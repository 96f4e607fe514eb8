"""Split learning (Vepakomma et al., 2018), with features split over parties: the baseline that everybody knows.

In every round, on one batch:

    every party computes its embeddings and sends them
    the server completes the forward pass, with labels that it alone has, and goes back to the embeddings
    the server takes one step, and sends every party the loss's gradient by its embeddings
    every party goes on backwards from there, and takes one step

The gradients are those of the whole model at one point, so this is P-BCD with labels at the server, and with plain SGD
the same as training the whole model in one place. The round lasts as long as the slowest participant's iteration, plus
t_comm.
"""

from __future__ import annotations

from flexray.algorithms.pbcd import PBCD


class SplitLearning(PBCD):
    """One forward and one backward pass a round; labels are at the server."""

    private_labels = True
