"""What the command lines beside ``flexray.run`` share: numbers among options, how mistakes and interruptions end."""

from __future__ import annotations

import argparse
import functools
import math
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from flexray.core.errors import ConfigError, FlexrayError, ParticipantError

INTERRUPTED = 130
Main = Callable[[Sequence[str]], int]
"""From arguments to the exit status."""


class Parser(argparse.ArgumentParser):
    """Reports mistakes in one line."""

    def error(self, message: str) -> NoReturn:
        """Raise what :func:`command` prints."""
        raise ConfigError(f"{message.removeprefix('argument ')}; see {self.prog} --help")


def command(interrupted: str = "interrupted") -> Callable[[Main], Main]:
    """Return a decorator of a command: an error becomes one line, after the traceback of a user's code if any.

    Args:
        interrupted: What Ctrl-C makes the command say.
    """

    def decorated(main: Main) -> Main:
        @functools.wraps(main)
        def run(arguments: Sequence[str]) -> int:
            try:
                return main(arguments)
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

        return run

    return decorated


def number(
    expected: str = "a number", low: float = -math.inf, high: float = math.inf, above: float = -math.inf
) -> Callable[[str], float]:
    """Return the type of an option: a finite number above ``above`` and in [low, high], ``expected`` in words."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and low <= value <= high and above < value):
            raise argparse.ArgumentTypeError(f"expected {expected}, got '{text}'")
        return value

    return read


def whole(expected: str, low: int, high: float = math.inf) -> Callable[[str], int]:
    """Return the type of an option: a whole number in [low, high], ``expected`` in words."""

    def read(text: str) -> int:
        if not text.isdecimal() or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError(f"expected {expected}, got '{text}'")
        return int(text)

    return read
