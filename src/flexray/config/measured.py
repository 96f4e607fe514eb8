"""Files of measured seconds, for ``speeds=measured`` (docs/time.md, Seconds on your machines)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from flexray.config.by_participant import participant, resolve
from flexray.config.labels import added_party
from flexray.config.schema import NetworkConfig
from flexray.core.checks import known_keys, not_negative, number, positive, shown, whole
from flexray.core.errors import ConfigError, DataError, RunFolderError, UserError, near_match
from flexray.core.measured import NO_WAIT, Measured
from flexray.core.runfolder import read_yaml

log = logging.getLogger("flexray")

MEASURED = "measured"
SECONDS = ("iteration_s", "first_s", "together_s", "embedding_s", "turn_s")
"""Keys of a participant with seconds, each a number or a mapping from batch sizes to numbers."""
OWN = (*SECONDS, "spread", "process", "machine")
RIVALS = {
    "t_comm": ("latency",), "latency": ("t_comm",), "bandwidth": ("up", "down"), "up": ("bandwidth",),
    "down": ("bandwidth",),
}  # fmt: skip
"""Keys of ``network`` that a party has instead of another."""
SECTIONS = ("participants", "machines", "network", "driver", "round_s", "evaluation_s", "about")


@dataclass(frozen=True)
class MeasuredFile:
    """What a file of measured seconds says.

    Args:
        path: The file.
        measured: The seconds.
        network: Keys of ``network`` for runs that type none.
        batch_sizes: Those that were measured, if it says so.
    """

    path: Path
    measured: Measured
    network: Mapping[Any, Any]
    batch_sizes: tuple[Any, ...] = ()

    def completed(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return a configuration with the file's links where its own are those by default.

        Raises:
            DataError: The file has a key that is none of ``network``.
        """
        node, usual = dict(config["network"]), {**asdict(NetworkConfig()), "t_comm": None}
        typed = {key for key, value in node.items() if value is not None and value != usual[key]}
        known_keys(f"{self.path}: network.", self.network, node, DataError)
        node |= {k: value for k, value in self.network.items() if typed.isdisjoint((k, *RIVALS.get(k, ())))}
        node["t_comm"] = 0.0 if node["t_comm"] is None else node["t_comm"]
        return {**config, "network": node}


def with_measured(
    config: Mapping[str, Any], names: Sequence[str], base_dir: Path
) -> tuple[Mapping[str, Any], Measured | None]:
    """Return the configuration with the links of the file that ``speeds=measured`` names, and the file's seconds.

    With any other choice the configuration stays as it is, and there are no seconds.

    Args:
        config: The composed configuration.
        names: Participants, ``server`` last.
        base_dir: Folder that a relative ``speeds.path`` starts from.

    Raises:
        flexray.core.errors.UserError: The file cannot be used, or the run is none that it could be used for.
    """
    node = config["speeds"]
    if node["kind"] != MEASURED:
        return config, None
    if config["clock"]["kind"] == "wall":
        raise ConfigError("clock: speeds=measured predicts real seconds on the virtual clock; expected clock=virtual")
    if added_party(config) is not None:
        raise ConfigError("labels_at: seconds of a party without features are not known; expected one with, or server")
    if node["iterations"] is not None:
        raise ConfigError("speeds.iterations: speeds=measured has seconds; expected speeds.unit_time")
    if not isinstance(node["path"], str) or not node["path"]:
        raise ConfigError(f"speeds.path: expected a file of python -m flexray.calibrate, got {shown(node['path'])}")
    size = config["dataset"].get("batch_size")
    found = read_measured(base_dir / Path(node["path"]).expanduser(), names, size)
    if len(found.batch_sizes) == 1 and size not in found.batch_sizes:
        log.warning(
            "speeds: seconds were measured with dataset.batch_size=%s, this run has %s", *found.batch_sizes, size
        )
    own = resolve("speeds.unit_time", node["unit_time"], names, positive, found.measured.iteration_s)
    return found.completed(config), found.measured.with_iterations(own)


def read_measured(path: Path, names: Sequence[str], batch_size: int | None = None) -> MeasuredFile:
    """Read a file of measured seconds.

    Args:
        path: The file.
        names: Participants, ``server`` last.
        batch_size: Where the file has seconds by batch size, those of this one.

    Raises:
        DataError: It is none, names an unknown participant, lacks one, or a number makes no sense; one line names file,
            participant and key.
    """
    try:
        content = read_yaml(path)
    except RunFolderError as error:
        raise DataError(f"speeds.path: {path.parent / str(error)}; expected a file of flexray.calibrate") from error
    try:
        measured, sizes = _measured(content, names, batch_size), _section(content, "about").get("batch_sizes")
        return MeasuredFile(
            path, measured, _section(content, "network"), tuple(sizes) if isinstance(sizes, list) else ()
        )
    except UserError as error:
        raise DataError(f"{path}: {error}") from error


def _measured(content: Mapping[str, Any], names: Sequence[str], batch_size: int | None) -> Measured:
    known_keys("", content, SECTIONS, DataError)
    own = _participants(_section(content, "participants"), names)
    iteration, first, together, embedding, turn = (
        [_seconds(node, name, key, batch_size) for name, node in own] for key in SECONDS
    )
    for (name, _), seconds in zip(own, iteration, strict=True):
        if seconds is None:
            raise DataError(f"participants.{name}.iteration_s: is missing; expected the seconds of a local iteration")
    iteration_s = tuple(s or 0.0 for s in iteration)
    embedding_s = tuple(s or 0.0 for s in embedding)
    usual = [s + e for s, e in zip(iteration_s, embedding_s, strict=True)]
    process = _numbers([str(node.get("process", f"of {name}")) for name, node in own])
    machine = [str(node.get("machine", f"of process {process[k]}")) for k, (_, node) in enumerate(own)]
    _check_machines([name for name, _ in own], process, machine)
    return Measured(
        iteration_s=iteration_s,
        first_s=tuple(s if f is None else f for f, s in zip(first, iteration_s, strict=True)),
        together_s=tuple(s or 0.0 for s in together),
        embedding_s=embedding_s,
        turn_s=tuple(s if t is None else t for t, s in zip(turn, usual, strict=True)),
        round_s=not_negative("round_s", content.get("round_s", 0.0)),
        process=process,
        machine=_numbers(machine),
        cores=_cores(_section(content, "machines"), list(dict.fromkeys(machine))),
        driver_s=_driver_s(_section(content, "driver")),
    )


def _driver_s(given: Mapping[Any, Any]) -> float:
    known_keys("driver.", given, ("turn",), DataError)
    return not_negative("driver.turn", given.get("turn", 0.0))


def _participants(given: Mapping[Any, Any], names: Sequence[str]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return everybody's name and keys, in order; those of ``default`` for participants that are not named."""
    found: dict[int, Mapping[str, Any]] = {}
    for who, node in given.items():
        if not isinstance(node, Mapping):
            raise DataError(f"participants.{who}: expected keys such as iteration_s, got {shown(node)}")
        known_keys(f"participants.{who}.", node, OWN, DataError)
        if who != "default":
            place = participant("participants", who, names)
            if place in found:
                raise DataError(f"participants.{who}: '{names[place]}' is given twice, by name and by number")
            found[place] = node
    for place, name in enumerate(names):
        if place not in found and "default" not in given:
            raise DataError(f"participants.{name}: is missing; expected its iteration_s, or 'default'")
    return [(name, found.get(place, given.get("default", {}))) for place, name in enumerate(names)]


def _seconds(node: Mapping[str, Any], name: str, key: str, batch_size: int | None) -> float | None:
    """Return seconds of a participant, between two batch sizes in proportion; None if the file has none."""
    where, value = f"participants.{name}.{key}", node.get(key)
    if value is None:
        return None
    check = positive if key == "iteration_s" else not_negative
    if not isinstance(value, Mapping):
        return check(where, value)
    known = sorted(
        (whole(f"{where}: batch size", size, low=1), check(f"{where}.{size}", s)) for size, s in value.items()
    )
    for (low, low_s), (high, high_s) in pairwise([known[0], *known] if known else []):
        if batch_size is not None and low <= batch_size <= high:
            return high_s if low == high else low_s + (high_s - low_s) * (batch_size - low) / (high - low)
    sizes = ", ".join(str(size) for size, _ in known)
    raise DataError(
        f"{where}: has batch sizes {sizes or 'none'}; expected them to enclose dataset.batch_size, {batch_size}"
    )


def _check_machines(names: Sequence[str], process: Sequence[int], machine: Sequence[str]) -> None:
    first: dict[int, str] = {}
    for name, own, place in zip(names, process, machine, strict=True):
        if first.setdefault(own, place) != place:
            raise DataError(f"participants.{name}.machine: others of its process are on {first[own]}, got {place}")


def _cores(given: Mapping[Any, Any], machines: Sequence[str]) -> tuple[float, ...]:
    """Return the cores of every machine; enough for everybody where the file has none."""
    found = {}
    for name, node in given.items():
        if str(name) not in machines:
            raise DataError(f"machines.{name}: no participant is on it{near_match(str(name), machines)}")
        if not isinstance(node, Mapping):
            raise DataError(f"machines.{name}: expected the key cores, got {shown(node)}")
        known_keys(f"machines.{name}.", node, ("cores",), DataError)
        found[str(name)] = number(f"machines.{name}.cores", node.get("cores"), low=1)
    return tuple(found.get(name, NO_WAIT) for name in machines)


def _numbers(words: Sequence[str]) -> tuple[int, ...]:
    """Return equal numbers for equal words, from 0."""
    order = list(dict.fromkeys(words))
    return tuple(order.index(word) for word in words)


def _section(content: Mapping[str, Any], key: str) -> Mapping[Any, Any]:
    node = content.get(key)
    if node is None and key != "participants":
        return {}
    if not isinstance(node, Mapping):
        raise DataError(f"{key}: expected a mapping, got {shown(node)}")
    return node
