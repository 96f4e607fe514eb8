"""What flexray ships, and what its guides show, keeps the promises."""

from __future__ import annotations

import importlib
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from omegaconf import OmegaConf

import flexray.check
from flexray.config.components import find
from flexray.config.schema import config_folder
from flexray.data.base import Dataset
from flexray.data.bundle import Bundle
from flexray.data.digits import Digits
from flexray.data.sentiment import Sentiment
from flexray.traces.formats import formats
from helpers.guides import blocks, file_of
from helpers.tables import file_per_party, one_file
from helpers.trace_files import machine_events, task_usage, text

PAGE = (Path(__file__).parents[2] / "docs" / "adding.md").read_text(encoding="utf-8")
SHOWN = {file_of(block): block for kind, block in blocks(PAGE) if kind == "python"}
CLASSES = ("my_algorithm.HalfTime", "my_optimizer.SignSGD", "my_model.Wide", "my_dataset.Sines")
SLOW = ("bert", "resnet")


@pytest.fixture
def guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with the modules of docs/adding.md, in which one types."""
    for name, block in SHOWN.items():
        (tmp_path / name).write_text(block, encoding="utf-8")
        monkeypatch.delitem(sys.modules, name.removesuffix(".py"), raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    return tmp_path


def test_every_module_of_the_guide_is_checked() -> None:
    assert {f"{path.split('.')[0]}.py" for path in CLASSES} | {"my_trace.py"} == set(SHOWN)


@pytest.mark.parametrize("path", CLASSES)
def test_what_the_guide_shows(guide: Path, path: str) -> None:
    assert flexray.check(find("check", path)).promises


def test_the_trace_that_the_guide_shows(guide: Path) -> None:
    runpy.run_path("my_trace.py")
    report = flexray.check(formats()["wide"], files=["cpu.csv"])
    assert "reads a file in two parts as it reads the whole" in report.promises


def choices(group: str) -> Any:
    """Return the classes and arguments of a group's choices."""
    for file in sorted((config_folder() / group).glob("*.yaml")):
        node = OmegaConf.load(file)
        node = node.get(group, node)  # beside keys of the whole run, or alone
        arguments = {key: node[key] for key in node if key != "_target_" and not OmegaConf.is_interpolation(node, key)}
        plain: Any = OmegaConf.to_container(OmegaConf.create(arguments))
        marks = [pytest.mark.slow] if file.stem in SLOW else []
        yield pytest.param(node["_target_"], plain, id=f"{group}-{file.stem}", marks=marks)


@pytest.mark.parametrize(
    ("path", "arguments"),
    [case for group in ("model", "server", "optimizer", "algo") for case in choices(group)],
)
def test_what_can_be_chosen(path: str, arguments: dict[str, Any]) -> None:
    role = {"role": "server"} if "hidden" in arguments and arguments.get("dropout") else {}
    assert flexray.check(find("check", path), **arguments, **role).promises


@pytest.mark.parametrize(
    ("path", "arguments"),
    [
        ("flexray.models.LSTM", {"dropout": 0.2, "bidirectional": True, "layers": 2}),
        ("flexray.models.LSTM", {"in_shape": [7, 2]}),
        ("flexray.models.CNN", {"in_shape": [3, 9, 6], "batch_norm": True}),
        ("flexray.algorithms.adaptive.AdaptiveFlexVFL", {"first": "dummy"}),
        ("flexray.algorithms.adaptive.AdaptiveFlexVFL", {"weighted": False}),
        ("flexray.algorithms.vafl.VAFL", {"server": "free"}),
        ("flexray.optimizers.TorchOptimizer", {"name": "Adam", "keep_state": True}),
        ("flexray.optimizers.LocalSGD", {"momentum": 0.5, "l2": 0.1, "local_rates": [1.0, 0.5]}),
    ],
)
def test_other_arguments(path: str, arguments: dict[str, Any]) -> None:
    assert flexray.check(find("check", path), **arguments).promises


@pytest.mark.parametrize("scale", ["none", "standard"])
def test_bundles(bundle: Path, scale: str) -> None:
    report = flexray.check(Bundle, path=bundle, scale=scale)
    assert ("scales by what was fitted before" in report.promises) == (scale == "standard")


@pytest.mark.parametrize("make", [one_file, file_per_party])
def test_tables(tmp_path: Path, make: Any) -> None:
    assert "scales by what was fitted before" in flexray.check(make(tmp_path)).promises


def test_sequences_and_tokens() -> None:
    sizes = {"train": 20, "val": 0, "test": 10, "steps": 7, "video": 3, "audio": 4}
    assert flexray.check(Sentiment, standin=sizes).promises


def test_digits() -> None:
    dataset: Dataset = Digits()
    assert flexray.check(dataset).promises == flexray.check(Digits).promises


TASKS = [(300 * t, 300 * t + 300, job, job, f"0.{job}{t}") for t in range(4) for job in (1, 2)]
FILES: dict[str, Callable[[Path], Path]] = {
    "google2011": lambda folder: task_usage(folder / "usage.csv", TASKS),
    "azure": lambda folder: text(folder / "azure.csv", "".join(f"{300 * t},a,1,2,{t}.5\n" for t in range(30))),
    "matrix": lambda folder: matrix(folder / "cpu.npy"),
    "long": lambda folder: text(folder / "a.csv", "machine,time,cpu\n" + "".join(f"a,{t},0.{t}\n" for t in range(9))),
}


def matrix(path: Path) -> Path:
    np.save(path, np.linspace(0.1, 0.9, 12).reshape(2, 6))
    return path


@pytest.mark.parametrize("name", FILES)
def test_formats(tmp_path: Path, name: str) -> None:
    more = {}
    if name == "google2011":
        more["machine_events"] = machine_events(tmp_path / "events.csv", [(0, 1, 0, "0.5"), (0, 2, 0, "1")])
    assert flexray.check(formats()[name], files=FILES[name](tmp_path), **more).promises
