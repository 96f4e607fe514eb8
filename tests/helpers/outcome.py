"""What a command printed and left."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


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
