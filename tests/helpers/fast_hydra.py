"""Hydra with a memory: what a command composes of the files that come with flexray depends on its choices only."""

from __future__ import annotations

import copy
import functools
import pickle
from collections.abc import Hashable
from typing import Any

import omegaconf
import pytest
import yaml
from hydra._internal import config_loader_impl, defaults_list
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import CachingConfigRepository, ConfigRepository, IConfigRepository
from hydra._internal.defaults_list import DefaultsList
from hydra._internal.hydra import Hydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override

from flexray.config.schema import config_folder

SHIPPED = {str(config_folder()), "hydra.conf", ""}


def sources_of(repo: Any) -> tuple[tuple[str, str], ...] | None:
    """Return where files are looked for; None where a test brings its own."""
    found = tuple((source.provider, source.path) for source in repo.get_sources())
    return found if {path for _, path in found} <= SHIPPED else None


def is_choice(repo: Any, override: Override) -> bool:
    """Whether the list of files depends on an override: ``algo=flex``, ``+experiment=table1``, ``~model``."""
    is_group = not override.is_sweep_override() and repo.group_exists(override.key_or_group)
    return is_group and not isinstance(override.value(), dict)


def remember(patch: pytest.MonkeyPatch) -> None:
    """Let Hydra compose each set of choices, parse each override and each interpolation once."""
    patch.setattr(Hydra, "get_mode", lambda *args, **kwargs: None)  # it composes once more, to see if that sets a mode
    patch.setattr(omegaconf.base, "parse", functools.cache(omegaconf.base.parse))
    patch.setattr(CachingConfigRepository, "__init__", _look_at)
    _remember_overrides(patch)
    _remember_lists(patch)
    _remember_files(patch)
    patch.setattr(omegaconf.base.Metadata, "__deepcopy__", _copy_metadata, raising=False)
    if hasattr(yaml, "CDumper"):
        patch.setattr(omegaconf.omegaconf, "get_omega_conf_dumper", fast_dumper)


def _copy_metadata(metadata: Any, memo: dict[int, Any]) -> Any:
    """Copy what is said of a node; all of it but two mappings is immutable."""
    copied = copy.copy(metadata)
    copied.flags = dict(metadata.flags) if metadata.flags else {}
    copied.resolver_cache = copy.deepcopy(metadata.resolver_cache, memo)
    return copied


@functools.cache
def fast_dumper() -> Any:
    """Return what writes the same YAML in C; ``tests/config/test_written_yaml.py`` compares the two."""
    slow = omegaconf._utils.get_omega_conf_dumper()
    fast = type("FastDumper", (yaml.CDumper,), {})
    fast.add_representer(str, slow.str_representer)
    return fast


def _look_at(repo: CachingConfigRepository, delegate: IConfigRepository) -> None:
    repo.delegate = copy.copy(delegate)  # not a deep copy
    repo.cache = {}


def _remember_overrides(patch: pytest.MonkeyPatch) -> None:
    parse = OverridesParser.parse_rule
    known: dict[tuple[str, str], Any] = {}

    def parse_once(parser: OverridesParser, text: str, rule: str) -> Any:
        if (text, rule) not in known:
            known[text, rule] = parse(parser, text, rule)
        return copy.copy(known[text, rule])

    patch.setattr(OverridesParser, "parse_rule", parse_once)


def _remember_lists(patch: pytest.MonkeyPatch) -> None:
    create = config_loader_impl.create_defaults_list
    known: dict[Hashable, DefaultsList] = {}

    def create_once(
        repo: Any, config_name: str, overrides_list: list[Override], prepend_hydra: bool, skip_missing: bool
    ) -> DefaultsList:
        chosen = [override for override in overrides_list if is_choice(repo, override)]
        words = tuple(override.input_line for override in chosen)
        key = (sources_of(repo), config_name, words, prepend_hydra, skip_missing)
        if key[0] is None or key not in known:
            known[key] = create(repo, config_name, overrides_list, prepend_hydra, skip_missing)
        others = [o for o in overrides_list if o not in chosen and not o.is_sweep_override()]
        return _with(known[key], others)

    patch.setattr(config_loader_impl, "create_defaults_list", create_once)
    mapped = defaults_list._create_interpolation_map

    def map_for_interpolations(overrides: Any, defaults: list[Any], self_added: bool) -> Any:
        return mapped(overrides, defaults, self_added) if any(d.is_interpolation() for d in defaults) else None

    patch.setattr(defaults_list, "_create_interpolation_map", map_for_interpolations)


def _with(found: DefaultsList, others: list[Override]) -> DefaultsList:
    """Return the list with the overrides of this command that choose no file."""
    result = copy.copy(found)
    result.config_overrides = others
    return result


def _remember_files(patch: pytest.MonkeyPatch) -> None:
    find, load = ConfigRepository._find_object_source, ConfigRepository.load_config
    found: dict[Hashable, int | None] = {}
    loaded: dict[Hashable, bytes] = {}

    def find_once(repo: ConfigRepository, config_path: str, object_type: Any) -> Any:
        sources = sources_of(repo)
        if sources is None:
            return find(repo, config_path, object_type)
        key = (sources, config_path, object_type)
        if key not in found:
            source = find(repo, config_path, object_type)
            found[key] = None if source is None else repo.sources.index(source)
        return None if found[key] is None else repo.sources[found[key]]

    def load_once(repo: ConfigRepository, config_path: str) -> Any:
        sources = sources_of(repo)
        if sources is None:
            return load(repo, config_path)
        if (sources, config_path) not in loaded:
            loaded[sources, config_path] = pickle.dumps(load(repo, config_path), protocol=5)
        return pickle.loads(loaded[sources, config_path])

    compose = ConfigLoaderImpl._compose_config_from_defaults_list
    known: dict[Hashable, bytes] = {}

    def compose_once(loader: ConfigLoaderImpl, defaults: list[Any], repo: Any) -> Any:
        sources = sources_of(repo)
        if sources is None:
            return compose(loader, defaults, repo)
        key = (sources, tuple(repr(default) for default in defaults))
        if key not in known:
            known[key] = pickle.dumps(compose(loader, defaults, repo), protocol=5)
        return pickle.loads(known[key])

    patch.setattr(ConfigRepository, "_find_object_source", find_once)
    patch.setattr(ConfigRepository, "load_config", load_once)
    patch.setattr(ConfigLoaderImpl, "_compose_config_from_defaults_list", compose_once)
