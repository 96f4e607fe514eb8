"""The cleaned data in the cache: whatever is damaged there is made again."""

import json
import os

import numpy as np
import pytest
import torch

from flexray.core.errors import DataError
from flexray.data.sentiment import Sentiment
from helpers.sentiment_files import SIZES, arrays, infomax


def flat(folder):
    arrays(folder)
    for split, rows in SIZES.items():
        np.save(folder / split / "text.npy", np.ones((rows, 2)) * np.arange(rows)[:, None])
        (folder / split / "sentences.csv").unlink()
    return folder


def tokens(folder):
    flat(folder)
    for split, rows in SIZES.items():
        np.save(folder / split / "text.npy", np.full((rows, 4), 3))
    return folder


WRITERS = {"sentences": infomax, "flat": flat, "tokens": tokens}
FILES = {
    "sentences": ["report.json", "train/video.npy", "val/audio_lengths.npy", "test/text.json", "train/labels.npy"],
    "flat": ["train/text.npy", "text_mean.npy", "audio_deviation.npy", "test/ids.npy"],
    "tokens": ["test/text.npy", "val/text_lengths.npy"],
}


def cut(file):
    file.write_bytes(file.read_bytes()[: file.stat().st_size * 2 // 3])


def shorten(file):
    """Leave a whole file that lacks the last entry."""
    if file.suffix == ".npy" and file.parent.name in SIZES:
        np.save(file, np.load(file)[:-1])
    else:
        file.write_text("{}" if file.name == "report.json" else "[]")


DAMAGE = {
    "missing": lambda file: file.unlink(),
    "empty": lambda file: file.write_bytes(b""),
    "cut": cut,
    "short": shorten,
}


def content(data):
    features = data.features(0, torch.float32)["train"]
    return [*features.batch(np.arange(6), 0), *map(torch.from_numpy, data.labels().values())]


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize(("kind", "file"), [(kind, file) for kind, files in FILES.items() for file in files])
def test_a_damaged_store_is_made_again(kind, file, damage, tmp_path, caplog):
    folder, cache = WRITERS[kind](tmp_path / "data"), tmp_path / "cache"
    before = content(Sentiment(folder, cache=cache))
    [store] = cache.iterdir()
    DAMAGE[damage](store / file)
    caplog.clear()
    after = content(Sentiment(folder, cache=cache))
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    assert [r.getMessage() for r in caplog.records] == [f"dataset.cache: {store} is damaged, so it is made again"]
    assert list(cache.iterdir()) == [store]
    caplog.clear()
    content(Sentiment(folder, cache=cache))
    assert not caplog.records


def test_a_store_that_cannot_be_made_again_is_named(tmp_path):
    folder, cache = infomax(tmp_path / "data"), tmp_path / "cache"
    assert Sentiment(folder, cache=cache)._store
    [store] = cache.iterdir()
    for part in sorted(store.rglob("*"), reverse=True):
        part.rmdir() if part.is_dir() else part.unlink()
    store.rmdir()
    store.write_text("a file")
    with pytest.raises(DataError, match=rf"^dataset.cache: cannot write {store}: "):
        Sentiment(folder, cache=cache)._store  # noqa: B018


REPORTS = {
    "nested": lambda report: "[" * 10_000,
    "list": lambda report: [],
    "dropped": lambda report: {**report, "dropped": {"train": {"text": 3}}},
    "dropped numbers": lambda report: {**report, "dropped": {"train": {"text": [3]}}},
    "replaced": lambda report: {**report, "replaced": {"video": "many"}},
    "sizes": lambda report: {**report, "sizes": [6, 2, 3]},
    "where": lambda report: {**report, "where": {"train": "here", "test": "there"}},
    "kinds": lambda report: {**report, "kinds": {}},
    "no widths": lambda report: {key: value for key, value in report.items() if key != "widths"},
}


@pytest.mark.parametrize("kind", REPORTS)
def test_a_report_that_is_none_is_made_again(kind, tmp_path, caplog):
    folder, cache = infomax(tmp_path / "data"), tmp_path / "cache"
    good = Sentiment(folder, cache=cache)._store.report
    [store] = cache.iterdir()
    report = REPORTS[kind](good)
    (store / "report.json").write_text(report if isinstance(report, str) else json.dumps(report))
    assert Sentiment(folder, cache=cache)._store.report == good
    assert "is damaged, so it is made again" in caplog.text


def test_a_pipe_in_a_store_is_not_waited_for(tmp_path):
    folder, cache = infomax(tmp_path / "data"), tmp_path / "cache"
    before = content(Sentiment(folder, cache=cache))
    [store] = cache.iterdir()
    for name in ("report.json", "train/video.npy", "train/text.json", "audio_mean.npy"):
        (store / name).unlink()
        os.mkfifo(store / name)
        after = content(Sentiment(folder, cache=cache))
        assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
