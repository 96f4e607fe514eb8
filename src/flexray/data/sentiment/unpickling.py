"""Reading strangers' pickles of NumPy arrays and plain containers: no code is run and no memory forged.

A pickle names functions to call and states to set. :class:`_Unpickler` gives it neither NumPy's functions nor its
classes, but substitutes that accept only the arguments NumPy writes. An array of objects is made of a list of objects,
never of bytes, which NumPy would use as pointers; and no array is filled twice. A pickle may still use any amount of
memory.
"""

from __future__ import annotations

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
from flexray.core.files import said
from flexray.data.base import Array
from flexray.data.checks import reading

CONTAINERS = {
    kind.__name__: kind
    for kind in (bool, bytearray, bytes, complex, dict, float, frozenset, int, list, set, str, tuple)
}
DTYPE = re.compile(r"[biufcSUO]\d*")
"""Types of booleans, numbers, texts and objects; not of records, the fields of which may lie anywhere."""


class _RefusedError(Exception):
    """The pickle asks for something other than NumPy arrays and plain containers."""


class _Dtype:
    """A dtype: letter and size, for example ``f8``; its state adds the byte order."""

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
    """An array that is filled once: views of its first memory would point to freed memory."""

    is_blank = False

    def __setstate__(self, state: Any) -> None:
        if not self.is_blank:
            raise _RefusedError("an array that is filled twice")
        self.is_blank = False
        _, sizes, dtype, is_fortran, content = state
        real, shape = _real(dtype), tuple(int(size) for size in sizes)  # NumPy's integers would overflow below
        if isinstance(content, str):  # bytes in Python 2's protocol
            content = content.encode("latin-1")
        expected, unit = (list, 1) if real.hasobject else (bytes, real.itemsize)
        if type(content) is not expected:
            raise _RefusedError(f"an array of {real} made of {type(content).__name__}")
        if len(content) != math.prod(shape) * unit:
            raise ValueError(f"{len(content)} {expected.__name__} items for an array of {real} {shape}")
        np.empty(shape, real)  # refuses impossible shapes, with which __setstate__ would write past the array's end
        super().__setstate__((1, shape, real, bool(is_fortran), content))  # type: ignore[arg-type]
        _check_characters(self)


def _check_characters(array: Array) -> None:
    """Refuse texts with numbers beyond Unicode, of which NumPy makes strings that break Python."""
    if array.dtype.kind == "U":
        numbers = np.frombuffer(array.tobytes(), np.dtype("u4").newbyteorder(array.dtype.byteorder))
        if numbers.max(initial=0) > sys.maxunicode:
            raise ValueError("a text holds what is no character")


def _real(dtype: Any) -> np.dtype[Any]:
    if type(dtype) is not _Dtype:
        raise _RefusedError(f"an array of {type(dtype).__name__}")
    return dtype.dtype


class _Unpickler(pickle._Unpickler):
    """Gives a pickle its substitutes: bound methods, since a pickle may set attributes of plain functions.

    Based on Python's own unpickler, up to twice as slow: that in C makes room for 2^32 objects if one flipped bit asks.
    """

    def find_class(self, module: str, name: str) -> Any:
        if module in ("builtins", "__builtin__") and name in CONTAINERS:
            return CONTAINERS[name]
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
        """Stand for the class that NumPy's pickles name but never call."""
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
        """Return the bytes that Python 2's protocol stores as text."""
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
            f"{file}: refused, since this pickle asks for {said(error)};"
            " expected NumPy arrays and plain containers only"
        ) from error
    except OSError:
        raise
    except Exception as error:  # garbled pickles make Python and NumPy raise anything
        reason = f"{type(error).__name__}: {said(error)}"
        raise DataError(f"{file}: is cut off or no pickle ({reason})") from error
