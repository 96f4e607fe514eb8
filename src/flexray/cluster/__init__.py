"""The command ``python -m flexray.cluster``: whether a run fits a cluster."""
