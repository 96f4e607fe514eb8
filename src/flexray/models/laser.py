"""The server's model of LASER-VFL: fusion models of any embeddings that there are (docs/algorithms.md, LASER-VFL).

Shapes: b = samples of a batch, k = parties, s = sizes of subsets, o = sum of embedding widths, all equal, w = one of
them, c = outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from typing_extensions import override

from flexray.core.errors import ConfigError
from flexray.models.mlp import MLP

Losses = Callable[[Tensor, Tensor], Tensor]
"""Maps predictions [b, c] and labels [b] to the loss of each sample [b]."""


class Laser(nn.Module):
    """A fusion model per party, each of which predicts from the mean of any embeddings that include its party's.

    Args:
        in_features: o, the widths of all embeddings together.
        out_features: c.
        parties: K.
        hidden: Widths of the hidden layers of a fusion model; none makes it a linear map.
    """

    sees_missing = True
    """It is told which embeddings there are, and has a loss of its own."""

    def __init__(self, in_features: int, out_features: int, parties: int = 1, hidden: Sequence[int] = ()) -> None:
        super().__init__()
        if parties < 1 or in_features % parties:
            raise ConfigError(f"server: LASER-VFL averages embeddings; expected equal widths of {parties} parties")
        self.fusions = nn.ModuleList(MLP(in_features // parties, out_features, hidden) for _ in range(parties))

    @override
    def forward(self, embeddings_bo: Tensor, present_bk: Tensor) -> Tensor:
        """Return the mean prediction [b, c] of the fusion models of those parties that have a sample; 0 if none has."""
        mean_bw = average(embeddings_bo, present_bk)
        each_kbc = torch.stack([fusion(mean_bw) for fusion in self.fusions])
        weights_kb1 = present_bk.t().unsqueeze(2) / present_bk.sum(dim=1).clamp(min=1).view(1, -1, 1)
        return (each_kbc * weights_kb1).sum(dim=0)

    def loss(self, embeddings_bo: Tensor, present_bk: Tensor, labels_b: Tensor, losses: Losses) -> Tensor:
        """Return an unbiased estimate of the mean over samples of the loss of all subsets of their embeddings.

        Args:
            embeddings_bo: What arrived; numbers of missing ones do not count.
            present_bk: Which there are.
            labels_b: Labels.
            losses: The loss of each sample.
        """
        there_b, total = present_bk.sum(dim=1), embeddings_bo.new_zeros(())
        for k, fusion in enumerate(self.fusions):
            subset_sbk = draw_subsets(present_bk, k)
            mean_sbw = average(embeddings_bo, subset_sbk)
            sizes = len(mean_sbw)
            loss_sb = losses(fusion(mean_sbw.flatten(0, 1)), labels_b.repeat(sizes)).view(sizes, -1)
            weight_sb = torch.stack([weights(there_b, size) for size in range(1, sizes + 1)]) * present_bk[:, k]
            total = total + (loss_sb * weight_sb.to(loss_sb.dtype)).sum()
        return total / (there_b > 0).sum().clamp(min=1)


def weights(there_b: Tensor, size: int) -> Tensor:
    """Return how often a subset of this size counts: C(n - 1, size - 1) / size, where n parties have a sample."""
    ways_b = torch.ones_like(there_b, dtype=torch.float64)
    for step in range(1, size):
        ways_b = ways_b * (there_b - step).clamp(min=0) / step
    return ways_b / size


def draw_subsets(present_bk: Tensor, party: int) -> Tensor:
    """Return subsets of the parties that have a sample [s, b, k], of sizes 1 .. K: ``party``, and others at random.

    Where ``party`` does not have it, or fewer have, the weight is 0.
    """
    parties = present_bk.shape[1]
    score_sbk = torch.rand(parties, *present_bk.shape).to(present_bk.device)
    score_sbk = torch.where(present_bk, score_sbk, -1.0)
    score_sbk[:, :, party] = 2.0
    rank_sbk = score_sbk.argsort(dim=2, descending=True).argsort(dim=2)
    size_s11 = torch.arange(1, parties + 1, device=present_bk.device).view(-1, 1, 1)
    return (rank_sbk < size_s11) & present_bk


def average(embeddings_bo: Tensor, subset: Tensor) -> Tensor:
    """Return the mean [..., b, w] of the embeddings of subsets [..., b, k] of the parties; 0 of none."""
    blocks_bkw = embeddings_bo.reshape(*subset.shape[-2:], -1)
    kept = torch.where(subset.unsqueeze(-1), blocks_bkw, 0.0)
    return kept.sum(dim=-2) / subset.sum(dim=-1, keepdim=True).clamp(min=1)
