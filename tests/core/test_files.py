"""Files that are none: pipes, devices, folders, without permission; and arrays whose header says what is not so."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from flexray.core.errors import DataError, RunFolderError, UserError
from flexray.core.files import check_file, names_in, open_array
from flexray.data.bundle import Bundle
from flexray.data.columns import header
from flexray.data.folders import entries, found_in
from flexray.data.off import read_off
from flexray.data.pictures import Files
from flexray.data.sentiment.layouts import find_layout
from flexray.data.sentiment.unpickling import load_pickle
from flexray.traces.chunks import chunks
from flexray.traces.importing import expand
from flexray.traces.reading import read_trace
from flexray.traces.records import Field, batches

READERS = {
    "x.csv": lambda file: header(file, {}),
    "x.parquet": lambda file: header(file, {}),
    "x.npy": open_array,
    "x.pkl": load_pickle,
    "x.png": lambda file: Files([str(file)], 3).open(0),
    "x.off": read_off,
    "trace.csv": read_trace,
    "trace.parquet": read_trace,
    "trace.npy": read_trace,
    "events.csv": lambda file: list(chunks(file)),
    "usage.json": lambda file: list(batches(file, [Field("time", "int64")])),
    "import.csv": lambda file: expand([file]),
    "aligned_50.pkl": lambda file: find_layout(file, "auto").read(),
}


def make(what: str, file: Path) -> Path:
    if what == "a pipe":
        os.mkfifo(file)
    elif what == "a device":
        file.symlink_to("/dev/zero")
    elif what == "a folder":
        file.mkdir()
    return file


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("what", ["a pipe", "a device"])
def test_every_reader_refuses_at_once_what_never_ends(name: str, what: str, tmp_path: Path) -> None:
    file = make(what, tmp_path / name)
    with pytest.raises(DataError, match=rf"^{file}: is {what}; expected [^\n]+$"):
        READERS[name](file)


def test_what_a_path_may_be_is_said(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"123")
    assert check_file(file) == 3
    link = tmp_path / "link"
    link.symlink_to(file)
    assert check_file(link) == 3
    with pytest.raises(RunFolderError, match=rf"^{tmp_path}/none: no such file; expected a table$"):
        check_file(tmp_path / "none", "a table", RunFolderError)
    for path in (file / "below", tmp_path / "none" / "below"):
        with pytest.raises(DataError, match=rf"^{path}: no such file$"):
            check_file(path)
    with pytest.raises(DataError, match=r": is a folder; expected a regular file$"):
        check_file(tmp_path)
    with pytest.raises(DataError, match=r"/n{300}: cannot be read: File name too long$"):
        check_file(tmp_path / ("n" * 300))
    with pytest.raises(DataError, match=r"/a\\x00b: cannot be read: embedded null byte; expected a table$"):
        check_file(tmp_path / "a\0b", "a table")
    here = os.getcwd()
    os.chdir(tmp_path)  # a socket's whole name may have 107 characters only
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("s")
        with pytest.raises(DataError, match=r"^s: is a socket; expected a regular file$"):
            check_file(Path("s"))
    finally:
        os.chdir(here)


@contextmanager
def without_rights() -> Iterator[Path]:
    """Yield a folder in which nothing can be read, by a user who may not read everything."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "closed").mkdir()
        for place in (folder, folder / "closed"):
            for file in READERS:
                (place / file).write_bytes(b"123")
                (place / file).chmod(0)
        (folder / "closed").chmod(0)
        user = os.geteuid()
        if user == 0:
            os.seteuid(65534)
        try:
            yield folder
        finally:
            if user == 0:
                os.seteuid(0)
            (folder / "closed").chmod(0o755)


def test_what_may_not_be_read_is_named() -> None:
    with without_rights() as folder:
        for place in (folder, folder / "closed"):
            for name, read in READERS.items():
                if name == "import.csv" and place == folder:
                    continue  # it is opened later
                with pytest.raises(DataError, match=rf"^{place / name}: .*Permission denied[^\n]*$"):
                    read(place / name)
        for look in (names_in, entries, found_in):
            with pytest.raises(DataError, match=rf"^{folder}/closed: cannot be read"):
                look(folder / "closed")  # type: ignore[operator]
        for use in (lambda path: Bundle(path).outline(), lambda path: find_layout(path, "auto").read()):
            with pytest.raises(DataError, match=rf"{folder}/closed[^\n]*$"):
                use(folder / "closed")


def array(header: str, body: bytes = bytes(24 * 8), version: int = 1) -> bytes:
    """Return an ``.npy`` file with any header."""
    length = len(header).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + length + header.encode("latin-1") + body


def said(descr: object = "<f8", order: object = False, shape: object = (24,)) -> str:
    return repr({"descr": descr, "fortran_order": order, "shape": shape})


HEADERS = {
    "no literal": (said().replace("'shape'", "'shape"), "cannot be read"),
    "an open bracket": (said().replace("}", "("), "cannot be read"),
    "nested": ("(" * 5000, "cannot be read"),
    "no key": ("{}", "cannot be read"),
    "a list as key": ("{[]: 1}", "cannot be read"),
    "negative": (said(shape=(-24,)), "its header names the shape (-24,)"),
    "both negative": (said(shape=(-4, -6)), "its header names the shape (-4, -6)"),
    "true": (said(shape=(True, 24)), "its header names the shape (True, 24)"),
    "no tuple": (said(shape=24), "shape is not valid: 24"),
    "huge": (said(shape=(10**30,)), f"its header names the shape ({10**30},)"),
    "huge together": (said(shape=(2**40, 2**40)), "its header names the shape"),
    "huge but nothing": (said(shape=(2**62, 2**62, 0)), "cannot be read"),
    "many axes": (said(shape=(1,) * 70 + (24,)), "cannot be read"),
    "more rows": (said(shape=(25,)), "expected a file size of 266 bytes, got 258"),
    "fewer rows": (said(shape=(23,)), "expected a file size of 250 bytes, got 258"),
    "another type": (said("<f4"), "for float32 of shape (24,) expected a file size of 162 bytes, got 258"),
    "objects": (said("|O"), "its header names Python objects"),
    "no width": (said("<U0", shape=(10**9,)), "its header names the type <U0"),
    "records": (said([("a", "<f8")]), "its header names the type [('a', '<f8')]"),
    "no type": (said("what"), "cannot be read"),
    "a number as type": (said(7), "cannot be read"),
}


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("kind", HEADERS)
def test_a_header_that_cannot_be_is_refused_before_anything_is_mapped(kind: str, version: int, tmp_path: Path) -> None:
    content, words = HEADERS[kind]
    file = tmp_path / "labels.npy"
    file.write_bytes(array(content, version=version))
    with pytest.raises(DataError) as caught:
        open_array(file)
    assert str(caught.value).startswith(f"{file}: cannot be read: ")
    assert version == 2 or words in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (4,), (2, 3)])
def test_what_numpy_saved_is_mapped(version: tuple[int, int], shape: tuple[int, ...], tmp_path: Path) -> None:
    for kind in ("?", "u1", "<f2", "<f8", ">i4", "<c16", "<U3", "S2", "<M8[s]"):
        for order in "CF":
            saved = np.asarray(np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(kind), order=order)
            with (tmp_path / "a.npy").open("wb") as file:
                np.lib.format.write_array(file, saved, version=version)
            found = open_array(tmp_path / "a.npy")
            np.testing.assert_array_equal(found, saved)
            assert (found.dtype, found.shape) == (saved.dtype, shape)
            assert not (saved.size and found.flags.writeable)
            if saved.size > 1:
                assert found.flags.f_contiguous == saved.flags.f_contiguous


def test_an_empty_array_file_is_said_to_be_empty(tmp_path: Path) -> None:
    (tmp_path / "a.npy").touch()
    with pytest.raises(DataError, match=r"a\.npy: is empty \(0 bytes\); expected an array saved by numpy\.save$"):
        open_array(tmp_path / "a.npy")


def test_what_a_terminal_would_obey_is_escaped_in_messages() -> None:
    assert str(UserError("a\x1b[31m\nb\0\udcff é")) == r"a\x1b[31m\nb\x00\udcff é"
    long = str(UserError(f"t.csv: no column 'x'; expected one of: {', '.join(map(str, range(10**5)))}"))
    assert (long[:30], long[-7:], len(long)) == ("t.csv: no column 'x'; expected", ", 99999", 1000)
