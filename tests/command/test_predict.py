"""Predictions from a run folder."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from flexray import predict
from flexray.run import run_command

INLINE = ("cluster=inline", "progress=false")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a short run on the digits."""
    folder = tmp_path_factory.mktemp("finished")
    assert run_command([*INLINE, "epochs=3", f"hydra.run.dir={folder}"]) == 0
    return folder


def table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_predictions_have_the_accuracy_of_the_last_evaluation(finished: Path, tmp_path: Path) -> None:
    assert predict.run_command([str(finished), "-o", str(tmp_path / "p.csv")]) == 0
    found = table(tmp_path / "p.csv")
    accuracy = np.mean([row["prediction"] == row["label"] for row in found])
    assert accuracy == json.loads((finished / "summary.json").read_text())["final"]["test_top1"]
    assert all(abs(sum(float(row[f"p{c}"]) for c in range(10)) - 1) < 1e-4 for row in found)
    assert len({row["id"] for row in found}) == len(found) == 359


def test_all_samples_are_predicted_on_request(finished: Path, tmp_path: Path) -> None:
    assert predict.run_command([str(finished), "--split", "all", "-o", str(tmp_path / "p.csv")]) == 0
    assert sorted(int(row["id"]) for row in table(tmp_path / "p.csv")) == list(range(1797))


def write_table(path: Path, scale: float, rows: int, seed: int) -> Path:
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(rows, 4))
    y = (x.sum(axis=1) > 0).astype(int)
    lines = [f"{','.join(map(str, x[i] * scale + 100))},{y[i]},r{i}" for i in range(rows)]
    path.write_text("\n".join(["a,b,c,d,y,row", *lines]) + "\n")
    return path


def test_new_rows_are_scaled_as_the_training_rows_were(tmp_path: Path) -> None:
    old = write_table(tmp_path / "old.csv", 1.0, 400, seed=1)
    folder = tmp_path / "run"
    options = ("dataset=table", f"dataset.path={old}", "dataset.label=y", "dataset.id=row", "epochs=15",
               "dataset.parties={left:[a,b],right:[c,d]}", "dataset.batch_size=32")  # fmt: skip
    assert run_command([*INLINE, *options, f"hydra.run.dir={folder}"]) == 0
    same = write_table(tmp_path / "same.csv", 1.0, 300, seed=2)
    command = [str(folder), "--split", "all", "-o", str(tmp_path / "p.csv")]
    assert predict.run_command([*command, f"dataset.path={same}"]) == 0
    found = table(tmp_path / "p.csv")
    assert np.mean([row["prediction"] == row["label"] for row in found]) > 0.9
    assert {row["id"] for row in found} == {f"r{i}" for i in range(300)}
    shrunk = write_table(tmp_path / "shrunk.csv", 1e-9, 300, seed=2)  # all rows nearly alike: one prediction
    assert predict.run_command([*command, f"dataset.path={shrunk}"]) == 0
    assert len({row["prediction"] for row in table(tmp_path / "p.csv")}) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere", "-o", "p.csv"], "nowhere: not the folder of a finished run"),
        (["RUN", "-o", "p.csv", "lr=3"], "lr=3: expected dataset.KEY=VALUE"),
        (["RUN", "-o", "p.csv", "dataset.pat=3"], "dataset.pat: unknown key"),
    ],
)
def test_mistakes_end_in_one_line(
    arguments: list[str], words: str, finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert predict.run_command([str(finished) if a == "RUN" else a for a in arguments]) == 2
    said = capsys.readouterr().err
    assert said.startswith("flexray: ")
    assert words in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("damage", ["missing", "torn", "other_model"])
def test_a_damaged_model_is_named(damage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    assert run_command([*INLINE, "rounds=1", f"hydra.run.dir={folder}"]) == 0
    victim = folder / "checkpoints" / "final" / "lower_left.safetensors"
    if damage == "missing":
        victim.unlink()
    elif damage == "torn":
        victim.write_bytes(victim.read_bytes()[:100])
    else:
        victim.write_bytes((victim.parent / "server.safetensors").read_bytes())
    capsys.readouterr()
    assert predict.run_command([str(folder), "-o", str(tmp_path / "p.csv")]) == (1 if damage == "other_model" else 2)
    assert "lower_left" in capsys.readouterr().err
