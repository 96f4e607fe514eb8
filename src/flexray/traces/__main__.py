"""Entry of ``python -m flexray.traces``."""

import sys

from flexray.traces.cli import main

sys.exit(main(sys.argv[1:]))
