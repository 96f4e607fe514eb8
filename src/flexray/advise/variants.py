"""The settings that are compared with a run's own, as words of the command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flexray.algorithms.base import System
from flexray.core.speeds import all_unit_times

FREE_LINKS = (
    "network.t_comm=0", "network.latency=null", "network.bandwidth=1e18", "network.up=null", "network.down=null",
    "network.shared={}", "network.jitter=0", "network.loss=0",
)  # fmt: skip
"""No null where a file of measured seconds would fill in its own."""
FACTORS = (0.25, 0.5, 1.0, 2.0, 3.0)
"""Timeouts that are tried, in those of the run."""


@dataclass(frozen=True)
class Variant:
    """A setting to try.

    Args:
        kind: ``timeout``, ``participant`` or ``link``; ``own``: the run itself.
        name: The timeout, the participant, or the party whose link it is.
        words: What differs.
    """

    kind: str
    name: str
    words: tuple[str, ...] = ()


def variants(system: System, utilization: Sequence[float], timeouts: Sequence[float], reads: bool) -> list[Variant]:
    """Return the settings to try, the run's own first.

    Args:
        system: The participants as they are.
        utilization: CPU utilizations: of the first round, where they vary.
        timeouts: Timeouts to try; none: some around the run's own.
        reads: Whether the algorithm has a timeout.
    """
    own, found = system.timeout_units, [Variant("own", f"{system.timeout_units:g}")]
    tried = [t for t in (timeouts or [own * factor for factor in FACTORS]) if t != own] if reads else []
    found += [Variant("timeout", f"{t:g}", (f"timeout={t!r}",)) for t in tried]
    units = all_unit_times(system.base_units, tuple(utilization))
    for k, name in enumerate(system.names):
        if units[k] > min(units) and not system.frozen[k]:
            found.append(Variant("participant", name, quickest(system, utilization, k)))
    found.append(Variant("link", "all", FREE_LINKS))
    return found


def quickest(system: System, utilization: Sequence[float], place: int) -> tuple[str, ...]:
    """Return the words that make a participant as quick as the quickest; all others stay as they are."""
    units = all_unit_times(system.base_units, tuple(utilization))
    base = list(system.base_units)
    base[place] = min(units) * (1 - utilization[place])
    return "speeds.iterations=null", f"speeds.unit_time=[{','.join(map(repr, base))}]"
