"""Commands as one types them, each in a process of its own that has loaded what they import."""

from __future__ import annotations

import multiprocessing
import os
import runpy
import sys
import time
from collections.abc import Mapping, Sequence
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from pathlib import Path

from flexray.engine.hosts.loopback import VARIABLE

FORKS = multiprocessing.get_context("forkserver")
TESTS = str(Path(__file__).parents[1])
ADDRESS = "FLEXRAY_TESTS_FORK_SERVER"
"""The environment variable with the address of a server that other processes have in common with this one."""


def start_server() -> str:
    """Start the server whose children commands are, which takes seconds to load, and return its address."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([*([before] if before else []), TESTS])
    FORKS.set_forkserver_preload(["helpers.loaded"])
    forkserver.ensure_running()
    os.environ.pop("PYTHONPATH") if before is None else os.environ.update(PYTHONPATH=before)
    return str(forkserver._forkserver._forkserver_address)


def use_server(address: str) -> None:
    """Let this process have its children from a server that another one has started."""
    server = forkserver._forkserver
    server._forkserver_address = address
    server._forkserver_alive_fd = os.open(os.devnull, os.O_RDONLY)
    server.ensure_running = lambda: None


class Typed:
    """``python WORDS`` under way in a folder.

    Args:
        words: ``-m MODULE``, ``-c PROGRAM`` or the path of a script, and its arguments.
        folder: The folder it is typed in.
        own_group: Start a process group, to which signals can be sent.
        said: The file that gets all output; None: :meth:`end` returns it.
        environment: All its variables; None: those of this process when it typed its first command.
    """

    def __init__(
        self,
        words: Sequence[str],
        folder: Path,
        *,
        own_group: bool = False,
        said: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        if forkserver._forkserver._forkserver_address is None:
            use_server(os.environ[ADDRESS]) if ADDRESS in os.environ else start_server()
        (self._out, out), (self._err, err) = FORKS.Pipe(duplex=False), FORKS.Pipe(duplex=False)
        address = forkserver._forkserver._forkserver_address
        asked = (list(words), str(folder), own_group, address, said, environment, (out, err))
        self.process = FORKS.Process(target=_run, args=asked)
        self.process.start()
        out.close()
        err.close()

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    def poll(self) -> int | None:
        """Return the exit status, minus the signal that ended it; None if it is under way."""
        return self.process.exitcode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def end(self, timeout_s: float = 120.0) -> tuple[int | None, str, str]:
        """Return exit status, output and error output, once the last process that holds these two has ended.

        The command is killed after ``timeout_s``; its exit status is then None.
        """
        texts: dict[Connection, bytes] = {self._out: b"", self._err: b""}
        open_ones, deadline = list(texts), time.monotonic() + timeout_s
        while open_ones and (left_s := deadline - time.monotonic()) > 0:
            for pipe in wait(open_ones, left_s):
                assert isinstance(pipe, Connection)
                texts[pipe] += (read := os.read(pipe.fileno(), 1 << 16))
                if not read:
                    open_ones.remove(pipe)
        self.process.join(max(0.0, deadline - time.monotonic()))
        status = self.process.exitcode
        if status is None:
            self.process.kill()
            self.process.join()
        for pipe in texts:
            pipe.close()
        out, err = (text.decode("utf-8", "replace") for text in texts.values())
        return status, out, err


def typed(words: Sequence[str], folder: Path, timeout_s: float = 170.0) -> tuple[int | None, str]:
    """Run ``python WORDS`` in a folder and return its exit status, None if it took too long, and what it printed."""
    status, out, err = Typed(words, folder).end(timeout_s)
    return status, out + err


def _run(
    words: list[str],
    folder: str,
    own_group: bool,
    address: str,
    said: Path | None,
    environment: Mapping[str, str] | None,
    pipes: tuple[Connection, ...],
) -> None:
    for descriptor, pipe in enumerate(pipes, 1):
        os.dup2(pipe.fileno() if said is None else os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND), descriptor)
        pipe.close()
    if own_group:
        os.setsid()
    use_server(address)
    if environment is not None:
        os.environ.clear()
        os.environ.update(environment)
    for name in ("HYDRA_FULL_ERROR", VARIABLE):  # which commands in the tests' own process have set
        os.environ.pop(name, None)
    os.chdir(folder)
    sys.path[:] = [path for path in sys.path if path != TESTS]
    kind, *arguments = words
    if kind == "-m":
        sys.path.insert(0, folder)
        sys.argv = ["-m", *arguments[1:]]
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        sys.path.insert(0, folder)
        sys.argv = ["-c", *arguments[1:]]
        exec(compile(arguments[0], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.path.insert(0, str(Path(kind).parent))
        sys.argv = list(words)
        runpy.run_path(kind, run_name="__main__")
