"""The samples of any layout, stored once so that every party maps its own modality's file and reads nothing else.

    CACHE/KEY/report.json                      sizes, kinds, what was dropped and replaced
              {train,val,test}/NAME.npy        steps of all samples, one after the other [s, d]; flat features [n, d];
                                               token IDs [s]
                               NAME_lengths.npy    [n], but for flat features
                               text.json       sentences
                               labels.npy  ids.npy
              NAME_mean.npy  NAME_deviation.npy    over the training samples

Shapes: n = samples, s = steps of all samples together, d = features of a step.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from flexray.core.errors import DataError
from flexray.core.files import check_file, open_array
from flexray.data.base import Array, Fitted, IdArray, Split
from flexray.data.sentiment.layouts import Layout
from flexray.data.sentiment.samples import PARTIES, Joined, Modality, Samples, join

log = logging.getLogger("flexray")

REPORT = ("sizes", "dropped", "replaced", "kinds", "where", "widths")
"""What a report tells, by split or by modality."""

VERSION = 2
"""Goes into the key: raise it whenever the content of a store changes."""


@dataclass(frozen=True)
class Store:
    """A folder of stored samples.

    Args:
        folder: CACHE/KEY.
        report: What ``report.json`` says.
    """

    folder: Path
    report: Mapping[str, Any]

    def array(self, split: Split, name: str) -> Array:
        """Map an array of one split."""
        return open_array(self.folder / split / f"{name}.npy")

    def sentences(self, split: Split) -> list[str]:
        """Read the sentences of one split."""
        texts: list[str] = _json(self.folder / split / "text.json")
        return texts

    def scaling(self, name: str) -> Fitted:
        """Read mean and deviation [d] of a modality over the training samples."""
        return {key: np.array(open_array(self.folder / f"{name}_{key}.npy")) for key in ("mean", "deviation")}


def open_store(layout: Layout, cache: Path, salt: str) -> Store:
    """Return the store of a layout's files, made now if there is none of the same files, sizes and dates.

    Args:
        layout: What to store.
        cache: Folder of all stores.
        salt: What else the content depends on.

    Raises:
        DataError: The files are not as they should be, or the cache cannot be written.
    """
    stats = [(str(file), check_file(file), file.stat().st_mtime_ns) for file in layout.files]
    key = hashlib.sha256(repr((VERSION, salt, stats)).encode()).hexdigest()[:16]
    folder = cache / key
    if store := _opened(folder):
        return store
    if os.path.exists(folder):
        log.warning("dataset.cache: %s is damaged, so it is made again", folder)
    _make(layout, folder)
    if store := _opened(folder):
        return store
    raise DataError(f"dataset.cache: {folder}: cannot be read; expected a folder that this run has just written")


def _opened(folder: Path) -> Store | None:
    """Return the store in a folder if it is there and whole."""
    try:
        store = Store(folder, _json(folder / "report.json"))
        _check_report(store.report)
        for split in store.report["where"]:
            _check_split(store, split)
        for name, kind in store.report["kinds"].items():
            if kind in ("steps", "flat"):
                store.scaling(name)
        return store
    except (OSError, ValueError, EOFError, KeyError, TypeError, AttributeError, RecursionError):
        return None  # whatever is wrong with it, it is made again


def _check_report(report: Mapping[str, Any]) -> None:
    """Refuse a report that is not made as :func:`_make` makes it."""
    dropped = [ids for names in report["dropped"].values() for ids in names.values()]
    of_names = (*report["sizes"].values(), *report["replaced"].values())
    if not all(isinstance(report[key], dict) for key in REPORT) or not set(PARTIES) <= set(report["kinds"]):
        raise ValueError("no mappings by name")
    if not all(type(count) is int for count in of_names) or not all(isinstance(x, str) for ids in dropped for x in ids):
        raise ValueError("no counts and no IDs")
    if not all(
        isinstance(report["where"][split][name], str) for split in report["sizes"] for name in (*PARTIES, "labels")
    ):
        raise ValueError("no names of files")


def _json(file: Path) -> Any:
    check_file(file)
    return json.loads(file.read_text(encoding="utf-8"))


def _check_split(store: Store, split: Split) -> None:
    """Refuse files that are not as long as the report says."""
    found = [len(store.array(split, "labels")), len(store.array(split, "ids"))]
    for name, kind in store.report["kinds"].items():
        if kind == "sentences":
            found.append(len(store.sentences(split)))
        elif kind == "flat":
            found.append(len(store.array(split, name)))
        else:
            lengths_n = store.array(split, f"{name}_lengths")
            found.append(len(lengths_n) if lengths_n.sum() == len(store.array(split, name)) else -1)
    if set(found) != {store.report["sizes"][split]}:
        raise ValueError(f"{split} has {found} samples")


def _make(layout: Layout, folder: Path) -> None:
    """Write a store beside its place, then move it there whole: two runs may make the same one at once."""
    splits = layout.read()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix="draft-", dir=folder.parent))
    except OSError as error:
        raise DataError(f"dataset.cache: cannot write to {folder.parent}: {error.strerror}") from error
    try:
        report: dict[str, Any] = {"layout": layout.name, **{key: {} for key in REPORT}}
        for split, samples in splits.items():
            _write_split(draft / split, samples, report, split)
        for name, kind in report["kinds"].items():
            if kind in ("steps", "flat"):
                _write_scaling(draft, name)
        (draft / "report.json").write_text(json.dumps(report), encoding="utf-8")
        if _opened(folder) is None:  # there may be a damaged one
            shutil.rmtree(folder, ignore_errors=True)
            draft.replace(folder)
    except OSError as error:
        if _opened(folder) is None:
            raise DataError(f"dataset.cache: cannot write {folder}: {error.strerror}") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _write_split(folder: Path, samples: Samples, report: dict[str, Any], split: Split) -> None:
    folder.mkdir()
    joined = join(samples)
    rows = joined.rows["labels"]
    np.save(folder / "labels.npy", _labels(samples, rows))
    report["where"][split] = {"labels": samples.where} | {name: m.where for name, m in samples.modalities.items()}
    np.save(folder / "ids.npy", np.array([samples.ids[row] for row in rows]))
    report["sizes"][split] = len(rows)
    report["dropped"][split] = joined.dropped
    for name, modality in samples.modalities.items():
        if report["kinds"].setdefault(name, modality.kind) != modality.kind:
            raise DataError(f"{modality.where}: holds {modality.kind}, but the split before it {report['kinds'][name]}")
        if modality.kind in ("steps", "flat"):
            kept = joined.rows[name]
            first = [modality.where, modality.samples[kept[0]].shape[-1]]
            _check_widths(modality, kept, report["widths"].setdefault(name, first))
        replaced = _write(folder, name, modality, joined)
        report["replaced"][name] = report["replaced"].get(name, 0) + replaced


def _labels(samples: Samples, rows: list[int]) -> Array:
    """Return the labels of ``rows`` as numbers, so that none of them is stored as an object."""
    labels: Array = np.asarray(samples.labels_n)[rows]
    if labels.dtype.kind in "biuf":
        return labels
    numbers = []
    for row, label in zip(rows, labels, strict=True):
        try:
            numbers.append(float(label))
        except (TypeError, ValueError):
            raise DataError(
                f"{samples.where}: sample '{samples.ids[row]}': expected a number as label, got '{label}'"
            ) from None
    return np.array(numbers)


def _write(folder: Path, name: str, modality: Modality, joined: Joined) -> int:
    """Write one modality; return how many of its numbers were NaN or infinite and are 0 now."""
    kept = [modality.samples[row] for row in joined.rows[name]]
    if modality.kind == "sentences":
        (folder / "text.json").write_text(json.dumps(kept), encoding="utf-8")
        return 0
    if modality.kind != "flat":
        lengths: IdArray = np.array([len(sample) for sample in kept], dtype=np.int64)
        np.save(folder / f"{name}_lengths.npy", lengths)
    with np.errstate(over="ignore"):
        joint = np.array(kept) if modality.kind == "flat" else np.concatenate(kept)
        array = joint.astype(np.int64 if modality.kind == "tokens" else np.float32)
    bad = ~np.isfinite(array)
    array[bad] = 0
    np.save(folder / f"{name}.npy", array)
    return int(bad.sum())


def _check_widths(modality: Modality, rows: list[int], known: list[Any]) -> None:
    """Refuse samples of another number of features than the first one's; ``known`` says where that is, and how many."""
    where, width = known
    for row in rows:
        found = modality.samples[row].shape[-1]
        if found != width:
            raise DataError(f"{modality.where}: sample {row} has {found} features, but the first of {where} {width}")


def _write_scaling(folder: Path, name: str) -> None:
    """Write mean and deviation of the training samples' steps, read in blocks; constant features get infinity."""
    array = np.load(folder / "train" / f"{name}.npy", mmap_mode="r")
    blocks = np.array_split(array, max(1, array.nbytes // 2**26))
    mean_d = sum(block.sum(axis=0, dtype=np.float64) for block in blocks) / len(array)
    square_d = sum(np.square(block - mean_d).sum(axis=0) for block in blocks) / len(array)
    same_d = np.all([np.all(block == array[0], axis=0) for block in blocks], axis=0)
    np.save(folder / f"{name}_mean.npy", mean_d)
    np.save(folder / f"{name}_deviation.npy", np.where(same_d | (square_d == 0), np.inf, np.sqrt(square_d)))
