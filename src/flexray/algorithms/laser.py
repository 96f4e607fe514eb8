"""LASER-VFL (Valdeira, Wang, Chi, ICLR 2025): any party may lack any sample, in training and at test time.

In every round, on one batch:

    every party k sends its embeddings h_k of the samples that it has
    for each sample, of which the parties K_o have something, each k in K_o and each size i = 1 .. |K_o|:
        draw a subset S of K_o that has k and i - 1 others
        k's fusion model predicts from the mean of h_j, j in S
        its loss counts C(|K_o| - 1, i - 1) / i times: for all subsets of that size, each of which i parties draw from
    every party gets the gradient of the sum by its embeddings, and everybody takes one step

The loss is an unbiased estimate of that of all subsets of the blocks of a sample, so that any subset can predict. Here
the fusion models are the server's (:class:`flexray.models.laser.Laser`, ``server=laser``), and so are the labels; the
rest is split learning. The round lasts as long as the slowest participant's iteration, plus t_comm.
"""

from __future__ import annotations

from flexray.algorithms.pbcd import PBCD


class LaserVFL(PBCD):
    """One forward and one backward pass a round, of losses over subsets of the parties; labels are at the server."""

    private_labels = True
    sees_missing = True
