"""What may be typed on the command line beyond Hydra's own syntax, and what may not although Hydra lets it pass.

* ``-m`` and the like may stand anywhere.
* Below an open mapping, such as ``parties`` or ``cluster.resources``, new keys need no ``+``.
* ``lr={server:0.1}`` goes over what a chosen file says by participant: other names keep the file's values.
* ``model._target_=my_package.MyModel`` replaces the chosen file: the keys that are typed beside it, ``model.width=3``,
  are the class's arguments, and those of the file are forgotten. The same holds for ``dataset``, ``server`` and
  ``optimizer``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, NoReturn, get_type_hints

from hydra._internal.utils import get_args_parser
from omegaconf import OmegaConf

from flexray.config import RunConfig, config_folder
from flexray.errors import ConfigError, near_match

FLAGS = ("-m", "--multirun", "-h", "--help", "--hydra-help", "--resolve", "-r", "--run")
OPEN = ("parties", "cluster.resources", "cluster.labels", "cluster.labels_driver", "dataset.parties", "dataset.files")
FOLDERS = ("hydra.run.dir", "hydra.sweep.dir", "hydra.sweep.subdir")
NAMED = ("lr", "adaptive.A")
"""Keys by participant that files give as mappings, to which a command line may add names."""
REPLACED = ("dataset", "model", "server", "optimizer")
KEPT = {"dataset": ("batch_size", "replacement", "drop_last")}
"""Keys of a replaced file that are not arguments of its class."""


def prepare(arguments: list[str]) -> list[str]:
    """Return the command line's arguments in Hydra's own syntax.

    Raises:
        ConfigError: An option (``--name``) is unknown, or an override has no key.
    """
    arguments = sorted(arguments, key=lambda argument: argument not in FLAGS)
    parser = get_args_parser()
    parser.error = _refuse_option  # type: ignore[method-assign] # its own prints a page and exits
    for argument in parser.parse_args(arguments).overrides:
        if not key_of(argument):
            raise ConfigError(f"{argument}: expected key=value, got no key")
        key, _, value = argument.partition("=")
        if key in FOLDERS and value.strip() in ("", "''", '""', "null"):  # Hydra would write to the current folder
            raise ConfigError(f"{key}: expected a folder, got {value.strip() or 'nothing'}")
    targets = {key_of(a).removesuffix("._target_") for a in arguments if key_of(a).endswith("._target_")}
    grown = {*OPEN, *targets.intersection(("algo", *REPLACED))}
    return [f"++{a}" if a[:1] not in "+~-" and _may_grow(a, grown) else a for a in arguments]


def _may_grow(argument: str, mappings: Iterable[str]) -> bool:
    is_mapping = argument.startswith(tuple(f"{key}={{" for key in NAMED)) and argument.endswith("}")
    return is_mapping or _is_below(key_of(argument), mappings)


def key_of(argument: str) -> str:
    """Return the key of an override, without its signs."""
    return argument.lstrip("+~").partition("=")[0].strip()


def _is_below(key: str, mappings: Iterable[str]) -> bool:
    return any(key.startswith(f"{mapping}.") or (key == mapping and mapping in OPEN) for mapping in mappings)


def _refuse_option(message: str) -> NoReturn:
    raise ConfigError(f"{message}; options (see --help) go before or after all key=value")


def own_keys(config: Mapping[str, Any], overrides: Iterable[str]) -> dict[str, Any]:
    """Return the configuration without the keys of files whose ``_target_`` the command line replaced."""
    typed = [key_of(override).split(".") for override in overrides]
    result = dict(config)
    for group in REPLACED:
        own = {path[1] for path in typed if path[0] == group and len(path) > 1}
        if "_target_" in own and isinstance(config.get(group), Mapping):
            own.update(KEPT.get(group, ()))
            result[group] = {key: value for key, value in config[group].items() if key in own}
            if group == "dataset":  # a target that the chosen file set says nothing of another dataset
                result.update({key: None for key in ("target", "target_metric") if [key] not in typed})
    return result


def chosen_name(config: Mapping[str, Any], choices: Mapping[str, Any], group: str, overrides: Iterable[str]) -> str:
    """Return the name of the choice made in a group, or that of the class which replaced it: one of ours or its own."""
    if not isinstance(choices.get(group), str):
        raise ConfigError(f"{group}: expected one choice")
    if f"{group}._target_" in map(key_of, overrides) and isinstance(config[group], Mapping):
        target = str(config[group].get("_target_"))
        return _shipped(group).get(target, target.rpartition(".")[2].lower())
    return str(choices[group])


@cache
def _shipped(group: str) -> dict[str, str]:
    """Return the choices of a group that are a class with its keys, by class."""
    files = sorted((config_folder() / group).glob("*.yaml"))
    return {str(OmegaConf.select(OmegaConf.load(file), "_target_")): file.stem for file in files}


def check_keys(config: Mapping[str, Any], schema: type = RunConfig, prefix: str = "") -> None:
    """Refuse keys that the schema does not have (added with ``+``) and keys that are missing (deleted with ``~``)."""
    known = {field.name for field in fields(schema)}
    types = get_type_hints(schema)
    for key in config:
        if key not in known:
            raise ConfigError(f"{prefix}{key}: unknown key{near_match(str(key), known, list_all=bool(prefix))}")
    for key in known:
        if key not in config:
            raise ConfigError(f"{prefix}{key}: deleted with ~; expected a value, which may be null for none")
        if is_dataclass(types[key]):
            check_keys(config[key], types[key], f"{prefix}{key}.")
