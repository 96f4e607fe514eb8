"""Packages that are also functions: ``flexray.cluster(...)`` beside ``python -m flexray.cluster``."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any


class CallableModule(ModuleType):
    """A module that is called as its own function of the same name: ``flexray.cluster()`` is ``cluster.cluster()``.

    Whichever was imported first, the name ``flexray.cluster`` is then the package, and may be called.
    """

    def __call__(self, *args: Any, **keys: Any) -> Any:
        """Call the function."""
        return _function_of(self)(*args, **keys)

    @property
    def __signature__(self) -> inspect.Signature:
        """The function's own, for ``help`` and editors."""
        return inspect.signature(_function_of(self))


def make_callable(module: str) -> None:
    """Let a module be called; the last line of its file is ``make_callable(__name__)``."""
    sys.modules[module].__class__ = CallableModule


def _function_of(module: ModuleType) -> Callable[..., Any]:
    function: Callable[..., Any] = getattr(module, module.__name__.rpartition(".")[2])
    return function
