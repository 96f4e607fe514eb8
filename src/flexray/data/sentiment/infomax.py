"""The pickles of Multimodal-Infomax (and of MISA before it): ``train.pkl``, ``dev.pkl`` and ``test.pkl``.

Each is a list of samples ``((words, visual, acoustic, actual_words, vlen, alen), label, segment)``; older, aligned ones
have no lengths. ``label`` is [1, 1], or [1, 7] with the sentiment first.

Shapes: t = steps, d = features of a step.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from flexray.core.errors import DataError
from flexray.data.base import Split
from flexray.data.sentiment.samples import Modality, Samples, Splits, as_array, as_text, is_listing, step_count
from flexray.data.sentiment.unpickling import load_pickle

FILES: dict[Split, str] = {"train": "train.pkl", "val": "dev.pkl", "test": "test.pkl"}
LAYOUT = "train.pkl, dev.pkl and test.pkl (Multimodal-Infomax)"
SAMPLE = "((words, visual, acoustic, actual_words, vlen, alen), label, segment)"


def read(folder: Path) -> Splits:
    """Read the three pickles of a folder.

    Raises:
        DataError: A file is missing or broken, or a sample is malformed; file and sample are named.
    """
    for split, name in FILES.items():
        if not os.path.exists(folder / name):
            raise DataError(f"{folder / name}: no such file, so there is no {split} split; expected {LAYOUT}")
    return {split: _read_split(folder / name) for split, name in FILES.items()}


def _read_split(file: Path) -> Samples:
    content = load_pickle(file)
    if not isinstance(content, list) or not content:
        found = "an empty list" if content == [] else type(content).__name__
        raise DataError(f"{file}: expected a list of samples {SAMPLE}, got {found}")
    parts = [_sample(item, f"{file}: sample {row}") for row, item in enumerate(content)]
    ids = [part[0] for part in parts]
    modalities = {
        name: Modality(ids, [part[place] for part in parts], kind, f"{file}: {name}")
        for place, (name, kind) in enumerate((("video", "steps"), ("audio", "steps"), ("text", "sentences")), start=2)
    }
    return Samples(ids, np.array([part[1] for part in parts]), modalities, str(file))


def _sample(item: Any, where: str) -> tuple[Any, ...]:
    """Return ID, label, video [t, d], audio [t, d] and sentence of one sample."""
    if not (isinstance(item, tuple | list) and len(item) == 3 and isinstance(item[0], tuple | list)):
        raise DataError(f"{where}: expected {SAMPLE}, got {_shape(item)}")
    content, label, segment = item
    if len(content) not in (4, 6):
        raise DataError(f"{where}: expected 6 (aligned: 4) entries in {SAMPLE[1:-17]}, got {len(content)}")
    visual, acoustic, words = content[1:4]
    lengths = content[4:] or (None, None)
    steps = [
        _steps(array, length, f"{where}: {name}")
        for array, length, name in ((visual, lengths[0], "visual"), (acoustic, lengths[1], "acoustic"))
    ]
    value = as_array(label)
    if value.dtype.kind not in "iuf" or not value.size:
        raise DataError(f"{where}: expected a label of numbers, [1, 1] or [1, 7], got {_shape(label)}")
    if not is_listing(words):
        raise DataError(f"{where}: actual_words: expected a list of words, got {_shape(words)}")
    sentence = " ".join(word for word in map(as_text, words) if word)
    return as_text(segment), float(value.reshape(-1)[0]), *steps, sentence


def _steps(array: Any, length: Any, where: str) -> Any:
    steps = as_array(array)
    if steps.dtype.kind not in "iuf" or (steps.ndim != 2 and steps.size):
        raise DataError(f"{where}: expected an array [steps, features], got {_shape(array)}")
    if length is None or not steps.size:  # a sample without steps is dropped anyway
        return steps
    return steps[: step_count(length, len(steps), where, cut=True)]


def _shape(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype} of shape {value.shape}"
    return f"{type(value).__name__} of {len(value)}" if isinstance(value, Sequence) else type(value).__name__
