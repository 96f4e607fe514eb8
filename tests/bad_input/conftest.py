"""The real command, run in this process, and what it said."""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from flexray.run.command import run_command
from helpers.outcome import SMALL, Command, Outcome, WriteModule


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
