"""Promises about the code's shape: Ray's fence, layers, no wall clock, small files, every choice composes."""

from __future__ import annotations

import ast
import functools
import itertools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import hydra
import pytest

import flexray
from flexray.config.schema import config_folder, register
from flexray.core import runfolder

SOURCE = Path(flexray.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
TESTS = Path(__file__).parent
IMPORTED = re.compile(r"^ *(?:from|import) ([\w.]+)", flags=re.MULTILINE)
"""What a file imports; a relative import begins with a full stop."""
FLOORS = (
    ("core",),
    ("tasks", "optimizers", "models", "report", "traces"),
    ("data", "algorithms"),
    ("engine",),
    ("config",),
    ("run",),
    ("predict", "cluster", "check"),
    ("api", "calibrate", "advise"),
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
    "engine/driver/wall_events.py", "engine/driver/wall_calibration.py", "engine/parties/timed.py",
)  # fmt: skip


@functools.cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@functools.cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(ast.parse(text_of(path))))


@functools.cache
def imports(path: Path) -> tuple[str, ...]:
    return tuple(imported(path))


def imported(path: Path) -> Iterator[str]:
    for node in nodes(path):
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


def test_contributing_lists_the_rooms_by_floor() -> None:
    rows = re.findall(r"^\| (\d)\w? \| `(\w+)", text_of(TESTS.parent / "CONTRIBUTING.md"), flags=re.M)
    floors = {number: {name for floor, name in rows if floor == number} for number, _ in rows}
    assert [floors[str(number)] for number in range(1, len(floors) + 1)] == [set(names) for names in FLOORS]


def test_nothing_imports_from_a_floor_above() -> None:
    """At the top of a file, within a function, or for type checking only."""
    above = []
    for path in FILES:
        if path != SOURCE / "__init__.py":
            here = room(".".join(("flexray", *path.relative_to(SOURCE).with_suffix("").parts)))
            above += [(ids(path), n) for n in imports(path) if n.startswith("flexray.") and is_above(room(n), here)]
    assert not above


def importing(modules: set[str], paths: Iterable[Path]) -> dict[str, set[str]]:
    """Return the files that import one of these modules or what lies in it, each with those that it imports."""
    found = {ids(path): {name.split(".")[0] for name in imports(path)} & modules for path in paths}
    return {path: names for path, names in found.items() if names}


def test_torch_is_not_imported_where_commands_open_quickly() -> None:
    light = [path for path in FILES if within(path, ("core", "report", "traces"))]
    assert not [
        ids(path) for path in light if {name.split(".")[0] for name in imports(path)} & {"torch", "torchvision"}
    ]


def test_ray_is_imported_in_its_room_only() -> None:
    assert not importing({"ray"}, [path for path in FILES if not within(path, ("engine/hosts/ray",))])


def test_the_maths_knows_no_ray_and_no_hydra() -> None:
    assert not importing({"ray", "hydra", "omegaconf"}, [path for path in FILES if within(path, PURE)])


def test_virtual_time_reads_no_wall_clock() -> None:
    virtual = [path for path in FILES if within(path, VIRTUAL) and ids(path) != "engine/parties/pace.py"]
    assert not importing({"time", "datetime"}, virtual)


def test_real_seconds_are_used_by_those_only_who_run_in_them() -> None:
    assert {ids(path) for path in FILES if "flexray.engine.parties.pace" in imports(path)} <= set(REAL_TIME)


def test_files_and_functions_are_small() -> None:
    assert not [ids(path) for path in FILES if text_of(path).count("\n") > 300]
    large = []
    for path in FILES:
        for node in nodes(path):
            if isinstance(node, ast.FunctionDef):
                only = len(node.body) == 1 or not ast.get_docstring(node)
                first = node.body[0 if only else 1].lineno
                large += [(ids(path), node.name)] * ((node.end_lineno or 0) - first >= 40)
    assert not large


def test_nothing_depends_on_the_machine_it_was_written_on() -> None:
    assert not [ids(path) for path in FILES if "/work/" in text_of(path) or "/root/" in text_of(path)]


def test_no_test_module_imports_another() -> None:
    """What several of them use lies in tests/helpers."""
    paths = sorted(TESTS.rglob("*.py"))
    modules = {path.stem for path in paths if path.parent.name != "helpers"}
    others = modules | {path.name for path in TESTS.iterdir() if path.name != "helpers"} | {"", "tests"}
    found = {
        str(path.relative_to(TESTS)): [name for name in IMPORTED.findall(text_of(path)) if name.split(".")[0] in others]
        for path in paths
    }
    assert not {path: names for path, names in found.items() if names}


def choices() -> list[tuple[str, ...]]:
    """Return the choices of the n-th file of every group together, and each experiment, which chooses of several."""
    found: dict[str, list[str]] = {}
    for path in sorted(config_folder().glob("*/*.yaml")):
        found.setdefault(path.parent.name, []).append(path.stem)
    experiments = found.pop("experiment")
    found.pop("hydra", None)
    together = itertools.zip_longest(*([f"{group}={name}" for name in names] for group, names in found.items()))
    return [*(tuple(filter(None, chosen)) for chosen in together), *((f"+experiment={name}",) for name in experiments)]


@pytest.mark.parametrize("chosen", choices(), ids=" ".join)
def test_every_choice_composes(chosen: tuple[str, ...]) -> None:
    register()
    with hydra.initialize_config_dir(str(config_folder()), version_base="1.3"):
        assert hydra.compose("config", list(chosen))


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
RESTRICTED = (
    "data/sentiment/unpickling.py", "engine/hosts/ray/actors.py", "check/elsewhere.py", "config/remembered.py",
)  # fmt: skip
"""Where pickle is used: by a reader that allows plain arrays only; between our own processes; for copies in one."""


def is_unsafe(call: ast.Call) -> bool:
    """Whether a call runs what it is given, or may."""
    called = ast.unparse(call.func)
    words = {word.arg: ast.unparse(word.value) for word in call.keywords}
    return (
        called in ("eval", "exec", "compile", "__import__", "yaml.unsafe_load")
        or called.endswith(("hydra.utils.instantiate", "hydra.utils.call", "read_pickle"))
        or (called == "yaml.load" and "Safe" not in words.get("Loader", ""))
        or (called == "torch.load" and words.get("weights_only") != "True")
        or words.get("allow_pickle", "False") != "False"
        or words.get("shell", "False") != "False"
    )


def test_nothing_that_is_read_is_executed() -> None:
    """Data, traces and run folders may come from a stranger."""
    assert not importing(EXECUTING, [path for path in FILES if ids(path) not in RESTRICTED])
    calls = [(path, node) for path in FILES for node in nodes(path) if isinstance(node, ast.Call)]
    assert not [(ids(path), node.lineno, ast.unparse(node)) for path, node in calls if is_unsafe(node)]
