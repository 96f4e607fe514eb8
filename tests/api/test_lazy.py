"""``import flexray`` is quick, and its names are there when they are used."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import flexray

HEAVY = ("torch", "ray", "hydra", "omegaconf", "numpy", "pandas", "matplotlib")


def python(script: str) -> str:
    return subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout


def test_importing_flexray_is_quick_and_imports_nothing_large() -> None:
    script = (
        "import sys, time; began = time.perf_counter(); import flexray; took_s = time.perf_counter() - began;"
        f"print(took_s < 0.5, flexray.__version__, sorted({{*sys.modules}} & set({HEAVY})), 'simulate' in dir(flexray))"
    )
    assert python(script) == f"True {flexray.__version__} [] True\n"


@pytest.mark.parametrize("first", ["import flexray", "import flexray.cluster.cli", "from flexray import cluster"])
def test_cluster_can_be_called_whatever_was_imported_first(first: str) -> None:
    script = f"{first}\nimport flexray\nprint(type(flexray.cluster(num_cpus=2)).__name__, flexray.cluster.__name__)"
    assert python(script) == "Cluster flexray.cluster\n"


def test_type_checkers_see_the_same_names_from_the_same_modules() -> None:
    tree = ast.parse(Path(flexray.__file__).read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    imported = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    assert len(imported) == len(block.body)
    seen = {alias.asname: f"{node.module}" for node in imported for alias in node.names}
    assert seen == {name: f"flexray.{place}" for name, place in flexray.PUBLIC.items()}


@pytest.mark.parametrize("first", ["import flexray", "import flexray.check.cli", "from flexray import check"])
def test_check_can_be_called_whatever_was_imported_first(first: str) -> None:
    script = (
        f"{first}\nimport flexray, sys\nprint(callable(flexray.check), flexray.check.__name__, 'torch' in sys.modules)"
    )
    assert python(script) == "True flexray.check False\n"


def test_every_public_name_is_there_and_no_other() -> None:
    names = {"FlexrayError", "Run", "Sweep", "UserError", "cluster", "read", "simulate", "sweep"}
    assert names <= {*dir(flexray)}
    assert all(callable(getattr(flexray, name)) for name in names)
    with pytest.raises(AttributeError, match="module 'flexray' has no attribute 'simulat'"):
        _ = flexray.simulat
