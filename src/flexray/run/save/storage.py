"""A folder of small files, here or at any address that fsspec knows (``s3://bucket/runs``)."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar, TypeVar

from typing_extensions import override

from flexray.core.errors import RunFolderError
from flexray.core.runfolder import read_bytes

PATIENCE_S = 20.0
"""Longest wait for a place to answer at the start."""
MAX_NOTES = 256 << 20
"""Bytes of a JSON file; decoded it takes many times as much memory."""

Result = TypeVar("Result")


class Storage(ABC):
    """A folder whose files are written whole or not at all.

    All methods raise :class:`flexray.core.errors.RunFolderError`, one line, if the place cannot be used.

    Args:
        place: The folder's path or address, for messages.
    """

    faults: ClassVar[type[Exception]] = Exception
    """What access to the place raises; at an address, exceptions of whichever library reaches it."""

    def __init__(self, place: str) -> None:
        self._place = place

    @abstractmethod
    def write(self, name: str, content: bytes) -> None:
        """Write a file to a temporary name, bring it to disk and give it its name."""

    @abstractmethod
    def read(self, name: str) -> bytes:
        """Return a file's content."""

    @abstractmethod
    def names(self) -> list[str]:
        """Return the names of all files, none if there is no such folder."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Delete a file."""

    def probe(self) -> None:
        """Write a file and delete it, to know at once whether the place can be used."""
        self.write("probe", b"probe")
        self.delete("probe")

    @contextmanager
    def _access(self, what: str, name: str = "") -> Iterator[None]:
        """Turn an exception into one line that says what could not be done with which file."""
        try:
            yield
        except RunFolderError:
            raise
        except self.faults as error:
            place = f"{self._place}/{name}" if name else self._place
            raise RunFolderError(f"checkpoint.dir: {place}: cannot be {what}: {_reason(error)}") from error


class LocalStorage(Storage):
    """A folder of this machine."""

    faults = OSError

    def __init__(self, folder: Path) -> None:
        super().__init__(os.fspath(folder))
        self._folder = folder

    @override
    def write(self, name: str, content: bytes) -> None:
        path = self._folder / name
        temporary = path.with_name(f"{name}.tmp")
        with self._access("written", name):
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
                _write_through(temporary, content)
                os.replace(temporary, path)
            except OSError:
                with suppress(OSError):
                    temporary.unlink()  # half a file, which a full disk has no room for
                raise
            handle = os.open(self._folder, os.O_RDONLY)
            try:
                os.fsync(handle)  # the new name, too
            finally:
                os.close(handle)

    @override
    def read(self, name: str) -> bytes:
        try:
            half = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
            return read_bytes(self._folder / name, MAX_NOTES if name.endswith(".json") else half)
        except RunFolderError as error:
            raise RunFolderError(f"checkpoint.dir: {self._folder}: cannot be read: {error}") from error

    @override
    def names(self) -> list[str]:
        with self._access("listed"):
            return [path.name for path in self._folder.iterdir()] if self._folder.is_dir() else []

    @override
    def delete(self, name: str) -> None:
        with self._access("deleted", name):
            (self._folder / name).unlink(missing_ok=True)


def _write_through(path: Path, content: bytes) -> None:
    """Write a new file and bring it to disk; a link that stands there is not followed."""
    with suppress(FileNotFoundError):
        path.unlink()
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
    with open(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def replace_text(path: Path, text: str) -> None:
    """Write a text file whole or not at all; half a file that a killed command left is overwritten."""
    temporary = path.with_name(f"{path.name}.tmp")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)


class RemoteStorage(Storage):
    """A folder at an fsspec address."""

    def __init__(self, address: str) -> None:
        import fsspec  # imported late: runs that save on this machine need none of it

        super().__init__(address)
        for protocol in address.partition("://")[0].split("::"):
            if protocol not in fsspec.available_protocols():
                raise RunFolderError(f"checkpoint.dir: cannot use '{address}': no protocol '{protocol}' is known")
        try:
            self._files, self._root = _in_time(lambda: fsspec.core.url_to_fs(address))
        except Exception as error:
            raise RunFolderError(f"checkpoint.dir: cannot use '{address}': {_reason(error)[:300]}") from error

    def probe(self) -> None:
        """Write a file and delete it, within :data:`PATIENCE_S`."""
        with self._access("written", "probe"):
            _in_time(super().probe)

    @override
    def write(self, name: str, content: bytes) -> None:
        path = f"{self._root}/{name}"
        with self._access("written", name):
            self._files.makedirs(self._root, exist_ok=True)
            self._files.pipe_file(f"{path}.tmp", content)
            self._files.mv(f"{path}.tmp", path)

    @override
    def read(self, name: str) -> bytes:
        with self._access("read", name):
            content: Any = self._files.cat_file(f"{self._root}/{name}")
        return bytes(content)

    @override
    def names(self) -> list[str]:
        with self._access("listed"), suppress(FileNotFoundError):
            self._files.invalidate_cache()
            return [str(path).rpartition("/")[2] for path in self._files.ls(self._root, detail=False)]
        return []

    @override
    def delete(self, name: str) -> None:
        with self._access("deleted", name):
            self._files.rm_file(f"{self._root}/{name}")


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return " ".join(f"{type(error).__name__}: {error}".split())


def _in_time(work: Callable[[], Result]) -> Result:
    """Return what ``work`` returns, done in a thread that is left alone if it takes too long."""
    done: Future[Result] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except Exception as error:  # noqa: BLE001 - raised again where the result is waited for
            done.set_exception(error)

    Thread(target=run, name="checkpoint.dir", daemon=True).start()
    try:
        return done.result(PATIENCE_S)
    except TimeoutError:
        raise TimeoutError(f"no answer within {PATIENCE_S:g} s") from None


def open_storage(address: str) -> Storage:
    """Return the storage at an fsspec address or a path of this machine."""
    return RemoteStorage(address) if "://" in address else LocalStorage(Path(address))
