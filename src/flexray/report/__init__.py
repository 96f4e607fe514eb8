"""``python -m flexray.report``: from run folders to tables, figures and a page.

It reads the files of runs, and imports neither torch nor Ray.
"""
