"""Plain state as JSON beside arrays, and back: what checkpoints are made of. No pickle, no import of what is read.

Arrays go into a dictionary that safetensors can store; JSON refers to them by name. Tuples, mappings with keys other
than text, and the dataclasses and named tuples that a codec was given come back as what they were.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import torch

from flexray.messages import State

MARK = "__"
"""The key of a JSON object that stands for something else."""


class Codec:
    """Turns values into JSON and arrays.

    Args:
        classes: Dataclasses and named tuples that may occur; no other class is written or made.
    """

    def __init__(self, classes: Sequence[type] = ()) -> None:
        self._classes = {kind.__name__: kind for kind in classes}

    def encode(self, value: Any, arrays: State, prefix: str = "") -> Any:
        """Return ``value`` as JSON; its arrays are added to ``arrays`` under names that begin with ``prefix``.

        Raises:
            TypeError: Something in it is neither plain, an array, a tensor nor of a known class.
        """
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, torch.Tensor | np.ndarray):
            name = f"{prefix}{len(arrays)}"
            array = value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else value
            arrays[name] = array.copy()
            return {MARK: "tensor" if isinstance(value, torch.Tensor) else "array", "name": name}
        if isinstance(value, list):
            return [self.encode(item, arrays, prefix) for item in value]
        if type(value).__name__ in self._classes:
            own = {name: self.encode(getattr(value, name), arrays, prefix) for name in _field_names(type(value))}
            return {MARK: type(value).__name__, "fields": own}
        if isinstance(value, tuple):
            return {MARK: "tuple", "items": [self.encode(item, arrays, prefix) for item in value]}
        if isinstance(value, dict):
            items = [[self.encode(part, arrays, prefix) for part in pair] for pair in value.items()]
            return {MARK: "dict", "items": items}
        raise TypeError(f"{type(value).__name__} cannot be saved; expected numbers, text, tensors or lists of them")

    def decode(self, coded: Any, arrays: State) -> Any:
        """Return what :meth:`encode` was given.

        Raises:
            ValueError: It is not what :meth:`encode` writes.
        """
        if isinstance(coded, list):
            return [self.decode(item, arrays) for item in coded]
        if not isinstance(coded, dict):
            return coded
        kind = coded.get(MARK)
        try:
            if kind == "tensor":
                return torch.from_numpy(np.array(arrays[coded["name"]]))
            if kind == "array":
                return np.array(arrays[coded["name"]])
            if kind == "tuple":
                return tuple(self.decode(item, arrays) for item in coded["items"])
            if kind == "dict":
                return {self.decode(key, arrays): self.decode(item, arrays) for key, item in coded["items"]}
            return self._classes[str(kind)](**{k: self.decode(v, arrays) for k, v in coded["fields"].items()})
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a saved state: {error!r} at {str(coded)[:60]}") from error


def _field_names(kind: Any) -> tuple[str, ...]:
    """Return the names of the fields of a named tuple or a dataclass."""
    return kind._fields if issubclass(kind, tuple) else tuple(field.name for field in fields(kind))
