"""Samples that parties do not have, from keys ``missing.*`` (docs/algorithms.md, Missing samples)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from flexray.config.by_participant import resolve
from flexray.core.checks import fraction, number, one_of
from flexray.core.errors import ConfigError
from flexray.core.seeds import generator
from flexray.data.base import SPLITS, Outline, Presence
from flexray.data.outlines import check_everybody_trains
from flexray.engine.driver.experiment import Experiment
from flexray.engine.parties.spec import STANDS_IN, StandsIn


def stands_in(config: Mapping[str, Any]) -> StandsIn:
    """Return what stands in for the embedding of a sample that its party does not have."""
    return one_of("missing.stand_in", config["missing"]["stand_in"], STANDS_IN)


def with_missing(config: Mapping[str, Any], outline: Outline, seed: int, is_new: bool = False) -> Outline:
    """Return the outline of a dataset from which parties lose samples at random (MCAR), as the configuration asks.

    Whether a party goes without a sample is one number in [0, 1) of ``(seed, "missing", split, party)``: what it lacks
    at one fraction it lacks at any higher.

    Args:
        config: The configuration.
        outline: What the dataset has.
        seed: The run's seed.
        is_new: These are new samples for a saved model, which lack nothing but what they do.

    Raises:
        ConfigError: A number is out of range or for an unknown party.
        DataError: A party is left without training samples.
    """
    node, parties = config["missing"], outline.parties
    train = resolve(
        "missing.fraction", node["fraction"], parties, partial(number, low=0, below=1), [0.0] * len(parties)
    )
    test = resolve("missing.test_fraction", node["test_fraction"], parties, fraction, train)
    if is_new or not any((*train, *test)):
        return outline
    present: Presence = {
        split: np.column_stack(
            [
                generator(seed, "missing", split, k + 1).random(outline.sizes[split]) >= share
                for k, share in enumerate(train if split == "train" else test)
            ]
        )
        for split in SPLITS
    }
    if outline.present is not None:
        present = {split: here & outline.present[split] for split, here in present.items()}
    check_everybody_trains(present, parties)
    return replace(outline, present=present)


def check_combined(x: Experiment) -> None:
    """Refuse what does not know yet of samples that are missing.

    Raises:
        ConfigError: It names the key.
    """
    if x.shared.outline.present is None:
        return
    if x.wall is not None:
        raise ConfigError("clock: parties lack samples, as in simulation alone; expected virtual")
    if x.network is not None:
        raise ConfigError(
            "network: messages of parties that lack samples are not timed by their bytes, or one by one; expected"
            " network.t_comm alone"
        )
