"""Participants as arrays and JSON, for checkpoints and digests. No pickle, no import of what is read.

Arrays go into a dictionary that safetensors can store; JSON refers to them by name. Tuples, mappings with keys other
than text, and the dataclasses and named tuples that a codec was given come back as what they were.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from flexray.core.errors import ParticipantError, RunFolderError
from flexray.core.messages import Saved, State
from flexray.engine.parties.trainer import Trainer

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


MODEL, OPTIMIZER = "model.", "optimizer."
CODEC = Codec()


def save(model: nn.Module, trainer: Trainer, participant: str) -> Saved:
    """Return the model and what its optimizer keeps from round to round."""
    arrays: State = {MODEL + key: value for key, value in get_state(model).items()}
    try:
        kept = CODEC.encode(trainer.optimizer.save(), arrays, OPTIMIZER)
    except TypeError as error:
        raise ParticipantError(participant, "saving its optimizer", str(error)) from error
    return Saved(arrays, {"parameters": parameter_names(model), "optimizer": kept})


def load(saved: Saved, model: nn.Module, trainer: Trainer, participant: str) -> None:
    """Load what :func:`save` returned; refuse another model's."""
    if saved.notes["parameters"] != parameter_names(model):
        raise RunFolderError(f"{participant}: what is saved of it names other parameters than its model has")
    set_state(model, model_state(saved), participant)
    trainer.optimizer.load(trainer.params, CODEC.decode(saved.notes["optimizer"], saved.arrays))


def fitting(saved: Saved, key: str, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Return an array of numbers that must have this shape.

    Raises:
        ValueError: It has another.
    """
    array = saved.arrays[key]
    if array.shape != shape or array.dtype.kind not in "fi":
        raise ValueError(f"{key}: expected numbers of shape {shape}, got {array.dtype} of shape {array.shape}")
    return array


def with_more(saved: Saved, more: State) -> Saved:
    """Return the participant with further arrays."""
    return Saved({**saved.arrays, **{key: np.array(value) for key, value in more.items()}}, saved.notes)


def under(saved: Saved, prefix: str) -> State:
    """Return the arrays below a prefix, without it."""
    return {key.removeprefix(prefix): value for key, value in saved.arrays.items() if key.startswith(prefix)}


def model_state(saved: Saved) -> State:
    """Return parameters and buffers."""
    return under(saved, MODEL)


def digest_of_saved(saved: Saved) -> str:
    """Return the digest of the saved model's parameters, as :func:`flexray.engine.parties.state.digest` has it."""
    names: list[Any] = saved.notes["parameters"]
    return digest_of(saved.arrays[MODEL + str(name)] for name in names)


def get_state(module: nn.Module) -> State:
    """Return copies of parameters and buffers, in state_dict order."""
    return {key: value.detach().cpu().numpy().copy() for key, value in module.state_dict().items()}


def set_state(module: nn.Module, state: State, participant: str) -> None:
    """Load what :func:`get_state` returned; refuse a state of another model."""
    try:
        module.load_state_dict({key: torch.from_numpy(np.array(value)) for key, value in state.items()})
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise RunFolderError(f"{participant}: its saved model does not fit this run's: {reason}") from error


def parameter_names(module: nn.Module) -> list[str]:
    """Return the names of the parameters, in state_dict order."""
    names = {name for name, _ in module.named_parameters()}
    return [key for key in module.state_dict() if key in names]


def digest(module: nn.Module) -> str:
    """Return the sha256 of the parameters in state_dict order, as little-endian floats."""
    state = module.state_dict()
    return digest_of(state[key].detach().cpu().numpy() for key in parameter_names(module))


def digest_of(parameters: Iterable[npt.NDArray[Any]]) -> str:
    """Return the sha256 of arrays, as little-endian numbers."""
    sha = hashlib.sha256()
    for array in parameters:
        sha.update(np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).tobytes())
    return sha.hexdigest()
