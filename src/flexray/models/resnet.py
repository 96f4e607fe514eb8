"""torchvision's residual networks as party encoders.

Shapes: b = samples of a batch, c = channels, h and w = height and width, o = outputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from flexray.core.errors import ConfigError, DataError
from flexray.models.cnn import picture_shape

DEPTHS = (18, 34, 50, 101, 152)
COUNTER = "num_batches_tracked"
"""A counter of batch normalization that old files lack and nothing here reads."""


class ResNet(nn.Module):
    """A ResNet of He et al. (2016) whose last layer has ``out_features`` outputs; batches are normalized.

    Args:
        in_shape: (c, h, w) of one sample with c = 1 or 3, or (h, w) for one channel.
        out_features: o, outputs per sample.
        depth: 18, 34, 50, 101 or 152 layers.
        weights: File of pretrained weights, ``.pth`` or ``.safetensors``, with torchvision's names, without its last
            layer. For one channel, the first layer's weights are summed over the colours.

    Raises:
        ConfigError: An argument is out of range.
        flexray.core.errors.DataError: The file holds other weights.
    """

    def __init__(
        self, in_shape: Sequence[int], out_features: int, depth: int = 18, weights: str | Path | None = None
    ) -> None:
        super().__init__()
        if depth not in DEPTHS:
            raise ConfigError(f"model.depth: expected one of {', '.join(map(str, DEPTHS))}, got {depth!r}")
        self._picture = picture_shape("ResNet", in_shape)
        channels = self._picture[0]
        if channels not in (1, 3):
            raise ConfigError(f"model: ResNet expects pictures of 1 or 3 channels, got {channels}")
        from torchvision.models import get_model  # a run without it does not import torchvision

        self.net = get_model(f"resnet{depth}", weights=None, num_classes=out_features)
        if channels == 1:
            first = self.net.conv1
            self.net.conv1 = nn.Conv2d(1, first.out_channels, 7, stride=2, padding=3, bias=False)
            nn.init.kaiming_normal_(self.net.conv1.weight, mode="fan_out", nonlinearity="relu")
        if weights is not None:
            self._load(Path(weights), depth)

    def forward(self, x: Tensor) -> Tensor:
        """Return embeddings [b, o] of pictures [b, c, h, w]."""
        embedding_bo: Tensor = self.net(x.reshape(len(x), *self._picture))
        return embedding_bo

    def _load(self, file: Path, depth: int) -> None:
        """Load all weights but those of the last layer."""
        state = {key.removeprefix("module."): value for key, value in _read(file).items()}
        state = {key: value for key, value in state.items() if not key.startswith("fc.")}
        if self._picture[0] == 1 and state["conv1.weight"].shape[1:2] == (3,):
            state["conv1.weight"] = state["conv1.weight"].sum(dim=1, keepdim=True)
        own = {key: value for key, value in self.net.state_dict().items() if not key.startswith("fc.")}
        counters = {key: value for key, value in own.items() if key.endswith(COUNTER)}
        state = {**counters, **state}
        for key in [*own, *state]:
            if key not in state or key not in own or own[key].shape != getattr(state[key], "shape", None):
                raise DataError(f"{file}: '{key}' does not fit; expected the weights of torchvision's resnet{depth}")
        self.net.load_state_dict(state, strict=False)


def _read(file: Path) -> Mapping[str, Any]:
    """Read tensors by name, without running code in the file."""
    expected = "expected weights of a torchvision ResNet in a .pth or .safetensors file"
    if not file.is_file():
        raise DataError(f"model.weights: {file}: no such file; {expected}")
    try:
        if file.suffix == ".safetensors":
            from safetensors.torch import load_file

            state: Any = load_file(file)
        else:
            state = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # damaged files make the readers raise anything
        raise DataError(f"{file}: cannot be read; {expected} ({type(error).__name__})") from error
    found = state.get("state_dict", state) if isinstance(state, Mapping) else {}
    tensors: Mapping[str, Any] = found if isinstance(found, Mapping) else {}
    if not isinstance(tensors.get("conv1.weight", tensors.get("module.conv1.weight")), Tensor):
        raise DataError(f"{file}: holds no 'conv1.weight'; {expected}")
    return tensors
