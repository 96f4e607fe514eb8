"""Multilayer perceptrons and linear maps, for parties and for the server.

Shapes: b = samples of a batch, i = inputs after flattening, o = outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from torch import nn

from flexray.core.checks import number, shown, whole
from flexray.core.errors import ConfigError, near_match

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh, "gelu": nn.GELU}


def check_widths(key: str, widths: Sequence[int]) -> None:
    """Refuse anything but a list of positive whole numbers."""
    is_list = isinstance(widths, Sequence) and not isinstance(widths, str)
    if not is_list:
        raise ConfigError(f"{key}: expected a list of positive whole numbers, got {shown(widths)}")
    for i, width in enumerate(widths):
        whole(f"{key}[{i}]", width, low=1)


class MLP(nn.Sequential):
    """Fully connected layers with an activation (and dropout) after each hidden one.

    Args:
        in_features: i, inputs per sample after flattening.
        out_features: o, outputs per sample.
        hidden: Widths of the hidden layers; none makes it a linear map.
        activation: ``relu``, ``tanh`` or ``gelu``.
        dropout: Probability in [0, 1) that a hidden unit is dropped.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        hidden: Sequence[int] = (32,),
        activation: Literal["relu", "tanh", "gelu"] = "relu",
        dropout: float = 0.0,
    ) -> None:
        if activation not in tuple(ACTIVATIONS):  # a list has no hash
            raise ConfigError(f"model.activation: unknown '{activation}'{near_match(str(activation), ACTIVATIONS)}")
        number("model.dropout", dropout, low=0, below=1)
        check_widths("model.hidden", hidden)
        layers: list[nn.Module] = []
        width = in_features
        for units in hidden:
            layers += [nn.Linear(width, units), ACTIVATIONS[activation]()]
            if dropout:
                layers.append(nn.Dropout(dropout))
            width = units
        layers.append(nn.Linear(width, out_features))
        super().__init__(*layers)


class Linear(nn.Linear):
    """One linear layer.

    Args:
        in_features: i, inputs per sample after flattening.
        out_features: o, outputs per sample.
        weight_std: If given, weights start from N(0, weight_std) and biases from 0 (ModelNet40's server: 0.01).
    """

    def __init__(self, in_features: int, out_features: int, weight_std: float | None = None) -> None:
        super().__init__(in_features, out_features)
        if weight_std is not None:
            nn.init.normal_(self.weight, std=number("model.weight_std", weight_std, low=0))
            nn.init.zeros_(self.bias)
