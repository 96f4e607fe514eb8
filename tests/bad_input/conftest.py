"""The real command, run in this process, and what it said."""

from __future__ import annotations

import importlib
import json
import logging
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from flexray.run.command import run_command


@dataclass
class Outcome:
    """What a command did.

    Args:
        status: Its exit status.
        text: All that it printed, errors last.
        stderr: What of it went to standard error.
        folder: Its run folder.
    """

    status: int
    text: str
    stderr: str
    folder: Path

    @property
    def errors(self) -> list[str]:
        """The lines that say what went wrong."""
        return [line for line in self.text.splitlines() if line.startswith("flexray: ")]

    @property
    def summary(self) -> dict[str, Any]:
        """The content of summary.json."""
        content: dict[str, Any] = json.loads((self.folder / "summary.json").read_text(encoding="utf-8"))
        return content

    def assert_refused(self, *words: str) -> None:
        """Check that a mistake of the user ended in one line with these words, and nothing else was printed."""
        assert len(self.errors) == 1, self.text
        assert self.text == self.stderr == f"{self.errors[0]}\n"
        assert all(word in self.errors[0] for word in words), self.errors[0]
        assert self.status == 2
        assert not (self.folder / "summary.json").exists()

    def assert_broke(self, *words: str) -> None:
        """Check that a failure of the user's code was told once: its traceback, then a line with these words."""
        assert self.status == 1, self.text
        assert len(self.errors) == 1, self.text
        assert self.stderr.endswith(f"{self.errors[0]}\n")
        assert self.stderr.startswith("Traceback (most recent call last)")
        assert all(word in self.errors[0] for word in words), self.errors[0]
        assert self.text.count("Traceback (most recent call last)") == 1, self.text
        assert not (self.folder / "summary.json").exists()


SMALL = ("dataset.batch_size=8", "rounds=4", "server=linear", "optimizer=momentum")
Command = Callable[..., Outcome]
WriteModule = Callable[[str, str], None]


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give the process back as it was: import path, environment, log handlers."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    for handler in set(root.handlers) - set(handlers):
        root.removeHandler(handler)
        handler.close()
    root.setLevel(level)


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Return a function that runs ``python -m flexray.run`` with these arguments in a folder of the test's own."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "run"

    def run(*arguments: str) -> Outcome:
        capsys.readouterr()
        status = run_command(["cluster=inline", "progress=false", f"hydra.run.dir={folder}", *arguments])
        out, err = capsys.readouterr()
        return Outcome(status, out + err, err, folder)

    return run


@pytest.fixture
def write_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WriteModule:
    """Return a function that writes a module of the user's into the folder where the command is typed."""

    def write(name: str, text: str) -> None:
        (tmp_path / f"{name}.py").write_text(dedent(text), encoding="utf-8")
        monkeypatch.delitem(sys.modules, name, raising=False)
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
        importlib.invalidate_caches()

    return write


@pytest.fixture
def run(command: Command, bundle: Path) -> Command:
    """Return a function that runs four rounds of a small bundle of parties a, b and c."""

    def small(*arguments: str) -> Outcome:
        return command("dataset=bundle", f"dataset.path={bundle}", *SMALL, *arguments)

    return small
