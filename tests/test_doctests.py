"""Every example in a docstring gives what it says."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import flexray

SOURCE = Path(flexray.__file__).parent
MODULES = [
    ".".join(("flexray", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")
    for path in sorted(SOURCE.rglob("*.py"))
    if ">>>" in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert found.attempted
    assert not found.failed
