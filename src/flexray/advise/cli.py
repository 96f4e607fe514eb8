"""``python -m flexray.advise [key=value ...]``: which timeout, which participant, which link, on one page.

The keys are those of the flexray.run in question. Short runs with other timeouts, with each participant as quick as the
quickest, and with links that take no time are compared with it by simulated time.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from flexray.core.commands import Parser, command
from flexray.core.errors import ConfigError


@command()
def main(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit status."""
    args = _parser().parse_intermixed_args(list(arguments))
    timeouts = [_number(text) for text in args.timeouts.split(",")] if args.timeouts else []
    from flexray.advise.trials import advised  # imports Hydra: --help is quicker without

    print(advised(args.overrides, {}, timeouts, args.seeds))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="python -m flexray.advise", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("overrides", nargs="*", help="keys of the run, such as algo=adaptive speeds=trace")
    parser.add_argument("--timeouts", metavar="10,20,...", help="to try (default: 1/4, 1/2, 1, 2 and 3 of the run's)")
    parser.add_argument("--seeds", type=int, default=1, help="how many, of which the median counts (default: 1)")
    return parser


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise ConfigError(f"--timeouts: expected numbers such as 10,20, got {text!r}") from error
