"""Batches that are read before they are asked for: the same numbers, no more of them than announced."""

import os
import pickle
import signal
import threading
import time
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import torch

from flexray.core.errors import DataError
from flexray.data.ahead import ProcessReader, Reader, ThreadReader, expect
from flexray.data.base import ArrayFeatures
from flexray.data.batches import Batch, BatchStream
from flexray.data.image_grid import ImageGrid
from helpers.drawing import image_folder

AHEAD = 2
KINDS = {"threads": ThreadReader, "processes": ProcessReader}


class Samples:
    """Tells of every sample its ID, the epoch, and who read it; leaves a file for each; sample 99 is broken."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, ids_b, epoch):
        for sample in ids_b.tolist():
            with (self.folder / f"{sample}-{epoch}").open("a") as file:
                file.write("x")
        if 99 in ids_b:
            raise DataError("p99.png: cannot be read")
        who = (os.getpid(), threading.get_ident())
        return torch.tensor([[sample, epoch, *who] for sample in ids_b.tolist()])

    def read(self):
        """Return (sample, epoch) of everything that was read, as often as it was."""
        files = sorted(self.folder.iterdir())
        return [tuple(map(int, file.name.split("-"))) for file in files for _ in file.read_text()]


def batch(*ids, epoch=0):
    return Batch(np.array(ids), epoch)


def reader(kind, folder, workers=1):
    samples = Samples(folder)
    return samples, KINDS[kind]({"train": samples, "test": samples}, workers, AHEAD)


def until(condition):
    """Wait up to ten seconds until something holds."""
    end = time.monotonic() + 10
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    assert condition()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("workers", [1, 2])
def test_an_announced_batch_is_read_once_by_workers_and_in_order(tmp_path, kind, workers):
    samples, ahead = reader(kind, tmp_path, workers)
    batches = [batch(5, 3, 9, 1), batch(2, 4), batch(7)]
    ahead.expect("train", batches)
    ahead.expect("train", batches)
    for place, due in enumerate(batches):
        ahead.expect("train", batches[place:])
        found = ahead.take("train", due)
        assert found[:, 0].tolist() == due.ids_b.tolist()
        assert not {(os.getpid(), threading.get_ident())} & {tuple(who) for who in found[:, 2:].tolist()}
        assert {pid == os.getpid() for pid in found[:, 2].tolist()} == {kind == "threads"}
    assert samples.read() == [(sample, 0) for sample in (1, 2, 3, 4, 5, 7, 9)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_of_another_epoch_or_split_is_another_batch(tmp_path, kind):
    samples, ahead = reader(kind, tmp_path)
    ahead.expect("train", [batch(1, 2, epoch=0)])
    until(lambda: len(samples.read()) == 2)
    assert ahead.take("train", batch(1, 2, epoch=1))[:, 1].tolist() == [1, 1]
    assert ahead.take("test", batch(1, 2, epoch=0))[:, 0].tolist() == [1, 2]
    assert samples.read() == [(1, 0), (1, 0), (1, 1), (2, 0), (2, 0), (2, 1)]
    assert ahead.take("train", batch(1, 2, epoch=0))[:, 0].tolist() == [1, 2]
    assert len(samples.read()) == 6


@pytest.mark.parametrize("kind", KINDS)
def test_after_an_evaluation_or_a_missed_round_it_goes_on(tmp_path, kind):
    _, ahead = reader(kind, tmp_path, workers=2)
    stream = BatchStream(20, 4, seed=0)
    for split, start in (("train", 0), ("train", 1), ("test", 0), ("train", 2), ("train", 4), ("train", 5)):
        ahead.expect(split, (stream.batch(i) for i in count(start)))
        due = stream.batch(start)
        assert ahead.take(split, due)[:, :2].tolist() == [[sample, due.epoch] for sample in due.ids_b.tolist()]


@pytest.mark.parametrize("kind", KINDS)
def test_no_more_is_read_than_was_announced(tmp_path, kind):
    """So that memory holds these batches and no others."""
    samples, ahead = reader(kind, tmp_path)
    for i in range(20):
        ahead.expect("train", (batch(j) for j in count(i)))
        ahead.take("train", batch(i))
    time.sleep(0.2)
    assert {sample for sample, _ in samples.read()} <= set(range(20 + AHEAD + 1))
    held = ahead._pending if kind == "threads" else ahead._feed.asked
    assert len(held) <= AHEAD + 1


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_is_raised_where_the_batch_is_used(tmp_path, kind):
    _, ahead = reader(kind, tmp_path)
    batches = [batch(1), batch(99), batch(2)]
    ahead.expect("train", batches)
    assert ahead.take("train", batch(1)).shape == (1, 4)
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


def test_processes_leave_the_models_random_numbers_alone_and_end_with_their_reader(tmp_path):
    _, ahead = reader("processes", tmp_path, workers=2)
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    ahead.expect("train", (batch(i) for i in count()))
    workers = {int(ahead.take("train", batch(i))[0, 2]) for i in range(4)}
    assert torch.equal(torch.rand(3), expected)
    assert len(workers) == 2
    del ahead
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))


@pytest.mark.parametrize("fault", [EOFError, ConnectionResetError])
def test_what_is_left_of_a_worker_that_was_killed_is_said(tmp_path, fault):
    """Mostly the loader itself says so first, in the middle of whatever the process is doing."""
    _, ahead = reader("processes", tmp_path)
    ahead.expect("train", (batch(i) for i in count()))

    def broken():
        raise fault
        yield

    ahead._arriving = broken()
    with pytest.raises(RuntimeError, match=r"^a process that reads its data died"):
        ahead.take("train", batch(0))


def test_ctrl_c_reaches_no_worker(tmp_path):
    """The party's process ends its round, for which it needs them."""
    _, ahead = reader("processes", tmp_path)
    ahead.expect("train", (batch(i) for i in count()))
    os.kill(int(ahead.take("train", batch(0))[0, 2]), signal.SIGINT)
    assert [int(ahead.take("train", batch(i))[0, 0]) for i in range(1, 9)] == list(range(1, 9))


def test_what_processes_read_with_can_be_sent_to_them(tmp_path):
    """Where processes do not fork."""
    features = ImageGrid(image_folder(tmp_path), size=8).features(0, torch.float32)["train"]
    again = pickle.loads(pickle.dumps(features._pictures))
    ids = np.arange(3)
    assert torch.equal(again(ids, 1), features._pictures(ids, 1))


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
                f"dataset.worker_kind={kind}", "rounds=6",
            )
        )[-1].digests
        for workers, kind in ((0, "threads"), (1, "threads"), (3, "threads"), (2, "processes"))
    ]  # fmt: skip
    assert digests[0] == digests[1] == digests[2] == digests[3]
