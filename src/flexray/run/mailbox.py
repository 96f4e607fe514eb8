"""Results of the jobs of a parallel sweep, for the command that started them.

A launcher such as joblib copies the session to other processes of this machine, whose summaries would be lost there.
Each copy posts its own as a JSON file in a temporary folder that the command made; a copy on another machine, in one of
its own, from where :mod:`flexray.run.errands` takes it home.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any, Self

from flexray.run.save.storage import replace_text

SWEEP = "sweep.txt"


class Mailbox:
    """A folder of letters; a copy in another process knows the folder, and only the original removes it.

    Args:
        folder: Where; None: a new temporary one.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or Path(tempfile.mkdtemp(prefix="flexray-sweep-"))
        self._made_s = time.time()
        self.is_copy = False

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Begin in another process."""
        vars(self).update(state)
        self.is_copy = True

    def moved(self, folder: Path) -> Self:
        """Return the mailbox of this copy, on another machine."""
        folder.mkdir()
        mailbox = type(self)(folder)
        mailbox.is_copy = self.is_copy
        return mailbox

    def post(self, job: int, exit_status: int, summary: dict[str, Any] | None) -> None:
        """Leave a letter: how a job ended."""
        replace_text(self._folder / f"{job:06d}.json", json.dumps({"exit_status": exit_status, "summary": summary}))

    def note_sweep(self, folder: str) -> None:
        """Note the folder of the sweep, which a command that is stopped early would not know."""
        temporary = self._folder / f"{os.getpid()}.tmp"  # several processes write the same file
        temporary.write_text(folder, encoding="utf-8")
        os.replace(temporary, self._folder / SWEEP)

    @property
    def sweep_folder(self) -> str | None:
        """The folder of the sweep, once a job has begun; read it before :meth:`take`."""
        path = self._folder / SWEEP
        return path.read_text(encoding="utf-8") if path.exists() else None

    def progress(self) -> tuple[int, float]:
        """Return how many jobs have ended, and the seconds since the command began them."""
        return sum(1 for _ in self._folder.glob("*.json")), time.time() - self._made_s

    def take(self) -> list[tuple[int, dict[str, Any] | None]]:
        """Return exit status and summary of every job, in their order, and remove the folder."""
        letters = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(self._folder.glob("*.json"))]
        shutil.rmtree(self._folder, ignore_errors=True)
        return [(letter["exit_status"], letter["summary"]) for letter in letters]
