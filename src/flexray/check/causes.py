"""What numbers depend on beside arguments and seeds: clocks, global generators, variables that outlive an object."""

from __future__ import annotations

import hashlib
import inspect
import itertools
import random
import sys
import sysconfig
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from types import FrameType, ModuleType, TracebackType
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

OURS = str(Path(__file__).parents[1])
LIBRARIES = (OURS, *{sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}, "<")
CLOCKS = frozenset({
    "time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "process_time",
    "process_time_ns", "thread_time", "thread_time_ns", "localtime", "gmtime", "ctime", "strftime", "asctime",
})  # fmt: skip
CALENDARS = frozenset({"now", "utcnow", "today"})
DRAWS = frozenset({"random", "getrandbits", "seed"})
"""Methods of Python's generators that all others call."""
ENTROPY = "urandom"
ASKED = CLOCKS | CALENDARS | DRAWS | {ENTROPY}
DEEPEST = 4
"""How deep values are compared."""


@dataclass(frozen=True)
class Cause:
    """What may be why numbers differ, and how to mend it."""

    seen: str
    mend: str


def is_users(filename: str, target: Any) -> bool:
    """Whether a file is the user's: none of flexray's, Python's or an installed package's, unless the target's own."""
    return not filename.startswith(LIBRARIES) or filename == _file_of(target)


def _file_of(target: Any) -> str:
    try:
        return inspect.getfile(target)
    except (TypeError, OSError):
        return ""


@contextmanager
def borrowed_generators() -> Iterator[None]:
    """Give the global generators of Python, NumPy and torch back to the caller as they were."""
    own, legacy, torchs = random.getstate(), np.random.get_state(), torch.get_rng_state()
    try:
        yield
    finally:
        random.setstate(own)
        np.random.set_state(legacy)
        torch.set_rng_state(torchs)


class Watch:
    """Gives all global generators another state for a while, and sees what the user's code asks in it.

    Two runs of the same code under different states differ if the code draws from them.

    Args:
        target: The user's class.
        state: Seeds the global generators; the caller's states come back afterwards.
        seeds_torch: Also seed torch's, where flexray does not.
        sees: See the user's code, which takes time; else only the states differ.
    """

    def __init__(self, target: Any, state: int, seeds_torch: bool = False, sees: bool = True) -> None:
        self._target, self._state, self._seeds_torch, self._sees = target, state, seeds_torch, sees
        self.clocks: dict[Cause, None] = {}
        self._draws: dict[Cause, None] = {}
        self._variables: dict[str, Any] = {}

    @property
    def causes(self) -> list[Cause]:
        """What was seen, in words."""
        return [*self.clocks, *self._draws]

    def __enter__(self) -> Self:
        self._borrowed, self._profile = borrowed_generators(), sys.getprofile()
        self._borrowed.__enter__()
        self._sees &= self._profile is None or callable(self._profile)  # a profiler in C could not be set again
        random.seed(self._state)
        np.random.seed(self._state)
        if self._seeds_torch:
            torch.default_generator.manual_seed(self._state)
        self._at_start = self._states()
        if self._sees:
            self._variables = variables(self._target)
            sys.setprofile(self._see)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._sees:
            sys.setprofile(self._profile)
        names = ("NumPy's", "torch's") if self._seeds_torch else ("NumPy's",)
        for name, before, after in zip(names, self._at_start, self._states(), strict=True):
            if before != after:
                self._draw(f"draws from {name} global generator")
        for name in changed(self._variables, variables(self._target)) if self._sees else ():
            self._draws[Cause(f"'{name}' outlives an object and changes", "keep it in the object itself")] = None
        self._borrowed.__exit__(None, None, None)

    def _states(self) -> tuple[str, ...]:
        states = (fingerprint(np.random.get_state()), fingerprint(torch.get_rng_state()))
        return states if self._seeds_torch else states[:1]

    def _draw(self, seen: str) -> None:
        mend = "draw from a generator that a seed of your own makes anew, such as np.random.default_rng(seed)"
        if not self._seeds_torch:
            mend = "draw with torch's functions, such as torch.rand or nn.Dropout, which flexray seeds"
        self._draws[Cause(seen, mend)] = None

    def _see(self, frame: FrameType, event: str, called: Any) -> None:
        if event != "c_call" or (name := getattr(called, "__name__", "")) not in ASKED:
            return
        owner = getattr(called, "__self__", None)
        is_clock = (name in CLOCKS and owner is time) or (name in CALENDARS and owner in (date, datetime))
        if is_clock and is_users(frame.f_code.co_filename, self._target):
            seen = f"reads the clock{_place(frame)}"
            self.clocks[Cause(seen, "leave clocks out: simulated time and seeds are all there is")] = None
        elif name in DRAWS and owner is getattr(random, "_inst", None) and (user := self._user_of(frame)):
            self._draw(f"draws from Python's global random module{_place(user)}")
        elif name == ENTROPY and (user := self._user_of(frame)):
            self._draw(f"makes a generator without a seed{_place(user)}")

    def _user_of(self, frame: FrameType | None) -> FrameType | None:
        """Return the user's frame that this call comes from, if it lies this side of flexray's."""
        while frame is not None:
            name = frame.f_code.co_filename
            if is_users(name, self._target):
                return frame
            if name.startswith(OURS):
                return None
            frame = frame.f_back
        return None


def _place(frame: FrameType) -> str:
    return f" ({frame.f_code.co_filename}, line {frame.f_lineno})"


def variables(target: Any) -> dict[str, Any]:
    """Return what is in the variables of the target's module and classes, as far as they hold data."""
    found: dict[str, Any] = {}
    for owner in target.__mro__ if isinstance(target, type) else (target,):
        module = sys.modules.get(getattr(owner, "__module__", ""))
        if is_users(getattr(module, "__file__", None) or "<", target):
            if isinstance(owner, type):
                found |= {f"{owner.__name__}.{name}": fingerprint(value) for name, value in _data(vars(owner))}
            found |= {f"{owner.__module__}.{name}": fingerprint(value) for name, value in _data(vars(module))}
    return found


def _data(names: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(name, value) for name, value in names.items() if not (name.startswith("__") or callable(value))]


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return the names whose values differ."""
    return [name for name, value in after.items() if before.get(name) != value]


def remembered(thing: Any) -> dict[str, Any]:
    """Return what an object remembers in plain attributes; of a module, beside its parameters and buffers."""
    if not isinstance(thing, nn.Module):
        return {name: fingerprint(value) for name, value in getattr(thing, "__dict__", {}).items()}
    own = set(nn.Module().__dict__)
    return {
        f"{path}.{name}".lstrip("."): fingerprint(value)
        for path, module in thing.named_modules()
        for name, value in vars(module).items()
        if name not in own
    }


def fingerprint(value: Any, deep: int = DEEPEST) -> str:
    """Return a text that differs where data differ; objects without data are all alike."""
    if value is None or isinstance(value, bool | int | float | complex | str | bytes | itertools.count):
        return repr(value)
    if isinstance(value, Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray | np.generic):
        text = repr(value.tolist()) if value.dtype.hasobject else hashlib.sha256(value.tobytes()).hexdigest()
        return f"{value.dtype} {value.shape} {text}"
    if isinstance(value, torch.Generator):
        return fingerprint(value.get_state())
    if isinstance(value, np.random.Generator):
        return repr(value.bit_generator.state)
    if isinstance(value, np.random.RandomState):
        return fingerprint(value.get_state())
    if isinstance(value, random.Random):
        return repr(value.getstate())
    if deep and isinstance(value, Mapping):
        return repr({repr(key): fingerprint(part, deep - 1) for key, part in value.items()})
    if deep and isinstance(value, list | tuple | set | frozenset | deque):
        parts = [fingerprint(part, deep - 1) for part in value]
        return f"{type(value).__name__} {sorted(parts) if isinstance(value, set | frozenset) else parts}"
    if deep and not isinstance(value, type | ModuleType) and not callable(value):
        return fingerprint(getattr(value, "__dict__", None), deep - 1)
    return type(value).__name__
