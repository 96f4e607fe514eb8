"""A small convolutional encoder for image parties.

Shapes: b = samples of a batch, c = channels, h and w = height and width, o = outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from torch import Tensor, nn

from flexray.core.checks import yes_or_no
from flexray.core.errors import ConfigError
from flexray.models.mlp import check_widths


class CNN(nn.Module):
    """3x3 convolutions with ReLU, each halving the picture while it is large enough, and a linear map.

    Args:
        in_shape: (c, h, w) of one sample, or (h, w) for one channel.
        out_features: o, outputs per sample.
        channels: Channels of the convolutions.
        halve: By a max-``pool`` after the convolution, or by its ``stride``.
        batch_norm: Normalize after every convolution, by the batch when training.
    """

    def __init__(
        self,
        in_shape: Sequence[int],
        out_features: int,
        channels: Sequence[int] = (16, 32),
        halve: Literal["pool", "stride"] = "pool",
        batch_norm: bool = False,
    ) -> None:
        super().__init__()
        check_widths("model.channels", channels)
        if halve not in ("pool", "stride"):
            raise ConfigError(f"model.halve: expected pool or stride, got {halve!r}")
        yes_or_no("model.batch_norm", batch_norm)
        self._picture = depth, height, width = picture_shape("CNN", in_shape)
        layers: list[nn.Module] = []
        for out_channels in channels:
            halves = min(height, width) >= 4
            strided = halves and halve == "stride"
            layers.append(nn.Conv2d(depth, out_channels, 3, stride=2 if strided else 1, padding=1))
            layers += [*([nn.BatchNorm2d(out_channels)] if batch_norm else []), nn.ReLU()]
            layers += [nn.MaxPool2d(2)] if halves and not strided else []
            odd = 1 if strided else 0  # a stride rounds up, a pool rounds down
            height, width = ((height + odd) // 2, (width + odd) // 2) if halves else (height, width)
            depth = out_channels
        self.layers = nn.Sequential(*layers, nn.Flatten(), nn.Linear(depth * height * width, out_features))

    def forward(self, x: Tensor) -> Tensor:
        """Return embeddings [b, o] of pictures [b, c, h, w]."""
        embedding_bo: Tensor = self.layers(x.reshape(len(x), *self._picture))
        return embedding_bo


def picture_shape(model: str, in_shape: Sequence[int]) -> tuple[int, int, int]:
    """Return (c, h, w) of samples of shape (c, h, w) or, with one channel, (h, w); refuse others."""
    if len(in_shape) not in (2, 3):
        raise ConfigError(
            f"model: {model} expects samples of shape (channels, height, width) or (height, width),"
            f" got {tuple(in_shape)}"
        )
    depth, height, width = in_shape if len(in_shape) == 3 else (1, *in_shape)
    return depth, height, width
