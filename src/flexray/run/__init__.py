"""The command ``python -m flexray.run``: jobs and sweeps, their run folders, checkpoints and observers."""
