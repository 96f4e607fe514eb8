"""Party encoders and server heads, and the construction of modules from configured classes.

A party model maps its features [b, *sample_shape] to an embedding [b, out_features]. A server head maps the
concatenated embeddings [b, sum of widths] to a prediction [b, num_outputs]. Features of several tensors, such as padded
sequences and their lengths, become several arguments. Any ``torch.nn.Module`` will do: constructor parameters
``in_features``, ``in_shape`` and ``out_features`` that the configuration leaves open are filled in from data and task.
A model with ``in_features`` (and no ``in_shape``) gets its samples flattened.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from torch import nn

from flexray.core.errors import ConfigError
from flexray.models.bert import Bert
from flexray.models.cnn import CNN
from flexray.models.laser import Laser
from flexray.models.lstm import LSTM
from flexray.models.memory import MemoryCheck
from flexray.models.mlp import MLP, Linear

__all__ = ["CNN", "LSTM", "MLP", "OFFERS", "Bert", "Laser", "Linear", "ModuleFactory", "build_module", "takes"]

OFFERS = ("in_features", "in_shape", "out_features")
ModuleFactory = partial[nn.Module] | Callable[..., nn.Module]


def build_module(factory: ModuleFactory, owner: str = "", **offers: Any) -> nn.Module:
    """Call ``factory`` with those of ``offers`` that its signature names and that are not yet bound.

    Raises:
        ConfigError: It refuses its arguments or makes something other than a module; ``owner`` is named, if given.
        flexray.core.errors.ResourceError: It needs more memory than there is.
    """
    bound = factory.keywords if isinstance(factory, partial) else {}
    parameters = inspect.signature(factory).parameters
    wanted = {key: value for key, value in offers.items() if key in parameters and key not in bound}
    try:
        with MemoryCheck(owner or "model"):
            module = factory(**wanted)
        if not isinstance(module, nn.Module):
            raise ConfigError(f"model._target_: expected a torch.nn.Module, it made a {type(module).__name__}")
    except ConfigError as error:
        raise ConfigError(f"{owner}: {error}" if owner else str(error)) from error
    return module


def sees_missing(factory: ModuleFactory) -> bool:
    """Whether a server's model takes, beside embeddings, which of them there are [b, k], and has a ``loss`` of that."""
    return bool(getattr(factory.func if isinstance(factory, partial) else factory, "sees_missing", False))


def takes(factory: ModuleFactory, parameter: str) -> bool:
    """Whether the constructor behind ``factory`` has a parameter of this name."""
    return parameter in inspect.signature(factory).parameters
