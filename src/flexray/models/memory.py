"""Models too large for the machine are refused before any of their memory is asked for.

Linux hands out more memory than there is and ends a process that really uses it, so asking first is the only way to say
which model it was.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from flexray.core.errors import ResourceError
from flexray.core.memory import available_bytes

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
        if needed >= LARGE and needed > (free := int(available_bytes())):
            raise ResourceError(
                f"{self._owner}: its model takes {needed:,} bytes for a tensor of {' x '.join(map(str, size))} alone,"
                f" and {free:,} are free; expected less of embedding, model.*,"
                " server.* or dataset.num_outputs"
            )
