"""Predictions of tables that the run did not have: predicted whole, by the classes that the model knows."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from flexray import predict
from flexray.run.command import run_command
from helpers.predictions import INLINE, table


def write_flowers(path: Path, kinds: str, rows: int = 60) -> Path:
    """Write a table whose text label, of the given kinds in turn, follows from its columns."""
    draw = np.random.default_rng(5)
    lines = ["x,y,kind"]
    for i in range(rows):
        kind = kinds.split()[i % len(kinds.split())]
        x, y = draw.normal(size=2) * 0.1 + 4 * np.array([ord(kind[0]) % 3, ord(kind[0]) % 2])
        lines.append(f"{x},{y},{kind}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def flowers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run on a table of iris, rose and tulip."""
    root = tmp_path_factory.mktemp("flowers")
    data = write_flowers(root / "flowers.csv", "rose tulip iris", 150)
    options = ("dataset=table", f"dataset.path={data}", "dataset.label=kind", "dataset.parties={left:[x],right:[y]}")
    assert run_command([*INLINE, *options, "epochs=30", "lr=0.05", f"hydra.run.dir={root / 'run'}"]) == 0
    summary = json.loads((root / "run" / "summary.json").read_text())
    assert summary["classes"] == ["iris", "rose", "tulip"]
    assert summary["final"]["test_top1"] == 1
    return root / "run"


@pytest.mark.parametrize("kinds", ["rose tulip iris", "tulip rose", "tulip"])
@pytest.mark.parametrize("rows", [1, 3, 60])
@pytest.mark.parametrize("split", [(), ("--split", "all")])
def test_new_tables_of_any_length_and_any_classes_are_predicted_whole(
    kinds: str, rows: int, split: tuple[str, ...], flowers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = write_flowers(tmp_path / "new.csv", kinds, rows)
    output = tmp_path / "p.csv"
    assert predict.run_command([str(flowers), "-o", str(output), *split, f"dataset.path={new}"]) == 0
    found = table(output)
    assert [row["id"] for row in found] == [str(i) for i in range(rows)]
    assert [row["label"] for row in found] == [kinds.split()[i % len(kinds.split())] for i in range(rows)]
    assert [row["prediction"] for row in found] == [row["label"] for row in found]
    assert list(found[0]) == ["id", "prediction", "label", "p_iris", "p_rose", "p_tulip"]
    assert capsys.readouterr() == (f"{rows} predictions in {output}\n", "")


def test_a_class_that_the_model_does_not_know_is_named(
    flowers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = write_flowers(tmp_path / "new.csv", "rose lily")
    assert predict.run_command([str(flowers), "-o", str(tmp_path / "p.csv"), f"dataset.path={new}"]) == 2
    said = capsys.readouterr().err
    assert "row 1: 'lily' is no class of the saved model; it has: iris, rose, tulip\n" in said
    assert not (tmp_path / "p.csv").exists()
    known = write_flowers(tmp_path / "known.csv", "rose")
    words = [str(flowers), "-o", str(tmp_path / "p.csv"), "--split", "val", f"dataset.path={known}"]
    assert predict.run_command(words) == 2
    assert "--split: a new table has no splits and is predicted whole, got val" in capsys.readouterr().err


def test_classes_without_a_label_are_called_by_number(tmp_path: Path) -> None:
    data = write_flowers(tmp_path / "flowers.csv", "rose tulip")
    options = ("dataset=table", f"dataset.path={data}", "dataset.label=kind", "dataset.parties={left:[x],right:[y]}",
               "dataset.num_outputs=4", "dataset.batch_size=8", "rounds=2", "lr=1e-9", "seed=1")  # fmt: skip
    assert run_command([*INLINE, *options, f"hydra.run.dir={tmp_path / 'run'}"]) == 0
    assert predict.run_command([str(tmp_path / "run"), "--split", "all", "-o", str(tmp_path / "p.csv")]) == 0
    found = table(tmp_path / "p.csv")
    names = ["rose", "tulip", "2", "3"]
    assert list(found[0])[3:] == [f"p_{name}" for name in names]
    assert {row["label"] for row in found} == {"rose", "tulip"}
    for row in found:
        assert float(row[f"p_{row['prediction']}"]) == max(float(row[f"p_{name}"]) for name in names)
    assert {row["prediction"] for row in found} & {"2", "3"}  # an untrained model says anything
