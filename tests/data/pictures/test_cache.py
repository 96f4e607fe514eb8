"""Pictures that evaluations read again stay in memory, as far as they fit; the numbers are the same."""

from collections import Counter

import numpy as np
import pytest
import torch

from flexray.data import picture_data
from flexray.data.image_grid import ImageGrid
from flexray.data.pictures import Files, PictureCache
from flexray.data.views import Views
from helpers.drawing import image_folder, view_folder

IDS = np.arange(6)
PIXELS = 8 * 8 * 3


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count how often each file is opened."""
    counts: Counter[str] = Counter()
    really = Files.open

    def count(files: Files, sample: int) -> object:
        counts[files._files[sample]] += 1
        return really(files, sample)

    monkeypatch.setattr(Files, "open", count)
    return counts


def test_parties_of_a_process_open_a_picture_once(tmp_path, opened):
    dataset = ImageGrid(image_folder(tmp_path), size=8, workers=0)
    first, second = (dataset.features(party, torch.float32)["test"] for party in (0, 1))
    once = first.batch(IDS, 0)
    assert torch.equal(first.batch(IDS, 3), once)
    second.batch(IDS, 0)
    assert set(opened.values()) == {1}
    assert len(opened) == 6


def test_of_random_crops_those_of_the_first_epoch_stay(tmp_path, opened):
    train = ImageGrid(image_folder(tmp_path), size=8, workers=0).features(0, torch.float32)["train"]
    first = train.batch(IDS, 0)
    for epoch in (1, 1, 0):
        again = train.batch(IDS, epoch)
    assert torch.equal(again, first)
    assert set(opened.values()) == {3}


def test_a_training_picture_is_no_test_picture_and_a_view_no_other_view(tmp_path):
    grid = ImageGrid(image_folder(tmp_path / "grid"), size=8, augment=False)
    views = Views(view_folder(tmp_path / "views"), size=4, views=3, augment=False)
    parts = [grid.features(0, torch.float32)[split].batch(IDS[:2], 0) for split in ("train", "test")]
    parts += [views.features(party, torch.float32)["train"].batch(IDS[:2], 0) for party in (0, 1)]
    assert not torch.equal(parts[0], parts[1])
    assert not torch.equal(parts[2], parts[3])


def test_what_does_not_fit_is_read_every_time(tmp_path, opened, monkeypatch):
    monkeypatch.setattr(picture_data, "PictureCache", lambda: PictureCache(2 * PIXELS + 1))
    test = ImageGrid(image_folder(tmp_path), size=8, workers=0).features(0, torch.float32)["test"]
    assert torch.equal(test.batch(IDS, 0), test.batch(IDS, 0))
    assert sorted(opened.values()) == [1, 1, 2, 2, 2, 2]


def test_a_copy_of_the_dataset_for_another_process_has_no_pictures(tmp_path):
    dataset = ImageGrid(image_folder(tmp_path), size=8)
    dataset.features(0, torch.float32)["test"].batch(IDS, 0)
    assert "_cache" in vars(dataset)
    assert "_cache" not in dataset.__getstate__()


@pytest.mark.parametrize("augment", [True, False])
def test_a_run_has_the_same_model_without_memory_for_pictures(tmp_path, compose_job, run_inline, monkeypatch, augment):
    image_folder(tmp_path, height=10, width=12)
    job = compose_job(
        "dataset=imagenet100", "algo=vafl", f"dataset.path={tmp_path}", "dataset.size=8", f"dataset.augment={augment}",
        "embedding=3", "model=mlp", "target_metric=test_top1", "dataset.batch_size=4", "rounds=9", "eval_every=3",
    )  # fmt: skip
    ends = []
    for most_bytes in (0, 3 * PIXELS, 10**6):
        monkeypatch.setattr(picture_data, "PictureCache", lambda most=most_bytes: PictureCache(most))
        ends.append(run_inline(job)[-1].digests)
    assert ends[0] == ends[1] == ends[2]
