"""Entry of ``python -m flexray.calibrate``."""

import sys

from flexray.calibrate.cli import main

sys.exit(main(sys.argv[1:]))
