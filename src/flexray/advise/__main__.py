"""Entry of ``python -m flexray.advise``."""

import sys

from flexray.advise.cli import main

sys.exit(main(sys.argv[1:]))
