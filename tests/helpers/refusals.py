"""What a command line is refused with, without the command around it."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from flexray.config.compose import as_json, build_composed, compose
from flexray.config.explain import HYDRA_ERRORS, explain
from flexray.config.job import Job
from flexray.config.overrides import prepare
from flexray.config.schema import config_folder, settle
from flexray.config.typed import key_of, parser
from flexray.core.errors import UserError
from flexray.run.hints import outside_theory, unread

FOLDER = config_folder()


def is_choice(argument: str) -> bool:
    return (FOLDER / key_of(argument)).is_dir()


@functools.cache
def of_choices(*words: str) -> bytes:
    """Return the configuration of these words, composed once, and the choices made; pickled, since it is changed."""
    cfg, choices = compose(words)
    return pickle.dumps((cfg, OmegaConf.to_container(choices)), protocol=5)


def composed(base: Sequence[str], words: Sequence[str]) -> tuple[DictConfig, dict[str, str], list[str]]:
    """Return the configuration, the choices made and the overrides: applied by Hydra to what was composed before."""
    prepared = [word for word in prepare(list(words)) if not word.startswith("-")]
    parsed = parser().parse_overrides(prepared)
    ConfigLoaderImpl.validate_sweep_overrides_legal(parsed, RunMode.RUN, from_shell=True)
    cfg, choices = pickle.loads(of_choices(*base, *filter(is_choice, prepared)))
    others = [override for override in parsed if not is_choice(override.input_line)]
    ConfigLoaderImpl._apply_overrides_to_config(others, cfg)
    settle(cfg)
    return cfg, choices, [*base, *prepared]


def built(base: Sequence[str], words: Sequence[str]) -> Job:
    """Return the job that a command line asks for, as a session builds it."""
    cfg, picked, typed = composed(base, words)
    job = build_composed(cfg, picked, typed, Path.cwd())
    lines = (*unread(as_json(cfg), job.algo, map(key_of, typed)), *outside_theory(job))
    assert all(isinstance(line, str) for line in lines)
    return job


def refusal(base: Sequence[str], words: Sequence[str], use: Callable[[Job], object] = id) -> str | None:
    """Return what a command line is refused with, or None; any other exception is a traceback of the command's.

    Args:
        base: Words that are typed before, with choices.
        words: The others.
        use: What is done with the job that is built.
    """
    try:
        use(built(base, words))
    except UserError as error:
        return str(error)
    except HYDRA_ERRORS as error:
        return explain(error)
    return None
