"""Parties and server, each from what is configured for all and its own keys."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from torch import nn

from flexray.config.by_participant import optional, participant
from flexray.config.components import component, make
from flexray.config.labels import added_party
from flexray.core.checks import known_keys, positive, shown
from flexray.core.errors import ConfigError
from flexray.core.messages import SERVER, SERVER_INDEX
from flexray.engine.parties.devices import Compute
from flexray.engine.parties.spec import ParticipantSpec
from flexray.models import OFFERS
from flexray.optimizers import LocalOptimizer, LocalSGD

Config = Mapping[str, Any]

OVERRIDES = ("model", "optimizer", "clip_norm", "lr_decay", "resources", "labels")
"""Keys that a single participant may have."""
OF_MODELS = ("model", "optimizer", "clip_norm", "lr_decay")
"""Those of participants that have a model."""


def build_participants(
    config: Config, names: Sequence[str], own_keys: Mapping[int, Config], computes: Sequence[Compute], base_dir: Path
) -> tuple[ParticipantSpec, ...]:
    """Return the parties and, last, the server, each with its own keys from ``parties``."""
    added = added_party(config)
    frozen = _frozen(config["frozen"], names, added)
    usual: dict[str, ParticipantSpec] = {}
    specs = []
    for place, name in enumerate(names):
        own, role = own_keys.get(place, {}), "server" if name == SERVER else "model"
        if name == added:
            specs.append(_labels_only(name, place + 1, own, computes[place]))
            continue
        spec = usual.get(role) if not own else None
        if spec is None:
            spec = _participant(config, role, name, own, base_dir)
            if not own and not _holds_objects(config[role]):
                usual[role] = spec
        optimizer = deepcopy(spec.optimizer) if config["learn"] else spec.optimizer  # else none has a state
        index = SERVER_INDEX if name == SERVER else place + 1
        specs.append(
            ParticipantSpec(name, index, spec.model, optimizer, spec.clip_norm, frozen[place], computes[place])
        )
    return tuple(specs)


def _participant(config: Config, role: str, name: str, own: Config, base_dir: Path) -> ParticipantSpec:
    """Return one participant as far as keys say."""
    keys = {key: f"parties.{name}.{key}" for key in own}
    model = _with_weights(_merged(config[role], own.get("model")), base_dir)
    optimizer = _merged(config["optimizer"], own.get("optimizer"))
    clip_norm = own.get("clip_norm", config["clip_norm"])
    return ParticipantSpec(
        name=name,
        index=SERVER_INDEX,
        model=component(keys.get("model", role), model, nn.Module, OFFERS),
        optimizer=make(keys.get("optimizer", "optimizer"), optimizer, LocalOptimizer),
        clip_norm=optional(keys.get("clip_norm", "clip_norm"), clip_norm, positive),
    )


def _labels_only(name: str, index: int, own: Config, compute: Compute) -> ParticipantSpec:
    """Return the party that has labels and no features, and so no model."""
    for key in OF_MODELS:
        if key in own:
            raise ConfigError(
                f"parties.{name}.{key}: {name} has labels and no model; expected keys of its process, such as resources"
            )
    return ParticipantSpec(name, index, nn.Identity, LocalSGD(), frozen=True, compute=compute, labels_only=True)


def _holds_objects(node: Any) -> bool:
    """Whether a model's node makes objects for its arguments, such as layers, which each participant has of its own."""
    return isinstance(node, Mapping) and any(isinstance(v, Mapping) and "_target_" in v for v in node.values())


def own_keys_of(config: Config, names: Sequence[str]) -> dict[int, Config]:
    """Return the keys of single participants, by place."""
    result: dict[int, Config] = {}
    for who, node in config["parties"].items():
        place = participant("parties", who, names)
        if not isinstance(node, Mapping):
            raise ConfigError(f"parties.{who}: expected keys such as {', '.join(OVERRIDES)}, got {shown(node)}")
        known_keys(f"parties.{who}.", node, OVERRIDES)
        if place in result:
            raise ConfigError(f"parties.{who}: '{names[place]}' is given twice, by name and by number")
        if not isinstance(node.get("resources") or {}, Mapping):
            raise ConfigError(f"parties.{who}.resources: expected {{name:amount}}, got {node['resources']!r}")
        result[place] = node
    return result


def _frozen(value: Any, names: Sequence[str], added: str | None) -> tuple[bool, ...]:
    """Return which participants are frozen: ``parties``, or those of a list; and one that is ``added``."""
    if value == "parties":
        return (*(True for _ in names[:-1]), False)
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, Sequence):
        raise ConfigError(f"frozen: expected 'parties' or a list of participants, got {shown(value)}")
    places = {participant("frozen", who, names) for who in value}
    places |= {k for k, name in enumerate(names) if name == added}
    if len(places) == len(names):
        raise ConfigError("frozen: everybody is; expected at least one participant that computes")
    return tuple(k in places for k in range(len(names)))


def _merged(default: Any, own: Any) -> Any:
    """Return the default node with its own keys replaced; a node with another ``_target_`` replaces it whole."""
    if own is None:
        return default
    if not isinstance(own, Mapping) or "_target_" in own or not isinstance(default, Mapping):
        return own
    return {**default, **own}


def _with_weights(node: Any, base_dir: Path) -> Any:
    """Return a model's node with the full path of its file of weights, if it has one."""
    weights = node.get("weights") if isinstance(node, Mapping) else None
    if isinstance(weights, str) and (file := base_dir / Path(weights).expanduser()).is_file():
        return {**node, "weights": os.fspath(file)}
    return node
