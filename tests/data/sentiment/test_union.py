"""Samples of sentiment that lack a modality: dropped, or kept without it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from flexray.core.errors import ConfigError
from flexray.data.sentiment.dataset import Sentiment
from helpers.sentiment_files import SIZES, arrays, infomax

LACKS = {"video": {1, 4}, "audio": {4}, "text": {2, 4}}
"""Training samples (by row) that a modality does not have; nobody has the fifth."""


def lacking(split: str, plain: list[dict[str, Any]]) -> None:
    for row, sample in enumerate(plain if split == "train" else []):
        for name, width in (("video", 4), ("audio", 3)):
            if row in LACKS[name]:
                sample[name] = np.zeros((0, width))
        if row in LACKS["text"]:
            sample["words"] = []


def test_a_union_keeps_what_a_modality_lacks(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = infomax(tmp_path / "i", lacking)
    dropped = Sentiment(folder, cache=tmp_path / "cache", standardize=False)
    kept = Sentiment(folder, cache=tmp_path / "cache", standardize=False, alignment="union")
    assert dropped._store.report["sizes"] == {**SIZES, "train": 3}
    assert kept._store.report["sizes"] == {**SIZES, "train": 5}
    assert kept.sample_ids("train").tolist() == [f"train$_${row}" for row in (0, 1, 2, 3, 5)]
    present = kept._present(kept._store.report["sizes"])
    assert present is not None
    expected = [[row not in LACKS[name] for name in ("video", "audio", "text")] for row in (0, 1, 2, 3, 5)]
    assert present["train"].tolist() == expected
    assert present["test"].all()
    with caplog.at_level(logging.WARNING):
        kept._log(kept._store.report)
    assert "train: 2 samples have no video: train$_$1, train$_$4" in caplog.text
    for party, rows in ((0, [0, 2, 3, 4]), (1, [0, 1, 2, 3, 4])):
        both = [data.features(party, torch.float64)["train"] for data in (dropped, kept)]
        one, other = both[0].batch(np.arange(3), 0), both[1].batch(np.array([0, 3, 4]), 0)
        for a, b in zip(one, other, strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=0)
        assert all((length > 0).all() for length in both[1].batch(np.array(rows), 0)[1:])


def test_flat_features_are_scaled_by_those_that_are_there(tmp_path: Path) -> None:
    folder = arrays(tmp_path / "a")
    own = {row: f"train$_${row}" for row in range(6) if row != 2}
    for split in SIZES:
        steps, ids = np.load(folder / split / "video.npy"), np.load(folder / split / "ids.npy")
        (folder / split / "video_lengths.npy").unlink()
        rows = list(own) if split == "train" else list(range(len(ids)))
        np.save(folder / split / "video.npy", steps[rows, 0])
        np.save(folder / split / "video_ids.npy", ids[rows])
    data = Sentiment(folder, cache=tmp_path / "cache", alignment="union")
    video_nd = data.features(0, torch.float64)["train"].batch(np.array(list(own)), 0)
    assert isinstance(video_nd, torch.Tensor)
    torch.testing.assert_close(video_nd.mean(dim=0), torch.zeros(4, dtype=torch.float64), rtol=0, atol=1e-6)


def test_an_unknown_word_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"dataset.alignment: unknown value 'all'"):
        Sentiment(alignment="all")  # type: ignore[arg-type]
