"""A small convolutional encoder for image parties.

Shapes: b = samples of a batch, c = channels, h and w = height and width, o = outputs.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from flexray.errors import ConfigError
from flexray.models.mlp import check_widths


class CNN(nn.Module):
    """3x3 convolutions with ReLU, each followed by a halving max-pool while the picture is large enough; a linear map.

    Args:
        in_shape: (c, h, w) of one sample, or (h, w) for one channel.
        out_features: o, outputs per sample.
        channels: Channels of the convolutions.
    """

    def __init__(self, in_shape: Sequence[int], out_features: int, channels: Sequence[int] = (16, 32)) -> None:
        super().__init__()
        if len(in_shape) not in (2, 3):
            raise ConfigError(
                "model: CNN expects samples of shape (channels, height, width) or (height, width),"
                f" got {tuple(in_shape)}"
            )
        check_widths("model.channels", channels)
        depth, height, width = in_shape if len(in_shape) == 3 else (1, *in_shape)
        self._picture = (depth, height, width)
        layers: list[nn.Module] = []
        for out_channels in channels:
            layers += [nn.Conv2d(depth, out_channels, 3, padding=1), nn.ReLU()]
            depth = out_channels
            if min(height, width) >= 4:
                layers.append(nn.MaxPool2d(2))
                height, width = height // 2, width // 2
        self.layers = nn.Sequential(*layers, nn.Flatten(), nn.Linear(depth * height * width, out_features))

    def forward(self, x: Tensor) -> Tensor:
        """Return embeddings [b, o] of pictures [b, c, h, w]."""
        embedding_bo: Tensor = self.layers(x.reshape(len(x), *self._picture))
        return embedding_bo
