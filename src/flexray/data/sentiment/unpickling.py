"""Reading pickles of strangers: NumPy arrays and plain containers come out, nothing is run."""

from __future__ import annotations

import codecs
import io
import pickle
from pathlib import Path
from typing import Any

from flexray.data.checks import reading
from flexray.errors import DataError

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
NUMPY = {
    "multiarray": ("_reconstruct", "scalar"),
    "numeric": ("_frombuffer",),
}
ALLOWED = {
    ("collections", "OrderedDict"),
    ("numpy", "dtype"),
    ("numpy", "ndarray"),
    *((module, name) for module in ("builtins", "__builtin__") for name in CONTAINERS),
    *(
        (f"numpy.{core}.{module}", name)
        for core in ("core", "_core")
        for module, names in NUMPY.items()
        for name in names
    ),
}
"""What a pickle may ask for: module and name. None of them runs code of its arguments."""

BROKEN = (
    pickle.UnpicklingError, EOFError, AttributeError, ImportError, IndexError, KeyError, MemoryError, OverflowError,
    RuntimeError, SystemError, TypeError, ValueError,
)  # fmt: skip
"""What the standard library and NumPy raise for a pickle that is cut off or garbled."""


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("_codecs", "encode"):  # so does Python 2's protocol store bytes
            return _latin1
        if (module, name) in ALLOWED:
            return super().find_class(module, name)
        raise _RefusedError(f"{module}.{name}")


class _RefusedError(Exception):
    """The pickle asks for something that is neither NumPy's nor a plain container."""


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
            f"{file}: refused, since this pickle asks for {error}; expected NumPy arrays and plain containers only"
        ) from error
    except BROKEN as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise DataError(f"{file}: is cut off or no pickle ({reason})") from error


def _latin1(text: str, encoding: str) -> bytes:
    if codecs.lookup(encoding).name != "iso8859-1":
        raise _RefusedError(f"the codec {encoding}")
    return text.encode("latin-1")
