"""Jobs of one command or sweep are composed from files that Hydra reads and merges once.

What Hydra merges depends on a job's choices only (``algo=flex``, ``+experiment=table1``). The other overrides are
values that it puts into the result, and so does :class:`RememberingLoader`, into a copy.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias

import hydra._internal.hydra as application
from hydra._internal.config_loader_impl import ConfigLoaderImpl, get_overrides_dirname
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException
from typing_extensions import override

from flexray.config.overrides import FOLDERS
from flexray.config.typed import parser

Merged: TypeAlias = dict[tuple[str, ...], bytes]
"""What Hydra merged of files: by the files' folders, the name of the first file and the choices.

As bytes, of which a copy is made in a tenth of the time that a deep copy takes.
"""
VALUES = (*FOLDERS, "hydra.mode")
"""Keys of Hydra's own that differ from job to job and decide on no file."""


class RememberingLoader(ConfigLoaderImpl):
    """Hydra's loader, with a memory of what it merged; it gives the same configurations and errors.

    Args:
        config_search_path: Where files are looked for.
        merged: The memory, which loaders of one sweep share.
    """

    def __init__(self, config_search_path: ConfigSearchPath, merged: Merged) -> None:
        super().__init__(config_search_path)
        self._merged = merged

    @override
    def load_configuration(
        self,
        config_name: str | None,
        overrides: list[str],
        run_mode: RunMode,
        from_shell: bool = True,
        validate_sweep_overrides: bool = True,
    ) -> DictConfig:
        """Return the configuration that overrides ask for."""
        try:
            found = self._remembered(config_name, overrides, run_mode, validate_sweep_overrides)
        except (HydraException, OmegaConfBaseException, ValueError):  # which is raised again, in Hydra's words
            found = None
        if found is not None:
            return found
        return super().load_configuration(config_name, overrides, run_mode, from_shell, validate_sweep_overrides)

    def _remembered(
        self, config_name: str | None, overrides: list[str], run_mode: RunMode, check_sweeps: bool
    ) -> DictConfig | None:
        """Return the configuration; None where the files are not those of this loader's own folders."""
        parsed = parser().parse_overrides(overrides)
        if check_sweeps:
            self.validate_sweep_overrides_legal(parsed, run_mode, from_shell=True)
        fixed = [one for one in parsed if not one.is_sweep_override()]
        values = [one for one in fixed if self._is_value(one)]
        choices = [one.input_line or "" for one in fixed if one not in values]
        folders = [source.path for source in self.get_sources()]
        key = (*folders, config_name or "", *choices)
        if key not in self._merged:
            merged = super().load_configuration(config_name, choices, RunMode.RUN)
            self._merged[key] = pickle.dumps(merged, protocol=5)
        config: DictConfig = pickle.loads(self._merged[key])  # noqa: S301 - made two lines above
        if [source.path for source in config.hydra.runtime.config_sources] != folders:
            return None
        self._apply_overrides_to_config(values, config)
        _note(config, parsed)
        return config

    def _is_value(self, one: Override) -> bool:
        if one.is_hydra_override():
            return one.get_key_element() in VALUES
        return isinstance(one.value(), dict) or not self.repository.group_exists(one.key_or_group)


def _note(config: DictConfig, parsed: Sequence[Override]) -> None:
    """Note in a configuration from which overrides it was composed."""
    own, others = ([one for one in parsed if one.is_hydra_override() is is_own] for is_own in (True, False))
    config.hydra.overrides.hydra = [one.input_line for one in own]
    config.hydra.overrides.task = [one.input_line for one in others]
    config.hydra.runtime.cwd = os.getcwd()
    config.hydra.job.override_dirname = get_overrides_dirname(others, **config.hydra.job.config.override_dirname)


def remember(app: Any, merged: Merged) -> None:
    """Give an application of Hydra's that was just made a loader with a memory."""
    app.config_loader = RememberingLoader(app.config_loader.get_search_path(), merged)


@contextmanager
def remembering() -> Iterator[None]:
    """Give the application that Hydra starts within this block a loader with a memory."""
    name = ConfigLoaderImpl.__name__  # by which an application finds its loader
    before = getattr(application, name)
    setattr(application, name, partial(RememberingLoader, merged={}))
    try:
        yield
    finally:
        setattr(application, name, before)
