"""``python -m flexray.traces``: import, describe, plot and synthesize traces of CPU utilization.

The maths of a run never comes here: it reads finished traces through ``flexray.traces.reading``.
"""
