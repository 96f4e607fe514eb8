"""Renders the docstrings of the package: ``python docs/render_api.py FOLDER``.

The first page has the public names of ``flexray``, loaded for it: they are lazy, and pdoc shows only what is there.
"""

from __future__ import annotations

import pkgutil
import sys
from pathlib import Path

import pdoc
import pdoc.render

import flexray


def main(folder: Path) -> None:
    """Write a page per module into a folder."""
    for name in flexray.PUBLIC:
        found = getattr(flexray, name)
        vars(flexray)[name] = getattr(found, name, found)  # of a module that is called as its function, the function
    flexray.__all__ = list(
        dict.fromkeys([*flexray.PUBLIC, *(part.name for part in pkgutil.iter_modules(flexray.__path__))])
    )
    pdoc.render.configure(docformat="google", show_source=False, search="--no-search" not in sys.argv)
    pdoc.pdoc("flexray", output_directory=folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
