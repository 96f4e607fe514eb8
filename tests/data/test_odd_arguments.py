"""Every argument of every dataset takes any value: it is used, or refused in one line that names its key."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flexray.core.errors import UserError
from flexray.data.base import Dataset
from flexray.data.bundle import Bundle
from flexray.data.digits import Digits
from flexray.data.image_grid import ImageGrid
from flexray.data.sentiment import Sentiment
from flexray.data.table import Table
from flexray.data.views import Views

ODD: list[Any] = [None, True, False, -1, 0, 7, 10**30, 10**400, 0.5, 1e308, float("nan"), "", "x", "a\0b", "/dev/zero"]
ODD += [[], [1, 2], [None], {}, {"x": None}, {1: [2]}, {"train": None}, {"train": 10**30}, {"steps": 1.5}]
GOOD: dict[type[Dataset], dict[str, Any]] = {
    Digits: {},
    Bundle: {"path": "data"},
    Table: {"path": "table.csv", "label": "y", "parties": {"left": ["x"], "right": ["z"]}},
    ImageGrid: {"synthetic_train": 10, "synthetic_test": 10},
    Views: {"synthetic_train": 10, "synthetic_test": 10},
    Sentiment: {"standin": {"train": 6, "test": 4, "steps": 5}},
}


@pytest.fixture
def _data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    draw = np.random.default_rng(1)
    Path("table.csv").write_text("x,y,z\n" + "".join(f"{k}.5,{k % 3},{k * k}\n" for k in range(12)))
    for split in ("train", "test"):
        (tmp_path / "data" / split).mkdir(parents=True)
        for name in ("a", "b"):
            np.save(tmp_path / "data" / split / f"{name}.npy", draw.normal(size=(12, 2)))
        np.save(tmp_path / "data" / split / "labels.npy", np.arange(12) % 3)


@pytest.mark.usefixtures("_data")
@pytest.mark.parametrize("kind", GOOD, ids=lambda kind: kind.__name__)
def test_any_value_is_used_or_refused_in_one_line(kind: type[Dataset]) -> None:
    wrong = []
    for field in fields(kind):  # type: ignore[arg-type]
        for value in ODD:
            try:
                dataset = kind(**{**GOOD[kind], field.name: value})
                outline = dataset.outline()
                for split, size in outline.sizes.items():
                    assert len(dataset.sample_ids(split)) == size
                dataset.labels()
            except UserError as error:
                if len(str(error).splitlines()) != 1 or len(str(error)) > 1000:
                    wrong.append((field.name, value, str(error)[:300]))
            except Exception as error:  # noqa: BLE001 - all of them are told at once
                wrong.append((field.name, value, repr(error)[:300]))
    assert not wrong, "\n".join(map(str, wrong))
