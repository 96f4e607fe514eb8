"""A loader with a memory gives the configurations and the errors of Hydra's own, and merges files once."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import hydra
import pytest
from hydra._internal import hydra as application
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.utils import create_config_search_path
from hydra.core.config_loader import ConfigLoader
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import OmegaConf

from flexray.config.remembered import Merged, RememberingLoader, remember, remembering
from flexray.config.schema import config_folder, register

RUNS = (
    ["cluster=inline", "seed=2", "hydra.run.dir=here", "hydra.mode=RUN"],
    ["hydra.job.name=mine", "hydra/job_logging=disabled", "seed=3"],
    ["algo=vafl", "+experiment=table3", "++lr={server:0.1}", "lr=0.1", "++parties.a.lr=2"],
    ["~logger", "~model.hidden", "model.dropout=0.5", "model={width:3}", "speeds.iterations=[1,2]"],
    ["lr=0.1", "++lr={a:1}", "network.t_comm=${timeout}", "target='a b'"],
)
REFUSED = (["algo=flexx"], ["sed=1"], ["seed=1,2"], ["++algo=vafl"], ["seed=1", "lr=["], ["hydra.searchpath=7"])
SWEEPS = (["algo=flex,vafl", "seed=range(3)", "cluster=inline", "hydra.sweep.dir=there"], ["hydra.run.dir=a,b"])


@pytest.fixture(scope="module")
def merged() -> Merged:
    return {}


@pytest.fixture(scope="module")
def loaders(merged: Merged) -> tuple[ConfigLoader, ConfigLoader]:
    """Return Hydra's own loader and one that remembers."""
    register()
    path = create_config_search_path(str(config_folder()))
    return ConfigLoaderImpl(path), RememberingLoader(path, merged)


def loaded(loader: ConfigLoader, words: list[str], mode: RunMode, **keys: Any) -> str:
    """Return what a loader composes of words, or how it refuses them."""
    try:
        config = loader.load_configuration("config", words, mode, **keys)
    except (HydraException, ValueError) as error:
        return f"{type(error).__name__}: {error} {error.__cause__}"
    return f"{OmegaConf.to_yaml(config)} {OmegaConf.is_struct(config)} {OmegaConf.is_readonly(config.hydra)}"


@pytest.mark.parametrize("words", [*RUNS, *REFUSED], ids=" ".join)
def test_a_run_is_composed_or_refused_as_by_hydra(words: list[str], loaders: tuple[ConfigLoader, ConfigLoader]) -> None:
    expected, found = (loaded(loader, words, RunMode.RUN) for loader in loaders)
    assert found == expected


@pytest.mark.parametrize("words", SWEEPS, ids=" ".join)
@pytest.mark.parametrize("checks", [True, False])
def test_a_sweep_is_composed_or_refused_as_by_hydra(
    words: list[str], checks: bool, loaders: tuple[ConfigLoader, ConfigLoader]
) -> None:
    expected, found = (loaded(loader, words, RunMode.MULTIRUN, validate_sweep_overrides=checks) for loader in loaders)
    assert found == expected


def test_jobs_of_one_choice_share_what_was_merged(merged: Merged, loaders: tuple[ConfigLoader, ConfigLoader]) -> None:
    merged.clear()
    for algo in ("flex", "vafl"):
        for seed in range(3):
            found = loaders[1].load_configuration("config", [f"seed={seed}", f"algo={algo}"], RunMode.RUN)
            assert (found.seed, found.hydra.runtime.choices.algo) == (seed, algo)
            found.hydra.job.name = "changed"
    assert len(merged) == 2
    assert loaders[1].load_configuration("config", ["algo=flex"], RunMode.RUN).hydra.job.name == "run"


def test_a_folder_of_the_user_is_searched_for_every_job(
    tmp_path: Path, loaders: tuple[ConfigLoader, ConfigLoader]
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "small.yaml").write_text("# @package _global_\nrounds: 3\n")
    words = [f"hydra.searchpath=[{tmp_path}]", "+mine=small"]
    expected, found = (loaded(loader, words, RunMode.RUN) for loader in loaders)
    assert found == expected
    assert "rounds: 3" in expected


def test_an_application_remembers_from_its_start_or_later(
    merged: Merged, loaders: tuple[ConfigLoader, ConfigLoader]
) -> None:
    before = application.ConfigLoaderImpl
    with remembering(), hydra.initialize_config_dir(str(config_folder()), version_base="1.3"):
        assert isinstance(GlobalHydra.instance().config_loader(), RememberingLoader)
    assert application.ConfigLoaderImpl is before
    app = SimpleNamespace(config_loader=loaders[0])
    remember(app, merged)
    assert isinstance(app.config_loader, RememberingLoader)
