"""Entry of ``python -m flexray.cluster``."""

import sys

from flexray.cluster.cli import main

sys.exit(main(sys.argv[1:]))
