"""Looks at processes of this machine."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def descendants(pid: int) -> dict[int, str]:
    listed = subprocess.run(["ps", "-ww", "-eo", "pid,ppid,args"], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in listed.splitlines()[1:]]
    found: dict[int, str] = {}
    todo = [pid]
    while todo:
        parent = todo.pop()
        for own, above, args in rows:
            if int(above) == parent:
                found[int(own)] = args
                todo.append(int(own))
    return found


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def within(seconds: float, condition: Callable[[], Any]) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return bool(condition())


def wait_for_address(head: subprocess.Popen[Any], folder: Path) -> str:
    """Return the address of a starting head node, which it writes into its folder."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        address = folder / "ray_current_cluster"
        if address.is_file() and address.read_text().strip():
            return address.read_text().strip()
        head.poll()
    raise TimeoutError("no head node")
