"""What a party's features and the first pass of its model must be like.

Shapes: o = the party's embedding width.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from flexray.core.errors import ConfigError, DataError, ParticipantError
from flexray.data.base import SPLITS, Features, Split
from flexray.models import CNN, MLP, Linear

PURE = frozenset({
    MLP, Linear, CNN, nn.Sequential, nn.Linear, nn.Conv2d, nn.MaxPool2d, nn.Flatten, nn.Identity, nn.LayerNorm,
    nn.ReLU, nn.Tanh, nn.GELU, nn.Sigmoid,
})  # fmt: skip
"""Modules whose forward pass in train mode depends on nothing but its input and parameters."""


def width_of(party: str, embedding: Any, size: int, dtype: torch.dtype | None) -> int:
    """Return the width of embeddings of ``size`` samples; refuse what is none, or of another type than ``dtype``."""
    if not isinstance(embedding, Tensor) or embedding.ndim != 2 or len(embedding) != size:
        found = tuple(embedding.shape) if isinstance(embedding, Tensor) else type(embedding).__name__
        expected = f"a tensor of shape ({size}, width)"
    elif dtype is not None and embedding.dtype != dtype:  # in bf16 all become float32
        found, expected = f"{embedding.dtype} in evaluation", str(dtype)
    else:
        return int(embedding.shape[1])
    raise ParticipantError(party, "a first forward pass", f"its model returned {found}, expected {expected}")


def check_sizes(party: str, features: Mapping[Split, Features], sizes: Mapping[Split, int]) -> None:
    """Refuse features of a party that have more or fewer rows than the outline says."""
    for split in SPLITS:
        found = len(features[split]) if split in features else 0
        if found != sizes[split]:
            raise DataError(f"party '{party}': {split} has {found} rows, expected {sizes[split]}")


def check_one_tensor(party: str, model: nn.Module, many: int) -> None:
    """Refuse data of several tensors for a model that takes one vector a sample."""
    if many > 1:
        kind = type(model).__name__
        raise ConfigError(
            f"{party}: {kind} takes one vector a sample, and its data has {many} tensors (such as a sequence and its"
            f" lengths); expected parties.{party}.model=lstm, or a model of your own whose forward takes {many}"
            f" arguments and which has no in_features"
        )


def is_pure(model: nn.Module) -> bool:
    """Whether two passes in train mode give the same numbers: only modules known to draw and keep nothing."""
    return all(type(module) in PURE for module in model.modules())
