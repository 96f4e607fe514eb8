"""``import flexray`` is quick, and its names are there when they are used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import flexray

HEAVY = ("torch", "ray", "hydra", "omegaconf", "numpy", "pandas", "matplotlib")


def python(script: str) -> str:
    return subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout


def test_importing_flexray_is_quick_and_imports_nothing_large() -> None:
    script = (
        "import sys, time; began = time.perf_counter(); import flexray; took_s = time.perf_counter() - began;"
        f"print(took_s < 0.2, flexray.__version__, sorted({{*sys.modules}} & set({HEAVY})), 'simulate' in dir(flexray))"
    )
    assert python(script) == f"True {flexray.__version__} [] True\n"


@pytest.mark.parametrize("first", ["import flexray", "import flexray.cluster.cli", "from flexray import cluster"])
def test_cluster_can_be_called_whatever_was_imported_first(first: str) -> None:
    script = f"{first}\nimport flexray\nprint(type(flexray.cluster(num_cpus=2)).__name__, flexray.cluster.__name__)"
    assert python(script) == "Cluster flexray.cluster\n"


def test_every_public_name_is_there_and_no_other() -> None:
    assert {name for name in flexray.__all__ if callable(getattr(flexray, name))} == {*flexray.__all__}
    with pytest.raises(AttributeError, match="module 'flexray' has no attribute 'simulat'"):
        _ = flexray.simulat
