"""The rounds that an earlier run recorded in its folder, for ``speeds=replay`` to repeat."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flexray.algorithms.replay import Recorded
from flexray.core.absence import RecordedAbsences
from flexray.core.checks import shown
from flexray.core.errors import ConfigError, DataError, RunFolderError
from flexray.core.runfolder import ROUNDS_FILE, SUMMARY_FILE, parse_list, read_json, read_table

COLUMNS = ("round", "sim_time", "duration", "tau", "lr")
OVERRIDES = ("iterations", "unit_time", "utilization")


@dataclass(frozen=True)
class Recording:
    """The rounds of a run folder.

    Args:
        folder: The run folder.
        rounds: Its rounds (VAFL: events), in order.
        summary: Its ``summary.json``; empty if there is none, as of a run that was stopped.
    """

    folder: Path
    rounds: tuple[Recorded, ...]
    summary: dict[str, Any]

    @property
    def by_turns(self) -> bool:
        """Whether the run was asynchronous (VAFL)."""
        return self.rounds[0].party is not None

    @property
    def time_unit(self) -> str:
        """Unit of its times."""
        return str(self.summary.get("time_unit", "units"))

    @property
    def absences(self) -> RecordedAbsences | None:
        """Who missed which rounds; None if the run simulated no absence."""
        absent = [recorded.absent for recorded in self.rounds]
        return None if absent[0] is None else RecordedAbsences(tuple(away or frozenset() for away in absent))

    def check_algorithm(self, algo: str, takes_turns: bool) -> None:
        """Refuse to call the repetition of one algorithm by another's name."""
        recorded = self.summary.get("algo", algo if self.by_turns == takes_turns else None)
        if recorded != algo:
            expected = f"algo={recorded}" if recorded else "algo=vafl" if self.by_turns else "another than algo=vafl"
            raise ConfigError(f"algo: {algo} is chosen, but {self.folder} recorded another; expected {expected}")

    def limit(self, rounds: int | None) -> int:
        """Return how many rounds to repeat: as many as ``rounds`` says, by default all."""
        count = len(self.rounds)
        if rounds is not None and rounds > count:
            raise ConfigError(f"rounds: {rounds} is more than the {count} that {self.folder} recorded")
        return rounds or count


def chosen_recording(config: Mapping[str, Any], names: Sequence[str], base_dir: Path) -> Recording | None:
    """Return the run that ``speeds=replay`` repeats; None with any other choice.

    Args:
        config: The composed configuration.
        names: Participants, ``server`` last.
        base_dir: Folder that a relative ``speeds.path`` starts from.
    """
    node = config["speeds"]
    if node["kind"] != "replay":
        return None
    if not node["path"]:
        raise ConfigError(f"speeds.path: expected the folder of an earlier run, got {shown(node['path'])}")
    for key in OVERRIDES:
        if node[key] is not None:
            raise ConfigError(f"speeds.{key}: not used with speeds=replay, which repeats what was recorded")
    return read_recording(base_dir / Path(node["path"]).expanduser(), names)


def read_recording(folder: Path, names: Sequence[str]) -> Recording:
    """Read ``rounds.csv`` and ``summary.json`` of a run folder.

    Args:
        folder: The run folder.
        names: Participants of the run that is to repeat it, ``server`` last.

    Raises:
        DataError: A file is missing, a row is malformed, or the participants are others.
    """
    path = folder / ROUNDS_FILE
    try:
        table = read_table(path, unfinished=False)
    except RunFolderError as error:
        raise DataError(f"speeds.path: cannot read {path}: {error}; expected the folder of an earlier run") from error
    missing = [column for column in COLUMNS if column not in table]
    if missing:
        raise DataError(f"{path}: column '{missing[0]}' is missing; expected the {ROUNDS_FILE} of a run folder")
    rows = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
    if not rows:
        raise DataError(f"{path}: has no rounds to repeat")
    rounds = tuple(_row(f"{path}, row {place + 2}", place, row, names) for place, row in enumerate(rows))
    _check_order(path, rounds)
    return Recording(folder, rounds, _summary(folder / SUMMARY_FILE))


def _row(where: str, place: int, row: dict[str, str], names: Sequence[str]) -> Recorded:
    """Return a row; ``where`` names file and line."""
    if _number(where, row, "round") != place + 1:
        raise DataError(f"{where}: expected round {place + 1}, got {row['round']}")
    tau = tuple(int(t) for t in _numbers(where, row, "tau", names, whole=True))
    utilization = _numbers(where, row, "utilization", names) if row.get("utilization") else (0.0,) * len(names)
    party = row.get("party")
    if party and party not in names[:-1]:
        raise DataError(f"{where}: party '{party}' is none of this run's: {', '.join(names[:-1])}")
    return Recorded(
        end=_number(where, row, "sim_time"),
        duration=_number(where, row, "duration"),
        tau=tau,
        lr=_numbers(where, row, "lr", names),
        utilization=utilization,
        party=list(names).index(party) if party else None,
        absent=_absent(where, row.get("absent"), names[:-1], tau),
    )


def _absent(where: str, text: str | None, parties: Sequence[str], tau: Sequence[int]) -> frozenset[int] | None:
    """Return the parties of a JSON list of names; None where there is no list, as of a run without absences."""
    if not text:
        return None
    absent = parse_list(text)
    if absent is None or not all(name in parties for name in absent):
        raise DataError(f"{where}: absent: expected a JSON list of some of {', '.join(parties)}, got {text!r}")
    places = frozenset(list(parties).index(name) for name in absent)
    for k in sorted(places):
        if tau[k]:
            raise DataError(f"{where}: absent: '{parties[k]}' is, but its tau is {tau[k]}; expected 0")
    return places


def _number(where: str, row: dict[str, str], column: str) -> float:
    try:
        value = float(row[column])
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise DataError(f"{where}: {column}: expected a number of at least 0, got {row[column]!r}")
    return value


def _numbers(
    where: str, row: dict[str, str], column: str, names: Sequence[str], whole: bool = False
) -> tuple[float, ...]:
    """Return a JSON list with one number per participant."""
    kinds = (int,) if whole else (int, float)
    values = parse_list(row[column])
    if values is None or not all(type(v) in kinds and 0 <= v < math.inf for v in values):
        kind = "whole numbers" if whole else "numbers"
        raise DataError(f"{where}: {column}: expected a JSON list of {kind} of at least 0, got {row[column]!r}")
    if len(values) != len(names):
        raise DataError(
            f"{where}: {column}: {len(values)} participants were recorded, this run has {len(names)}:"
            f" {', '.join(names)}"
        )
    return tuple(values)


def _check_order(path: Path, rounds: Sequence[Recorded]) -> None:
    for place in range(1, len(rounds)):
        if rounds[place].end < rounds[place - 1].end * (1 - 1e-9):  # VAFL orders times that differ by rounding alone
            raise DataError(f"{path}, row {place + 2}: sim_time: is before that of the row before")
        if (rounds[place].party is None) != (rounds[0].party is None):
            raise DataError(f"{path}, row {place + 2}: party: expected one in all rows or in none")


def _summary(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        return read_json(path)
    except RunFolderError as error:
        raise DataError(f"{path.parent}/{error}") from error
