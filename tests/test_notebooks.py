"""The notebooks run from top to bottom, and are stored without outputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib
import pytest

SHORTER = {
    "rounds=60": "rounds=20", "rounds=80": "rounds=22", "rounds=200": "rounds=10", '"rounds": 40': '"rounds": 4',
    "epochs=30": "epochs=2", '"max_time": 1800': '"max_time": 120',
}  # fmt: skip
"""What is computed here in place of what takes seconds."""
NOTEBOOKS = sorted((Path(__file__).parents[1] / "docs" / "notebooks").glob("*.ipynb"))


def cells(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in found if cell["cell_type"] == "code"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    matplotlib.use("agg")
    names: dict[str, Any] = {"__name__": "__main__"}
    for cell in cells(path):
        code = "".join(cell["source"])
        for long, short in SHORTER.items():
            code = code.replace(long, short)
        exec(compile(code, path.name, "exec"), names)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_has_no_outputs(path: Path) -> None:
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells(path))
