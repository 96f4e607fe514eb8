"""Models that a user might bring along, importable in workers."""

from __future__ import annotations

import os
import signal

import torch
from torch import Tensor, nn


class TwoArguments(Exception):  # noqa: N818 - a user's name
    """An exception that does not survive pickling."""

    def __init__(self, what: str, how: str) -> None:
        super().__init__(f"{what} {how}")


class FailsInRoundTwo(nn.Linear):
    """Raises in the second round of a party that takes 15 local iterations a round."""

    iterations = 0

    def forward(self, x: Tensor) -> Tensor:
        self.iterations += self.training and torch.is_grad_enabled()
        if self.iterations > 15:
            raise TwoArguments("it", "broke")
        return super().forward(x)


class Kills(nn.Linear):
    """Kills its own process in training."""

    def forward(self, x: Tensor) -> Tensor:
        if self.training and torch.is_grad_enabled():
            os.kill(os.getpid(), signal.SIGKILL)
        return super().forward(x)


class EditingServer(nn.Linear):
    """Edits its input in place."""

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            x.mul_(2.0)
        return super().forward(x)


class Normalized(nn.Sequential):
    """Keeps running statistics, which are no parameters."""

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__(nn.Linear(in_features, out_features), nn.BatchNorm1d(out_features))
