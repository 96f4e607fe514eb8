"""Shared fixtures: small bundles on disk, jobs composed by Hydra as the command line does, inline runs."""

from __future__ import annotations

import gc
import os
import pickle
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import torch
from omegaconf import OmegaConf

from flexray.config.job import Job, build
from flexray.config.schema import config_folder
from flexray.config.typed import parser
from flexray.core.messages import Record
from flexray.engine.driver.make import make_driver
from flexray.engine.hosts.inline import InProcess, borrowed_torch
from flexray.run.command import run_command
from helpers.fast_hydra import remember
from helpers.jobs import SHAPES, Compose, Run, WriteBundle, save_bundle
from helpers.refusals import of_choices
from helpers.small import SMALL
from helpers.typed import ADDRESS, start_server

LEAST_MEMORY_BYTES = 4 << 30
"""From there on temporary folders may be in memory, where thousands of small files are quick."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add how long tests of made-up input go on: ``--fuzz-examples=5000 --fuzz-seed=1`` for more than every day."""
    parser.addoption("--fuzz-examples", type=int, default=None, help="examples of each test in tests/fuzz")
    parser.addoption("--fuzz-seed", type=int, default=0, help="which ones; the same seed makes the same ones")


def pytest_configure(config: pytest.Config) -> None:
    """Keep temporary folders in memory, and start one server for the typed commands of all workers, if there are any.

    The server loads while the workers collect.
    """
    memory = Path("/dev/shm")
    if os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > LEAST_MEMORY_BYTES:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(memory))
    if getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput"):
        os.environ[ADDRESS] = start_server()


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> Iterator[None]:
    """Small tensors are slower on many threads, above all beside another process; imports need no collecting.

    Every run asks whether something is frozen, which ``gc`` answers by counting it all: 10 ms.
    """
    torch.set_num_threads(1)
    gc.freeze()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gc, "get_freeze_count", lambda: 1)
        yield


@pytest.fixture(scope="session", autouse=True)
def _fast_hydra() -> Iterator[None]:
    """Compose the shipped files of each set of choices once."""
    with pytest.MonkeyPatch.context() as patch:
        remember(patch)
        yield


@pytest.fixture
def write_bundle(tmp_path: Path) -> WriteBundle:
    """Return a function that writes a bundle and returns its folder."""

    def write(shapes: Mapping[str, Sequence[int]] | None = None, **options: Any) -> Path:
        return save_bundle(tmp_path / "bundle", shapes or SHAPES, **options)

    return write


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three parties a, b, c; 24 training and 9 test samples; 4 classes."""
    return save_bundle(tmp_path_factory.mktemp("bundle") / "three", SHAPES)


@pytest.fixture(scope="session")
def compose_job() -> Compose:
    """Return a function from overrides to a job; keyword arguments replace whole top-level keys.

    Hydra composes each set of choices once, which is slow; values of single keys are set in its typed result.
    """

    folder = config_folder()

    def compose(*overrides: str, **replaced: Any) -> Job:
        parsed = parser().parse_overrides(list(overrides))
        groups = [o.input_line for o in parsed if (folder / o.key_or_group).is_dir()]
        cfg, choices = pickle.loads(of_choices("cluster=inline", "dtype=float64", *groups))
        for o in parsed:
            if not (folder / o.key_or_group).is_dir():
                OmegaConf.update(cfg, o.key_or_group, o.value(), force_add=o.is_add() or o.is_force_add())
        plain: Any = OmegaConf.to_container(cfg, resolve=True)
        return build({**plain, **replaced}, choices["algo"], choices["dataset"], Path.cwd())

    return compose


@pytest.fixture(scope="session")
def run_inline() -> Run:
    """Return a function that runs a job in this process and returns all its records."""

    def run(job: Job) -> list[Record]:
        with borrowed_torch():
            return list(make_driver(job.experiment, InProcess(), job.cluster.placement).run())

    return run


@pytest.fixture(scope="session")
def run_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return a function from the words of a run in this process to its folder, which several tests read."""
    home, done = tmp_path_factory.mktemp("once"), dict[tuple[str, ...], Path]()

    def run(*words: str) -> Path:
        if words not in done:
            folder = home / str(len(done))
            with redirect_stdout(StringIO()):
                assert run_command([*words, f"hydra.run.dir={folder}"]) == 0
            done[words] = folder
        return done[words]

    return run


@pytest.fixture
def compose_small(compose_job: Compose, bundle: Path) -> Compose:
    """Return a function from overrides to a short job of the small bundle."""
    return lambda *words, path=bundle: compose_job("dataset=bundle", f"dataset.path={path}", *SMALL, *words)
