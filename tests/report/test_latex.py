"""``table.tex``: read by a LaTeX parser, and by LaTeX itself where that is installed."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from pylatexenc.latex2text import LatexNodes2Text
from pylatexenc.latexwalker import LatexEnvironmentNode, LatexWalker

from flexray.report.cli import main
from helpers.made_runs import sweep, write_run

EVIL = r"""[=cmd|'/c'!A1 </script><b>$x$_{\input{a}} \write18{x} ~^#%& µé "q" """
EN_DASH = "\u2013"
UNKNOWN_TO_PARSER = {r"\textbar{}": "|", r"\textless{}": "<", r"\textgreater{}": ">"}
DOCUMENT = r"\documentclass{article}\usepackage{booktabs}\begin{document}\input{out/table.tex}\end{document}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a report in ``out``: usual runs, runs of a stranger, and the paper's figures."""
    root = tmp_path_factory.mktemp("latex")
    sweep(root / "runs")
    write_run(root / "runs" / "20", summary={"algo": f"a{EVIL}", "dataset": EVIL})
    write_run(root / "runs" / "21", summary={"dataset": "mosei"})
    assert main([str(root / "runs"), "-o", str(root / "out"), "--axes", "time", "--formats", "svg"]) == 0
    return root


def cells(text: str) -> list[list[str]]:
    """Return the texts of the rows that a LaTeX parser finds, strict as LaTeX is."""
    for command, letter in UNKNOWN_TO_PARSER.items():
        text = text.replace(command, letter)
    nodes, _, _ = LatexWalker(text, tolerant_parsing=False).get_latex_nodes()
    (table,) = [node for node in nodes if isinstance(node, LatexEnvironmentNode)]
    inner = "".join(node.latex_verbatim() for node in table.nodelist)
    rows = [re.sub(r"\\(top|mid|bottom)rule", "", row) for row in inner.split(r"\\")][:-1]
    plain = LatexNodes2Text(keep_braced_groups=False)
    return [[plain.latex_to_text(cell).strip() for cell in re.split(r"(?<!\\)&", row)] for row in rows]


def test_a_latex_parser_reads_the_words_as_they_were(folder: Path) -> None:
    text = (folder / "out" / "table.tex").read_text(encoding="utf-8")
    assert text.startswith("% needs \\usepackage{booktabs}\n\\begin{tabular}{llrrrrrr}\n")
    header, *rows = cells(text)
    assert header[2:4] == ["time to test_top1 ≥ 0.9 (units)", "reached"]
    assert {len(row) for row in rows} == {8}
    assert rows[0][:4] == ["digits", "flex", "44.00 ± 4.00", "3/3"]
    assert rows[1][:4] == ["digits", "vafl [1]", EN_DASH, "1/3"]
    evil = " ".join(EVIL.split()).replace("^", "\u02c6")
    assert rows[3][:2] == [evil, f"a{evil} [2]"]
    assert rows[4][-1] == "9,780 ± 0 (Table III)"


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex (Debian: texlive-latex-recommended)")
def test_latex_compiles(folder: Path) -> None:
    (folder / "t.tex").write_text(DOCUMENT, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "t.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Missing character" not in (folder / "t.log").read_text(encoding="utf-8", errors="replace")


def test_letters_that_not_every_latex_knows_are_announced(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "0", summary={"dataset": "β"})
    assert main([str(tmp_path / "runs"), "-o", str(tmp_path / "out"), "--axes", "time", "--formats", "svg"]) == 0
    first = (tmp_path / "out" / "table.tex").read_text(encoding="utf-8").splitlines()[0]
    assert first.endswith("; XeLaTeX or LuaLaTeX and a font for the letters in it")
