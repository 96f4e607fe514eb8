"""Reading pickles of strangers: NumPy arrays and plain containers come out, nothing is run and no memory is forged.

A pickle says which functions to call and which states to restore. Here it gets neither NumPy's own functions nor its
classes: :class:`_Unpickler` answers with stand-ins that take no other arguments than NumPy writes. An array of
objects is made of a list of objects and never of bytes, which NumPy would take for pointers; and what an array was
made of is not exchanged a second time. A pickle may still ask for as much memory as it likes.
"""

from __future__ import annotations

import builtins
import codecs
import io
import math
import pickle
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np

from flexray.core.errors import DataError
from flexray.data.base import Array
from flexray.data.checks import reading

CONTAINERS = (
    "bool",
    "bytearray",
    "bytes",
    "complex",
    "dict",
    "float",
    "frozenset",
    "int",
    "list",
    "set",
    "str",
    "tuple",
)
DTYPE = re.compile(r"[biufcSUO]\d*")
"""Of booleans, numbers, texts and objects; not of records, whose fields may lie anywhere."""


class _RefusedError(Exception):
    """The pickle asks for something that is neither NumPy's nor a plain container."""


class _Dtype:
    """A dtype on its way: its letter and size, and the byte order that the state adds.

    Args:
        text: Letter and size, for example ``f8``.
    """

    def __init__(self, text: Any, *_: Any) -> None:
        if not isinstance(text, str) or not DTYPE.fullmatch(text):
            raise _RefusedError(f"the dtype {str(text)[:40]!r}")
        self.dtype = np.dtype(text)

    def __setstate__(self, state: Any) -> None:
        _, order, *parts = state
        if any(part is not None for part in parts[:3]):
            raise _RefusedError("a dtype with fields")
        self.dtype = self.dtype.newbyteorder(order)


class _Array(np.ndarray[Any, Any]):
    """An array that its pickle fills once: whoever looks at its first memory would be left with freed one."""

    is_blank = False

    def __setstate__(self, state: Any) -> None:
        if not self.is_blank:
            raise _RefusedError("an array that is filled twice")
        self.is_blank = False
        _, sizes, dtype, is_fortran, content = state
        real, shape = _real(dtype), tuple(int(size) for size in sizes)  # NumPy's own integers would overflow below
        if isinstance(content, str):  # so does Python 2's protocol store bytes
            content = content.encode("latin-1")
        expected, unit = (list, 1) if real.hasobject else (bytes, real.itemsize)
        if type(content) is not expected:
            raise _RefusedError(f"an array of {real} made of {type(content).__name__}")
        if len(content) != math.prod(shape) * unit:
            raise ValueError(f"{len(content)} {expected.__name__} items for an array of {real} {shape}")
        np.empty(shape, real)  # refuses shapes that NumPy cannot hold: its __setstate__ writes past its end instead
        super().__setstate__((1, shape, real, bool(is_fortran), content))  # type: ignore[arg-type]
        _check_characters(self)


def _check_characters(array: Array) -> None:
    """Refuse texts of numbers that are no characters, of which NumPy would make strings that Python cannot hold."""
    if array.dtype.kind == "U":
        numbers = np.frombuffer(array.tobytes(), np.dtype("u4").newbyteorder(array.dtype.byteorder))
        if numbers.max(initial=0) > sys.maxunicode:
            raise ValueError("a text holds what is no character")


def _real(dtype: Any) -> np.dtype[Any]:
    if type(dtype) is not _Dtype:
        raise _RefusedError(f"an array of {type(dtype).__name__}")
    return dtype.dtype


class _Unpickler(pickle._Unpickler):
    """Answers what a pickle may ask for; bound methods, since a pickle may set attributes of plain functions.

    Python's own, since that in C makes room for 2^32 objects if one flipped bit says so; it takes up to twice as long.
    """

    def find_class(self, module: str, name: str) -> Any:
        if module in ("builtins", "__builtin__") and name in CONTAINERS:
            return getattr(builtins, name)
        core = module.replace("numpy.core.", "numpy._core.")
        answers = {
            ("collections", "OrderedDict"): dict,
            ("numpy", "ndarray"): self._ndarray,
            ("numpy", "dtype"): self._dtype,
            ("numpy._core.multiarray", "_reconstruct"): self._reconstruct,
            ("numpy._core.multiarray", "scalar"): self._scalar,
            ("numpy._core.numeric", "_frombuffer"): self._frombuffer,
            ("_codecs", "encode"): self._encode,
        }
        if (core, name) not in answers:
            raise _RefusedError(f"{module}.{name}")
        return answers[core, name]

    def _ndarray(self, *_: Any) -> None:
        """Stand for the class, which NumPy's pickles name but do not call."""
        raise _RefusedError("numpy.ndarray to be called")

    def _dtype(self, *arguments: Any) -> _Dtype:
        return _Dtype(*arguments)

    def _reconstruct(self, cls: Any, *_: Any) -> Array:
        if cls != self._ndarray:
            raise _RefusedError("an array of another class than numpy.ndarray")
        array = np.empty(0, "b").view(_Array)
        array.is_blank = True
        return array

    def _frombuffer(self, content: Any, dtype: Any, shape: Any, order: str, axes: Any = None) -> Array:
        real = _real(dtype)
        if real.hasobject or type(content) not in (bytes, bytearray):
            raise _RefusedError(f"an array of {real} made of {type(content).__name__}")
        flat: Array = np.frombuffer(content, real).view(_Array)
        _check_characters(flat)
        if axes is None:
            return flat.reshape(shape, order=order)  # type: ignore[call-overload, no-any-return]
        return flat.reshape(shape).transpose(axes)

    def _scalar(self, dtype: Any, content: Any = b"") -> Any:
        real = _real(dtype)
        if isinstance(content, str):
            content = content.encode("latin-1")
        if real.hasobject or type(content) is not bytes:
            raise _RefusedError(f"a number of {real} made of {type(content).__name__}")
        if not real.itemsize:
            return real.type()
        array: Array = np.ndarray((), real, content)
        _check_characters(array)
        return array[()]

    def _encode(self, text: str, encoding: str) -> bytes:
        """Return what Python 2's protocol stores as bytes."""
        try:
            name = codecs.lookup(encoding).name
        except LookupError:
            name = ""
        if name != "iso8859-1":
            raise _RefusedError(f"the codec {encoding}")
        return text.encode("latin-1")


def load_pickle(file: Path) -> Any:
    """Return the content of a pickle of NumPy arrays and plain containers.

    Raises:
        DataError: There is no such file, it is cut off or garbled, or it asks for anything else.
    """
    with reading(file, "a pickle"), file.open("rb") as stream:
        return _load(stream, file)


def _load(stream: io.BufferedReader, file: Path) -> Any:
    try:
        return _Unpickler(stream, encoding="latin1").load()
    except _RefusedError as error:
        raise DataError(
            f"{file}: refused, since this pickle asks for {_line(str(error))};"
            " expected NumPy arrays and plain containers only"
        ) from error
    except OSError:
        raise
    except Exception as error:  # garbled ones end in whatever Python and NumPy raise
        reason = _line(f"{type(error).__name__}: {error}")
        raise DataError(f"{file}: is cut off or no pickle ({reason})") from error


def _line(text: str) -> str:
    return " ".join(text.split())[:200]
