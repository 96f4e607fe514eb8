"""What a party learns alone, without labels: to represent its samples (Bojanowski and Joulin, 2017, as in FedOnce).

Shapes: b = samples of a batch, n = training samples, o = the party's embedding width.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from flexray.core.messages import FloatArray
from flexray.core.seeds import generator
from flexray.data.base import IdArray


def first_targets(seed: int, party: int, samples: int, width: int) -> FloatArray:
    """Return a random point of the unit sphere for every training sample [n, o] of a party (1..K)."""
    points_no = generator(seed, party, "targets").standard_normal((samples, width))
    targets_no: FloatArray = points_no / np.linalg.norm(points_no, axis=1, keepdims=True)
    return targets_no


def dealt_anew(embeddings_bo: Tensor, targets_bo: FloatArray) -> FloatArray:
    """Return the targets of a batch in the order in which they are nearest to its embeddings, all together."""
    from scipy.optimize import linear_sum_assignment  # takes longer to import than a round; others do without

    own_bo = embeddings_bo.detach().cpu().double().numpy()
    finite_bo = np.nan_to_num(own_bo, nan=0.0, posinf=0.0, neginf=0.0)  # one that diverged is found by its loss
    far_bb = np.square(finite_bo[:, None, :] - targets_bo[None, :, :]).sum(axis=2)
    dealt_bo: FloatArray = targets_bo[linear_sum_assignment(far_bb)[1]]
    return dealt_bo


class Targets:
    """The targets of a party's training samples.

    Args:
        targets_no: Those of all samples.
    """

    def __init__(self, targets_no: FloatArray) -> None:
        self.targets_no: FloatArray = np.array(targets_no, dtype=np.float64)

    def loss(self, ids_b: IdArray, embeddings_bo: Tensor) -> Tensor:
        """Deal the targets of samples ``ids_b`` anew, and return their mean squared distance from the embeddings."""
        self.targets_no[ids_b] = dealt_anew(embeddings_bo, self.targets_no[ids_b])
        targets_bo = torch.from_numpy(self.targets_no[ids_b]).to(embeddings_bo)
        return (embeddings_bo - targets_bo).square().sum(dim=1).mean()
