"""Samples of several parties at once are those of each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from flexray.data.base import ArrayFeatures
from flexray.data.side_by_side import LARGE, side_by_side

IDS = np.array([3, 0, 3])


def made(*shape: int, seed: int = 0) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def test_samples_of_all_at_once_are_those_of_each_which_share_one_array() -> None:
    arrays = [made(5, 2, 3, seed=k) for k in range(3)]
    features = [ArrayFeatures(array.copy(), torch.float32) for array in arrays]
    load = side_by_side(features)
    assert load is not None
    x_mb = load(IDS)
    assert np.array_equal(x_mb.numpy(), np.stack([array[IDS] for array in arrays]))
    assert x_mb.is_contiguous()
    assert torch.equal(torch.stack([part.batch(IDS, 0) for part in features]), x_mb)
    wholes = [part.whole for part in features]
    assert len({id(whole.base) for whole in wholes if whole is not None}) == 1


def test_what_is_not_alike_or_large_or_scaled_or_on_disk_is_loaded_one_by_one(tmp_path: Path) -> None:
    plain = ArrayFeatures(made(5, 2), torch.float32)
    file = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float32, (5, 2))
    others = {
        "another shape": ArrayFeatures(made(5, 3), torch.float32),
        "another type": ArrayFeatures(made(5, 2), torch.float64),
        "on disk": ArrayFeatures(file, torch.float32),
        "scaled": ArrayFeatures(made(5, 2), torch.float32, scaling=(1.0, 2.0)),
    }
    for other in others.values():
        assert side_by_side([plain, other]) is None
    large = [ArrayFeatures(made(5, LARGE), torch.float32) for _ in range(2)]
    assert side_by_side(large) is side_by_side([plain]) is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_memory_is_torchs_own(dtype: torch.dtype) -> None:
    load = side_by_side([ArrayFeatures(made(5, 3), dtype) for _ in range(2)])
    assert load is not None
    assert load(IDS).dtype == dtype
    assert load(IDS).data_ptr() % 64 == 0
