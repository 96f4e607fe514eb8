"""Predictions of pictures: classes are told by name, and keep the numbers that the model learned."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import pytest

from flexray.predict import run_command as predict
from flexray.run.command import run_command
from helpers.drawing import image_folder

KEYS = ("cluster=inline", "progress=false", "dataset=imagenet100", "dataset.size=8", "dataset.batch_size=4", "rounds=3",
        "embedding=4", "target_metric=test_top1", "model=strided_cnn")  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a run folder and its pictures, of classes n00 to n03."""
    place = tmp_path_factory.mktemp("pictures")
    data = image_folder(place / "data", classes=4)
    assert run_command([*KEYS, f"dataset.path={data}", f"hydra.run.dir={place / 'run'}"]) == 0
    return place / "run", data


def predicted(run: Path, output: Path, *overrides: str) -> dict[str, dict[str, str]]:
    assert predict([str(run), *overrides, "-o", str(output)]) == 0
    with output.open(newline="") as file:
        return {row["id"]: row for row in csv.DictReader(file)}


def test_classes_are_told_by_name(run: tuple[Path, Path], tmp_path: Path) -> None:
    rows = predicted(run[0], tmp_path / "p.csv")
    assert {row["label"] for row in rows.values()} == {"n00", "n01", "n02", "n03"}
    for sample, row in rows.items():
        assert row["label"] == sample.split("/")[0]
        scores = {name: float(row[f"p_{name}"]) for name in ("n00", "n01", "n02", "n03")}
        assert row["prediction"] == max(scores, key=lambda name: scores[name])


def test_a_folder_with_fewer_classes_keeps_the_models_numbers(run: tuple[Path, Path], tmp_path: Path) -> None:
    fewer = tmp_path / "fewer"
    shutil.copytree(run[1], fewer, ignore=shutil.ignore_patterns("n00", "n02"))
    whole = predicted(run[0], tmp_path / "whole.csv")
    rows = predicted(run[0], tmp_path / "fewer.csv", f"dataset.path={fewer}")
    assert {row["label"] for row in rows.values()} == {"n01", "n03"}
    for sample, row in rows.items():
        assert (row["prediction"], row["label"]) == (whole[sample]["prediction"], whole[sample]["label"])


def test_a_class_that_the_model_does_not_know_is_named(
    run: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = image_folder(tmp_path / "other", classes=2)
    for split in ("train", "val"):
        (other / split / "n01").rename(other / split / "m01")
    assert predict([str(run[0]), f"dataset.path={other}", "-o", str(tmp_path / "p.csv")]) == 2
    expected = f"flexray: {other}: class 'm01' is none of the saved model's; did you mean 'n01'?\n"
    assert capsys.readouterr().err == expected
