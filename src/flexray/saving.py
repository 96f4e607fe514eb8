"""A participant as arrays and JSON, and back (:class:`flexray.messages.Saved`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from torch import nn

from flexray.codec import Codec
from flexray.errors import ParticipantError, RunFolderError
from flexray.messages import Saved, State
from flexray.participants import digest_of, get_state, parameter_names, set_state
from flexray.training import Trainer

MODEL, OPTIMIZER = "model.", "optimizer."
CODEC = Codec()


def save(model: nn.Module, trainer: Trainer, participant: str) -> Saved:
    """Return the model and what its optimizer keeps from round to round."""
    arrays: State = {MODEL + key: value for key, value in get_state(model).items()}
    try:
        kept = CODEC.encode(trainer.optimizer.kept(), arrays, OPTIMIZER)
    except TypeError as error:
        raise ParticipantError(participant, "saving its optimizer", str(error)) from error
    return Saved(arrays, {"parameters": parameter_names(model), "optimizer": kept})


def load(saved: Saved, model: nn.Module, trainer: Trainer, participant: str) -> None:
    """Load what :func:`save` returned; refuse another model's."""
    if saved.notes["parameters"] != parameter_names(model):
        raise RunFolderError(f"{participant}: what is saved of it names other parameters than its model has")
    set_state(model, model_state(saved), participant)
    trainer.optimizer.keep(trainer.params, CODEC.decode(saved.notes["optimizer"], saved.arrays))


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
    """Return the digest of the saved model's parameters, as :func:`flexray.participants.digest` has it."""
    names: list[Any] = saved.notes["parameters"]
    return digest_of(saved.arrays[MODEL + str(name)] for name in names)
