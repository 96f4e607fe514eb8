"""Models too large for the machine are refused before any of their memory is asked for.

Linux hands out more memory than there is and ends a process that really uses it, so asking first is the only way to say
which model it was.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from flexray.core.errors import ResourceError

LARGE = 2**26
"""Bytes from which on a tensor is worth a look at the machine's memory."""
MAKERS = frozenset({torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn})


class MemoryCheck(TorchFunctionMode):
    """Within it, a tensor of a new module that needs more memory than is free is refused before it is made.

    Args:
        owner: Whose module it is, for the message.
    """

    def __init__(self, owner: str) -> None:
        super().__init__()
        self._owner = owner

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in MAKERS and str(kwargs.get("device")) != "meta":
            self._check(args, kwargs)
        return func(*args, **kwargs)

    def _check(self, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        size = kwargs.get("size", args[0] if args and isinstance(args[0], Sequence) else args)
        dtype = kwargs.get("dtype") or torch.get_default_dtype()
        needed = math.prod(size) * dtype.itemsize
        if needed >= LARGE and needed > (free := free_bytes()):
            raise ResourceError(
                f"{self._owner}: its model takes {needed:,} bytes for a tensor of {' x '.join(map(str, size))} alone,"
                f" and {free:,} are free; expected less of embedding, model.*,"
                " server.* or dataset.num_outputs"
            )


def free_bytes() -> int:
    """Return how much memory a process can still get, as far as the system tells: at most what a container may use."""
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    free = (int(line.split()[1]) * 1024 for line in _lines("/proc/meminfo") if line.startswith("MemAvailable:"))
    allowed = (int(line) for line in _lines("/sys/fs/cgroup/memory.max") if line.isdigit())
    return min(there, *free, *allowed)


def _lines(path: str) -> list[str]:
    return Path(path).read_text(encoding="ascii").splitlines() if os.path.isfile(path) else []
