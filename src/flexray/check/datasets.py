"""What flexray relies on in a dataset.

Shapes: n = samples of a split, b = samples of a batch.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flexray.check.causes import Cause, Watch, changed, fingerprint, remembered
from flexray.check.promises import ELSEWHERE, BrokenError, Checks, same
from flexray.check.trial import first_difference
from flexray.core.errors import DataError
from flexray.data.base import SPLITS, Dataset, Features, IdArray, Outline, SavedModel, Split
from flexray.data.checks import check_features
from flexray.data.outlines import check_classes, check_outline, load_labels
from flexray.engine.parties.probe import check_sizes

REPEATS = "reads the same numbers again"
MOST = 64
"""Samples of a split that are looked at."""
UNSEEN = Cause("with nothing seen that may be why", "read from files, arguments and seeds of your own alone")
KINDS = (torch.float32, torch.float64)


@dataclass
class _Data:
    """A dataset as it is read.

    Args:
        make: Makes a fresh one.
        outline: Names, sizes and task.
        loaded: Features of the parties (0-based) that are looked at.
    """

    make: Callable[[], Dataset]
    outline: Outline
    loaded: dict[int, Mapping[Split, Features]]


def check_dataset(checks: Checks, factory: partial[Any], words: Mapping[str, Any]) -> None:
    """Check a dataset: its outline and labels, every party's features, and what a saved model needs of it."""
    with checks.promise("has an outline with names, sizes and a task"):
        outline = check_outline(factory().outline(), factory(), predicts=False)
    if checks.broke():
        return
    data = _Data(factory, outline, {})
    _labels(checks, data)
    with checks.promise("returns every split of every party, as long as the outline says"):
        for party in _parties(outline):
            data.loaded[party] = factory().features(party, torch.float32)
            check_sizes(outline.parties[party], data.loaded[party], outline.sizes)
    if checks.broke():
        return
    for check in (_is_finite, _has_the_dtype, _reads_by_row, _hands_out_copies):
        check(checks, data)
    _repeats(checks, data)
    _scales_again(checks, data)
    _serves_a_saved_model(checks, data)


def _parties(outline: Outline) -> list[int]:
    """Return the parties (0-based) that are looked at: the first two and the last."""
    count = len(outline.parties)
    return sorted({*range(min(2, count)), count - 1})


def _splits(outline: Outline, features: Mapping[Split, Features]) -> list[tuple[Split, Features, IdArray]]:
    """Return the splits that have samples, their features, and IDs of some samples from all over them."""
    sizes = [(split, outline.sizes[split]) for split in SPLITS if outline.sizes[split]]
    ids = [np.unique(np.linspace(0, size - 1, min(size, MOST)).astype(np.int64)) for _, size in sizes]
    return [(split, features[split], own) for (split, _), own in zip(sizes, ids, strict=True)]


def _labels(checks: Checks, data: _Data) -> None:
    with checks.promise("has a label of the task for every sample"):
        dataset = data.make()
        labels = load_labels(dataset, data.outline, predicts=False)
        check_classes(labels["train"], dataset, data.outline)
    with checks.promise("names every sample"):
        for split in SPLITS:
            found, expected = len(data.make().sample_ids(split)), data.outline.sizes[split]
            if found != expected:
                raise BrokenError(
                    f"sample_ids('{split}') has {found} entries, its outline {expected} samples", "expected as many"
                )


def _batch(features: Features, ids_b: IdArray, epoch: int = 0) -> tuple[Tensor, ...]:
    batch = features.batch(ids_b, epoch)
    return batch if isinstance(batch, tuple) else (batch,)


def _is_finite(checks: Checks, data: _Data) -> None:
    with checks.promise("returns batches [samples, *sample_shape] of finite numbers"):
        for party, loaded in data.loaded.items():
            name, shapes = data.outline.parties[party], set()
            for split, features, ids in _splits(data.outline, loaded):
                parts = _batch(features, ids)
                first = parts[0]
                shapes.add(tuple(features.sample_shape))
                expected = (len(ids), *features.sample_shape)
                is_padded = len(parts) > 1  # to the longest of the batch
                if not isinstance(first, Tensor) or (tuple(first.shape) != expected and not is_padded):
                    found = tuple(first.shape) if isinstance(first, Tensor) else f"a {type(first).__name__}"
                    raise DataError(f"party '{name}': a batch of {split} is {found}, expected a tensor {expected}")
                for part in parts:
                    array = part.numpy()
                    check_features(array.reshape(len(array), -1), f"party '{name}': {split}")
            if len(shapes) > 1:
                raise DataError(f"party '{name}': its splits have samples of shapes {', '.join(map(str, shapes))}")


def _has_the_dtype(checks: Checks, data: _Data) -> None:
    with checks.promise("returns numbers of the dtype that is asked for", "end with .to(dtype), or use ArrayFeatures"):
        for dtype in KINDS:
            loaded = data.loaded[0] if dtype == torch.float32 else data.make().features(0, dtype)
            for split, features, ids in _splits(data.outline, loaded):
                found = _batch(features, ids[:2])[0].dtype
                if found.is_floating_point and found != dtype:
                    raise DataError(f"a batch of {split} is {found}, asked for {dtype}")


def _reads_by_row(checks: Checks, data: _Data) -> None:
    with checks.promise("reads a sample as the same numbers in any batch", "row i of a batch belongs to ids[i]"):
        for party, loaded in data.loaded.items():
            for split, features, ids in _splits(data.outline, loaded):
                whole, order = _batch(features, ids.copy()), ids[::-1].copy()
                for rows in (order, ids[:1], ids[len(ids) // 2 :]):
                    asked = rows.copy()
                    part = _batch(features, asked)
                    if not np.array_equal(asked, rows):
                        raise ValueError(f"a batch of {split} changes the IDs that it is given")
                    if not _agree(part, whole, np.searchsorted(ids, rows)):
                        raise ValueError(f"party '{data.outline.parties[party]}': {split}: samples differ by batch")


def _agree(part: tuple[Tensor, ...], whole: tuple[Tensor, ...], rows: IdArray) -> bool:
    """Whether tensors of some rows hold what those of all rows have there, as far as they are padded."""
    places = torch.from_numpy(rows)
    for some, every in zip(part, whole, strict=True):
        own = every[places][tuple(slice(size) for size in (len(rows), *some.shape[1:]))]
        if own.shape != some.shape or not torch.equal(some, own):
            return False
    return True


def _hands_out_copies(checks: Checks, data: _Data) -> None:
    with checks.promise("hands out new tensors, which a model may edit", "index with the IDs, or clone()"):
        for split, features, ids in _splits(data.outline, data.loaded[0]):
            for rows in (ids, np.arange(data.outline.sizes[split])[:MOST]):
                with warnings.catch_warnings():
                    warnings.filterwarnings("error", message=".*not writable")
                    before = fingerprint(_batch(features, rows))
                    for part in _batch(features, rows):
                        part.zero_()
                if fingerprint(_batch(features, rows)) != before:
                    raise ValueError(f"editing a batch of {split} changes the next one")


def _all(outline: Outline, dataset: Dataset) -> dict[str, str]:
    """Return fingerprints of all that was read of some samples."""
    found = {"names, sizes or task": repr(check_outline(dataset.outline(), dataset, predicts=False))}
    for split, labels in dataset.labels().items():
        found[f"labels of {split}"] = fingerprint(np.asarray(labels))
        found[f"IDs of {split}"] = fingerprint(dataset.sample_ids(split))
    for party in reversed(_parties(outline)):
        for split, features, ids in _splits(outline, dataset.features(party, torch.float32)):
            where = f"features of {split} of party '{outline.parties[party]}'"
            found |= {f"{where} in epoch {epoch}": fingerprint(_batch(features, ids, epoch)) for epoch in (0, 1)}
    return found


def _repeats(checks: Checks, data: _Data) -> None:
    """Read again: another dataset of the same arguments, the same one, and one in another process."""
    dataset, first = data.make(), dict[str, str]()
    with checks.promise(REPEATS):
        before = remembered(dataset)
        with Watch(checks.target, 1, seeds_torch=True, sees=False):
            first = _all(data.outline, dataset)
        names = changed(before, remembered(dataset))
        mend = "compute it from files and arguments"
        kept = [Cause(f"'self.{name}' changes when it is read", mend) for name in names]
        with Watch(checks.target, 2, seeds_torch=True) as watch:
            second, again = _all(data.outline, data.make()), _all(data.outline, dataset)
        for found in (second, again):
            same(found, first, f"{first_difference(found, first)} differ", UNSEEN, lambda: watch.causes or kept)
    mend = "copy an array before it is edited; open files when they are read"
    with checks.promise("reads the same in every process, where its own arrays are read-only", mend):
        dataset = data.make()
        dataset.outline()  # as the driver does, before it sends it
        found = checks.elsewhere(partial(_all, data.outline), dataset)
        if not checks.broke(REPEATS):
            same(found, first, f"{first_difference(found, first)} differ", ELSEWHERE)


def _scales_again(checks: Checks, data: _Data) -> None:
    """New data is scaled as the training data was."""
    names = data.outline.parties
    fitted = {names[party]: getattr(loaded["train"], "fitted", {}) for party, loaded in data.loaded.items()}
    if not any(fitted.values()):
        return
    with checks.promise("scales by what was fitted before", "return a copy that uses what with_fitted was given"):
        moved = {name: {key: np.asarray(value) + 1 for key, value in own.items()} for name, own in fitted.items()}
        party, name = next((k, name) for k, name in enumerate(names) if fitted.get(name))
        ids = np.arange(min(MOST, data.outline.sizes["test"]))
        again = [data.make().with_fitted(values).features(party, torch.float32) for values in (fitted, moved)]
        own, kept, other = (fingerprint(_batch(features["test"], ids)) for features in (data.loaded[party], *again))
        if kept != own:
            raise ValueError(f"party '{name}': with its own scaling, test samples become others")
        if other == own:
            raise ValueError(f"party '{name}': with_fitted changes nothing")


def _serves_a_saved_model(checks: Checks, data: _Data) -> None:
    with checks.promise("is the same for a saved model of its own"):
        task = data.outline.task
        dataset = data.make().for_prediction(SavedModel(task.num_outputs, task.classes))
        outline = check_outline(dataset.outline(), dataset, predicts=True)
        for what in ("parties", "sizes", "task"):
            found, expected = getattr(outline, what), getattr(data.outline, what)
            if found != expected:
                raise BrokenError(
                    f"for_prediction gives it the {what} {found}, not {expected}", "expected a copy with the same ones"
                )
