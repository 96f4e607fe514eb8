"""Which columns of which file each party of a table has: as they are listed, or dealt out.

Shapes: n = rows of a file, f = columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from flexray.core.errors import ConfigError, DataError, near_match
from flexray.data.checks import check_party_name, check_path, name_list, plain_mapping
from flexray.data.columns import FloatArray, header, numbers, read
from flexray.data.cuts import Deal

Parties = Mapping[str, Sequence[str]] | Sequence[str] | int | None


@dataclass
class Holdings:
    """The columns and files of all parties; arguments as for :class:`flexray.data.table.Table`.

    Args:
        path: The one file, or None.
        parties: Party -> its columns; with a ``deal`` of another kind, names or their number.
        given_files: Party -> its file, or None.
        labels_file: The file with the label column, if it is named.
        label: Name of the label column.
        id: Name of the ID column, if there is one.
        shared: Whether a column may be given to more than one party.
        deal: How the columns of the one file go to parties.
        pool: The columns that are dealt out; None: all but label and ID.

    Raises:
        ConfigError: An argument is missing, unknown or contradicts another.
    """

    path: str | Path | None
    parties: Parties
    given_files: Mapping[str, str | Path] | None
    labels_file: str | Path | None
    label: str
    id: str | None
    shared: bool
    deal: Deal
    pool: Sequence[str] | None

    def __post_init__(self) -> None:
        self._is_dealt = self.deal.how != "columns"
        self.listed: dict[str, list[str]] = {}
        if self._is_dealt:
            self._names = self.deal.names(self.parties)
            self.pool = None if self.pool is None else self._features("dataset.columns", self.pool)
        else:
            self.listed = self._check_listed(plain_mapping("dataset.parties", self.parties))
            self._names = list(self.listed)
        if self.pool is not None and not self._is_dealt:
            raise ConfigError("dataset.columns: goes with dataset.cut only; dataset.parties lists the columns")
        for name in self._names:
            check_party_name(name, "dataset.parties")
        files = plain_mapping("dataset.files", self.given_files)
        self.paths = self._check_files(files)
        self.files = self.paths if files else None
        self._refuse_shared(self.listed)

    def of(self, name: str) -> dict[str, str]:
        """Return one party's columns, each with the key that asks for it."""
        file = self.paths[name]
        if self._is_dealt:
            self.listed = self.listed or self._dealt(file)
            return dict.fromkeys(self.listed[name], "dataset.columns")
        if name in self.listed:
            return dict.fromkeys(self.listed[name], f"dataset.parties.{name}")
        columns = [column for column in header(file, {}) if column not in (self.id, self.label)]
        if not columns:
            raise DataError(f"{file}: {_nothing_of(name)}, with dataset.labels_file={file}")
        if "" in columns:
            raise DataError(f"{file}: a column has no name; list the columns of '{name}' in dataset.parties.{name}")
        return dict.fromkeys(columns, f"dataset.files.{name}")

    def check(self) -> dict[str, dict[str, str]]:
        """Return the columns of all parties; every one is in its file, and given to one party."""
        columns = {name: self.of(name) for name in self.paths}
        for name, file in self.paths.items():
            header(file, columns[name] | ({self.id: "dataset.id"} if self.id else {}))
        self._refuse_shared(columns)
        return columns

    def cut(self) -> dict[str, tuple[str, ...]]:
        """Return the columns that were dealt to every party; empty: they were listed."""
        return {name: tuple(self.of(name)) for name in self._names} if self._is_dealt else {}

    def keep(self, cut: Mapping[str, Sequence[str]]) -> None:
        """Take over how an earlier run dealt columns out."""
        if self._is_dealt and list(cut) == self._names:
            self.listed = {name: list(columns) for name, columns in cut.items()}

    def _dealt(self, file: Path) -> dict[str, list[str]]:
        names, count = self._names, len(self._names)
        pool = list(self.pool or (column for column in header(file, {}) if column not in (self.id, self.label)))
        if "" in pool:
            raise DataError(f"{file}: a column has no name; list the others in dataset.columns")
        if len(pool) < count:
            raise ConfigError(f"dataset.parties: {count} parties have no column each of the {len(pool)} in {file}")

        def features_nf() -> FloatArray:
            table = read(file, dict.fromkeys(pool, "dataset.columns"))
            return np.column_stack([numbers(table[column], f"{file}: column '{column}'") for column in pool])

        cut = self.deal.cut(len(pool), count, features_nf)
        return {name: [pool[place] for place in part] for name, part in zip(names, cut, strict=True)}

    def _check_listed(self, parties: dict[str, Any]) -> dict[str, list[str]]:
        listed = {}
        for name, columns in parties.items():
            key = f"dataset.parties.{name}"
            check_party_name(name, "dataset.parties")
            if isinstance(columns, Sequence) and not columns:
                raise ConfigError(f"{key}: {_nothing_of(name)}")
            listed[name] = self._features(key, columns)
        return listed

    def _features(self, key: str, columns: Any) -> list[str]:
        """Return names of columns, none of which is the label's or the ID's."""
        names = name_list(key, columns)
        for column, role in ((self.label, "label"), (self.id, "ID")):
            if column in names:
                raise ConfigError(f"{key}: '{column}' is the {role} column, it cannot be a feature")
        return names

    def _check_files(self, files: dict[str, Any]) -> dict[str, Path]:
        """Return the file of every party."""
        if bool(files) == bool(self.path):
            raise ConfigError(
                "dataset.path: expected either a CSV or Parquet file here, or dataset.files with one file per party,"
                f" got {'both' if files else 'neither'}"
            )
        if self.path:
            if not self._names:
                raise ConfigError("dataset.parties: expected the columns of each party, got none")
            if self.labels_file:
                raise ConfigError("dataset.labels_file: goes with dataset.files only; dataset.path holds the labels")
            return dict.fromkeys(self._names, Path(self.path))
        if self._is_dealt:
            raise ConfigError(f"dataset.files: expected dataset.path with dataset.cut={self.deal.how}")
        if not self.id:
            raise ConfigError("dataset.id: expected the ID column that joins dataset.files, got none")
        for name, file in files.items():
            check_party_name(name, "dataset.files")
            check_path(f"dataset.files.{name}", file)
        for name in self.listed:
            if name not in files:
                raise ConfigError(f"dataset.parties: '{name}' has no file in dataset.files{near_match(name, files)}")
        return {name: Path(file) for name, file in files.items()}

    def _refuse_shared(self, columns: Mapping[str, Sequence[str] | dict[str, str]]) -> None:
        owner: dict[tuple[Path, str], str] = {}
        for name in columns:
            for column in columns[name]:
                first = owner.setdefault((self.paths[name], column), name)
                if first != name and not self.shared:
                    raise ConfigError(
                        f"dataset.parties: column '{column}' is given to both '{first}' and '{name}';"
                        " set dataset.shared_columns=true if that is meant"
                    )


def _nothing_of(name: str) -> str:
    return f"party '{name}' has no features; expected some, or labels_at=+{name} if the labels are all that it has"
