"""Batches that are read before they are asked for: the same numbers, no more of them than announced."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from flexray.data.ahead import Ahead, expect
from flexray.data.base import ArrayFeatures
from flexray.data.batches import Batch, BatchStream
from flexray.data.image_grid import ImageGrid
from flexray.errors import DataError
from pictures.drawing import image_folder


class Reader:
    """Counts what it reads; sample 99 is broken."""

    def __init__(self):
        self.read, self.threads, self.lock = [], set(), threading.Lock()

    def __call__(self, ids_b, epoch):
        with self.lock:
            self.read += ids_b.tolist()
            self.threads.add(threading.get_ident())
        if 99 in ids_b:
            raise DataError("p99.png: cannot be read")
        return np.stack([ids_b, np.full(len(ids_b), epoch)], axis=1)


def batch(*ids, epoch=0):
    return Batch(np.array(ids), epoch)


@pytest.mark.parametrize("workers", [1, 2, 3, 8])
def test_an_announced_batch_is_read_once_in_threads_and_in_order(workers):
    reader = Reader()
    with ThreadPoolExecutor(workers) as pool:
        ahead = Ahead(reader, pool, workers)
        ahead.expect([batch(5, 3, 9, 1), batch(2, 4)])
        ahead.expect([batch(5, 3, 9, 1), batch(2, 4)])
        assert ahead.take(np.array([5, 3, 9, 1]), 0)[:, 0].tolist() == [5, 3, 9, 1]
        assert ahead.take(np.array([2, 4]), 0)[:, 0].tolist() == [2, 4]
    assert sorted(reader.read) == [1, 2, 3, 4, 5, 9]
    assert threading.get_ident() not in reader.threads


def test_a_batch_of_another_epoch_is_another_batch():
    reader = Reader()
    with ThreadPoolExecutor(1) as pool:
        ahead = Ahead(reader, pool, 1)
        ahead.expect([batch(1, 2, epoch=0)])
        assert ahead.take(np.array([1, 2]), 1)[:, 1].tolist() == [1, 1]
    assert reader.read.count(1) == 2


def test_what_is_not_announced_any_more_is_forgotten():
    """So that memory holds the announced batches and no others."""
    reader = Reader()
    with ThreadPoolExecutor(1) as pool:
        ahead = Ahead(reader, pool, 1)
        for i in range(50):
            ahead.expect([batch(i), batch(i + 1), batch(i + 2)])
            assert len(ahead._pending) <= 3
        ahead.expect([])
        assert not ahead._pending


def test_an_error_is_raised_where_the_batch_is_used():
    with ThreadPoolExecutor(1) as pool:
        ahead = Ahead(Reader(), pool, 1)
        ahead.expect([batch(1), batch(99)])
        assert ahead.take(np.array([1]), 0).shape == (1, 2)
        with pytest.raises(DataError, match=r"^p99.png: cannot be read$"):
            ahead.take(np.array([99]), 0)


def test_without_threads_nothing_is_read_ahead():
    reader = Reader()
    ahead = Ahead(reader, None, 0)
    ahead.expect([batch(1)])
    assert reader.read == []
    assert ahead.take(np.array([1]), 0).tolist() == [[1, 0]]


def test_features_in_memory_need_no_announcement():
    expect(ArrayFeatures(np.zeros((3, 2)), torch.float32), iter([batch(0)]))


def test_as_many_batches_are_announced_as_are_wanted(tmp_path):
    dataset = ImageGrid(image_folder(tmp_path), size=8, batches_ahead=2)
    features = dataset.features(0, torch.float32)["train"]
    stream = BatchStream(9, 2, seed=0)
    expect(features, (stream.batch(i) for i in range(1000)))
    assert len(features._ahead._pending) == 3


@pytest.mark.parametrize("algo", ["flex", "vafl"])
def test_numbers_do_not_depend_on_who_reads(tmp_path, compose_job, run_inline, algo):
    image_folder(tmp_path, height=10, width=12)
    keys = ["dataset=imagenet100", f"algo={algo}", f"dataset.path={tmp_path}", "dataset.size=8", "embedding=3",
            "target_metric=test_top1"]  # fmt: skip
    digests = [
        run_inline(
            compose_job(*keys, "model=strided_cnn", "dataset.batch_size=4", f"dataset.workers={workers}", "rounds=6")
        )[-1].digests
        for workers in (0, 1, 3)
    ]
    assert digests[0] == digests[1] == digests[2]
