"""The pickles of MMSA: ``aligned_50.pkl`` and ``unaligned_50.pkl``.

One dictionary ``{train, valid, test}``, each ``{raw_text, audio, vision, id, regression_labels, ...}``; the unaligned
one also has ``audio_lengths`` and ``vision_lengths``. Ready-made BERT features are ignored: a text party trains its own
BERT.

Shapes: n = samples, t = steps, d = features of a step.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flexray.core.errors import DataError
from flexray.data.base import Array, Split
from flexray.data.sentiment.samples import (
    Modality,
    Samples,
    Splits,
    as_array,
    as_text,
    is_listing,
    plain,
    step_count,
    trimmed,
)
from flexray.data.sentiment.unpickling import load_pickle

NAMES = ("aligned_50.pkl", "unaligned_50.pkl")
LAYOUT = "aligned_50.pkl or unaligned_50.pkl (MMSA)"
SPLITS: dict[Split, str] = {"train": "train", "val": "valid", "test": "test"}
LISTED = ", ".join(SPLITS.values())
KEYS = {"video": "vision", "audio": "audio"}
NEEDED = ("raw_text", "audio", "vision", "id", "regression_labels")


def read(file: Path) -> Splits:
    """Read one pickle.

    Raises:
        DataError: It is broken, lacks a split or a key, or its arrays do not fit each other.
    """
    content = load_pickle(file)
    if not isinstance(content, dict):
        raise DataError(f"{file}: expected a dictionary with the splits {LISTED}, got {type(content).__name__}")
    for name in SPLITS.values():
        if name not in content:
            found = ", ".join(map(str, content)) or "nothing"
            raise DataError(f"{file}: has no split '{name}'; expected {LISTED}, found {found}")
    return {split: _read_split(content.pop(name), f"{file}: {name}") for split, name in SPLITS.items()}


def _read_split(part: Any, where: str) -> Samples:
    if not isinstance(part, dict):
        raise DataError(f"{where}: expected a dictionary with {', '.join(NEEDED)}, got {type(part).__name__}")
    for key in NEEDED:
        if key not in part:
            raise DataError(f"{where}: has no '{key}'; expected {', '.join(NEEDED)}")
    ids = [as_text(sample) for sample in _listing(part, "id", where)]
    for key in NEEDED:
        if len(_listing(part, key, where)) != len(ids):
            raise DataError(f"{where}: '{key}' has {len(part[key])} samples, but 'id' has {len(ids)}")
    labels_n = as_array(part["regression_labels"])
    if labels_n.size != len(ids):
        raise DataError(f"{where}: 'regression_labels': expected one number per sample, got {labels_n.shape}")
    modalities = {
        name: Modality(ids, _steps(part, key, where), "steps", f"{where}: '{key}'") for name, key in KEYS.items()
    }
    sentences = [as_text(text) for text in part["raw_text"]]
    modalities["text"] = Modality(ids, sentences, "sentences", f"{where}: 'raw_text'")
    return Samples(ids, labels_n.reshape(len(ids)), modalities, f"{where}: 'regression_labels'")


def _listing(part: dict[str, Any], key: str, where: str) -> Any:
    listing = part[key]
    if not is_listing(listing) or not len(listing):
        found = "none" if is_listing(listing) else type(plain(listing)).__name__
        raise DataError(f"{where}: '{key}': expected one entry per sample, got {found}")
    return listing


def _steps(part: dict[str, Any], key: str, where: str) -> list[Array]:
    """Return each sample's steps [t, d], cut by the lengths given, else without all-zero ends."""
    array_ntd = as_array(part[key])
    if array_ntd.ndim != 3 or array_ntd.dtype.kind not in "iuf":
        raise DataError(
            f"{where}: '{key}': expected numbers [samples, steps, features], got {array_ntd.dtype} {array_ntd.shape}"
        )
    if part.get(f"{key}_lengths") is None:
        return [trimmed(steps_td) for steps_td in array_ntd]
    lengths = _listing(part, f"{key}_lengths", where)
    if len(lengths) != len(array_ntd):
        raise DataError(f"{where}: '{key}_lengths' has {len(lengths)} entries for {len(array_ntd)} samples")
    return [
        steps_td[: step_count(length, len(steps_td), f"{where}: '{key}_lengths': sample {row}", cut=True)]
        for row, (steps_td, length) in enumerate(zip(array_ntd, lengths, strict=True))
    ]
