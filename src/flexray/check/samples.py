"""Made-up samples for a model: of a shape, as numbers, sequences with lengths, or tokens.

Shapes: n = samples of a split, b = samples of a batch, t = steps of the longest sequence, d = features of a step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from typing_extensions import override

from flexray.core.seeds import generator
from flexray.data.base import ArrayFeatures, Dataset, Features, IdArray, Outline, Split
from flexray.tasks import LabelArray, Task

Content = Literal["numbers", "sequences", "tokens", "words"]
SIZES: dict[Split, int] = {"train": 13, "val": 0, "test": 3}
CLASSES, WORDS = 3, 8


@dataclass(frozen=True)
class Samples(Dataset):
    """Parties with samples of one shape, and labels of three classes.

    Args:
        parties: Their names.
        shape: Of one sample.
        content: ``numbers`` of any shape; ``sequences`` [b, t, d] and their lengths [b]; ``tokens`` [b, t] and a mask;
            ``words``: the tokens alone.
    """

    parties: tuple[str, ...]
    shape: tuple[int, ...]
    content: Content = "numbers"

    @override
    def outline(self) -> Outline:
        return Outline(self.parties, SIZES, Task("cross_entropy", CLASSES), "synthetic")

    @override
    def features(self, party: int, dtype: torch.dtype) -> Mapping[Split, Features]:
        return {split: _Made(self, split, party, dtype) for split in SIZES}

    @override
    def labels(self) -> Mapping[Split, LabelArray]:
        return {split: generator(0, "labels", split).permutation(rows) % CLASSES for split, rows in SIZES.items()}


class _Made(ArrayFeatures):
    def __init__(self, samples: Samples, split: Split, party: int, dtype: torch.dtype) -> None:
        draw, shape = generator(0, split, party), (SIZES[split], *samples.shape)
        super().__init__(draw.normal(size=shape), dtype)
        self._content = samples.content
        self._lengths_n = torch.from_numpy(draw.integers(1, samples.shape[0] + 1, size=shape[0]))

    @override
    def batch(self, ids_b: IdArray, epoch: int) -> Tensor | tuple[Tensor, ...]:  # type: ignore[override]
        x, lengths_b = super().batch(ids_b, epoch), self._lengths_n[torch.from_numpy(ids_b)]
        if self._content == "numbers":
            return x
        is_there_bt = torch.arange(x.shape[1]) < lengths_b[:, None]
        if self._content == "sequences":
            return x * is_there_bt[..., None], lengths_b
        tokens_bt = (x.abs() * WORDS).long() % WORDS * is_there_bt
        return tokens_bt if self._content == "words" else (tokens_bt, is_there_bt.long())
