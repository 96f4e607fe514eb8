"""``python -m flexray.traces``: import, describe, plot and synthesize traces of CPU utilization.

A run reads finished traces through ``flexray.traces.reading``.
"""
