"""Entry of ``python -m flexray.report``."""

import sys

from flexray.report.cli import main

sys.exit(main(sys.argv[1:]))
