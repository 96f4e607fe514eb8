"""Entry of ``python -m flexray.run``."""

from flexray.run.command import main

main()
