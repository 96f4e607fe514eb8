"""Checkpoints, on disk or at an fsspec address."""
