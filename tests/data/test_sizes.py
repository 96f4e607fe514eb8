"""``dataset=sizes``: parties and samples by number."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from flexray.core.errors import ConfigError
from flexray.core.messages import RoundRecord
from flexray.data.sizes import Sizes
from helpers.jobs import Compose, Run


def test_names_sizes_and_noise_that_each_party_has_of_its_own() -> None:
    data = Sizes(parties=3, samples=20, features_per_party=2, classes=4)
    outline = data.outline()
    assert (outline.parties, outline.source) == (("party_1", "party_2", "party_3"), "synthetic")
    assert outline.sizes == {"train": 20, "val": 0, "test": 4}
    first, second = (data.features(k, torch.float32)["train"] for k in (0, 1))
    ids = np.arange(20)
    assert first.batch(ids, 0).shape == (20, 2)
    assert torch.equal(first.batch(ids, 0), data.features(0, torch.float32)["train"].batch(ids, 0))
    assert not torch.equal(first.batch(ids, 0), second.batch(ids, 0))
    assert data.labels()["train"].tolist() == [0, 1, 2, 3] * 5


def test_it_can_be_trained_on_to_measure_speed(compose_job: Compose, run_inline: Run) -> None:
    records = run_inline(compose_job("dataset=sizes", "dataset.parties=2", "rounds=2", "eval_train=false"))
    assert [r.round for r in records if isinstance(r, RoundRecord)] == [1, 2]


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("parties=0", "dataset.parties: expected a whole number of at least 1, got 0"),
        ("samples=9", "dataset.samples: expected a whole number of at least 10, got 9"),
        ("classes=1", "dataset.classes: expected a whole number of at least 2, got 1"),
        ("features_per_party=x", "dataset.features_per_party: expected a whole number of at least 1, got 'x'"),
    ],
)
def test_numbers_out_of_range_are_refused(word: str, message: str, compose_job: Compose) -> None:
    with pytest.raises(ConfigError, match=message):
        compose_job("dataset=sizes", f"dataset.{word}")
