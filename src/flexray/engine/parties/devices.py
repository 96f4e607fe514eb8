"""The device and precision in which a participant computes.

On the CPU in fp32, which is the default, nothing here does anything. What participants exchange are NumPy arrays in the
CPU's memory wherever they compute. Digests are the same for one kind of device and one precision, not across them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from flexray.core.errors import ResourceError
from flexray.core.messages import FloatArray
from flexray.core.seeds import derive

DEVICES = AUTO, CPU, CUDA = "auto", "cpu", "cuda"
PRECISIONS = FP32, TF32, BF16 = "fp32", "tf32", "bf16"
Value = TypeVar("Value", Tensor, tuple[Tensor, ...])


@dataclass(frozen=True)
class Compute:
    """Where and how one participant computes.

    Args:
        device: ``cpu`` or ``cuda``: the GPU that the process was given.
        precision: ``fp32``; ``tf32``: matrix products and convolutions of the GPU's tensor cores; ``bf16``: forward
            passes under autocast, while parameters, losses and what is sent stay float32.
    """

    device: str = CPU
    precision: str = FP32

    def prepare(self, who: str) -> None:
        """Set or clear this process's flags: it may have served another run before.

        Raises:
            ResourceError: There is no GPU here.
        """
        if self.device != CUDA:
            return
        if not torch.cuda.is_available():
            raise ResourceError(f"device: {who} has a GPU share, but torch sees no GPU in its process")
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS reads it once; without, its sums may vary
        set_flags(reproducible(self.precision == TF32))

    def place(self, module: nn.Module, pictures: bool = False) -> nn.Module:
        """Move a model to its device, in channels-last layout if it takes ``pictures`` [b, c, h, w]."""
        if self.device == CPU:
            return module
        layout: dict[str, Any] = {"memory_format": torch.channels_last} if pictures else {}
        return module.to(self.device, **layout)

    def put(self, x: Value) -> Value:
        """Return a tensor, or several, on the device; of four dimensions in channels-last layout."""
        if self.device == CPU:
            return x
        if isinstance(x, tuple):
            return tuple(self.put(part) for part in x)
        if self.device == CUDA and not x.is_pinned():
            x = x.pin_memory()
        there = x.to(self.device, non_blocking=True)
        return there.contiguous(memory_format=torch.channels_last) if there.ndim == 4 else there

    def tensor(self, array: FloatArray) -> Tensor:
        """Return an array that another participant sent as a tensor on the device."""
        return self.put(torch.from_numpy(array))

    def fill(self, vector: Tensor, array: FloatArray) -> None:
        """Copy an array that another participant sent into a vector on the device."""
        if self.device == CPU:
            vector.numpy()[:] = array  # a third of the time that torch takes for few numbers
        else:
            vector.copy_(self.tensor(np.array(array)))  # a copy, since what arrived may be read only

    def forward(self, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        """Return ``function`` as it is to be called: for bf16 under autocast, with a result in float32."""
        if self.precision != BF16:
            return function

        def cast(*args: Any) -> Tensor:
            with torch.autocast(self.device, dtype=torch.bfloat16):
                return function(*args).float()

        return cast


ON_CPU = Compute()


@dataclass(frozen=True)
class Flags:
    """Torch's flags of a process that change numbers on a GPU."""

    matmul_tf32: bool
    cudnn_tf32: bool
    cudnn_deterministic: bool
    cudnn_benchmark: bool
    deterministic: bool
    warn_only: bool
    fill_memory: bool


def reproducible(tf32: bool) -> Flags:
    """Return the flags of a run on a GPU; an operation that has no deterministic kernel warns."""
    return Flags(
        matmul_tf32=tf32,
        cudnn_tf32=tf32,
        cudnn_deterministic=True,
        cudnn_benchmark=False,
        deterministic=True,
        warn_only=True,
        fill_memory=False,  # memory is not read before it is written
    )


def get_flags() -> Flags:
    """Return the flags as they are."""
    backends = torch.backends
    return Flags(
        backends.cuda.matmul.allow_tf32,
        backends.cudnn.allow_tf32,
        backends.cudnn.deterministic,
        backends.cudnn.benchmark,
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.utils.deterministic.fill_uninitialized_memory,  # type: ignore[attr-defined]
    )


def set_flags(flags: Flags) -> None:
    """Set the flags."""
    backends = torch.backends
    backends.cuda.matmul.allow_tf32 = flags.matmul_tf32
    backends.cudnn.allow_tf32 = flags.cudnn_tf32
    backends.cudnn.deterministic = flags.cudnn_deterministic
    backends.cudnn.benchmark = flags.cudnn_benchmark
    torch.use_deterministic_algorithms(flags.deterministic, warn_only=flags.warn_only)
    torch.utils.deterministic.fill_uninitialized_memory = flags.fill_memory  # type: ignore[attr-defined]


@contextmanager
def borrowed_flags() -> Iterator[None]:
    """Give the flags back to the caller as they were."""
    before = get_flags()
    try:
        yield
    finally:
        if get_flags() != before:
            set_flags(before)


def synchronize() -> None:
    """Wait until the GPU is idle, so that a clock can be read."""
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()


def seed_torch(seed: int, *path: int | str) -> None:
    """Point torch's global generators (initial weights, dropout) at the stream named by ``path``."""
    number = derive(seed, *path)
    torch.default_generator.manual_seed(number)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.manual_seed(number)
