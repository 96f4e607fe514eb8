"""CSV and Parquet tables: columns of one file for each party, or one file per party joined on an ID.

Every party reads its own columns only (and, with one file per party, the IDs). pyarrow reads the files: it refuses a
CSV row with a field too many or too few, which pandas accepts when it reads some of the columns only.

Shapes: n = rows of a file or samples of a split, f = features of a party.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from typing_extensions import override

from flexray.core.checks import yes_or_no
from flexray.core.errors import ConfigError, near_match
from flexray.data.alignment import Aligned, Alignment, align_lists, check_alignment, presence
from flexray.data.base import ArrayFeatures, Features, Fitted, FittedDataset, IdArray, Outline, SavedModel, Split
from flexray.data.checks import check_path, check_split, check_task, check_test_split
from flexray.data.columns import header, is_numeric, numbers, read
from flexray.data.cuts import Deal
from flexray.data.holdings import Holdings, Parties
from flexray.data.rows import (
    align,
    check_class_count,
    class_numbers,
    fit_scaling,
    make_task,
    numbered,
    row_of_ids,
    scaled,
    split_rows,
)
from flexray.tasks import LabelArray, Loss, Task


@dataclass
class Table(FittedDataset):
    """Tabular data. Give either ``path`` and ``parties``, or ``files`` and ``id``.

    Text labels are class names: their sorted distinct values become the class numbers 0, 1, ...; so do numbers with
    gaps. Rows are in the order of the file that holds the labels.

    Args:
        path: One CSV or Parquet file.
        label: Name of the label column; required.
        parties: Party -> its columns. With ``files``, parties left out get all columns but ID and label. With another
            ``cut``, names of the parties, or their number.
        files: Party -> its own CSV or Parquet file.
        labels_file: With ``files``: the file with the label column, unless exactly one party's file has it.
        id: Name of the ID column; required with ``files``.
        alignment: With ``files`` whose IDs differ: ``intersection``, the samples that all parties have, or ``union``,
            those that any has. None: all files must have the same IDs.
        loss: ``cross_entropy``, ``l1`` or ``mse``.
        num_outputs: Number of classes, 0 .. num_outputs-1; by default as many as there are labels.
        test_fraction: Part of the rows that is the test split.
        val_fraction: Part of the rows that is the validation split.
        split_seed: Draws the splits.
        shared_columns: Allow that a column is given to more than one party.
        standardize: Scale each column to mean 0 and variance 1 over the training rows; a constant column becomes 0.
        cut: How the columns of ``path`` go to parties: ``columns``: as ``parties`` lists them; ``equal`` parts in
            order; by ``importance`` or ``correlation``, see :mod:`flexray.data.cuts`.
        alpha: For ``importance``: the smaller, the less equal the parties' shares.
        beta: For ``correlation``: from 0, columns that correlate are together, to 1, they are apart.
        cut_seed: Draws the cut.
        columns: The columns that are cut; None: all but label and ID.

    Raises:
        ConfigError: An argument is missing, unknown or contradicts another.
    """

    path: str | Path | None = None
    label: str = ""
    parties: Parties = None
    files: Mapping[str, str | Path] | None = None
    labels_file: str | Path | None = None
    id: str | None = None
    alignment: Alignment | None = None
    loss: Loss = "cross_entropy"
    num_outputs: int | None = None
    test_fraction: float = 0.2
    val_fraction: float = 0.0
    split_seed: int = 0
    shared_columns: bool = False
    standardize: bool = True
    cut: str = "columns"
    alpha: float = 1.0
    beta: float = 0.5
    cut_seed: int = 0
    columns: Sequence[str] | None = None

    def __post_init__(self) -> None:
        for key in ("path", "labels_file"):
            check_path(f"dataset.{key}", getattr(self, key))
        check_split(self.val_fraction, self.split_seed)
        check_test_split(self.test_fraction, self.val_fraction)
        check_task(self.loss, self.num_outputs)
        for key in ("shared_columns", "standardize"):
            yes_or_no(f"dataset.{key}", getattr(self, key))
        if not self.label:
            raise ConfigError("dataset.label: expected the name of the label column, got none")
        self.label, self.id = str(self.label), None if self.id is None else str(self.id)
        self._held = Holdings(
            self.path, self.parties, self.files, self.labels_file, self.label, self.id, self.shared_columns,
            Deal(self.cut, self.alpha, self.beta, self.cut_seed), self.columns,
        )  # fmt: skip
        self._paths, self.files = self._held.paths, self._held.files
        self.parties = (self._held.listed or None) if self.cut == "columns" else list(self._paths)
        if check_alignment(self.alignment) and not self.files:
            raise ConfigError("dataset.alignment: goes with dataset.files only; a row of dataset.path is one sample")
        self._label_key = {self.label: "dataset.label"}
        self._id_key = {self.id: "dataset.id"} if self.id else {}

    def outline(self) -> Outline:
        """Read the header of every file, and the label column."""
        self._held.check()
        file = self._labels_path()
        table = read(file, self._row_key(file))
        if self._is_labelled(file):
            task = self._decode(file, table)[1]
        else:
            task = make_task(self.loss, self.num_outputs, classes=self._classes)
        aligned = self._aligned
        rows = self._rows(table.num_rows if aligned is None else len(aligned.rows_n))
        sizes = {split: len(own) for split, own in rows.items()}
        present = presence({split: aligned.taken(own) for split, own in rows.items()} if aligned else {})
        return Outline(tuple(self._paths), sizes, task, "files", self._held.cut(), present)

    def features(self, party: int, dtype: torch.dtype) -> Mapping[Split, Features]:
        """Read one party's columns as [n, f]; with one file per party, bring its rows into the labels' order."""
        name = tuple(self._paths)[party]
        file, columns = self._paths[name], self._held.of(name)
        table = read(file, columns | self._id_key)
        features_nf = np.column_stack([numbers(table[column], f"{file}: column '{column}'") for column in columns])
        aligned = self._aligned
        if aligned is not None:
            features_nf = features_nf[aligned.rows_nk[:, party]]  # the last row where it has none, which nobody reads
        elif self.files:
            other = self._labels_path()
            own, wanted = self._row_of_ids(file, table), self._row_of_ids(other, read(other, self._id_key))
            features_nf = features_nf[align(own, wanted, f"{file}: party '{name}'", str(other))]
        rows = self._rows(len(features_nf))
        fitted: Fitted = {}
        if self.standardize:
            train = rows["train"]
            train = train if aligned is None else train[aligned.present_nk[train, party]]
            fitted = self._fitted[name] if self._fitted else fit_scaling(features_nf, train)
            features_nf = scaled(features_nf, fitted)
        return {split: ArrayFeatures(features_nf, dtype, rows[split], fitted) for split in rows}

    @override
    def for_prediction(self, model: SavedModel) -> Self:
        """Return this table for a saved model, of which each party keeps its columns."""
        again = super().for_prediction(model)
        again._held = copy.copy(again._held)
        again._held.keep(model.columns)
        return again

    @property
    def is_whole(self) -> bool:
        """Whether this is new data for a saved model."""
        return self._saved is not None and self._saved.has_new_data

    def labels(self) -> Mapping[Split, LabelArray]:
        """Read the labels, and refuse IDs that occur twice."""
        file = self._labels_path()
        table = read(file, self._row_key(file) | self._id_key)
        self._row_of_ids(file, table)
        if not self._is_labelled(file):
            return {}
        labels, task = self._decode(file, table)
        checked = task.check_labels(labels, f"{file}: column '{self.label}'")
        if (aligned := self._aligned) is not None:
            checked = checked[aligned.rows_n]
        return {split: checked[rows] for split, rows in self._rows(len(checked)).items()}

    def sample_ids(self, split: Split) -> npt.NDArray[Any]:
        """Return the IDs of a split's samples as text, or their row numbers where no ID column is named."""
        file = self._labels_path()
        table = read(file, self._row_key(file) | self._id_key)
        ids = np.array(list(self._row_of_ids(file, table)) or range(table.num_rows))
        if (aligned := self._aligned) is not None:
            ids = ids[aligned.rows_n]
        return ids[self._rows(len(ids))[split]]

    def _labels_path(self) -> Path:
        """Return the file that holds the labels."""
        if given := self.path or self.labels_file:
            return Path(given)
        headers = {name: header(file, {}) for name, file in self._paths.items()}
        holders = {self._paths[name]: name for name, header in headers.items() if self.label in header}
        if len(holders) > 1:
            parties = " and ".join(f"'{name}'" for name in holders.values())
            raise ConfigError(
                f"dataset.labels_file: parties {parties} both have a column '{self.label}'; name the file that counts"
            )
        for file in holders or (self._paths.values() if self._saved else ()):
            return file
        known = [column for header in headers.values() for column in header]
        raise ConfigError(f"dataset.label: no file has a column '{self.label}'{near_match(self.label, known)}")

    def _is_labelled(self, file: Path) -> bool:
        """Whether the file has labels; a prediction needs none."""
        return not self._saved or self.label in header(file, {})

    def _row_key(self, file: Path) -> dict[str, str]:
        """Return columns by which a file's rows are counted: the label or, without, those of a party."""
        if self._is_labelled(file):
            return self._label_key
        return next((self._held.of(name) for name, own in self._paths.items() if own == file), self._id_key)

    def _decode(self, file: Path, table: Any) -> tuple[LabelArray, Task]:
        """Return the labels as numbers, and their task; only :meth:`labels` checks their range."""
        column, where = table[self.label], f"{file}: column '{self.label}'"
        if self.loss != "cross_entropy" or is_numeric(column):
            labels: LabelArray = numbers(column, where)
            task = make_task(self.loss, self.num_outputs, labels, where=where, classes=self._classes)
            return numbered(labels, task, where), task
        labels, names = class_numbers(column.to_pylist(), where, self._classes)
        count = len(names)
        if self.num_outputs is None:
            check_class_count(count, len(labels), where)
        elif self.num_outputs < count:
            raise ConfigError(f"dataset.num_outputs: got {self.num_outputs}, but {where} has {count} different labels")
        return labels, Task(self.loss, self.num_outputs or count, classes=names)

    def _row_of_ids(self, file: Path, table: Any) -> dict[str, int]:
        """Return the row of every ID in a file; empty if no ID column is named."""
        values = table[self.id].to_pylist() if self.id else []
        texts = (None if value is None else str(value) for value in values)
        return row_of_ids(texts, f"{file}: column '{self.id}'")

    @cached_property
    def _aligned(self) -> Aligned | None:
        """Return the samples of files whose IDs may differ; None where all must have the same."""
        if self.alignment is None:
            return None
        file = self._labels_path()
        files = {file, *self._paths.values()}
        rows = {each: self._row_of_ids(each, read(each, self._id_key)) for each in files}
        return align_lists(
            rows[file], {name: rows[own] for name, own in self._paths.items()}, self.alignment, str(file)
        )

    def _rows(self, total: int) -> dict[Split, IdArray]:
        if self.is_whole:
            every = np.arange(total)
            return {"train": every, "val": every[:0], "test": every}
        where = str(self.path or self.labels_file or "dataset.files")
        return split_rows(total, self.test_fraction, self.val_fraction, self.split_seed, where)
