"""A run folder of a stranger, and what is checked when it is refused."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import yaml

from flexray import predict
from flexray.run.command import run_command

SMALL = ("cluster=inline", "progress=false", "rounds=2", "dataset.batch_size=256", "model.hidden=[4]")
EVIL = "from pathlib import Path\n\nPath('PWNED').touch()\n\n\nclass X:\n    pass\n\n\nAdam = Net = X\n"
SECRET = "FLEXRAY_TEST_SECRET"


def tree(folder: Path) -> dict[str, bytes | str]:
    """Return every file below a folder with its content; of what is no plain file, its kind."""
    found: dict[str, bytes | str] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = f"link to {os.readlink(path)}"
        elif path.is_file():
            found[name] = path.read_bytes()
        elif not path.is_dir():
            found[name] = "special"
    return found


@dataclass
class Stranger:
    """A run folder from a stranger, and the folder in which a user types.

    Args:
        folder: The run folder.
        here: Where the user types; the stranger's module ``evil`` lies there and in the folder.
        said: What was printed last.
    """

    folder: Path
    here: Path
    said: Callable[[], tuple[str, str]]

    def add(self, *lines: str) -> None:
        """Add overrides to those that the folder records."""
        path = self.folder / ".hydra" / "overrides.yaml"
        path.write_text(yaml.safe_dump([*yaml.safe_load(path.read_text()), *lines]), encoding="utf-8")

    def resume(self, *arguments: str) -> int:
        """Continue the run, one round further."""
        return run_command([f"resume={self.folder}", "rounds=3", *arguments])

    def predict(self, *arguments: str) -> int:
        """Predict with its model."""
        return predict.run_command([str(self.folder), "-o", str(self.here / "p.csv"), *arguments])

    def assert_refused(self, act: Callable[[], int], *words: str) -> None:
        """Check that a command is refused in one line with these words, and that nothing was run, written or lost."""
        before = tree(self.here)
        self.said()
        status = act()
        out, err = self.said()
        assert (status, out) == (2, ""), out + err
        assert err.startswith("flexray: "), err
        assert err.count("\n") == 1, err
        for word in words:
            assert word in err, err
        assert os.environ[SECRET] not in err
        assert tree(self.here) == before
        assert "evil" not in sys.modules
