"""What the command line takes beyond Hydra's own syntax, and what it refuses although Hydra lets it pass.

* ``-m`` and the like may stand anywhere.
* Below an open mapping, such as ``parties`` or ``cluster.resources``, new keys need no ``+``.
* ``lr={server:0.1}`` is merged with what a chosen file says by participant: other names keep the file's values.
* ``model._target_=my_package.MyModel`` replaces the chosen file: the keys that are typed beside it, ``model.width=3``,
  are the class's arguments, in place of those of the file. The same holds for ``dataset``, ``server`` and
  ``optimizer``, and for ``parties.NAME.model`` and ``parties.NAME.optimizer``.
* ``parties.NAME.model=lstm`` is the choice of that group for one participant.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, NoReturn, get_origin, get_type_hints

from hydra._internal.utils import get_args_parser
from omegaconf import OmegaConf

from flexray.config.schema import RunConfig, config_folder, shipped_classes
from flexray.config.typed import check_choice, choices_of, key_of, read
from flexray.core.checks import shown
from flexray.core.errors import ConfigError, near_match
from flexray.core.messages import SERVER

FLAGS = ("-m", "--multirun", "-h", "--help", "--hydra-help", "--resolve", "-r", "--run")
OPEN = (
    "parties",
    "network.shared",
    "cluster.resources",
    "cluster.labels",
    "cluster.labels_driver",
    "dataset.parties",
    "dataset.files",
)
FOLDERS = ("hydra.run.dir", "hydra.sweep.dir", "hydra.sweep.subdir")
NAMED = ("lr", "adaptive.A")
"""Keys by participant that files give as mappings, to which a command line may add names."""
REPLACED = ("dataset", "model", "server", "optimizer")
CHOICE = "_choice_"
PARTY_CHOICE = re.compile(r"^(parties\.[^.=]+\.(?:model|optimizer))=(?!null$)([\w,]+)$")
"""``parties.NAME.model=lstm``: the choice of a group for one participant, stored as one more key."""
ALWAYS = {"dataset": ("batch_size", "replacement", "drop_last")}
"""Keys of a replaced file that are no arguments of its class, and stay."""


def prepare(arguments: list[str]) -> list[str]:
    """Return the command line's arguments in Hydra's own syntax.

    Raises:
        ConfigError: An option (``--name``) is unknown, or an override has no key or cannot be read.
    """
    _refuse_dashes(arguments)
    arguments = sorted(arguments, key=lambda argument: argument not in FLAGS)
    parser = get_args_parser()
    parser.error = _refuse_option  # type: ignore[method-assign] # its own prints a page and exits
    for argument in parser.parse_args(arguments).overrides:
        if not key_of(argument):
            raise ConfigError(f"{argument}: expected key=value, got no key")
        key, _, value = argument.partition("=")
        if key in FOLDERS and value.strip() in ("", "''", '""', "null"):  # Hydra would write to the current folder
            raise ConfigError(f"{key}: expected a folder, got {value.strip() or 'nothing'}")
        check_choice(read(argument))
    targets = {key_of(a).removesuffix("._target_") for a in arguments if key_of(a).endswith("._target_")}
    grown = {*OPEN, *targets.intersection(("algo", *REPLACED))}
    arguments = [re.sub(PARTY_CHOICE, rf"\1.{CHOICE}=\2", argument) for argument in arguments]
    _refuse_below_values([argument for argument in arguments if argument[:1] not in "~-" and "=" in argument])
    return [f"++{a}" if a[:1] not in "+~-" and _may_grow(a, grown) else a for a in arguments]


def _may_grow(argument: str, mappings: Iterable[str]) -> bool:
    is_mapping = argument.startswith(tuple(f"{key}={{" for key in NAMED)) and argument.endswith("}")
    key = key_of(argument)
    return is_mapping or key in OPEN or key.startswith(tuple(f"{mapping}." for mapping in mappings))


def _refuse_below_values(arguments: Sequence[str]) -> None:
    """Refuse a key below one that was typed as a single value or a list: Hydra would not name it."""
    typed = {key_of(argument): argument for argument in arguments}
    for key in typed:
        parts = key.removesuffix(f".{CHOICE}").split(".")
        for end in range(1, key.count(".") + 1):
            above = ".".join(parts[:end])
            if above in typed and not choices_of(above) and not isinstance(value := read(typed[above]).value(), dict):
                raise ConfigError(f"{'.'.join(parts)}: {above} was typed, too, as {shown(value)}; expected one of them")


def _refuse_dashes(arguments: Sequence[str]) -> None:
    """Refuse keys that are typed as options, ``--rounds 20``."""
    known = {field.name for field in fields(RunConfig)}
    for argument, following in zip(arguments, [*arguments[1:], ""], strict=False):  # longer than no arguments
        name, equals, value = argument.removeprefix("--").replace("-", "_").partition("=")
        if argument.startswith("--") and name.partition(".")[0] in known:
            value = value if equals else "VALUE" if "=" in following or not following else following
            raise ConfigError(f"{argument}: expected {name}={value}, without dashes")


def _refuse_option(message: str) -> NoReturn:
    raise ConfigError(f"{message}; options (see --help) go before or after all key=value")


def own_keys(config: Mapping[str, Any], overrides: Iterable[str]) -> dict[str, Any]:
    """Return the configuration without the keys of files whose ``_target_`` the command line replaced."""
    typed = [key_of(override).split(".") for override in overrides]
    result = dict(config)
    for group in REPLACED:
        own = {path[1] for path in typed if path[0] == group and len(path) > 1}
        if "_target_" in own and isinstance(config.get(group), Mapping):
            own.update(ALWAYS.get(group, ()))
            result[group] = {key: value for key, value in config[group].items() if key in own}
            if group == "dataset":  # the file's target is for its own dataset
                result.update({key: None for key in ("target", "target_metric") if [key] not in typed})
    result["parties"] = {who: _own_choices(str(who), node, typed) for who, node in config["parties"].items()}
    return result


def _own_choices(who: str, node: Any, typed: Iterable[list[str]]) -> Any:
    """Return a participant's keys, with chosen files in full, and without keys of files that a class replaced."""
    result = dict(node) if isinstance(node, Mapping) else {}
    for key in ("model", "optimizer"):
        own = {path[3] for path in typed if path[:3] == ["parties", who, key] and len(path) > 3}
        given = {CHOICE: result[key]} if isinstance(result.get(key), str) else result.get(key)
        if isinstance(given, Mapping) and ("_target_" in own or CHOICE in given):
            chosen = {} if "_target_" in own else _choice(who, key, given[CHOICE])
            result[key] = {**chosen, **{name: value for name, value in given.items() if name in own - {CHOICE}}}
    return result or node


def _choice(who: str, key: str, name: Any) -> dict[str, Any]:
    """Return the keys of a choice of a group, for one participant."""
    group = "server" if (who, key) == (SERVER, "model") else key
    if name not in choices_of(group):
        raise ConfigError(f"parties.{who}.{key}: unknown choice {shown(name)}{near_match(name, choices_of(group))}")
    keys: Any = OmegaConf.to_container(OmegaConf.load(config_folder() / group / f"{name}.yaml"))
    return dict(keys)


def chosen_name(config: Mapping[str, Any], choices: Mapping[str, Any], group: str, overrides: Iterable[str]) -> str:
    """Return the name of a group's choice, or of the class that replaced it: the choice that has it, or its own."""
    if not isinstance(choices.get(group), str):
        raise ConfigError(f"{group}: expected one choice")
    if f"{group}._target_" in map(key_of, overrides) and isinstance(config[group], Mapping):
        target = str(config[group].get("_target_"))
        return shipped_classes(group).get(target, target.rpartition(".")[2].lower())
    return str(choices[group])


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
        if not isinstance(config[key], Mapping) and (is_dataclass(types[key]) or get_origin(types[key]) is dict):
            raise ConfigError(f"{prefix}{key}: expected its keys, as in --help, got {shown(config[key])}")
        if is_dataclass(types[key]):
            check_keys(config[key], types[key], f"{prefix}{key}.")
