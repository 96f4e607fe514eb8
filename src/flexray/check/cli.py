"""``python -m flexray.check my_module.MyClass [key=value ...]``: whether a class of yours keeps flexray's promises.

A model, dataset, algorithm, local optimizer or trace format (its class, or a module with FORMAT). The keys are the
arguments of its constructor that flexray does not fill in, written as for flexray.run; besides

  role=party|server  in_shape=[1,28,28]             a model: its place, and the shape of one sample
  files=[cpu.csv]  machine_events=  step=  unit=    a trace format: files to read, and how

Exit status 0: it keeps them; 2: it breaks some, each told in a line, or the command is mistaken.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from flexray.check.elsewhere import FreshProcess
from flexray.config.components import find
from flexray.config.typed import key_of, read
from flexray.core.commands import command
from flexray.core.errors import CheckError, ConfigError, ParticipantError

USAGE = "usage: python -m flexray.check my_module.MyClass [key=value ...]"


@command()
def main(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit status."""
    if {"-h", "--help"} & set(arguments):
        print(f"{USAGE}\n\n{__doc__}")
        return 0
    paths = [argument for argument in arguments if "=" not in argument]
    if len(paths) != 1 or paths[0].startswith("-"):
        raise ConfigError(f"expected one class such as my_module.MyModel, got {' '.join(paths) or 'none'}; {USAGE}")
    keys = dict(_key(argument) for argument in arguments if "=" in argument)
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    with closing(FreshProcess()) as elsewhere:
        from flexray.check.sorts import run_checks  # imports torch, while the other process does, too

        try:
            print(run_checks(find("check", paths[0]), keys, elsewhere))
        except CheckError as error:
            print(f"flexray: {error}", file=sys.stderr)
            return error.exit_status
        except ParticipantError as error:  # its module raises
            print(error.trace.rstrip(), file=sys.stderr)
            raise ConfigError(str(error)) from error
    return 0


def _key(argument: str) -> tuple[str, Any]:
    override = read(argument)
    if override.is_sweep_override():
        raise ConfigError(f"{key_of(argument)}: expected one value, got several; a list is [1,2]")
    return key_of(argument), override.value()
