"""Shows that two checkouts compute the same: ``python experiments/same_numbers.py OLD NEW``.

Both run the six algorithms, in one process and with an actor per participant, and one report of all of them. Everything
they write must be equal byte for byte, but for seconds, versions and addresses of processes.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROUNDS = "adaptive,flex,sync_min,sync_max,pbcd"
PLACES = ("inline", "local")
VARIANTS = {
    "paper": [f"algo={ROUNDS},vafl", "rounds=30"],
    "trace": [f"algo={ROUNDS},vafl", "rounds=30", "speeds=trace", "optimizer=momentum", "network.bits=4"],
    "server": [f"algo={ROUNDS},vafl", "rounds=20", "labels_at=server", "lr=0.002", "speeds.unit_time=[3,1,2,1,1]"],
    "absent": [f"algo={ROUNDS}", "rounds=20", "absence.probability=0.2", "lr_decay.milestones=[8]"],
}
WRITTEN = ("rounds.csv", "evals.csv", "timeline.json", "summary.json", "config.yaml")
VARYING = re.compile(r"version|second|_s$|^(python|torch|ray|host|git|started|ended|cluster|memory|resources|pid)|peak")


def settled(node: object) -> object:
    """Return a summary without what differs between two runs of one code."""
    if isinstance(node, dict):
        return {key: settled(value) for key, value in node.items() if not VARYING.search(key)}
    return [settled(value) for value in node] if isinstance(node, list) else node


def command(checkout: Path, folder: Path, *arguments: str) -> None:
    """Run a flexray command of a checkout in a folder."""
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    done = subprocess.run(
        [sys.executable, "-m", *arguments], cwd=folder, env=environment, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"{checkout}: {' '.join(arguments)}\n{done.stdout}\n{done.stderr}")


def run_all(checkout: Path, folder: Path) -> None:
    """Run every case and the report in a folder."""
    for place in PLACES:
        for name, extra in VARIANTS.items():
            sweep = ["-m", f"cluster={place}", *extra, "progress=false"]
            command(checkout, folder, "flexray.run", *sweep, f"hydra.sweep.dir={place}_{name}")
    command(checkout, folder, "flexray.report", *(f"inline_{name}" for name in VARIANTS), "--out", "report")


def compared(old: Path, new: Path) -> list[str]:
    """Return the names of files that differ; say how many are equal."""
    names = sorted(str(p.relative_to(old)) for p in old.rglob("*") if p.is_file() and is_compared(p.relative_to(old)))
    differing = [name for name in names if content(old / name) != content(new / name)]
    print(f"{len(names) - len(differing)} of {len(names)} files are equal")
    return differing


def is_compared(path: Path) -> bool:
    """Whether two runs of one code write this file alike."""
    return path.parts[0] == "report" or path.name in WRITTEN


def content(path: Path) -> object:
    """Return what a file holds, as far as it is compared."""
    if not path.is_file():
        return None
    return settled(json.loads(path.read_text())) if path.name == "summary.json" else path.read_bytes()


def main() -> int:
    """Run both and compare."""
    old, new = (Path(argument).resolve() for argument in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as home:
        folders = [Path(home, name) for name in ("old", "new")]
        for checkout, folder in zip((old, new), folders, strict=True):
            folder.mkdir()
            run_all(checkout, folder)
        differing = compared(*folders)
    print("\n".join(f"differs: {name}" for name in differing))
    return bool(differing)


if __name__ == "__main__":
    sys.exit(main())
