"""``python -m flexray.report``: from run folders to tables, figures and a page.

It reads what runs wrote and imports neither torch nor Ray; no run comes here.
"""
