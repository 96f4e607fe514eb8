"""From ``speeds`` and ``timeout`` of the configuration to speeds on the virtual clock (docs/algorithms.md, Speeds)."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from flexray.config.by_participant import optional, participant, resolve
from flexray.config.labels import with_features
from flexray.config.measured import MEASURED
from flexray.config.timeouts import fixed_timeout
from flexray.core.checks import few, fraction, listed, one_of, positive, shown
from flexray.core.errors import ConfigError, near_match
from flexray.core.seeds import generator
from flexray.core.speeds import FixedSpeeds, Speeds, equal_groups, google_means
from flexray.traces.reading import read_trace, shipped_traces, trace_info
from flexray.traces.speeds import Advance, AtEnd, Samples, TraceSpeeds

DEFAULT_TIMEOUT = 20.0
KINDS = ("paper", "uniform", "google_mean", "trace", "replay", MEASURED)
ADVANCE: tuple[Advance, ...] = ("round", "time")
AT_END: tuple[AtEnd, ...] = ("wrap", "hold", "error")

log = logging.getLogger("flexray")


@dataclass(frozen=True)
class PaperSpeeds:
    """Fixed speeds of one of the paper's datasets: iterations per timeout of groups of parties, and of the server."""

    timeout_units: float
    groups: tuple[int, ...]
    server: int


PAPER = {
    "mosei": PaperSpeeds(20.0, (5, 10, 15), 20),
    "imagenet100": PaperSpeeds(10.0, (2, 4, 6, 8), 10),
    "modelnet40": PaperSpeeds(20.0, (5, 10, 15, 20), 20),
}
OTHERS = PaperSpeeds(20.0, (5, 10, 15, 20), 20)


def build_speeds(config: Mapping[str, Any], dataset: str, names: Sequence[str], base_dir: Path) -> tuple[float, Speeds]:
    """Return the timeout in units and the speeds of all participants.

    The choice gives every participant a base time and a utilization; ``speeds.iterations`` (per timeout),
    ``speeds.unit_time`` (units per local iteration) and ``speeds.utilization`` override it. Iterations are converted to
    unit times with the choice's own timeout, so that a longer ``timeout`` means more iterations. With ``speeds=trace``
    utilizations that are not set come from the trace; with ``speeds=measured`` unit times come from its file, and do
    not matter here. Relative paths start from ``base_dir``.
    """
    node, num_parties = config["speeds"], len(with_features(config, names[:-1]))
    kind = node["kind"]
    own_timeout, base, utilization = _choice(kind, dataset, num_parties)
    for column in (base, utilization):  # a party without features has the server's
        column[-1:] = column[-1:] * (len(names) - num_parties)
    timeout = fixed_timeout(config["timeout"]) or own_timeout
    if node["iterations"] is not None and node["unit_time"] is not None:
        raise ConfigError("speeds.unit_time: given together with speeds.iterations; expected one of them")
    if node["iterations"] is not None:
        defaults = [own_timeout / b for b in base]
        base = [own_timeout / n for n in resolve("speeds.iterations", node["iterations"], names, positive, defaults)]
    base = list(resolve("speeds.unit_time", node["unit_time"], names, positive, base))
    if kind == "trace":
        speeds: Speeds = _trace_speeds(node, tuple(base), names, config["seed"], base_dir)
    else:
        utilization = list(resolve("speeds.utilization", node["utilization"], names, fraction, utilization))
        speeds = FixedSpeeds(tuple(base), tuple(utilization))
    return timeout, _capped(speeds, node["max_utilization"], names)


def _capped(speeds: Speeds, given: Any, names: Sequence[str]) -> Speeds:
    """Return the speeds with no utilization above ``speeds.max_utilization``; at 1 an iteration would never end."""
    most = positive("speeds.max_utilization", given)
    if most >= 1:
        raise ConfigError(f"speeds.max_utilization: expected a number above 0 and below 1, got {shown(given)}")
    above = [name for name, peak in zip(names, speeds.peaks, strict=True) if peak > most]
    if not above:
        return speeds
    log.warning("speeds: utilizations above speeds.max_utilization count as %g: %s", most, few(above, 5))
    return speeds.capped(most)


def _choice(kind: str, dataset: str, num_parties: int) -> tuple[float, list[float], list[float]]:
    """Return timeout, base units and utilizations of a choice of ``speeds``."""
    idle = [0.0] * (num_parties + 1)
    if kind in ("uniform", "trace", "replay", MEASURED):
        return DEFAULT_TIMEOUT, [1.0] * (num_parties + 1), idle
    if kind == "google_mean":
        return DEFAULT_TIMEOUT, [1.0] * (num_parties + 1), list(google_means(num_parties))
    if kind == "paper":
        paper = PAPER.get(dataset, OTHERS)
        iterations = (*equal_groups(num_parties, paper.groups)[:-1], paper.server)
        return paper.timeout_units, [paper.timeout_units / n for n in iterations], idle
    raise ConfigError(f"speeds.kind: unknown '{kind}'{near_match(kind, KINDS)}")


def _trace_speeds(
    node: Mapping[str, Any], base: tuple[float, ...], names: Sequence[str], seed: int, base_dir: Path
) -> TraceSpeeds:
    """Return speeds that follow a trace, with ``base`` units per local iteration at zero utilization.

    Machines that are not named are drawn with the seed.
    """
    constant = _constant(node["utilization"], names)
    _refuse_both(node["machines"], constant, names)
    trace = chosen_trace("speeds", node, names, seed, base_dir)
    cpu_kt = np.array(trace.values_kt)
    for k, value in constant.items():
        cpu_kt[k] = value
    runs_as = {name: machine for k, (name, machine) in enumerate(trace.machines.items()) if k not in constant}
    return TraceSpeeds(base, replace(trace, values_kt=cpu_kt, machines=runs_as))


def chosen_trace(
    key: str, node: Mapping[str, Any], names: Sequence[str], seed: int, base_dir: Path, factors: bool = False
) -> Samples:
    """Return what the keys of a trace choose: a file, machines, and what a sample lasts.

    Args:
        key: Begins these keys: ``speeds`` or ``network.trace``.
        node: Their values.
        names: The participants that follow it.
        seed: The run's seed, which draws machines that are not named.
        base_dir: Folder that a relative path starts from.
        factors: Its values multiply something, and a single machine is that of all; else they are utilizations.
    """
    given, source = node["machines"], node["path"]
    if not isinstance(source, str) or not source:
        raise ConfigError(
            f"{key}.path: expected a trace file or one of {', '.join(shipped_traces())}, got {shown(source)}"
        )
    path = source if source in shipped_traces() else os.fspath(base_dir / Path(source).expanduser())
    advance = one_of(f"{key}.advance", node["advance"], ADVANCE)
    at_end = one_of(f"{key}.at_end", node["at_end"], AT_END)
    units = optional(f"{key}.sample_units", node["sample_units"], positive)
    if advance == "time" and units is None:
        raise ConfigError(f"{key}.sample_units: expected the units that a sample lasts, for {key}.advance=time")
    known = trace_info(path).machines
    if factors and given is None and len(known) == 1:
        given = [known[0]] * len(names)
    machines = _chosen_machines(key, given, known, names, seed, source)
    trace = read_trace(path, machines, factors)
    runs_as = dict(zip(names, machines, strict=True))
    return Samples(trace.cpu_mt, source, advance, units or 1.0, at_end, key, trace.synthetic, runs_as)


def _chosen_machines(
    key: str, given: Any, known: Sequence[str], names: Sequence[str], seed: int, source: str
) -> list[str]:
    """Return a machine for every participant: the named ones, and for the others different ones drawn with the seed.

    If every participant has a machine of its own name, it gets that one, unless other machines are named. ``given`` is
    what the user gave as ``machines``, ``known`` are those of the trace.
    """
    named: dict[int, str] = {}
    same_names = dict(enumerate(names))
    if isinstance(given, Mapping):
        named = {participant(f"{key}.machines", who, names): str(machine) for who, machine in given.items()}
    elif isinstance(given, Sequence) and not isinstance(given, str):
        if len(given) != len(names):
            raise ConfigError(
                f"{key}.machines: expected {len(names)} machines ({', '.join(names)}), got {len(given)} of them"
            )
        named = same_names if sorted(map(str, given)) == sorted(names) else dict(enumerate(map(str, given)))
    elif given is not None:
        raise ConfigError(
            f"{key}.machines: expected a list of machines or a mapping by participant, got {shown(given)}"
        )
    elif set(names) <= set(known):
        named = same_names
    others = [machine for machine in known if machine not in named.values()]
    wanted = len(names) - len(named)
    if wanted > len(others):
        raise ConfigError(
            f"{key}.path: {source} has {len(known)} machines, and {len(names)} participants ({listed(names, 8)}) need"
            " one each"
        )
    stream = ("machines",) if key == "speeds" else ("machines", key)
    drawn = iter(generator(seed, *stream).permutation(len(others))[:wanted])
    return [named[k] if k in named else others[next(drawn)] for k in range(len(names))]


def _constant(given: Any, names: Sequence[str]) -> dict[int, float]:
    """Return utilizations set for single participants, which replace those of the trace."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ConfigError(
            f"speeds.utilization: with speeds=trace expected a mapping by participant, got {shown(given)}"
        )
    return {
        participant("speeds.utilization", who, names): fraction(f"speeds.utilization.{who}", value)
        for who, value in given.items()
    }


def _refuse_both(machines: Any, constant: Mapping[int, float], names: Sequence[str]) -> None:
    """Refuse a machine and a utilization of the same participant, unless machines are listed for all."""
    for who in machines if isinstance(machines, Mapping) else ():
        if (k := participant("speeds.machines", who, names)) in constant:
            raise ConfigError(
                f"speeds.utilization: '{names[k]}' has a machine, too, in speeds.machines; expected one of them"
            )
