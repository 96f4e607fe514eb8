"""Batches that are read before they are asked for: the same numbers, no more of them than announced."""

import threading
import time
from itertools import count

import numpy as np
import pytest
import torch

from flexray.core.errors import DataError
from flexray.data.ahead import Reader, expect
from flexray.data.base import ArrayFeatures
from flexray.data.batches import Batch, BatchStream
from helpers.drawing import image_folder

AHEAD = 2


class Samples:
    """Returns ID, epoch and reading thread of every sample; leaves a file for each; sample 99 is broken."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, ids_b, epoch):
        for sample in ids_b.tolist():
            with (self.folder / f"{sample}-{epoch}").open("a") as file:
                file.write("x")
        if 99 in ids_b:
            raise DataError("p99.png: cannot be read")
        return torch.tensor([[sample, epoch, threading.get_ident()] for sample in ids_b.tolist()])

    def read(self):
        """Return (sample, epoch) of everything that was read, as often as it was."""
        files = sorted(self.folder.iterdir())
        return [tuple(map(int, file.name.split("-"))) for file in files for _ in file.read_text()]


def batch(*ids, epoch=0):
    return Batch(np.array(ids), epoch)


def reader(folder, workers=1):
    samples = Samples(folder)
    return samples, Reader({"train": samples, "test": samples}, workers, AHEAD)


def until(condition):
    """Wait up to ten seconds until something holds."""
    end = time.monotonic() + 10
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    assert condition()


@pytest.mark.parametrize("workers", [1, 2])
def test_an_announced_batch_is_read_once_by_workers_and_in_order(tmp_path, workers):
    samples, ahead = reader(tmp_path, workers)
    batches = [batch(5, 3, 9, 1), batch(2, 4), batch(7)]
    ahead.expect("train", batches)
    ahead.expect("train", batches)
    for place, due in enumerate(batches):
        ahead.expect("train", batches[place:])
        found = ahead.take("train", due)
        assert found[:, 0].tolist() == due.ids_b.tolist()
        assert threading.get_ident() not in found[:, 2].tolist()
    assert samples.read() == [(sample, 0) for sample in (1, 2, 3, 4, 5, 7, 9)]


def test_a_batch_of_another_epoch_or_split_is_another_batch(tmp_path):
    samples, ahead = reader(tmp_path)
    ahead.expect("train", [batch(1, 2, epoch=0)])
    until(lambda: len(samples.read()) == 2)
    assert ahead.take("train", batch(1, 2, epoch=1))[:, 1].tolist() == [1, 1]
    assert ahead.take("test", batch(1, 2, epoch=0))[:, 0].tolist() == [1, 2]
    assert samples.read() == [(1, 0), (1, 0), (1, 1), (2, 0), (2, 0), (2, 1)]
    assert ahead.take("train", batch(1, 2, epoch=0))[:, 0].tolist() == [1, 2]
    assert len(samples.read()) == 6


def test_after_an_evaluation_or_a_missed_round_it_goes_on(tmp_path):
    _, ahead = reader(tmp_path, workers=2)
    stream = BatchStream(20, 4, seed=0)
    for split, start in (("train", 0), ("train", 1), ("test", 0), ("train", 2), ("train", 4), ("train", 5)):
        ahead.expect(split, (stream.batch(i) for i in count(start)))
        due = stream.batch(start)
        assert ahead.take(split, due)[:, :2].tolist() == [[sample, due.epoch] for sample in due.ids_b.tolist()]


def test_no_more_is_read_than_was_announced(tmp_path):
    """So that memory holds these batches and no others."""
    samples, ahead = reader(tmp_path)
    for i in range(20):
        ahead.expect("train", (batch(j) for j in count(i)))
        ahead.take("train", batch(i))
    time.sleep(0.2)
    assert {sample for sample, _ in samples.read()} <= set(range(20 + AHEAD + 1))
    assert len(ahead._pending) <= AHEAD + 1


def test_an_error_is_raised_where_the_batch_is_used(tmp_path):
    _, ahead = reader(tmp_path)
    batches = [batch(1), batch(99), batch(2)]
    ahead.expect("train", batches)
    assert ahead.take("train", batch(1)).shape == (1, 3)
    with pytest.raises(DataError, match=r"^p99.png: cannot be read$"):
        ahead.take("train", batch(99))
    ahead.expect("train", batches[2:])
    assert ahead.take("train", batch(2))[:, 0].tolist() == [2]


def test_a_reader_without_workers_reads_nothing_ahead(tmp_path):
    samples = Samples(tmp_path)
    ahead = Reader({"train": samples})
    ahead.expect("train", [batch(1)])
    assert samples.read() == []
    assert ahead.take("train", batch(1))[:, 0].tolist() == [1]


def test_features_in_memory_need_no_announcement():
    expect(ArrayFeatures(np.zeros((3, 2)), torch.float32), iter([batch(0)]))


@pytest.mark.parametrize("algo", ["flex", "vafl"])
def test_numbers_do_not_depend_on_who_reads(tmp_path, compose_job, run_inline, algo):
    image_folder(tmp_path, height=10, width=12)
    keys = ["dataset=imagenet100", f"algo={algo}", f"dataset.path={tmp_path}", "dataset.size=8", "embedding=3",
            "target_metric=test_top1"]  # fmt: skip
    digests = [
        run_inline(
            compose_job(
                *keys, "model=strided_cnn", "dataset.batch_size=4", f"dataset.workers={workers}",
                "rounds=6",
            )
        )[-1].digests
        for workers in (0, 1, 3)
    ]  # fmt: skip
    assert digests[0] == digests[1] == digests[2]
