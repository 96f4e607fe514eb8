"""What a calibration found: the contents of its file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from flexray.core.errors import ConfigError
from flexray.core.files import failing

HEAD = """# Seconds of these machines, for python -m flexray.run speeds=measured speeds.path=THIS_FILE
# Numbers may be changed by hand; docs/time.md says what each is.
"""

COLUMNS = {
    "iteration": "iteration_s", "spread": "spread", "together": "together_s", "first": "first_s",
    "embedding": "embedding_s", "turn": "turn_s",
}  # fmt: skip
"""Titles of what is printed of participants, and the keys, as far as one of them has them."""


@dataclass(frozen=True)
class Calibration:
    """Seconds of participants and links, as they are in the file.

    Args:
        path: The file.
        about: When, where and how they were measured.
        participants: Seconds by participant.
        machines: Cores of machines on which participants wait for one another.
        round_s: Seconds of a round beside local iterations, embeddings and links.
        network: Keys of ``network``: the links between the processes.
        evaluation_s: Seconds of an evaluation, which no clock counts.
        driver_s: Seconds in which the driver is busy with a turn of VAFL.
    """

    path: Path
    about: Mapping[str, Any]
    participants: Mapping[str, Mapping[str, Any]]
    machines: Mapping[str, Mapping[str, float]]
    round_s: float
    network: Mapping[str, Any]
    evaluation_s: float
    driver_s: float = 0.0

    def __fspath__(self) -> str:
        """Return the path of the file, so that this can be given as ``speeds.path``."""
        return os.fspath(self.path)

    def write(self) -> None:
        """Write the file.

        Raises:
            ConfigError: It cannot be written.
        """
        with failing(f"file: {self.path}: cannot be written", ConfigError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(HEAD + "\n".join(self._lines()) + "\n", encoding="utf-8")

    def _lines(self) -> Iterator[str]:
        yield from _section("about", self.about)
        yield from _section("participants", self.participants)
        if self.machines:
            yield from _section("machines", self.machines)
        yield f"round_s: {_flow(self.round_s)}"
        yield from _section("driver", {"turn": self.driver_s})
        yield from _section("network", self.network)
        yield f"evaluation_s: {_flow(self.evaluation_s)}"

    def __repr__(self) -> str:
        return "\n".join([*self._rows(), f"written to {self.path}"])

    def _rows(self) -> Iterator[str]:
        """Yield a table, in milliseconds."""
        columns = {title: key for title, key in COLUMNS.items() if any(key in p for p in self.participants.values())}
        width = max(12, *map(len, self.participants))
        yield f"{'milliseconds':{width}}" + "".join(f"{title:>11}" for title in (*columns, "link"))
        for name, own in self.participants.items():
            cells = [_percent(own.get(key)) if key == "spread" else _ms(own.get(key)) for key in columns.values()]
            cells.append(_ms(self.network["t_comm"].get(name)))
            yield f"{name:{width}}" + "".join(f"{cell:>11}" for cell in cells)
        yield (
            f"a round besides: {_ms(self.round_s)}; the driver in a turn: {_ms(self.driver_s)};"
            f" an evaluation, not counted: {_ms(self.evaluation_s)}"
        )
        for name, node in self.machines.items():
            yield f"{name}: {node['cores']:g} cores for all participants there, who wait for one another"
        yield f"load: {self.about['load']}"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.0f} %"


def _ms(seconds: Any) -> str:
    if isinstance(seconds, Mapping):
        return " ".join(_ms(value) for value in seconds.values())
    return "" if seconds is None else f"{1000 * seconds:.3f}"


def _section(name: str, node: Mapping[str, Any]) -> Iterator[str]:
    yield f"{name}:"
    for key, value in node.items():
        yield f"  {_flow(key)}: {_flow(value)}"


def _flow(value: Any) -> str:
    """Return a value as YAML on one line."""
    text: str = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=1 << 20)
    return text.removesuffix("\n").removesuffix("\n...")
