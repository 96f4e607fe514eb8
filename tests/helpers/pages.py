"""The page of a report, and what lies in it."""

from __future__ import annotations

import base64
import gzip
import re
from pathlib import Path

from flexray.report.contents import Wanted, make_report
from flexray.report.page import make_page
from flexray.report.tables import make_table


def page_of(folder: Path) -> str:
    report = make_report([folder], Wanted())
    return make_page(report, make_table(report.results, report.papers))


def unpacked(page: str, part: str) -> str:
    found = re.search(rf'<script type="text/plain" id="{part}">([A-Za-z0-9+/=]+)</script>', page)
    assert found
    return gzip.decompress(base64.b64decode(found[1])).decode()
