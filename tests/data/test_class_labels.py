"""What labels make of a task: which class numbers stay, which are numbered anew, and which can be no classes."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flexray import predict
from flexray.core.errors import DataError
from flexray.data.base import SavedModel
from flexray.data.bundle import Bundle
from flexray.data.rows import make_task, numbered
from flexray.data.table import Table
from flexray.run.command import run_command

KINDS = {
    "from 0": ([0, 1, 2], 3, ()),
    "from 1": ([1, 2, 3], 4, ()),
    "zero alone": ([0], 1, ()),
    "one alone": ([1], 2, ()),
    "truth values": ([False, True], 2, ()),
    "tens": ([10, 20, 30], 3, ("10", "20", "30")),
    "tens from 0": ([0, 10, 20], 3, ("0", "10", "20")),
    "by size, not as texts": ([100, 9, 20], 3, ("9", "20", "100")),
    "one gap": ([0, 1, 3], 3, ("0", "1", "3")),
    "from 2": ([2, 3], 2, ("2", "3")),
    "large": ([0, 2**53], 2, ("0", str(2**53))),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["i8", "f8"])
def test_numbers_with_gaps_are_classes_by_name(kind: str, dtype: str) -> None:
    values, outputs, names = KINDS[kind]
    labels = np.array([*values, *values][::-1], dtype="?" if kind == "truth values" else dtype)
    task = make_task("cross_entropy", None, labels[:2], labels[2:])
    assert (task.num_outputs, task.classes) == (outputs, names)
    found = task.check_labels(numbered(labels, task, "here"), "here")
    expected = [sorted(values).index(value) for value in labels] if names else labels
    np.testing.assert_array_equal(found, expected)
    assert make_task("cross_entropy", 101, labels).classes == ()
    assert make_task("mse", None, labels).classes == ()


@pytest.mark.parametrize("bad", [-1, 1.5, np.nan, np.inf, 2.0**60])
def test_a_label_that_is_no_class_number_is_refused_by_row(bad: float) -> None:
    labels = np.array([0, 10, bad, 20])
    task = make_task("cross_entropy", None, labels)
    assert task.classes == ()
    with pytest.raises(DataError, match=r"^here: row 2: label .* is out of range, expected a whole number from 0 to"):
        task.check_labels(numbered(labels, task, "here"), "here")


@pytest.mark.parametrize(
    ("different", "rows", "refused"),
    [(20, 20, False), (21, 42, False), (22, 42, True), (1000, 5000, False), (1001, 5000, True), (10**6, 10**6, True)],
)
def test_labels_as_different_as_quantities_are_refused(different: int, rows: int, refused: bool) -> None:
    labels = np.arange(rows) % different
    if not refused:
        assert make_task("cross_entropy", None, labels).num_outputs == different
        return
    with pytest.raises(DataError) as caught:
        make_task("cross_entropy", None, labels[:5], labels[5:], where="t.csv: column 'price'")
    assert str(caught.value) == (
        f"t.csv: column 'price': has {different:,} different labels in {rows:,} rows; expected dataset.loss=l1 or mse"
        " for quantities, or dataset.num_outputs if there are so many classes"
    )
    assert make_task("cross_entropy", different, labels).num_outputs == different
    assert make_task("l1", None, labels).num_outputs == 1


def table(path: Path, labels: list[Any], rows: int = 60) -> Path:
    draw = np.random.default_rng(3).normal(size=(rows, 2))
    lines = [f"{x},{y},{labels[row % len(labels)]}" for row, (x, y) in enumerate(draw)]
    path.write_text("\n".join(["x,y,label", *lines]) + "\n", encoding="utf-8")
    return path


def of(path: Path, **options: Any) -> Table:
    return Table(path, "label", {"left": ["x"], "right": ["y"]}, **options)


def test_words_as_different_as_names_are_refused(tmp_path: Path) -> None:
    file = table(tmp_path / "t.csv", [f"customer {k}" for k in range(60)])
    with pytest.raises(DataError, match=rf"^{file}: column 'label': has 60 different labels in 60 rows; expected"):
        of(file).outline()
    assert of(file, num_outputs=60).outline().task.num_outputs == 60


def test_a_saved_model_gives_its_classes_their_numbers(tmp_path: Path) -> None:
    saved = SavedModel(3, ("10", "20", "30"), has_new_data=True)
    for labels, found in (([30, 10], [2, 0]), ([30.0, 10.0], [2, 0]), (["30", "10"], [2, 0]), ([20], [1])):
        dataset = of(table(tmp_path / "t.csv", labels)).for_prediction(saved)
        assert dataset.outline().task.classes == saved.classes
        assert dataset.labels()["test"].tolist() == [found[row % len(found)] for row in range(60)]
    dataset = of(table(tmp_path / "t.csv", [10, 40])).for_prediction(saved)
    with pytest.raises(DataError, match=r"label': row 1: '40' is no class of the saved model; it has: 10, 20, 30$"):
        dataset.labels()
    by_words = of(table(tmp_path / "t.csv", [10, 20])).for_prediction(SavedModel(2, ("10", "?"), has_new_data=True))
    with pytest.raises(DataError, match=r"label': row 1: '20' is no class of the saved model; it has: 10, \?$"):
        by_words.labels()
    by_number = of(table(tmp_path / "t.csv", [0, 2])).for_prediction(SavedModel(3, (), has_new_data=True))
    assert by_number.labels()["test"].tolist()[:2] == [0, 2]
    assert by_number.outline().task.classes == ()


def bundle(root: Path, labels: list[int]) -> Path:
    for split, rows in (("train", 24), ("test", 8)):
        (root / split).mkdir(parents=True)
        for name in "ab":
            np.save(root / split / f"{name}.npy", np.random.default_rng(1).normal(size=(rows, 2)))
        np.save(root / split / "labels.npy", np.array(labels)[np.arange(rows) % len(labels)])
    return root


def test_a_bundle_is_numbered_over_all_splits(tmp_path: Path) -> None:
    root = bundle(tmp_path / "b", [7, 3])
    np.save(root / "test" / "labels.npy", np.array([3, 7, 9, 9, 3, 3, 7, 7]))
    dataset = Bundle(root)
    assert dataset.outline().task.classes == ("3", "7", "9")
    assert dataset.labels()["train"].tolist()[:3] == [1, 0, 1]
    assert dataset.labels()["test"].tolist() == [0, 1, 2, 2, 0, 0, 1, 1]
    np.save(root / "test" / "labels.npy", np.full(8, 5))
    again = dataset.for_prediction(SavedModel(3, ("3", "7", "9")))
    with pytest.raises(DataError, match=rf"^{root}/test/labels.npy: row 0: '5' is no class of the saved model"):
        again.labels()
    assert Bundle(root, num_outputs=10).labels()["test"].tolist() == [5] * 8


QUICK = ("cluster=inline", "progress=false", "rounds=2", "dataset.batch_size=8", "model=linear")


@pytest.mark.parametrize("kind", ["table", "bundle"])
def test_a_run_its_resumption_and_predictions_tell_classes_as_they_were(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    data = [f"dataset.path={bundle(tmp_path / 'b', [10, 20, 30])}"]
    if kind == "table":
        file = table(tmp_path / "t.csv", [10, 20, 30])
        data = [f"dataset.path={file}", "dataset.label=label", "dataset.parties={left:[x],right:[y]}"]
    assert run_command([*QUICK, f"dataset={kind}", *data, "hydra.run.dir=run"]) == 0
    assert run_command(["resume=run", "rounds=4"]) == 0
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert (summary["rounds"], summary["num_outputs"], summary["classes"]) == (4, 3, ["10", "20", "30"])
    assert predict.run_command(["run", "-o", "p.csv"]) == 0
    with (tmp_path / "p.csv").open(newline="") as found:
        rows = list(csv.DictReader(found))
    assert list(rows[0])[3:] == ["p_10", "p_20", "p_30"]
    assert {row["label"] for row in rows} == {"10", "20", "30"}
    for row in rows:
        assert float(row[f"p_{row['prediction']}"]) == max(float(row[f"p_{name}"]) for name in summary["classes"])
