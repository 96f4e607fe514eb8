"""Where labels are, from ``labels_at``, and the party without features that it may add."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from flexray.config.by_participant import participant
from flexray.core.checks import shown
from flexray.core.errors import ConfigError, near_match
from flexray.core.messages import LABELS_AT
from flexray.data.base import Outline
from flexray.data.checks import check_party_name

PLUS = "+"
"""Before a name: that of a party beside those with features."""


def added_party(config: Mapping[str, Any]) -> str | None:
    """Return the name of the party that ``labels_at=+NAME`` adds; None if it adds none."""
    given = config.get("labels_at")
    return given[len(PLUS) :] if isinstance(given, str) and given.startswith(PLUS) else None


def with_added_party(config: Mapping[str, Any], outline: Outline) -> Outline:
    """Return the outline with the party that has labels and no features, if there is one, after all others.

    Raises:
        ConfigError: It cannot have that name.
    """
    name = added_party(config)
    if name is None:
        return outline
    check_party_name(name, "labels_at")
    if name in outline.parties:
        raise ConfigError(
            f"labels_at: {PLUS}{name} adds a party without features, and {name} has some; expected labels_at={name},"
            " or the name of no party after the plus"
        )
    if name in LABELS_AT:
        raise ConfigError(f"labels_at: '{name}' cannot name a party; expected labels_at={name}, or another name")
    present = outline.present and {
        split: np.column_stack((has_nk, np.ones(len(has_nk), np.bool_))) for split, has_nk in outline.present.items()
    }
    return replace(outline, parties=(*outline.parties, name), present=present)


def with_features(config: Mapping[str, Any], parties: Sequence[str]) -> Sequence[str]:
    """Return those of the parties that have features: all but the one that ``labels_at`` adds."""
    return parties if added_party(config) is None else parties[:-1]


def labels_at(config: Mapping[str, Any], parties: Sequence[str]) -> str:
    """Return ``all``, ``server``, or the name of the one party that holds the labels."""
    given = config["labels_at"]
    if given in LABELS_AT:
        return str(given)
    if (added := added_party(config)) is not None:
        return added
    names = list(parties)
    if str(given) not in names and not (str(given).isdigit() and 1 <= int(given) <= len(names)):
        hint = near_match(str(given), [*LABELS_AT, *names, f"1 to {len(names)}"])
        new = f", or {PLUS}{given} to add a party" if isinstance(given, str) and "did you mean" not in hint else ""
        raise ConfigError(f"labels_at: unknown value {shown(given)}{hint}{new}")
    return names[participant("labels_at", given, names)]
