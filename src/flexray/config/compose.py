"""From overrides to a job: composed by Hydra, checked, and built."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.version import VersionBase
from omegaconf import DictConfig, OmegaConf, open_dict

from flexray.config.explain import explained
from flexray.config.given import placed
from flexray.config.overrides import check_keys, chosen_name, own_keys, prepare
from flexray.config.remembered import Merged, remember
from flexray.config.schema import config_folder, register

if TYPE_CHECKING:
    from flexray.config.job import Job
    from flexray.data.base import SavedModel


def compose(overrides: Sequence[str]) -> tuple[DictConfig, Mapping[str, Any]]:
    """Return the configuration that overrides ask for, and the choice of every group."""
    config = compose_all(overrides)
    choices = config.hydra.runtime.choices
    return without_hydra(config), choices


def compose_all(overrides: Sequence[str], merged: Merged | None = None) -> DictConfig:
    """Return the configuration that overrides ask for, with Hydra's own part.

    Args:
        overrides: The overrides.
        merged: What the runs of a sweep remember of files.
    """
    register()
    with borrowed_hydra(), hydra.initialize_config_dir(str(config_folder()), version_base="1.3"):
        if merged is not None:
            remember(GlobalHydra.instance().hydra, merged)
        return hydra.compose("config", prepare(list(overrides)), return_hydra_config=True)


def without_hydra(config: DictConfig) -> DictConfig:
    """Return a configuration without Hydra's own part, which is taken out of it."""
    with open_dict(config):
        del config["hydra"]
    return config


@contextmanager
def borrowed_hydra() -> Iterator[None]:
    """Give Hydra's global state back as it was: flexray may be called from an application of Hydra's."""
    app, notes, version = GlobalHydra.instance(), HydraConfig.instance(), VersionBase.instance()
    before = app.hydra, notes.cfg, version.version_base
    app.hydra = None
    try:
        yield
    finally:
        app = GlobalHydra.instance()
        app.hydra, notes.cfg, version.version_base = before


def build_composed(
    config: DictConfig,
    choices: Mapping[str, Any],
    typed: Sequence[str],
    base_dir: Path,
    saved: SavedModel | None = None,
    folder: Path | None = None,
    objects: Mapping[str, Any] = MappingProxyType({}),
) -> Job:
    """Build the job of a composed configuration.

    Args:
        config: The configuration.
        choices: The choice of every group.
        typed: The overrides that it was composed from.
        base_dir: Folder that relative paths start from.
        saved: The model that is to predict; batch sizes are then ignored.
        folder: The run folder, which may hold data.
        objects: Python objects by dotted key.

    Raises:
        flexray.core.errors.UserError: Something in the configuration or the data is wrong.
    """
    from flexray.config.job import build  # imports torch: mistyped keys are reported sooner without

    plain: Any = OmegaConf.to_container(config, resolve=True)
    check_keys(plain)
    plain = own_keys(plain, typed)
    algo, dataset = (chosen_name(plain, choices, group, typed) for group in ("algo", "dataset"))
    plain = placed(plain, folder, objects)
    if saved is not None:
        plain["dataset"] = {**plain["dataset"], "batch_size": 1}
    return build(plain, algo, dataset, base_dir, saved)


def build_typed(words: Sequence[str], objects: Mapping[str, Any] = MappingProxyType({})) -> Job:
    """Build the job of words that are typed in the current folder.

    Raises:
        flexray.core.errors.UserError: Something in the configuration or the data is wrong.
    """
    with explained():
        config, choices = compose(words)
        return build_composed(config, choices, words, Path.cwd(), objects=objects)


def as_json(config: DictConfig, resolve: bool = True) -> dict[str, Any]:
    """Return a configuration as it is stored in JSON files, with interpolations resolved."""
    stored: dict[str, Any] = json.loads(json.dumps(OmegaConf.to_container(config, resolve=resolve), default=str))
    return stored


def typed_overrides(chosen: Any) -> list[str]:
    """Return the overrides of a job as they were typed: interpolations in them are the configuration's, not Hydra's."""
    texts: Any = OmegaConf.to_container(chosen.overrides.task, resolve=False)
    return [str(text) for text in texts]
