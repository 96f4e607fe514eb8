"""From ``checkpoint`` of the configuration to when and where a run is saved."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from flexray.core.checks import positive, shown, whole
from flexray.core.errors import ConfigError
from flexray.core.runfolder import own_folder, read_text
from flexray.engine.driver.snapshots import Saves

DEFAULT_EVERY = 100
"""Rounds (VAFL: updates of each party) between checkpoints, and between copies for lost processes."""

MAX_NAME = 1024
"""Bytes of the file with the name under which checkpoints are elsewhere."""

log = logging.getLogger("flexray")


@dataclass(frozen=True)
class Safety:
    """How a run is saved, and what happens when processes are lost.

    Args:
        saves: After which rounds; None: this run cannot go on from a snapshot (``clock=wall``).
        keep: How many checkpoints to keep.
        dir: Where, an fsspec address or a folder; None: in the run folder.
        max_failures: How many times to replace lost processes.
        stall_timeout_s: Seconds without any progress that count as a failure; None: wait for ever.
    """

    saves: Saves | None = None
    keep: int = 2
    dir: str | None = None
    max_failures: int = 0
    stall_timeout_s: float | None = None

    def address(self, folder: Path) -> str:
        """Return where the checkpoints of the run in ``folder`` are: elsewhere they are told apart by its name."""
        if self.dir is None:
            return os.fspath(folder / "checkpoints")
        known = folder / "checkpoints" / "address.txt"
        if known.exists():
            name = read_text(known, MAX_NAME).strip()
        else:
            name = own_folder(folder)
            known.parent.mkdir(parents=True, exist_ok=True)
            known.write_text(f"{name}\n", encoding="utf-8")
        if not re.fullmatch(r"[^/\\:.][^/\\:]*", name) or not name.isprintable():
            raise ConfigError(f"{known}: expected the name of a folder, got {name[:60]!r}")
        return f"{self.dir.rstrip('/')}/{name}"


def build_safety(config: Mapping[str, Any], by_turns: int, base_dir: Path) -> Safety:
    """Return how a run is saved.

    Args:
        config: The composed configuration.
        by_turns: Updates that make one of each party: K for VAFL, else 1.
        base_dir: Folder that a relative ``checkpoint.dir`` starts from.
    """
    node, alone = config["checkpoint"], config["cluster"]["kind"] == "inline"
    every = _rounds("checkpoint.every", node["every"], by_turns)
    recover = _rounds("checkpoint.recover_every", node["recover_every"], by_turns)
    saves = Saves(every, None if alone else recover, at_end=True)
    stall, failures = config["stall_timeout"], whole("max_failures", config["max_failures"], low=0)
    safety = Safety(
        saves=saves,
        keep=whole("checkpoint.keep", node["keep"], low=1),
        dir=_directory(node["dir"], base_dir),
        max_failures=0 if alone else failures,
        stall_timeout_s=None if stall is None else positive("stall_timeout", stall),
    )
    if config["clock"]["kind"] == "wall":  # real seconds cannot be gone through again
        return replace(safety, saves=None, max_failures=0)
    return safety


def _rounds(key: str, value: Any, by_turns: int) -> int:
    return DEFAULT_EVERY * by_turns if value is None else whole(key, value, low=0)


def _directory(value: Any, base_dir: Path) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not value:
        raise ConfigError(f"checkpoint.dir: expected a folder or an address such as s3://runs, got {shown(value)}")
    return value if "://" in value else os.fspath(base_dir / Path(value).expanduser())
