"""Hydra with a memory that all commands of a process share: flexray's own, which lasts for one command only."""

from __future__ import annotations

import copy
import functools
from contextlib import nullcontext
from typing import Any

import omegaconf
import pytest
import yaml
from hydra._internal import hydra as application
from hydra._internal.hydra import Hydra
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.override_parser.overrides_parser import OverridesParser

from flexray.config import compose
from flexray.config.remembered import Merged, RememberingLoader
from flexray.config.schema import config_folder
from flexray.run import command

SHIPPED = {str(config_folder()), "pkg://hydra.conf", "structured://"}


def _make_loader(merged: Merged, config_search_path: ConfigSearchPath) -> RememberingLoader:
    """Return a loader with the common memory, or with one of its own where a test brings files, which may change."""
    is_shipped = SHIPPED.issuperset(place.path for place in config_search_path.get_path())
    return RememberingLoader(config_search_path, merged if is_shipped else {})


def remember(patch: pytest.MonkeyPatch) -> None:
    """Let Hydra compose each set of choices, parse each override and each interpolation once."""
    patch.setattr(Hydra, "get_mode", lambda *args, **kwargs: None)  # it composes once more, to see if that sets a mode
    patch.setattr(omegaconf.base, "parse", functools.cache(omegaconf.base.parse))
    patch.setattr(application, "ConfigLoaderImpl", functools.partial(_make_loader, {}))
    patch.setattr(command, "remembering", nullcontext)
    patch.setattr(compose, "remember", lambda app, merged: None)
    _remember_overrides(patch)
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


def _remember_overrides(patch: pytest.MonkeyPatch) -> None:
    parse = OverridesParser.parse_rule
    known: dict[tuple[str, str], Any] = {}

    def parse_once(parser: OverridesParser, text: str, rule: str) -> Any:
        if (text, rule) not in known:
            known[text, rule] = parse(parser, text, rule)
        return copy.copy(known[text, rule])

    patch.setattr(OverridesParser, "parse_rule", parse_once)
