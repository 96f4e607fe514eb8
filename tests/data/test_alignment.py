"""Parties with lists of IDs of their own: samples that all have, or any."""

from __future__ import annotations

import csv
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from flexray.core.errors import ConfigError, DataError
from flexray.data.base import SPLITS
from flexray.data.bundle import Bundle
from flexray.data.table import Table
from flexray.predict import run_command as predict_command
from flexray.run.command import run_command
from helpers.tables import N, file_per_party, one_file

SHOP_LACKS = {"002", "005", "011", "017"}


def lacking(tables: dict[str, Any]) -> None:
    """Take four samples from the shop, and give it one that has no label."""
    shop = tables["shop"][~tables["shop"]["id"].isin(SHOP_LACKS)]
    tables["shop"] = pd.concat([shop, pd.DataFrame({"visits": [9.0], "id": ["x"]})])


def all_of(data: Table | Bundle, party: int, split: str) -> dict[str, float]:
    """Return the first feature of every sample of a split by ID, of those that the party has."""
    features = data.features(party, torch.float64)[split]  # type: ignore[index]
    ids, present = data.sample_ids(split), data.outline().present  # type: ignore[arg-type]
    here = np.ones(len(ids), bool) if present is None else present[split][:, party]  # type: ignore[index]
    rows = np.flatnonzero(here)
    return dict(zip(map(str, ids[rows]), features.batch(rows, 0)[:, 0].tolist(), strict=True))


def of_all_splits(data: Table | Bundle, party: int) -> dict[str, float]:
    return {key: value for split in SPLITS for key, value in all_of(data, party, split).items()}


def test_tables_have_the_samples_of_all_or_of_any(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    known = of_all_splits(file_per_party(tmp_path, standardize=False), 1)
    with caplog.at_level(logging.WARNING):
        both = file_per_party(tmp_path, edit=lacking, alignment="intersection", standardize=False)
        outline = both.outline()
    assert sum(outline.sizes.values()) == N - 4
    assert outline.present is None
    assert "4 samples left out that not all parties have: 002, 005, 011, ..." in caplog.text
    assert "party 'shop': 1 samples without labels are left out: x" in caplog.text
    any_ = file_per_party(tmp_path, edit=lacking, alignment="union", standardize=False)
    present = any_.outline().present
    assert present is not None
    assert sum(any_.outline().sizes.values()) == N
    lost = {
        str(sample)
        for split in SPLITS
        for sample, here in zip(any_.sample_ids(split), present[split][:, 1], strict=True)
        if not here
    }
    assert lost == SHOP_LACKS
    assert all(present[split][:, 0].all() for split in SPLITS)
    for data in (both, any_):
        found = of_all_splits(data, 1)
        assert found == {key: value for key, value in known.items() if key not in SHOP_LACKS}
        labels = {str(i): int(y) for s in SPLITS for i, y in zip(data.sample_ids(s), data.labels()[s], strict=True)}
        assert all(labels[key] == int(key) % 3 for key in labels)


def test_scaling_is_fitted_to_the_training_rows_that_a_party_has(tmp_path: Path) -> None:
    values = np.array(list(all_of(file_per_party(tmp_path, edit=lacking, alignment="union"), 1, "train").values()))
    assert values.mean() == pytest.approx(0, abs=1e-12)
    assert values.std() == pytest.approx(1)


def test_lists_that_do_not_differ_are_as_ever(tmp_path: Path) -> None:
    plain = file_per_party(tmp_path)
    for how in ("intersection", "union"):
        data = file_per_party(tmp_path, alignment=how)
        assert data.outline() == plain.outline()
        assert data.outline().present is None
        assert [of_all_splits(data, k) for k in range(2)] == [of_all_splits(plain, k) for k in range(2)]


def test_what_cannot_be_aligned_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"lacks IDs that .*bank.csv has"):
        file_per_party(tmp_path, edit=lacking).features(1, torch.float32)
    with pytest.raises(ConfigError, match=r"dataset.alignment: unknown value 'unoin'; did you mean 'union'"):
        file_per_party(tmp_path, alignment="unoin")
    with pytest.raises(ConfigError, match=r"dataset.alignment: goes with dataset.files only"):
        one_file(tmp_path, alignment="union")

    def apart(tables: dict[str, Any]) -> None:
        tables["shop"] = tables["shop"].assign(id=[f"s{k}" for k in range(N)])

    with pytest.raises(DataError, match=r"bank.csv: has no sample that all of the parties bank, shop have"):
        file_per_party(tmp_path, edit=apart, alignment="intersection").outline()


@pytest.fixture
def arrays(tmp_path: Path) -> Path:
    """Two parties; ``b`` has every second training sample, backwards, and one of its own; all test samples."""
    draw = np.random.default_rng(3)
    for split, rows in (("train", 12), ("test", 6)):
        folder = tmp_path / "arrays" / split
        folder.mkdir(parents=True)
        ids = np.array([f"{split}{row:02}" for row in range(rows)])
        own = np.array([*ids[::-2], "alone"]) if split == "train" else ids
        np.save(folder / "ids.npy", ids)
        np.save(folder / "labels.npy", np.arange(rows) % 3)
        np.save(folder / "a.npy", draw.normal(size=(rows, 2)))
        np.save(folder / "b.npy", np.arange(len(own), dtype=float)[:, None] + draw.normal(size=(1, 3)))
        if split == "train":
            np.save(folder / "b_ids.npy", own)
    return tmp_path / "arrays"


def test_arrays_too(arrays: Path) -> None:
    lists = np.load(arrays / "train" / "b_ids.npy")
    values = dict(zip(lists.tolist(), np.load(arrays / "train" / "b.npy")[:, 0].tolist(), strict=True))
    values.pop("alone")
    both, any_ = (Bundle(arrays, alignment=how) for how in ("intersection", "union"))
    assert both.outline().parties == any_.outline().parties == ("a", "b")
    assert (both.outline().sizes["train"], any_.outline().sizes["train"]) == (6, 12)
    assert both.outline().present is None
    for data in (both, any_, Bundle(arrays, alignment="union", val_fraction=0.25)):
        found = all_of(data, 1, "train")
        assert found == {key: values[key] for key in found}
        expected = {f"train{row:02}": row % 3 for row in range(12)}
        for split in ("train", "val"):
            ids = map(str, data.sample_ids(split))  # type: ignore[arg-type]
            assert all(expected[i] == y for i, y in zip(ids, data.labels()[split], strict=True))  # type: ignore[index]
    scaled = np.array(list(all_of(Bundle(arrays, alignment="union", scale="standard"), 1, "train").values()))
    assert (scaled.mean(), scaled.std()) == (pytest.approx(0, abs=1e-12), pytest.approx(1))
    (arrays / "train" / "ids.npy").unlink()
    with pytest.raises(DataError, match=r"train/ids.npy: no such file; dataset.alignment needs the labels' IDs"):
        Bundle(arrays, alignment="union").outline()


def test_a_run_on_a_union_and_its_predictions(tmp_path: Path) -> None:
    file_per_party(tmp_path, edit=lacking)
    words = (
        "dataset=table", f"dataset.files={{bank:'{tmp_path}/bank.csv',shop:'{tmp_path}/shop.csv'}}", "dataset.id=id",
        "dataset.label=y", "dataset.alignment=union", "dataset.test_fraction=0.5", "missing.stand_in=learned",
    )  # fmt: skip
    quiet = ("cluster=inline", "progress=false", "rounds=3", "dataset.batch_size=5", "model.hidden=[4]")
    run = tmp_path / "run"
    assert run_command([*words, *quiet, f"hydra.run.dir={run}"]) == 0
    assert predict_command([str(run), "-o", str(tmp_path / "all.csv"), "--split", "all"]) == 0
    with (tmp_path / "all.csv").open(encoding="utf-8") as file:
        assert {row["id"] for row in csv.DictReader(file)} == {f"{row:03}" for row in range(N)}
