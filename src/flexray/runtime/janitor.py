"""A folder that does not outlive this process, even one that is killed."""

from __future__ import annotations

import os
import subprocess
import tempfile

LONGEST_BASE = 20
"""Ray puts sockets into its folder, whose paths may have 107 characters; a longer base would leave no room."""

SCRIPT = """
exec 3<&0
(
    trap '' INT TERM HUP
    cat <&3 >/dev/null
    tries=0
    while [ $tries -lt 40 ]; do
        [ $tries -lt 16 ] || for file in $(grep -ls -- "-di[r]=$1/session_" /proc/[0-9]*/cmdline); do
            pid=${file#/proc/}
            kill -9 "${pid%/cmdline}"
        done
        rm -rf -- "$1"
        sleep 0.25
        tries=$((tries + 1))
        [ -e "$1" ] || [ $tries -lt 8 ] || exit 0
    done
) >/dev/null 2>&1 &
"""
"""Waits for the end of a pipe whose other end only this process holds, then removes the folder; those who still write
into it may do so for a moment. Ray's processes end by themselves, but for its agents when the raylet was killed: who
still works for this folder after four seconds, by its command line, is ended."""


class TemporaryHome:
    """A new folder for Ray's files and sockets, removed when this object is released or the process ends."""

    def __init__(self) -> None:
        base = os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()
        self.path = tempfile.mkdtemp(prefix="flexray-", dir=base if len(base) <= LONGEST_BASE else "/tmp")  # noqa: S108
        reading, self._writing = os.pipe()
        try:
            subprocess.run(  # noqa: S603 - a fixed script
                ["/bin/sh", "-c", SCRIPT, "flexray-janitor", self.path],
                stdin=reading, start_new_session=True, cwd="/", check=True,
            )  # fmt: skip
        finally:
            os.close(reading)

    def release(self) -> None:
        """Have the folder removed soon."""
        if self._writing >= 0:
            os.close(self._writing)
            self._writing = -1
