import pickle
import sys

import numpy as np
import pytest
import torch

from flexray.core.errors import ConfigError
from flexray.data.base import SPLITS
from flexray.data.digits import Digits


def test_outline_needs_no_scikit_learn(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    outline = Digits().outline()
    assert outline.parties == ("upper_left", "upper_right", "lower_left", "lower_right")
    assert outline.sizes == {"train": 1258, "val": 180, "test": 359}
    assert (outline.task.loss, outline.task.num_outputs, outline.source) == ("cross_entropy", 10, "package")


def test_quadrants_put_together_are_the_images():
    from sklearn.datasets import load_digits

    digits, source = Digits(), load_digits()
    quadrants = [digits.features(party, torch.float64) for party in range(4)]
    for split in SPLITS:
        ids = np.arange(digits.outline().sizes[split])
        parts = [quadrant[split].batch(ids, 0) for quadrant in quadrants]
        assert [q[split].sample_shape for q in quadrants] == [(1, 4, 4)] * 4
        image = torch.cat([torch.cat(parts[:2], dim=3), torch.cat(parts[2:], dim=3)], dim=2)[:, 0].numpy()
        np.testing.assert_array_equal(image * 16, source.images[digits.sample_ids(split)])
        np.testing.assert_array_equal(digits.labels()[split], source.target[digits.sample_ids(split)])
    assert 0 <= image.min() < image.max() == 1


def test_splits_cover_every_sample_once_and_follow_the_seed():
    rows = [Digits().sample_ids(split) for split in SPLITS]
    np.testing.assert_array_equal(np.sort(np.concatenate(rows)), np.arange(1797))
    np.testing.assert_array_equal(Digits().sample_ids("test"), Digits().sample_ids("test"))
    assert not np.array_equal(Digits(split_seed=1).sample_ids("test"), Digits().sample_ids("test"))


def test_no_validation_split():
    digits = Digits(val_fraction=0)
    assert digits.outline().sizes == {"train": 1438, "val": 0, "test": 359}
    assert len(digits.features(0, torch.float32)["val"]) == 0
    assert digits.labels()["val"].shape == (0,)


def test_float32_batch_is_a_writable_copy():
    features = Digits().features(2, torch.float32)["train"]
    batch = features.batch(np.array([3, 3, 0]), 0)
    assert (batch.dtype, batch.shape) == (torch.float32, (3, 1, 4, 4))
    first = batch[0].clone()
    batch.zero_()
    torch.testing.assert_close(features.batch(np.array([3]), 0)[0], first, rtol=0, atol=0)


def test_a_used_dataset_stays_small_when_pickled():
    digits = Digits()
    digits.labels(), digits.features(0, torch.float32)
    assert len(pickle.dumps(digits)) < 1000


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        ({"test_fraction": 0.0}, "dataset.test_fraction"),
        ({"test_fraction": 1.0}, "dataset.test_fraction"),
        ({"test_fraction": float("nan")}, "dataset.test_fraction"),
        ({"test_fraction": "most"}, "dataset.test_fraction"),
        ({"val_fraction": -0.1}, "dataset.val_fraction"),
        ({"val_fraction": 1.0}, "dataset.val_fraction"),
        ({"test_fraction": 0.5, "val_fraction": 0.5}, "dataset.test_fraction and dataset.val_fraction"),
        ({"split_seed": -1}, "dataset.split_seed"),
        ({"split_seed": 0.5}, "dataset.split_seed"),
    ],
)
def test_bad_arguments_are_named(arguments, key):
    with pytest.raises(ConfigError, match=f"^{key}: expected"):
        Digits(**arguments)
