"""Promises about the code's shape: Ray's fence, layers, no wall clock, small files, every choice composes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import hydra
import pytest

import flexray
from flexray import config
from flexray.run import config_folder

SOURCE = Path(flexray.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
PURE = ("simulation", "algorithms", "models", "optimizers.py", "theory.py", "phi.py", "training.py", "tasks.py")
"""Maths: no Ray, no Hydra, no files."""
VIRTUAL = ("simulation", "algorithms", "driver", "party.py", "group.py", "server.py", "training.py")
"""Where no clock is read; with ``clock=wall``, flexray.wallclock is asked."""


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def within(path: Path, places: tuple[str, ...]) -> bool:
    return path.relative_to(SOURCE).parts[0] in places


def ids(path: Path) -> str:
    return str(path.relative_to(SOURCE))


@pytest.mark.parametrize("path", FILES, ids=ids)
def test_ray_is_imported_in_its_runtime_only(path: Path) -> None:
    if "ray_runtime" not in path.parts:
        assert not [name for name in imports(path) if name.split(".")[0] == "ray"]


@pytest.mark.parametrize("path", [p for p in FILES if within(p, PURE)], ids=ids)
def test_the_maths_knows_no_ray_and_no_hydra_and_nothing_above_it(path: Path) -> None:
    above = {"runtime", "driver", "observers", "build", "run", "config", "components"}
    for name in imports(path):
        parts = name.split(".")
        assert parts[0] not in ("ray", "hydra", "omegaconf")
        assert not (parts[0] == "flexray" and len(parts) > 1 and parts[1] in above), name


@pytest.mark.parametrize("path", [p for p in FILES if within(p, VIRTUAL)], ids=ids)
def test_virtual_time_reads_no_wall_clock(path: Path) -> None:
    assert not {"time", "datetime"} & set(imports(path))


@pytest.mark.parametrize("path", [p for p in FILES if "flexray.wallclock" in imports(p)], ids=ids)
def test_real_seconds_are_used_by_those_only_who_run_in_them(path: Path) -> None:
    assert ids(path) in ("party.py", "server.py", "driver/wall_rounds.py", "driver/wall_events.py")


@pytest.mark.parametrize("path", FILES, ids=ids)
def test_files_and_functions_are_small(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= 300
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            first = node.body[0].lineno if len(node.body) == 1 or not ast.get_docstring(node) else node.body[1].lineno
            assert (node.end_lineno or 0) - first < 40, node.name


@pytest.mark.parametrize("path", FILES, ids=ids)
def test_nothing_depends_on_the_machine_it_was_written_on(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert "/work/" not in text
    assert "/root/" not in text


def choices() -> list[str]:
    folder = config_folder()
    return [f"{p.parent.name}={p.stem}" for p in sorted(folder.glob("*/*.yaml")) if p.parent.name != "hydra"]


@pytest.mark.parametrize("choice", choices())
def test_every_choice_composes(choice: str) -> None:
    config.register()
    with hydra.initialize_config_dir(str(config_folder()), version_base="1.3"):
        assert hydra.compose("config", [f"+{choice}" if choice.startswith("experiment=") else choice])


EXECUTING = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "joblib", "runpy", "code"}
"""Modules that run what they read."""
RESTRICTED = ("data/sentiment/unpickling.py", "runtime/ray_runtime/actors.py")
"""Where pickle is used: by a reader that allows plain arrays only; and between our own processes."""


@pytest.mark.parametrize("path", FILES, ids=ids)
def test_nothing_that_is_read_is_executed(path: Path) -> None:
    """Data, traces and run folders may come from a stranger."""
    if ids(path) not in RESTRICTED:
        assert not EXECUTING & {name.split(".")[0] for name in imports(path)}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            assert called not in (
                "eval",
                "exec",
                "compile",
                "__import__",
                "yaml.unsafe_load",
            )
            assert not called.endswith(("hydra.utils.instantiate", "hydra.utils.call", "read_pickle")), called
            allowed = {word.arg: ast.unparse(word.value) for word in node.keywords}
            loader = [ast.unparse(word.value) for word in node.keywords if word.arg == "Loader"]
            assert called != "yaml.load" or all("Safe" in name for name in loader or ["none"]), called
            assert called != "torch.load" or allowed.get("weights_only") == "True", called
            assert allowed.get("allow_pickle", "False") == "False", called
            assert allowed.get("shell", "False") == "False", called
