"""Keys given in Python: as words of the command line, beside the objects and the data that words cannot hold.

``rounds=40, dataset={"batch_size": 32}, model=Wide`` are the words ``rounds=40``, ``dataset.batch_size=32`` and
``model._target_=my_module.Wide``. A class or function that another process cannot import, or an instance, is a Python
object: the run folder has its name, and the object is put in its place by :func:`placed`. Data (a table, arrays) in
place of a file or folder is written into the run folder, so that the run goes on and predicts in other processes, too.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, is_dataclass
from pathlib import Path
from typing import Any, NoReturn, get_type_hints

from flexray.config.schema import RunConfig
from flexray.config.typed import literal
from flexray.core.errors import ConfigError
from flexray.core.runfolder import DATA_FOLDER

OBJECT = "python:"
"""Begins what a run folder has in place of a Python object: its module and name."""
HERE = f"<run folder>/{DATA_FOLDER}/"
"""Begins what a run folder has in place of the path of data that it holds itself."""
COMPONENTS = ("algo", "dataset", "model", "server", "optimizer")
"""Keys whose value may be a class, a function or an instance, and has the arguments of one."""
OWN_COMPONENTS = ("model", "optimizer")
"""The same below ``parties.NAME``."""
TRACES = ("speeds.path", "network.trace.path")
FILES = ("dataset.path", "dataset.labels_file", *TRACES)
"""Keys that take a file or folder, or the data itself; so does each name below ``dataset.files``."""


@dataclass(frozen=True)
class Given:
    """Keys as words.

    Args:
        words: The words.
        objects: Python objects by their dotted keys.
        data: Tables and arrays by the names of their files: a key and a suffix, none for a folder of arrays.
    """

    words: tuple[str, ...] = ()
    objects: dict[str, Any] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)


def read_keys(keys: Mapping[str, Any], by_name: bool = True) -> Given:
    """Return keys as words, objects and data.

    Args:
        keys: The keys.
        by_name: Classes that any process can import become words; else all are objects.

    Raises:
        ConfigError: A value is nothing that its key may have.
    """
    found = Given()
    words = []
    for key, value in _apart(keys):
        words.append(f"{'+' if key == 'experiment' else ''}{key}={literal(key, _plain(key, value, found, by_name))}")
    return Given(tuple(words), found.objects, found.data)


def _apart(keys: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Yield dotted keys and values: mappings of keys are taken apart, mappings that are values stay."""
    for name, value in keys.items():
        path = (*above, str(name))
        key = ".".join(path)
        if _is_component(path) and not isinstance(value, str | Mapping | None):
            yield f"{key}._target_", value
        elif _has_keys(path) and isinstance(value, Mapping):
            yield from _apart(value, path)
        else:
            yield key, value


def _is_component(path: tuple[str, ...]) -> bool:
    own = len(path) == 3 and path[0] == "parties" and path[2] in OWN_COMPONENTS
    return own or (len(path) == 1 and path[0] in COMPONENTS)


def _has_keys(path: tuple[str, ...]) -> bool:
    """Whether what stands below a path are keys, and not the value of one."""
    if path[0] == "parties":
        return len(path) < 3 or _is_component(path)
    types = get_type_hints(RunConfig)
    return len(path) == 1 and (path[0] in COMPONENTS or is_dataclass(types.get(path[0])))


def _plain(key: str, value: Any, found: Given, by_name: bool) -> Any:
    """Return a value as plain Python, with names in place of objects and data, which are added to ``found``."""
    takes_file = key in FILES or key.rpartition(".")[0] == "dataset.files"
    if takes_file and not isinstance(value, str | os.PathLike | None):
        name = f"{key}{_suffix(key, value)}"
        found.data[name] = value
        return f"{HERE}{name}"
    if isinstance(value, Mapping):
        return {name: _plain(f"{key}.{name}", item, found, by_name) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(f"{key}.{place}", item, found, by_name) for place, item in enumerate(value)]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if not isinstance(value, type) and hasattr(value, "tolist") and not is_table(value):  # of NumPy, PyTorch or pandas
        return _plain(key, value.tolist(), found, by_name)
    if key.partition(".")[0] not in (*COMPONENTS, "parties"):
        _refuse(key, value)
    if by_name and key.endswith("._target_") and (path := import_path(value)):
        return path
    found.objects[key] = value
    return name_of(value)


def _suffix(key: str, value: Any) -> str:
    """Return the suffix of the file that holds data: of a table (pandas, Polars, Arrow), an array, or a folder."""
    if is_table(value):
        return ".csv" if key in TRACES else ".parquet"
    if isinstance(value, Mapping):
        return ""
    if hasattr(value, "__array__"):
        return ".npy"
    raise ConfigError(f"{key}: expected a path, a DataFrame, or arrays by name, got a {type(value).__name__}")


def is_table(value: Any) -> bool:
    """Whether a value is a table: of pandas, or of what turns into one (Polars, Arrow)."""
    return hasattr(value, "to_parquet") or hasattr(value, "to_pandas")


def _refuse(key: str, value: Any) -> NoReturn:
    kind = type(value).__name__
    if is_table(value):
        raise ConfigError(f"{key}: got a {kind}; keys that take one are dataset.files.NAME and {', '.join(FILES)}")
    raise ConfigError(f"{key}: expected a number, a text, a list or a mapping, got a {kind}")


def import_path(value: Any) -> str | None:
    """Return where any process can import a class or function, or None."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or module == "__main__":
        return None
    found: Any = sys.modules.get(module)
    if found is None or getattr(found, "__spec__", None) is None:
        return None
    for part in name.split("."):
        found = getattr(found, part, None)
    return f"{module}.{name}" if found is value else None


def name_of(value: Any) -> str:
    """Return what a run folder has in place of a Python object."""
    kind = value if hasattr(value, "__qualname__") else type(value)
    return f"{OBJECT}{kind.__module__}.{kind.__qualname__}"


def check_not_object(key: str, value: Any) -> None:
    """Refuse the name of a Python object that only the process had that began the run.

    Raises:
        ConfigError: It says how to give the object again.
    """
    if isinstance(value, str) and value.startswith(OBJECT):
        top = key.removesuffix("._target_")
        *above, last = top.split(".")
        again = f"{above[0]}={{...}}" if above else f"{last}=..."
        raise ConfigError(
            f"{top}: is the Python object {value.removeprefix(OBJECT)}, which the run folder cannot hold; give it"
            f" again: flexray.read(folder, {again})"
        )


def placed(config: Mapping[str, Any], folder: Path | None, objects: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration with objects in place of their names, and with full paths of data in the run folder.

    Args:
        config: The configuration as plain dictionaries and lists.
        folder: The run folder, if there is one.
        objects: Python objects by dotted key.

    Raises:
        ConfigError: There is the name of an object, and no object for its key.
    """

    def at(key: str, node: Any) -> Any:
        if key in objects:
            return objects[key]
        if isinstance(node, Mapping):
            return {name: at(f"{key}.{name}" if key else str(name), inner) for name, inner in node.items()}
        if isinstance(node, list):
            return [at(f"{key}.{place}", inner) for place, inner in enumerate(node)]
        check_not_object(key, node)
        if isinstance(node, str) and node.startswith(HERE) and folder is not None:
            return os.fspath(folder.absolute() / DATA_FOLDER / node.removeprefix(HERE))
        return node

    result: dict[str, Any] = at("", config)
    return result
