"""Cleaned samples of any layout, stored once; every party maps its own modality's files and reads no others.

    CACHE/KEY/report.json                      sizes, kinds, dropped IDs and replaced values
              {train,val,test}/NAME.npy        steps of all samples, one after the other [s, d]; flat features [n, d];
                                               token IDs [s]
                               NAME_lengths.npy    [n], but for flat features
                               text.json       sentences
                               labels.npy  ids.npy  present.npy    [n, 3], of a store of samples that any has
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

from flexray.core.conforming import conforms
from flexray.core.errors import DataError
from flexray.core.files import check_file, failing, open_array
from flexray.data.base import Array, Fitted, Split
from flexray.data.rows import fit_scaling
from flexray.data.sentiment.layouts import Layout
from flexray.data.sentiment.samples import PARTIES, Samples, join

log = logging.getLogger("flexray")

REPORT = {
    "layout": str, "sizes": dict[str, int], "dropped": dict[str, dict[str, list[str]]], "replaced": dict[str, int],
    "kinds": dict[str, str], "where": dict[str, dict[str, str]], "widths": dict[str, list[Any]],
}  # fmt: skip
"""Content of a report, by split or modality; see :func:`flexray.core.conforming.conforms`."""
VERSION = 2
"""Part of the key: raise it whenever the content of a store changes."""


@dataclass(frozen=True)
class Store:
    """The folder CACHE/KEY and its report."""

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


def open_store(layout: Layout, cache: Path, salt: str, union: bool = False) -> Store:
    """Return the store of a layout's files in a cache, made now if there is none of the same files, sizes and dates.

    ``salt`` is further text that the content depends on; with ``union`` it has samples that lack a modality, too.

    Raises:
        DataError: The files do not fit their layout, or the cache cannot be written.
    """
    stats = [(str(file), check_file(file), file.stat().st_mtime_ns) for file in layout.files]
    key = hashlib.sha256(repr((VERSION, salt, stats, *(["union"] if union else []))).encode()).hexdigest()[:16]
    folder = cache / key
    if store := _opened(folder):
        return store
    if os.path.exists(folder):
        log.warning("dataset.cache: %s is damaged, so it is made again", folder)
    _make(layout, folder, union)
    return Store(folder, _json(folder / "report.json"))


def _opened(folder: Path) -> Store | None:
    """Return the store in a folder if it is there and whole."""
    try:
        store = Store(folder, _json(folder / "report.json"))
        if not conforms(store.report, REPORT) or not set(PARTIES) <= set(store.report["kinds"]):
            return None
        for split in store.report["sizes"]:
            if not {*PARTIES, "labels"} <= set(store.report["where"][split]):
                return None
            _check_split(store, split)
        for name, kind in store.report["kinds"].items():
            if kind in ("steps", "flat"):
                store.scaling(name)
        return store
    except (OSError, ValueError, EOFError, KeyError, TypeError, AttributeError, RecursionError):
        return None  # damaged in any way: it is made again


def _json(file: Path) -> Any:
    check_file(file)
    return json.loads(file.read_text(encoding="utf-8"))


def _check_split(store: Store, split: Split) -> None:
    """Refuse files of other lengths than in the report."""
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


def _make(layout: Layout, folder: Path, union: bool) -> None:
    """Write a store beside its place, then move it there: two runs may make the same one at once."""
    splits = layout.read()
    with failing(f"dataset.cache: cannot write to {folder.parent}"):
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix="draft-", dir=folder.parent))
    try:
        report: dict[str, Any] = {key: {} for key in REPORT} | {"layout": layout.name}
        for split, samples in splits.items():
            _write_split(draft / split, samples, report, split, union)
        for name, kind in report["kinds"].items():
            if kind in ("steps", "flat"):
                array = open_array(draft / "train" / f"{name}.npy")
                rows = np.arange(len(array))
                if union and kind == "flat":
                    present_nk = open_array(draft / "train" / "present.npy")
                    rows = np.flatnonzero(present_nk[:, PARTIES.index(name)])
                cuts = np.array_split(rows, max(1, array.nbytes // 2**26))
                for key, values in fit_scaling(array, rows, cuts).items():
                    np.save(draft / f"{name}_{key}.npy", values)
        (draft / "report.json").write_text(json.dumps(report), encoding="utf-8")
        if _opened(folder) is None:  # there may be a damaged one
            shutil.rmtree(folder, ignore_errors=True)
            draft.replace(folder)
    except OSError as error:
        if _opened(folder) is None:
            raise DataError(f"dataset.cache: cannot write {folder}: {error.strerror}") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _write_split(folder: Path, samples: Samples, report: dict[str, Any], split: Split, union: bool) -> None:
    folder.mkdir()
    rows, report["dropped"][split] = join(samples, union)
    if union:
        np.save(folder / "present.npy", np.array([rows[name] for name in PARTIES]).T >= 0)
    np.save(folder / "labels.npy", _labels(samples, rows["labels"]))
    report["where"][split] = {"labels": samples.where} | {name: m.where for name, m in samples.modalities.items()}
    np.save(folder / "ids.npy", np.array([samples.ids[row] for row in rows["labels"]]))
    report["sizes"][split] = len(rows["labels"])
    for name, modality in samples.modalities.items():
        if report["kinds"].setdefault(name, modality.kind) != modality.kind:
            raise DataError(f"{modality.where}: holds {modality.kind}, but the split before it {report['kinds'][name]}")
        kept = {row: modality.samples[row] for row in rows[name] if row >= 0}
        if not kept:
            raise DataError(f"{modality.where}: has none of the samples of this split")
        if modality.kind in ("steps", "flat"):
            widths = {row: sample.shape[-1] for row, sample in kept.items()}
            first = [modality.where, next(iter(widths.values()))]
            where, width = report["widths"].setdefault(name, first)
            for row, found in widths.items():
                if found != width:
                    told = f"sample {row} has {found} features, but the first of {where} {width}"
                    raise DataError(f"{modality.where}: {told}")
        first_kept = next(iter(kept.values()))
        nothing = np.zeros_like(first_kept) if modality.kind == "flat" else first_kept[:0]
        replaced = _write(folder, name, modality.kind, [kept.get(row, nothing) for row in rows[name]])
        report["replaced"][name] = report["replaced"].get(name, 0) + replaced


def _labels(samples: Samples, rows: list[int]) -> Array:
    """Return the labels of ``rows`` as numbers, none as an object."""
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


def _write(folder: Path, name: str, kind: str, samples: list[Any]) -> int:
    """Write one modality with 0 for NaN and infinity; return the number of these."""
    if kind == "sentences":
        (folder / "text.json").write_text(json.dumps(samples), encoding="utf-8")
        return 0
    if kind != "flat":
        np.save(folder / f"{name}_lengths.npy", np.array([len(sample) for sample in samples], dtype=np.int64))
    with np.errstate(over="ignore"):
        joint = np.array(samples) if kind == "flat" else np.concatenate(samples)
        array = joint.astype(np.int64 if kind == "tokens" else np.float32)
    bad = ~np.isfinite(array)
    array[bad] = 0
    np.save(folder / f"{name}.npy", array)
    return int(bad.sum())
