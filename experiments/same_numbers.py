"""Shows that two checkouts compute the same: ``python experiments/same_numbers.py OLD NEW [--places inline,local]``.

Both run the six algorithms in every place (by default in one process, and with an actor per participant), and write a
report of the runs of OLD. Every file must be equal byte for byte; summaries without seconds, versions and memory.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROUNDS = "adaptive,flex,sync_min,sync_max,pbcd"
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
    argv = [sys.executable, "-m", *arguments]
    done = subprocess.run(argv, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{checkout}: {' '.join(arguments)}\n{done.stdout}\n{done.stderr}")


def run_all(checkout: Path, folder: Path, places: list[str]) -> None:
    """Run every case in a folder."""
    for place in places:
        for name, extra in VARIANTS.items():
            sweep = ["-m", f"cluster={place}", *extra, "progress=false", f"hydra.sweep.dir={place}_{name}"]
            command(checkout, folder, "flexray.run", *sweep)


def differing(old: Path, new: Path) -> list[str]:
    """Return the names of files that differ; say how many are equal."""
    names = sorted(str(p.relative_to(old)) for p in old.rglob("*") if p.is_file() and is_compared(p.relative_to(old)))
    found = [name for name in names if content(old / name) != content(new / name)]
    print(f"{len(names) - len(found)} of {len(names)} files are equal")
    return found


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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--places", default="inline,local")
    arguments = parser.parse_args()
    places = arguments.places.split(",")
    with tempfile.TemporaryDirectory() as home:
        old, new = Path(home, "old"), Path(home, "new")
        for checkout, folder in ((arguments.old, old), (arguments.new, new)):
            folder.mkdir()
            run_all(checkout.resolve(), folder, places)
            runs = [str(old / f"{places[0]}_{name}") for name in VARIANTS]
            command(checkout.resolve(), folder, "flexray.report", *runs, "--out", "report")
        found = differing(old, new)
    print("\n".join(f"differs: {name}" for name in found))
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
