"""Runs without data: synthetic pictures of which every party has a part of the signal, and none all."""

import sys

import numpy as np
import pytest
import torch

from flexray.data.image_grid import ImageGrid
from flexray.data.stand_in import StandIn, pattern_count, pattern_of
from flexray.data.views import Views


def test_real_shapes_and_small_pictures():
    grid, views = ImageGrid(), Views()
    for dataset, classes, parties, shape in ((grid, 100, 4, (3, 16, 16)), (views, 40, 12, (3, 32, 32))):
        outline = dataset.outline()
        assert (outline.task.num_outputs, len(outline.parties), outline.source) == (classes, parties, "synthetic")
        assert outline.sizes == {"train": 1600, "val": 0, "test": 400}
        assert dataset.features(parties - 1, torch.float32)["test"].sample_shape == shape
        assert set(dataset.labels()["test"]) == set(range(classes))
    assert ImageGrid(size=224).features(0, torch.float32)["train"].batch(np.array([5]), 0).shape == (1, 3, 112, 112)
    assert Views(size=[10, 8], channels=1).features(0, torch.float32)["train"].sample_shape == (1, 10, 8)


@pytest.mark.parametrize(("classes", "count"), [(2, 2), (4, 2), (5, 3), (40, 7), (100, 11), (10, 5)])
def test_two_parts_name_the_class_and_one_does_not(classes, count):
    assert pattern_count(classes) == count
    for part in range(count):
        seen = [pattern_of(label, part, count) for label in range(classes)]
        assert len(set(seen)) < classes or classes == 2
        for other in range(part):
            assert len({(pattern_of(c, part, count), pattern_of(c, other, count)) for c in range(classes)}) == classes


def test_pictures_are_the_same_in_every_process_and_differ_by_sample_split_and_part():
    def pixels(split="train", sample=3, first=0):
        return np.asarray(StandIn(split, 9, 40, (8, 8), first=first).open(sample))

    np.testing.assert_array_equal(pixels(), pixels())
    assert pixels().sum() == 23001
    for other in (pixels(split="test"), pixels(sample=43), pixels(first=1)):
        assert not np.array_equal(pixels(), other)


def test_validation_samples_are_of_their_own():
    dataset = Views(val_fraction=0.25, synthetic_train=8)
    assert dataset.outline().sizes == {"train": 6, "val": 2, "test": 400}
    features = dataset.features(0, torch.float32)
    assert not torch.equal(features["val"].batch(np.array([0]), 0), features["train"].batch(np.array([0]), 0))


SMALL = {
    "imagenet100": ["dataset.num_classes=9", "dataset.size=16", "dataset.crop_scale=[0.8,1]"],
    "modelnet40": ["dataset.num_classes=9", "dataset.size=8", "dataset.views=3"],
}


@pytest.mark.parametrize("name", SMALL)
def test_all_parties_together_beat_the_best_of_them_by_far(compose_job, run_inline, name):
    """The margin: on these nine classes, where one party tells three groups apart, at least 0.25 of top-1."""
    sizes = ["dataset.synthetic_train=270", "dataset.synthetic_test=90", "dataset.batch_size=30", "epochs=3"]
    keys = [
        f"dataset={name}",
        "algo=pbcd",
        "model=mlp",
        "dtype=float32",
        "lr=0.1",
        "eval_every=1000",
        "eval_train=false",
        *sizes,
    ]
    everybody = compose_job(*keys, *SMALL[name])

    def top1(job):
        return run_inline(job)[-2].metrics["test_top1"]

    names = everybody.experiment.names[:-1]
    alone = [top1(compose_job(*keys, *SMALL[name], f"dataset.parties=[{party}]")) for party in names]
    fused = top1(everybody)
    print(f"{name}: fused {fused:.3f}, alone {', '.join(f'{value:.3f}' for value in alone)}")
    assert fused >= max(alone) + 0.25
    assert min(alone) > 1.5 / 9


def test_a_run_of_the_default_model_imports_no_torchvision(monkeypatch, compose_job, run_inline):
    monkeypatch.setitem(sys.modules, "torchvision", None)
    job = compose_job("dataset=imagenet100", "rounds=1", "dataset.synthetic_train=8", "dataset.synthetic_test=4",
                      "dataset.batch_size=4")  # fmt: skip
    assert run_inline(job)[-1].rounds == 1
