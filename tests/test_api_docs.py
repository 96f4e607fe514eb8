"""The docstrings of the whole package render without a warning, with nothing imported that may be absent."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.typed import Typed

ABSENT = ("mlflow", "wandb", "embreex", "joblib")
"""Of the optional dependencies."""
DOCS = Path(__file__).parents[1] / "docs"
SCRIPT = f"""
import sys, warnings
warnings.filterwarnings("error", category=UserWarning, module="pdoc")
sys.modules.update(dict.fromkeys({ABSENT}))  # an import of them fails
sys.path.insert(0, sys.argv[2])
sys.argv[2:] = ["--no-search"]
import runpy
runpy.run_module("render_api", run_name="__main__", alter_sys=True)
"""


@pytest.mark.slow
def test_the_docstrings_of_the_whole_package_render(tmp_path: Path) -> None:
    status, _, err = Typed(["-c", SCRIPT, str(tmp_path), str(DOCS)], tmp_path).end(170)
    assert (status, err) == (0, ""), err[-2000:]
    pages = {path.relative_to(tmp_path).as_posix(): path.read_text("utf-8") for path in tmp_path.rglob("*.html")}
    assert {"flexray/algorithms/theory.html", "flexray/models.html", "flexray/engine/hosts/ray.html"} <= set(pages)
    assert re.findall(r'<section id="(\w+)">', pages["flexray.html"])[:3] == ["simulate", "sweep", "read"]
    for name, page in pages.items():
        shown = re.sub(r"<(code|pre)[^>]*>.*?</\1>", "", page, flags=re.DOTALL)
        found = re.search(r"``|:(?:class|func|meth|mod|attr):|\w::\s|^::$", shown, flags=re.MULTILINE)
        assert not found, f"{name}: {shown[found.start() - 50 : found.end() + 50]}"


def documented(path: Path) -> Iterator[str]:
    """Yield the docstrings of a file, without what is code in them."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (text := ast.get_docstring(node)):
            yield re.sub(r"``.*?``|`.*?`|^ {4}.*?$", "", text, flags=re.DOTALL | re.MULTILINE)


def test_no_docstring_has_what_a_browser_takes_for_a_tag() -> None:
    source = Path(__file__).parents[1] / "src"
    found = [(path.name, m[0]) for path in sorted(source.rglob("*.py")) for text in documented(path)
             for m in re.finditer(r".{20}<[A-Za-z/!].{20}", text)]  # fmt: skip
    assert not found
