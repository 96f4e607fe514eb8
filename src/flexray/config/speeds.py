"""From ``speeds`` and ``timeout`` of the configuration to speeds on the virtual clock (docs/algorithms.md, Speeds)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flexray.config.by_participant import resolve
from flexray.config.trace import trace_speeds
from flexray.core.checks import fraction, positive, shown
from flexray.core.errors import ConfigError, near_match
from flexray.core.speeds import FixedSpeeds, Speeds, equal_groups, google_means

DEFAULT_TIMEOUT = 20.0
KINDS = ("paper", "uniform", "google_mean", "trace", "replay")

log = logging.getLogger("flexray")


@dataclass(frozen=True)
class PaperSpeeds:
    """The fixed speeds of one of the paper's datasets: iterations per timeout of groups of parties; server."""

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
    ``speeds.unit_time`` (units per local iteration) and ``speeds.utilization`` override it, by participant if wished.
    The unit times that iterations stand for are those of the choice's own timeout, so that a longer ``timeout`` means
    more iterations. With ``speeds=trace`` utilizations come from the trace, but for participants whose utilization is
    set. Relative paths start from ``base_dir``.
    """
    node, num_parties = config["speeds"], len(names) - 1
    kind = node["kind"]
    own_timeout, base, utilization = _choice(kind, dataset, num_parties)
    timeout = own_timeout if config["timeout"] is None else positive("timeout", config["timeout"])
    if node["iterations"] is not None and node["unit_time"] is not None:
        raise ConfigError("speeds.unit_time: given together with speeds.iterations; expected one of them")
    if node["iterations"] is not None:
        defaults = [own_timeout / b for b in base]
        base = [own_timeout / n for n in resolve("speeds.iterations", node["iterations"], names, positive, defaults)]
    base = list(resolve("speeds.unit_time", node["unit_time"], names, positive, base))
    if kind == "trace":
        speeds: Speeds = trace_speeds(node, tuple(base), names, config["seed"], base_dir)
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
    shortened = ", ".join(above[:5]) + (f" and {len(above) - 5} more" if len(above) > 5 else "")
    log.warning("speeds: utilizations above speeds.max_utilization count as %g: %s", most, shortened)
    return speeds.capped(most)


def _choice(kind: str, dataset: str, num_parties: int) -> tuple[float, list[float], list[float]]:
    """Return timeout, base units and utilizations of a choice of ``speeds``."""
    idle = [0.0] * (num_parties + 1)
    if kind in ("uniform", "trace", "replay"):
        return DEFAULT_TIMEOUT, [1.0] * (num_parties + 1), idle
    if kind == "google_mean":
        return DEFAULT_TIMEOUT, [1.0] * (num_parties + 1), list(google_means(num_parties))
    if kind == "paper":
        paper = PAPER.get(dataset, OTHERS)
        iterations = (*equal_groups(num_parties, paper.groups)[:-1], paper.server)
        return paper.timeout_units, [paper.timeout_units / n for n in iterations], idle
    raise ConfigError(f"speeds.kind: unknown '{kind}'{near_match(kind, KINDS)}")
