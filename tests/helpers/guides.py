"""What stands in the blocks of a guide."""

from __future__ import annotations

import re


def blocks(text: str) -> list[tuple[str, str]]:
    """Return the language and the content of every block of a page."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)


def file_of(block: str) -> str:
    """Return the name of the file that a block of Python is, which its first line says."""
    name = re.match(r"# (\w+\.py)\n", block)
    assert name, "a Python block starts with its file name"
    return name[1]
