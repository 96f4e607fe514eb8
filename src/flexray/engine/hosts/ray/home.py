"""A folder that does not outlive this process, even one that is killed."""

from __future__ import annotations

import os
import subprocess
import tempfile

LONGEST_BASE = 20
"""Ray puts sockets into its folder, whose paths may have 107 characters; a longer base would leave no room."""

SCRIPT = r"""
processes_of() {
    ls -ln /proc/[0-9]*/fd | awk -v home=" -> $1/" -v spared="$2" '
        /^\/proc\// { split($0, path, "/"); pid = path[3] }
        index($0, home) && pid != spared { found[pid] }
        END { for (pid in found) print pid }
    ' | while read -r pid; do
        ! tr '\0' ' ' <"/proc/$pid/cmdline" | grep -q -e '^ray::' -e "$1/" || echo "$pid"
    done
}
exec 3<&0
(
    trap '' INT TERM HUP
    cat <&3 >/dev/null
    tries=0
    while [ $tries -lt 40 ]; do
        left=$(processes_of "$1" "$2")
        [ -z "$left" ] || [ $tries -lt 12 ] || kill -9 $left
        rm -rf -- "$1"
        [ -n "$left" ] || [ -e "$1" ] || exit 0
        sleep 0.25
        tries=$((tries + 1))
    done
) >/dev/null 2>&1 &
"""
"""Waits for the end of a pipe whose other end only this process holds, then removes the folder; those who still write
into it may do so for a moment. Ray's processes end by themselves, but for its agents when the raylet was killed: who
still has a file of this folder open after three seconds is ended. Agents hide their command lines behind a title, so
their open files tell whose they are; this process itself, which Ray leaves with some, is spared."""


class TemporaryHome:
    """A new folder for Ray's files and sockets, removed when this object is released or the process ends."""

    def __init__(self) -> None:
        base = os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()
        self.path = tempfile.mkdtemp(prefix="flexray-", dir=base if len(base) <= LONGEST_BASE else "/tmp")  # noqa: S108
        reading, self._writing = os.pipe()
        try:
            subprocess.run(  # noqa: S603 - a fixed script
                ["/bin/sh", "-c", SCRIPT, "flexray-janitor", self.path, str(os.getpid())],
                stdin=reading, start_new_session=True, cwd="/", check=True,
            )  # fmt: skip
        finally:
            os.close(reading)

    def release(self) -> None:
        """Have the folder removed soon."""
        if self._writing >= 0:
            os.close(self._writing)
            self._writing = -1
