"""Links from the keys ``network.*`` (docs/algorithms.md, Links)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from flexray.config.by_participant import optional, participant, resolve
from flexray.config.labels import added_party, labels_at
from flexray.config.schema import NetworkConfig, NetworkTraceConfig
from flexray.config.speeds import chosen_trace
from flexray.core.checks import fraction, known_keys, not_negative, number, positive, shown
from flexray.core.errors import ConfigError
from flexray.core.messages import LABELS_AT
from flexray.core.network import Link, Network, Scale, SharedLink

SHARED_KEYS = ("up", "down", "parties")


def round_trips(config: Mapping[str, Any], parties: Sequence[str]) -> tuple[float, ...]:
    """Return how long two messages of no length take, per party: twice its latency or, where it has none, t_comm.

    Where one party alone holds the labels, its own come on top: the way of a prediction and of its gradient. If it has
    no features, it has no other messages.

    Raises:
        ConfigError: A party has both.
    """
    units, holder = _round_trips(config, parties), labels_at(config, parties)
    top = 0.0 if holder in LABELS_AT else units[list(parties).index(holder)]
    if added_party(config) is not None:
        units = (*units[:-1], 0.0)
    return tuple(own + top for own in units)


def _round_trips(config: Mapping[str, Any], parties: Sequence[str]) -> tuple[float, ...]:
    node = config["network"]
    t_comm = resolve("network.t_comm", node["t_comm"], parties, not_negative)
    if node["latency"] is None:
        return t_comm
    latency = resolve("network.latency", node["latency"], parties, not_negative, [math.inf] * len(parties))
    own = {k for k, units in enumerate(latency) if units < math.inf}
    _refuse_t_comm(node["t_comm"], parties, own)
    return tuple(2 * latency[k] if k in own else units for k, units in enumerate(t_comm))


def _refuse_t_comm(given: Any, parties: Sequence[str], own: Collection[int]) -> None:
    """Refuse a t_comm that is ``given`` for a party with a latency of its ``own``; one number for all is for others."""
    if isinstance(given, Mapping):
        named = {participant("network.t_comm", who, parties) for who in given if who != "default"}
    else:
        named = set(range(len(parties))) if isinstance(given, Sequence) else set()
    if both := sorted(named.intersection(own)):
        raise ConfigError(f"network.latency: '{parties[both[0]]}' has a network.t_comm, too; expected one of them")
    if len(own) == len(parties) and not isinstance(given, Mapping) and given not in (0, NetworkConfig.t_comm):
        raise ConfigError(
            f"network.latency: given for all parties, together with network.t_comm={shown(given)}; expected one of them"
        )


def build_network(
    config: Mapping[str, Any], parties: Sequence[str], seed: int, base_dir: Path, takes_turns: bool
) -> Network | None:
    """Return the links, or None where t_comm is all that there is to know of them.

    Args:
        config: The configuration.
        parties: Their names.
        seed: The run's seed.
        base_dir: Folder that relative paths start from.
        takes_turns: Whether parties take turns, as in VAFL.

    Raises:
        ConfigError: A number is out of range or for an unknown party, or two keys contradict each other.
    """
    node, count = config["network"], len(parties)
    up, down = _bandwidths(node, parties)
    jitter = resolve("network.jitter", node["jitter"], parties, fraction, [0.0] * count)
    loss = resolve("network.loss", node["loss"], parties, partial(number, low=0, below=1), [0.0] * count)
    shared = _shared(node["shared"], parties)
    if shared and takes_turns and config["clock"]["kind"] == "wall":
        raise ConfigError("network.shared: turns share links on the virtual clock alone; expected clock=virtual")
    scale = _scale(node["trace"], min(*up, *down) < math.inf, parties, seed, base_dir)
    finer = any(node[key] is not None for key in ("latency", "up", "down"))
    one_by_one = finer or any(jitter) or any(loss) or bool(shared) or scale is not None
    if one_by_one and (holder := labels_at(config, parties)) not in LABELS_AT:
        raise ConfigError(
            f"labels_at: network.t_comm and network.bandwidth alone time the way of a prediction to {holder} and back;"
            " expected all or server with finer links"
        )
    if not one_by_one and node["bandwidth"] is None:
        return None
    columns = zip(round_trips(config, parties), up, down, jitter, loss, strict=True)
    return Network(tuple(Link(*column) for column in columns), one_by_one, shared, seed, scale)


def _bandwidths(node: Mapping[str, Any], parties: Sequence[str]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return bytes per unit of time up and down; infinite where bytes take no time."""
    both, *ways = (
        resolve(f"network.{key}", node[key], parties, positive, [math.inf] * len(parties))
        for key in ("bandwidth", "up", "down")
    )
    for key, own in zip(("up", "down"), ways, strict=True):
        for name, one, other in zip(parties, both, own, strict=True):
            if one < math.inf and other < math.inf:
                raise ConfigError(f"network.{key}: '{name}' has a network.bandwidth, too; expected one of them")
    up, down = (tuple(min(pair) for pair in zip(both, own, strict=True)) for own in ways)
    return up, down


def _shared(given: Any, parties: Sequence[str]) -> tuple[SharedLink, ...]:
    """Return the links that parties share, by name: ``{lan:{up:1000,parties:[a,b]}}``."""
    if given is None:
        return ()
    if not isinstance(given, Mapping):
        raise ConfigError(f"network.shared: expected {{name:{{up:1000,parties:[...]}}}}, got {shown(given)}")
    return tuple(_shared_link(f"network.shared.{name}", link, parties) for name, link in given.items())


def _shared_link(key: str, node: Any, parties: Sequence[str]) -> SharedLink:
    if not isinstance(node, Mapping):
        raise ConfigError(f"{key}: expected keys such as {', '.join(SHARED_KEYS)}, got {shown(node)}")
    known_keys(f"{key}.", node, SHARED_KEYS)
    up, down = (optional(f"{key}.{way}", node.get(way), positive) or math.inf for way in ("up", "down"))
    if up == down == math.inf:
        raise ConfigError(f"{key}: expected up or down, the bytes per unit of time that its parties share")
    given = node.get("parties", list(parties))
    if isinstance(given, str) or not isinstance(given, Sequence) or not given:
        raise ConfigError(f"{key}.parties: expected a list of parties, got {shown(given)}")
    places = [participant(f"{key}.parties", who, parties) for who in given]
    if len(set(places)) < len(places):
        twice, _ = Counter(places).most_common(1)[0]
        raise ConfigError(f"{key}.parties: '{parties[twice]}' is given twice")
    return SharedLink(frozenset(places), up, down)


def _scale(
    node: Mapping[str, Any], has_bandwidths: bool, parties: Sequence[str], seed: int, base_dir: Path
) -> Scale | None:
    """Return what a trace multiplies bandwidths by, or None without one."""
    key = "network.trace"
    if node["path"] is None:
        for name, value in asdict(NetworkTraceConfig()).items():
            if node[name] != value:
                raise ConfigError(f"{key}.{name}: expected {key}.path, too, the trace that it is about")
        return None
    if not has_bandwidths:
        raise ConfigError(f"{key}.path: scales bandwidths; expected network.bandwidth, network.up or network.down")
    return chosen_trace(key, node, parties, seed, base_dir, factors=True)
