"""A party that has labels and nothing else, from the command line: its run folder, predictions, resuming, repeating."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import flexray
from flexray.core.errors import ConfigError
from flexray.predict import run_command as predict
from flexray.report.cli import main as report
from flexray.run.command import run_command
from helpers.tables import frame, write_table

LEARNED = ("bank", "shop", "server")


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """Two files with features, of which one lacks a sample, and one with the labels alone."""
    table = frame()
    files = {"bank": ["id", "age", "income"], "shop": ["id", "visits"], "clinic": ["id", "y"]}
    for name, columns in files.items():
        write_table(table[columns][int(name == "shop") :], tmp_path / f"{name}.csv")
    return [
        "dataset=table", "dataset.label=y", "dataset.id=id", f"dataset.labels_file={tmp_path}/clinic.csv",
        f"dataset.files={{bank:{tmp_path}/bank.csv,shop:{tmp_path}/shop.csv}}", "dataset.alignment=union",
        "dataset.batch_size=4", "model.hidden=[4]", "cluster=inline", "labels_at=+clinic", "rounds=8",
        f"hydra.run.dir={tmp_path}/run",
    ]  # fmt: skip


def digests(folder: Path) -> dict[str, str]:
    found: dict[str, str] = json.loads((folder / "summary.json").read_text(encoding="utf-8"))["model_digest"]
    return {name: found[name] for name in LEARNED}


def test_its_run_folder(words: list[str], tmp_path: Path) -> None:
    assert run_command(words) == 0
    said = (tmp_path / "run" / "run.log").read_text(encoding="utf-8")
    assert "3 parties bank, shop, clinic; cluster=inline" in said
    assert "clinic holds the labels, and has no features and no model" in said
    summary = json.loads((tmp_path / "run" / "summary.json").read_text(encoding="utf-8"))
    assert summary["parties"] == ["bank", "shop", "clinic"]
    whole = {"train": {"has": 16, "missing": 0}, "test": {"has": 4, "missing": 0}}
    assert summary["samples_by_party"]["clinic"] == whole
    top = 4 * 3 * 4  # a prediction of a batch, in float32
    assert summary["bytes_by_party"]["clinic"] == {"up": 8 * top, "down": 8 * top}
    assert predict([str(tmp_path / "run"), "-o", str(tmp_path / "p.csv")]) == 0
    run = flexray.read(tmp_path / "run")
    assert run.predict()["prediction"].astype(str).tolist() == [
        line.split(",")[1] for line in (tmp_path / "p.csv").read_text(encoding="utf-8").splitlines()[1:]
    ]
    with pytest.raises(ConfigError, match="--without: unknown participant 'clinic'"):
        run.predict(without="clinic")
    assert report([str(tmp_path / "run"), "-o", str(tmp_path / "report")]) == 0


def test_a_run_goes_on_and_is_repeated(words: list[str], tmp_path: Path) -> None:
    more = ["algo=vafl", "algo.max_ahead=1", "progress=false"]
    assert run_command([*words, *more]) == 0
    assert run_command([*words, *more, "rounds=5", f"hydra.run.dir={tmp_path}/short"]) == 0
    assert run_command([f"resume={tmp_path}/short", "rounds=8"]) == 0
    again = ["speeds=replay", f"speeds.path={tmp_path}/run", f"hydra.run.dir={tmp_path}/again"]
    assert run_command([*words, *more, *again]) == 0
    assert digests(tmp_path / "run") == digests(tmp_path / "short") == digests(tmp_path / "again")


def test_a_party_without_features_says_how_it_is_meant(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = f"dataset.files={{bank:{tmp_path}/bank.csv,clinic:{tmp_path}/clinic.csv}}"
    assert run_command([*words, files]) == 2
    file = f"{tmp_path}/clinic.csv"
    expected = "expected some, or labels_at=+clinic if the labels are all that it has"
    said = f"{file}: party 'clinic' has no features; {expected}, with dataset.labels_file={file}"
    assert said in " ".join(capsys.readouterr().err.split())
