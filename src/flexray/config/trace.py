"""From ``speeds=trace`` to speeds: which machine throttles whom."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from flexray.config.by_participant import participant
from flexray.core.checks import fraction, positive, shown
from flexray.core.errors import ConfigError, near_match
from flexray.core.seeds import generator
from flexray.traces.reading import read_trace, shipped_traces, trace_info
from flexray.traces.speeds import Advance, AtEnd, TraceSpeeds

ADVANCE, AT_END = ("round", "time"), ("wrap", "hold", "error")


def trace_speeds(
    node: Mapping[str, Any], base: tuple[float, ...], names: Sequence[str], seed: int, base_dir: Path
) -> TraceSpeeds:
    """Return speeds that follow a trace.

    Args:
        node: The keys of ``speeds``.
        base: Units per local iteration at zero utilization.
        names: The participants.
        seed: Draws the machines that are not named.
        base_dir: Folder that a relative path starts from.

    Raises:
        flexray.core.errors.UserError: A key or the trace is at fault, or it has fewer machines than participants.
    """
    path = _path(node["path"], base_dir)
    advance = _word("speeds.advance", node["advance"], ADVANCE)
    at_end = _word("speeds.at_end", node["at_end"], AT_END)
    sample_units = node["sample_units"]
    if advance == "time" and sample_units is None:
        raise ConfigError("speeds.sample_units: expected the units that a sample lasts, for speeds.advance=time")
    constant = _constant(node["utilization"], names)
    _refuse_both(node["machines"], constant, names)
    known = trace_info(path).machines
    machines = _machines(node["machines"], known, names, seed, str(node["path"]))
    trace = read_trace(path, machines)
    cpu_kt = np.array(trace.cpu_mt)
    for k, value in constant.items():
        cpu_kt[k] = value
    runs_as = {names[k]: machine for k, machine in enumerate(machines) if k not in constant}
    units = 1.0 if sample_units is None else positive("speeds.sample_units", sample_units)
    return TraceSpeeds(
        base, cpu_kt, str(node["path"]), cast(Advance, advance), units, cast(AtEnd, at_end), trace.synthetic, runs_as
    )


def _path(given: Any, base_dir: Path) -> str:
    if not isinstance(given, str) or not given:
        raise ConfigError(
            f"speeds.path: expected a trace file or one of {', '.join(shipped_traces())}, got {shown(given)}"
        )
    return given if given in shipped_traces() else os.fspath(base_dir / Path(given).expanduser())


def _word(key: str, given: str, choices: Sequence[str]) -> str:
    if given not in choices:
        raise ConfigError(f"{key}: unknown value '{given}'{near_match(given, choices)}")
    return given


def _machines(given: Any, known: Sequence[str], names: Sequence[str], seed: int, source: str) -> list[str]:
    """Return a machine for every participant: those named, and for the others different ones drawn with the seed.

    Machines that are called as all the participants are theirs, whether they are listed, in any order, or not.
    """
    named: dict[int, str] = {}
    by_name = dict(enumerate(names))
    if isinstance(given, Mapping):
        named = {participant("speeds.machines", who, names): str(machine) for who, machine in given.items()}
    elif isinstance(given, Sequence) and not isinstance(given, str):
        if len(given) != len(names):
            raise ConfigError(
                f"speeds.machines: expected {len(names)} machines ({', '.join(names)}), got {len(given)} of them"
            )
        named = by_name if sorted(map(str, given)) == sorted(names) else dict(enumerate(map(str, given)))
    elif given is not None:
        raise ConfigError(
            f"speeds.machines: expected a list of machines or a mapping by participant, got {shown(given)}"
        )
    elif set(names) <= set(known):
        named = by_name
    others = [machine for machine in known if machine not in named.values()]
    wanted = len(names) - len(named)
    if wanted > len(others):
        raise ConfigError(
            f"speeds.path: {source} has {len(known)} machines, and {len(names)} participants"
            f" ({', '.join(names[:8])}{', ...' if len(names) > 8 else ''}) need one each"
        )
    drawn = iter(generator(seed, "machines").permutation(len(others))[:wanted])
    return [named[k] if k in named else others[next(drawn)] for k in range(len(names))]


def _constant(given: Any, names: Sequence[str]) -> dict[int, float]:
    """Return the utilizations that the user set for single participants, in place of the trace's."""
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
