"""What a command line is refused with, without the command around it."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import hydra
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.types import RunMode
from omegaconf import OmegaConf, open_dict

from flexray.config.explain import HYDRA_ERRORS, explain
from flexray.config.job import Job, build
from flexray.config.overrides import check_keys, chosen_name, own_keys, prepare
from flexray.config.schema import config_folder, register, settle
from flexray.config.typed import key_of
from flexray.core.errors import UserError
from flexray.run.hints import outside_theory, unread

FOLDER = config_folder()


def is_choice(argument: str) -> bool:
    return (FOLDER / key_of(argument)).is_dir()


@functools.cache
def of_choices(*words: str) -> bytes:
    """Return the configuration of these words, composed once, and the choices made; pickled, since it is changed."""
    register()
    with hydra.initialize_config_dir(str(FOLDER), version_base="1.3"):
        cfg = hydra.compose("config", list(words), return_hydra_config=True)
    choices: Any = OmegaConf.to_container(cfg.hydra.runtime.choices)
    with open_dict(cfg):
        del cfg["hydra"]
    return pickle.dumps((cfg, choices), protocol=5)


def composed(base: Sequence[str], words: Sequence[str]) -> tuple[dict[str, Any], dict[str, str], list[str]]:
    """Return the configuration, the choices made and the overrides: applied by Hydra to what was composed before."""
    prepared = [word for word in prepare(list(words)) if not word.startswith("-")]
    parsed = OverridesParser.create().parse_overrides(prepared)
    ConfigLoaderImpl.validate_sweep_overrides_legal(parsed, RunMode.RUN, from_shell=True)
    cfg, choices = pickle.loads(of_choices(*base, *filter(is_choice, prepared)))
    others = [override for override in parsed if not is_choice(override.input_line)]
    ConfigLoaderImpl._apply_overrides_to_config(others, cfg)
    settle(cfg)
    plain: Any = OmegaConf.to_container(cfg, resolve=True)
    return plain, choices, [*base, *prepared]


def built(base: Sequence[str], words: Sequence[str]) -> Job:
    """Return the job that a command line asks for, as a session builds it."""
    plain, picked, typed = composed(base, words)
    check_keys(plain)
    plain = own_keys(plain, typed)
    algo, dataset = (chosen_name(plain, picked, group, typed) for group in ("algo", "dataset"))
    job = build(plain, algo, dataset, Path.cwd())
    assert all(isinstance(line, str) for line in (*unread(plain, algo, map(key_of, typed)), *outside_theory(job)))
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
