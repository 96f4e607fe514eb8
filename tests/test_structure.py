"""Promises about the code's shape: Ray's fence, layers, no wall clock, small files, every choice composes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import hydra
import pytest

import flexray
from flexray.config.schema import config_folder, register
from flexray.core import runfolder

SOURCE = Path(flexray.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
FLOORS = (
    ("core",),
    ("tasks", "optimizers", "models", "report", "traces"),
    ("data", "algorithms"),
    ("engine",),
    ("config",),
    ("run",),
    ("predict", "cluster"),
)
"""What stands in the package, from the ground up: a module imports from its own room and from floors below."""
ENGINE = ("parties", "driver", "hosts")
"""The engine's rooms, from the ground up."""
PURE = ("core", "tasks", "optimizers", "models", "algorithms", "engine/parties")
"""Maths: no Ray, no Hydra."""
VIRTUAL = ("core", "algorithms", "engine/parties", "engine/driver")
"""Where no clock is read; with ``clock=wall``, flexray.engine.parties.pace is asked."""
REAL_TIME = (
    "engine/parties/party.py", "engine/parties/server.py", "engine/driver/wall_rounds.py",
    "engine/driver/wall_events.py",
)  # fmt: skip


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def within(path: Path, places: tuple[str, ...]) -> bool:
    return any(ids(path).startswith((f"{place}/", f"{place}.py")) for place in places)


def room(module: str) -> tuple[str, ...]:
    """Return where a module of flexray stands: its room, and in the engine the room in there."""
    parts = module.split(".")[1:]
    return tuple(parts[:2] if parts[:1] == ["engine"] else parts[:1])


def is_above(there: tuple[str, ...], here: tuple[str, ...]) -> bool:
    """Whether a module in the room ``here`` may not import from the room ``there``."""
    if there[0] == here[0] == "engine":
        return there[1:] != here[1:] and ENGINE.index(there[1]) >= ENGINE.index(here[1])
    floors = {name: number for number, names in enumerate(FLOORS) for name in names}
    return there[0] != here[0] and floors[there[0]] >= floors[here[0]]


def ids(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def test_the_package_has_the_rooms_that_the_floors_list() -> None:
    found = {path.stem for path in SOURCE.iterdir() if path.suffix in ("", ".py") and not path.stem.startswith("__")}
    assert found == {name for names in FLOORS for name in names}
    assert {path.stem for path in (SOURCE / "engine").iterdir() if not path.stem.startswith("__")} == set(ENGINE)


@pytest.mark.parametrize("path", [p for p in FILES if p.parent != SOURCE or p.stem != "__init__"], ids=ids)
def test_nothing_imports_from_a_floor_above(path: Path) -> None:
    """At the top of a file, within a function, or for type checking only."""
    here = room(".".join(("flexray", *path.relative_to(SOURCE).with_suffix("").parts)))
    above = [name for name in imports(path) if name.startswith("flexray.") and is_above(room(name), here)]
    assert not above


@pytest.mark.parametrize("path", FILES, ids=ids)
def test_ray_is_imported_in_its_room_only(path: Path) -> None:
    if not within(path, ("engine/hosts/ray",)):
        assert not [name for name in imports(path) if name.split(".")[0] == "ray"]


@pytest.mark.parametrize("path", [p for p in FILES if within(p, PURE)], ids=ids)
def test_the_maths_knows_no_ray_and_no_hydra(path: Path) -> None:
    assert not {name.split(".")[0] for name in imports(path)} & {"ray", "hydra", "omegaconf"}


@pytest.mark.parametrize("path", [p for p in FILES if within(p, VIRTUAL)], ids=ids)
def test_virtual_time_reads_no_wall_clock(path: Path) -> None:
    if ids(path) == "engine/parties/pace.py":
        return
    assert not {"time", "datetime"} & set(imports(path))


@pytest.mark.parametrize("path", [p for p in FILES if "flexray.engine.parties.pace" in imports(p)], ids=ids)
def test_real_seconds_are_used_by_those_only_who_run_in_them(path: Path) -> None:
    assert ids(path) in REAL_TIME


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
    register()
    with hydra.initialize_config_dir(str(config_folder()), version_base="1.3"):
        assert hydra.compose("config", [f"+{choice}" if choice.startswith("experiment=") else choice])


@pytest.mark.parametrize("path", [p for p in FILES if ids(p) != "core/runfolder.py"], ids=ids)
def test_names_of_a_run_folders_files_stand_in_one_place(path: Path) -> None:
    """``config.yaml`` alone is also a name of flexray's own, ``checkpoints`` and the like are words."""
    names = {
        *runfolder.FILES,
        *(name for name in vars(runfolder).values() if isinstance(name, str) and ".yaml" in name),
    }
    names |= {runfolder.HYDRA_FOLDER, runfolder.MODEL_FOLDER, runfolder.ADDRESS_FILE, runfolder.CHECKPOINT_FOLDER}
    found = {
        node.value for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Constant)
    }
    assert not names & found


EXECUTING = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "joblib", "runpy", "code"}
"""Modules that run what they read."""
RESTRICTED = ("data/sentiment/unpickling.py", "engine/hosts/ray/actors.py")
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
