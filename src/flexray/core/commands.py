"""What the command lines beside ``flexray.run`` share: how mistakes and interruptions end."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import NoReturn

from flexray.core.errors import ConfigError, FlexrayError, ParticipantError

INTERRUPTED = 130


class Parser(argparse.ArgumentParser):
    """Reports mistakes in one line."""

    def error(self, message: str) -> NoReturn:
        """Raise what :func:`guarded` prints."""
        raise ConfigError(f"{message.removeprefix('argument ')}; see {self.prog} --help")


def guarded(work: Callable[[], int], interrupted: str = "interrupted") -> int:
    """Return the exit status of ``work``; an error becomes one line, after the traceback of a user's code if any."""
    try:
        return work()
    except FlexrayError as error:
        if isinstance(error, ParticipantError) and error.trace:
            print(error.trace.rstrip(), file=sys.stderr)
        print(f"flexray: {' '.join(str(error).split())}", file=sys.stderr)
        return error.exit_status
    except KeyboardInterrupt:
        print(f"flexray: {interrupted}", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of a pipe has closed it
        sys.stderr.close()
        return 0
