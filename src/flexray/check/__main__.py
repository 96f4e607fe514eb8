"""Entry of ``python -m flexray.check``."""

import sys

from flexray.check.cli import main

sys.exit(main(sys.argv[1:]))
