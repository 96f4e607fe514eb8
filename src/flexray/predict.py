"""Predictions of a finished run's saved model.

``python -m flexray.predict RUN_FOLDER [--split test] [--without PARTY] [dataset.path=...] -o predictions.csv``
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from flexray.config.by_participant import participant
from flexray.config.compose import build_composed
from flexray.config.job import Job, with_full_paths
from flexray.config.schema import CheckpointConfig, ClusterConfig, LoggerConfig, RunConfig
from flexray.config.trust import check_config
from flexray.config.typed import read
from flexray.core.commands import Parser, command
from flexray.core.conforming import conforms
from flexray.core.errors import ConfigError, RunFolderError, printable
from flexray.core.runfolder import CONFIGURATION_FILE, MODEL_FOLDER, SUMMARY_FILE, check_files, read_json
from flexray.data.base import SPLITS, SavedModel, Split
from flexray.engine.hosts.inline import borrowed_torch
from flexray.report.runs import COMPLETED
from flexray.run.predictor import Predictor, class_names
from flexray.run.resume import begun_in, recorded_choices, recorded_overrides
from flexray.run.watch.folder import open_new
from flexray.tasks import Task


def main() -> None:
    """Run the command line and exit with 0, 2 for a mistake of the user, 1 for a failing model."""
    sys.exit(run_command(sys.argv[1:]))


@command()
def run_command(arguments: Sequence[str]) -> int:
    """Run one command and return its exit status."""
    args = _parser().parse_intermixed_args(list(arguments))
    gone = tuple(args.without or ())
    with borrowed_torch():
        job = load_job(args.run_folder, args.overrides)
        found = predictions(job, args.run_folder, args.split, gone)
        rows = _write(found, args.output)
        left = _left(job, args.run_folder, args.split, gone) if gone else ""
    is_part = found.of not in (None, rows) and not args.split
    more = f" (of {found.of} samples: those of the test split; --split all for all)" if is_part else ""
    print(f"{rows} predictions in {args.output}{more}{left}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="python -m flexray.predict", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("run_folder", type=Path, help="folder of a finished run")
    parser.add_argument("overrides", nargs="*", help="keys of the dataset, such as dataset.path=new_data; trust=true")
    parser.add_argument("-o", "--output", type=Path, required=True, help="CSV file to write")
    parser.add_argument(
        "--split", choices=[*SPLITS, "all"], help="samples to predict (default: test; of a new table, all)"
    )
    parser.add_argument(
        "--without", action="append", metavar="PARTY", help="a party that is gone, by name or number; may be repeated"
    )
    return parser


def _left(job: Job, run_folder: Path, split: Split | Literal["all"] | None, gone: Sequence[str]) -> str:
    """Return lines that compare metrics without some parties with those of all."""
    splits = _splits(split, job.experiment.shared.dataset.is_whole)
    folder = run_folder / MODEL_FOLDER
    lines = []
    for words, model in (
        (f"without {', '.join(gone)}", Predictor(job, folder, _places(job, gone))),
        ("with all parties", Predictor(job, folder)),
    ):
        found = {key: value for part in splits for key, value in model.metrics(part).items()}
        lines += [f"\n{words}: {', '.join(f'{key} {value:.4f}' for key, value in found.items())}"] if found else []
    return "".join(lines)


def _places(job: Job, gone: Sequence[str]) -> frozenset[int]:
    """Return the places of parties that the user named, at least one of which stays."""
    parties = [job.experiment.names[k] for k in job.experiment.feature_parties]
    places = frozenset(participant("--without", name, parties) for name in gone)
    if len(places) == len(parties):
        raise ConfigError("--without: all parties are gone; expected at least one that stays")
    return places


@dataclass(frozen=True)
class Predictions:
    """Predictions of a saved model.

    Args:
        columns: ``id``, ``prediction``, ``label`` and, of classes, their probabilities.
        rows: A row per sample, made while they are read, once.
        of: Number of samples in the data; None if all are predicted.
    """

    columns: list[str]
    rows: Iterator[list[Any]]
    of: int | None


def _write(found: Predictions, output: Path) -> int:
    """Write one row per sample and return their number."""
    rows = 0
    with open_new(output) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(found.columns)
        for row in found.rows:
            writer.writerow(row)
            rows += 1
    return rows


def predictions(
    job: Job, run_folder: Path, split: Split | Literal["all"] | None, gone: Sequence[str] = ()
) -> Predictions:
    """Return the predictions of a run's saved model.

    Args:
        job: The run, from :func:`load_job`.
        run_folder: Its folder.
        split: The samples to predict; None: the test split or, of a new table, all.
        gone: Parties, by name or number, that take no part: something stands in for their embeddings.
    """
    shared = job.experiment.shared
    splits = _splits(split, shared.dataset.is_whole)
    model = Predictor(job, run_folder / MODEL_FOLDER, _places(job, gone))
    return Predictions(
        ["id", "prediction", "label", *_probabilities(shared.outline.task)],
        chain.from_iterable(map(model.rows, splits)),
        None if shared.dataset.is_whole else sum(shared.outline.sizes.values()),
    )


def _splits(split: Split | Literal["all"] | None, is_whole: bool) -> Sequence[Split]:
    if is_whole and split not in (None, "all"):
        raise ConfigError(f"--split: a new table has no splits and is predicted whole, got {split}")
    if split == "all":
        return ("test",) if is_whole else SPLITS
    return ("test" if split is None else split,)


def _probabilities(task: Task) -> list[str]:
    """Return the names of the columns of probabilities, which only classes have."""
    if not task.is_classification:
        return []
    return [f"p_{name}" if task.classes else f"p{name}" for name in class_names(task)]


def load_job(run_folder: Path, overrides: Sequence[str] = (), objects: Mapping[str, Any] = MappingProxyType({})) -> Job:
    """Build the run that a run folder records, with some keys of its dataset replaced, and its Python objects given.

    Relative paths of the record start where that run was begun, those of ``overrides`` in the current folder.
    What a run folder may not set (:mod:`flexray.config.trust`) is refused unless ``trust=true`` is among ``overrides``.
    """
    check_files(run_folder, writes=False)
    if not (run_folder / SUMMARY_FILE).exists():
        raise RunFolderError(f"{run_folder}: not the folder of a finished run (it has no {SUMMARY_FILE})")
    summary = read_json(run_folder / SUMMARY_FILE)
    if (status := summary.get("status", COMPLETED)) != COMPLETED:
        line = f"{run_folder}: the run is {status}, its model is that after {summary.get('rounds')} rounds"
        print(f"flexray: {printable(line)}", file=sys.stderr)
    typed, base_dir = recorded_overrides(run_folder), begun_in(run_folder)
    config = _with_typed(_recorded(run_folder), overrides, objects)
    is_new = any(override.startswith(("dataset.path=", "dataset.files")) for override in overrides)
    saved = replace(_saved_model(run_folder, summary), has_new_data=is_new)
    job = build_composed(config, recorded_choices(run_folder), typed, base_dir, saved, run_folder, objects)
    parties, expected = list(job.experiment.names[:-1]), summary.get("parties")
    if expected is not None and parties != expected:
        listed = ", ".join(map(str, expected)) if isinstance(expected, list) else repr(expected)
        raise ConfigError(f"dataset: expected the run's parties {listed[:300]}, got {', '.join(parties)}")
    return job


def _recorded(run_folder: Path) -> dict[str, Any]:
    """Return the configuration of the run that ended, except for its place: the model is used in this process."""
    if not (run_folder / CONFIGURATION_FILE).exists():
        raise RunFolderError(
            f"{run_folder}: has no {CONFIGURATION_FILE}; expected a run that ended, also after a resume"
        )
    here = {
        "cluster": asdict(ClusterConfig(kind="inline")),
        "checkpoint": asdict(CheckpointConfig()),
        "logger": asdict(LoggerConfig()),
        "device": "auto",
    }
    return _completed(asdict(RunConfig()), read_json(run_folder / CONFIGURATION_FILE)) | here


def _completed(defaults: Mapping[str, Any], recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Return a recorded configuration with the keys that its version did not have."""
    inner = {
        key: _completed(default, recorded[key])
        for key, default in defaults.items()
        if isinstance(default, dict) and isinstance(recorded.get(key), dict)
    }
    return {**defaults, **recorded, **inner}


def _with_typed(recorded: dict[str, Any], overrides: Sequence[str], objects: Collection[str] = ()) -> DictConfig:
    """Return a recorded configuration, if a run folder may set it, with the overrides."""
    if "trust=true" not in overrides:
        check_config(recorded, [*(override.partition("=")[0] for override in overrides), *objects])
    config = OmegaConf.create(recorded)
    for override in overrides:
        key, equals, value = override.partition("=")
        if key == "trust":
            continue
        if not equals or not key.startswith("dataset."):
            raise ConfigError(f"{override}: expected dataset.KEY=VALUE; nothing else can change for a saved model")
        _set(config, key.removeprefix("dataset."), _parsed(override, value))
    return config


def _saved_model(run_folder: Path, summary: dict[str, Any]) -> SavedModel:
    """Return the model's outputs, classes and parties' columns from ``summary.json``."""
    outputs, classes, columns = (summary.get(key) for key in ("num_outputs", "classes", "columns"))
    if not (outputs is None or (type(outputs) is int and outputs > 0)):
        raise RunFolderError(f"{run_folder}: summary.json: num_outputs: expected a whole number, got {outputs!r}")
    if not (classes is None or (isinstance(classes, list) and all(isinstance(c, str | int | float) for c in classes))):
        raise RunFolderError(f"{run_folder}: summary.json: classes: expected a list of names, got {str(classes)[:60]}")
    if not (columns is None or conforms(columns, dict[str, list[str]])):
        raise RunFolderError(f"{run_folder}: summary.json: columns: expected lists of names, got {str(columns)[:60]}")
    cut = {name: tuple(own) for name, own in (columns or {}).items()}
    return SavedModel(outputs, tuple(classes or ()), columns=cut)


def _parsed(override: str, text: str) -> Any:
    """Return a list or mapping as the command line of a run reads it, any other value as YAML reads it."""
    if text.startswith(("[", "{")):
        return read(override).value()
    try:
        plain: Any = OmegaConf.to_container(OmegaConf.create(f"value: {text}"))
    except (YAMLError, OmegaConfBaseException, ValueError) as error:
        raise ConfigError(f"{override[:200]}: cannot be read; expected dataset.KEY=VALUE") from error
    return plain["value"]


def _set(config: DictConfig, key: str, value: Any) -> None:
    """Set ``dataset.KEY``, in which ``KEY`` may have two parts, as ``files.bank`` has."""
    name, _, part = key.partition(".")
    known = config.dataset.get(name) if part else config.dataset
    if not isinstance(known, DictConfig) or (part or name) not in known:
        raise ConfigError(f"dataset.{key}: unknown key of the dataset")
    started = with_full_paths(Path.cwd(), {name: {part: value} if part else value})[name]
    OmegaConf.update(config, f"dataset.{name}", started, merge=bool(part))


if __name__ == "__main__":
    main()
