"""``python -m flexray.calibrate [key=value ...] [-o FILE]``: what a run takes on these machines, in seconds.

The keys are those of the flexray.run that is to be predicted. The file is read by speeds=measured speeds.path=FILE.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from flexray.calibrate import FILE, SECONDS
from flexray.core.commands import Parser, command
from flexray.core.errors import ConfigError


@command()
def main(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit status."""
    args = _parser().parse_intermixed_args(list(arguments))
    sizes = [_size(text) for text in args.batch_sizes.split(",")] if args.batch_sizes else []
    from flexray.calibrate.measuring import calibrated  # imports Hydra: --help is quicker without

    print(calibrated(args.overrides, {}, args.output, args.seconds, sizes))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="python -m flexray.calibrate",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("overrides", nargs="*", help="keys of the run, such as dataset=table cluster=ray")
    parser.add_argument(
        "-o", "--output", type=Path, default=Path(FILE), metavar="FILE", help=f"file to write (default: {FILE})"
    )
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help=f"about how long to measure (default: {SECONDS:g})"
    )
    parser.add_argument("--batch-sizes", metavar="16,64,...", help="measure with each of these (default: the run's)")
    return parser


def _size(text: str) -> int:
    if not text.strip().isdecimal():
        raise ConfigError(f"--batch-sizes: expected whole numbers such as 16,64, got {text!r}")
    return int(text)
