"""A folder of NumPy arrays: a bundle with sequences.

    FOLDER/train/video.npy   [n, t, d] steps, with video_lengths.npy [n] (without: all-zero ends are padding)
                             or [n, d] flat features
                audio.npy    likewise
                text.npy     likewise, or whole numbers [n, t]: token IDs of dataset.bert, 0 is padding
                sentences.csv with a column 'sentence' (dataset.text chooses if text.npy is there, too)
                labels.npy   [n]
                ids.npy      [n], optional; NAME_ids.npy where a modality has other samples or another order
    FOLDER/test/ the same;   FOLDER/val/ the same, optional

Shapes: n = samples, t = steps, d = features of a step.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from flexray.core.errors import ConfigError, DataError
from flexray.data.base import SPLITS, Array
from flexray.data.checks import open_rows
from flexray.data.columns import read as read_columns
from flexray.data.sentiment.samples import PARTIES, Modality, Samples, Splits, as_text, step_count, trimmed

LAYOUT = "train/ and test/ with video.npy, audio.npy, text.npy or sentences.csv, and labels.npy (bundle)"
SENTENCES = "sentences.csv"


def read(folder: Path, text: str) -> Splits:
    """Read a folder; ``text`` is ``auto``, ``sentences`` or ``features``.

    Raises:
        ConfigError: ``text`` is ``auto`` and there are both.
        DataError: A file is missing or broken, or does not fit the others.
    """
    for split in ("train", "test"):
        if not os.path.isdir(folder / split):
            raise DataError(f"{folder / split}: no such folder, so there is no {split} split; expected {LAYOUT}")
    return {split: _read_split(folder / split, text) for split in SPLITS if os.path.isdir(folder / split)}


def files(folder: Path) -> list[Path]:
    """Return the files of a folder that :func:`read` may read."""
    found = [file for split in SPLITS for file in sorted((folder / split).glob("*"))]
    return [f for f in found if f.name == SENTENCES or (f.suffix == ".npy" and not f.name.startswith("."))]


def _read_split(folder: Path, text: str) -> Samples:
    where = str(folder / "labels.npy")
    labels_n = open_rows(folder / "labels.npy")
    ids = _ids(folder / "ids.npy", len(labels_n)) or [str(row) for row in range(len(labels_n))]
    modalities = {}
    for name in PARTIES:
        file = folder / f"{name}.npy"
        if name == "text" and _wants_sentences(folder, text):
            file = folder / SENTENCES
            sentences = read_columns(file, {"sentence": str(file)})["sentence"].to_pylist()
            samples, kind = ["" if sentence is None else str(sentence) for sentence in sentences], "sentences"
        else:
            samples, kind = _array(file, name == "text")
        own = _ids(folder / f"{name}_ids.npy", len(samples)) or ids
        if len(samples) != len(own):
            raise DataError(f"{file}: has {len(samples)} samples, but {where} has {len(labels_n)}")
        modalities[name] = Modality(own, samples, kind, str(file))
    return Samples(ids, labels_n, modalities, where)


def _wants_sentences(folder: Path, text: str) -> bool:
    if text != "auto" or not os.path.exists(folder / SENTENCES):
        return text == "sentences"
    if os.path.exists(folder / "text.npy"):
        raise ConfigError(
            f"dataset.text: {folder} has both text.npy and {SENTENCES}; expected features or sentences, got auto"
        )
    return True


def _array(file: Path, is_text: bool) -> tuple[list[Any], str]:
    array = open_rows(file)
    if array.dtype.kind not in "biuf":
        raise DataError(f"{file}: expected numbers, got {array.dtype}")
    if array.ndim not in (2, 3):
        raise DataError(f"{file}: expected [samples, steps, features] or [samples, features], got {array.shape}")
    lengths = _lengths(file, array)
    if is_text and array.ndim == 2 and array.dtype.kind in "iu":
        if lengths is None:
            lengths = [len(np.trim_zeros(row, "b")) for row in array]
        return [row[:end] for row, end in zip(array, lengths, strict=True)], "tokens"
    if array.ndim == 2:
        return list(array), "flat"
    if lengths is None:
        return [trimmed(steps_td) for steps_td in array], "steps"
    return [steps_td[:length] for steps_td, length in zip(array, lengths, strict=True)], "steps"


def _lengths(file: Path, array: Array) -> list[int] | None:
    lengths_file = file.with_name(f"{file.stem}_lengths.npy")
    if not os.path.exists(lengths_file):
        return None
    lengths = open_rows(lengths_file)
    if lengths.shape != array.shape[:1] or lengths.dtype.kind not in "iu":
        raise DataError(f"{lengths_file}: expected {len(array)} whole numbers, got {lengths.dtype} {lengths.shape}")
    steps = array.shape[1]
    return [step_count(length, steps, f"{lengths_file}: row {row}") for row, length in enumerate(lengths)]


def _ids(file: Path, expected: int) -> list[str]:
    if not os.path.exists(file):
        return []
    ids = [as_text(sample) for sample in open_rows(file)]
    if len(ids) != expected:
        raise DataError(f"{file}: has {len(ids)} IDs for {expected} samples")
    return ids


def is_layout(folder: Path) -> bool:
    """Whether a folder has a file of one of the three parties in any split."""
    names = (SENTENCES, *(f"{name}.npy" for name in PARTIES))
    return any(os.path.exists(folder / split / name) for split in SPLITS for name in names)
