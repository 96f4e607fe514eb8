"""Predictions from a run folder."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from flexray import predict
from flexray.core.errors import DataError
from flexray.run.command import run_command
from helpers.predictions import INLINE, table


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a short run on the digits."""
    folder = tmp_path_factory.mktemp("finished")
    assert run_command([*INLINE, "epochs=3", f"hydra.run.dir={folder}"]) == 0
    return folder


def test_predictions_have_the_accuracy_of_the_last_evaluation(finished: Path, tmp_path: Path) -> None:
    assert predict.run_command([str(finished), "-o", str(tmp_path / "p.csv")]) == 0
    found = table(tmp_path / "p.csv")
    accuracy = np.mean([row["prediction"] == row["label"] for row in found])
    assert accuracy == json.loads((finished / "summary.json").read_text())["final"]["test_top1"]
    assert all(abs(sum(float(row[f"p{c}"]) for c in range(10)) - 1) < 1e-4 for row in found)
    assert len({row["id"] for row in found}) == len(found) == 359


def test_a_run_of_an_older_version_lacks_keys(finished: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(finished, tmp_path / "run")
    config = json.loads((folder / "configuration.json").read_text())
    del config["network"]["latency"], config["network"]["trace"], config["stack"]
    (folder / "configuration.json").write_text(json.dumps(config))
    assert predict.run_command([str(folder), "-o", str(tmp_path / "p.csv")]) == 0
    assert len(table(tmp_path / "p.csv")) == 359


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
        (["RUN", "-o", "p.csv", "dataset.files.left=a.csv"], "dataset.files.left: unknown key"),
        ([], "arguments are required: "),
        (["RUN"], "arguments are required: -o/--output; see python -m flexray.predict --help"),
        (["RUN", "p.csv"], "arguments are required: -o/--output"),
        (["RUN", "-o"], "-o/--output: expected one argument"),
        (["RUN", "-o", "p.csv", "--splt=all"], "unrecognized arguments: --splt=all"),
        (["RUN", "-o", "p.csv", "--split", "foo"], "--split: invalid choice: 'foo'"),
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


@pytest.mark.parametrize("refused", [("seed=7", "checkpoint.dir=nowhere://x"), ("dataset.batch_size=0", "rounds=9")])
def test_after_a_refused_run_in_its_folder_a_model_is_used_as_it_was_trained(
    refused: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    assert run_command([*INLINE, "rounds=1", "seed=3", f"hydra.run.dir={folder}"]) == 0
    assert predict.run_command([str(folder), "-o", str(tmp_path / "before.csv")]) == 0
    record = {path: path.read_bytes() for path in (folder / ".hydra").iterdir()}
    assert run_command([*INLINE, "rounds=1", f"hydra.run.dir={folder}", *refused]) == 2
    assert {path: path.read_bytes() for path in (folder / ".hydra").iterdir()} == record
    capsys.readouterr()
    assert predict.run_command([str(folder), "-o", str(tmp_path / "p.csv")]) == 0
    assert capsys.readouterr().err == ""
    assert (tmp_path / "p.csv").read_bytes() == (tmp_path / "before.csv").read_bytes()
    assert run_command([f"resume={folder}", "rounds=2"]) == 0


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
    assert predict.run_command([str(folder), "-o", str(tmp_path / "p.csv")]) == 2
    assert "lower_left" in capsys.readouterr().err


def predicted(folder: Path, output: Path, *overrides: str) -> list[dict[str, str]]:
    assert predict.run_command([str(folder), "--split", "all", "-o", str(output), *overrides]) == 0
    return table(output)


def assert_same_but_labels(labelled: list[dict[str, str]], bare: list[dict[str, str]]) -> None:
    assert {row["label"] for row in bare} == {""}
    assert "" not in {row["label"] for row in labelled}
    in_order = [sorted(rows, key=lambda row: row["id"]) for rows in (labelled, bare)]
    assert [{**row, "label": ""} for row in in_order[0]] == in_order[1]


@pytest.fixture(scope="module")
def tabled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return the folder of a short run on a table, and the table."""
    root = tmp_path_factory.mktemp("tabled")
    data = write_table(root / "old.csv", 1.0, 60, seed=1)
    options = ("dataset=table", f"dataset.path={data}", "dataset.label=y", "dataset.id=row", "rounds=2",
               "dataset.parties={left:[a,b],right:[c,d]}", "dataset.batch_size=8")  # fmt: skip
    assert run_command([*INLINE, *options, f"hydra.run.dir={root / 'run'}"]) == 0
    return root / "run", data


@pytest.mark.parametrize("ids", ["dataset.id=row", "dataset.id=null"])
def test_a_table_without_its_label_column_is_predicted(tabled: tuple[Path, Path], tmp_path: Path, ids: str) -> None:
    folder, data = tabled
    lines = [line.split(",") for line in data.read_text().splitlines()]
    bare = tmp_path / "bare.csv"
    bare.write_text("\n".join(",".join([*cells[:4], cells[5]]) for cells in lines) + "\n")
    labelled = predicted(folder, tmp_path / "p.csv", ids)
    assert_same_but_labels(labelled, predicted(folder, tmp_path / "p.csv", ids, f"dataset.path={bare}"))


def test_tables_of_parties_of_whom_none_has_labels_are_predicted(tabled: tuple[Path, Path], tmp_path: Path) -> None:
    folder, data = tabled
    lines = [line.split(",") for line in data.read_text().splitlines()]
    for name, columns in (("left", (5, 0, 1)), ("right", (5, 2, 3))):
        (tmp_path / f"{name}.csv").write_text("\n".join(",".join(c[i] for i in columns) for c in lines) + "\n")
    files = f"dataset.files={{left: {tmp_path / 'left.csv'}, right: {tmp_path / 'right.csv'}}}"
    bare = predicted(folder, tmp_path / "p.csv", "dataset.path=null", files)
    assert_same_but_labels(predicted(folder, tmp_path / "p.csv"), bare)


def test_a_path_starts_where_it_was_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the run where it was started, those of the prediction where that is."""
    for place, seed in (("then", 1), ("now", 2)):
        (tmp_path / place).mkdir()
        for name in ("a", "b"):
            write_table(tmp_path / place / f"{name}.csv", 1.0, 60, seed)
    options = (
        "dataset=table", "dataset.files={left:a.csv,right:b.csv}", "dataset.labels_file=a.csv", "dataset.label=y",
        "dataset.parties={left:[a,b],right:[c,d]}", "dataset.id=row", "dataset.batch_size=8", "rounds=2",
    )  # fmt: skip
    monkeypatch.chdir(tmp_path / "then")
    assert run_command([*INLINE, *options, "hydra.run.dir=../run"]) == 0
    as_then = predicted(tmp_path / "run", tmp_path / "p.csv")
    monkeypatch.chdir(tmp_path / "now")
    assert predicted(tmp_path / "run", tmp_path / "p.csv") == as_then
    both = predicted(tmp_path / "run", tmp_path / "p.csv", "dataset.files={left: a.csv, right: b.csv}")
    assert both == predicted(
        tmp_path / "run", tmp_path / "p.csv", "dataset.files.left=a.csv", "dataset.files.right=b.csv"
    )
    assert both != as_then
    (tmp_path / "now" / "b.csv").unlink()
    assert predicted(tmp_path / "run", tmp_path / "p.csv", "dataset.files.left=a.csv") != as_then
    with pytest.raises(DataError, match=re.escape(str(tmp_path / "now" / "b.csv"))):
        predict.load_job(tmp_path / "run", ["dataset.files.right=b.csv"])


@pytest.mark.parametrize("lacking", [("test",), ("train", "test")])
@pytest.mark.parametrize("val_fraction", [0.0, 0.25])
def test_a_bundle_without_labels_is_predicted(
    bundle: Path, tmp_path: Path, lacking: tuple, val_fraction: float
) -> None:
    options = ("dataset=bundle", f"dataset.path={bundle}", "rounds=2", "dataset.batch_size=8")
    split = f"dataset.val_fraction={val_fraction}"
    assert run_command([*INLINE, *options, split, f"hydra.run.dir={tmp_path / 'run'}"]) == 0
    labelled = predicted(tmp_path / "run", tmp_path / "p.csv")
    shutil.copytree(bundle, tmp_path / "bare")
    for part in lacking:
        (tmp_path / "bare" / part / "labels.npy").unlink()
    bare = predicted(tmp_path / "run", tmp_path / "p.csv", f"dataset.path={tmp_path / 'bare'}")
    tests = 9
    assert len(bare) == 24 + tests
    assert_same_but_labels(labelled[-tests:], bare[-tests:])
    if "train" in lacking:
        assert_same_but_labels(labelled, bare)
    else:
        assert labelled[:-tests] == bare[:-tests]


def test_a_bundle_without_labels_and_with_rows_missing_names_the_file(
    bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("dataset=bundle", f"dataset.path={bundle}", "rounds=1", "dataset.batch_size=8")
    assert run_command([*INLINE, *options, f"hydra.run.dir={tmp_path / 'run'}"]) == 0
    shutil.copytree(bundle, tmp_path / "bare")
    test = tmp_path / "bare" / "test"
    (test / "labels.npy").unlink()
    np.save(test / "b.npy", np.load(test / "b.npy")[:-1])
    capsys.readouterr()
    command = [str(tmp_path / "run"), "-o", str(tmp_path / "p.csv"), f"dataset.path={tmp_path / 'bare'}"]
    assert predict.run_command(command) == 2
    assert capsys.readouterr().err == f"flexray: {test / 'b.npy'}: has 8 rows, but {test / 'a.npy'} has 9\n"


def test_a_run_that_does_not_tell_its_classes_asks_for_them(
    tabled: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Summaries of earlier versions have no ``num_outputs``."""
    folder, data = tabled
    shutil.copytree(folder, tmp_path / "run")
    summary = json.loads((folder / "summary.json").read_text())
    assert summary.pop("num_outputs") == 2
    (tmp_path / "run" / "summary.json").write_text(json.dumps(summary))
    bare = tmp_path / "bare.csv"
    bare.write_text(data.read_text().replace("a,b,c,d,y,row", "a,b,c,d,other,row"))
    capsys.readouterr()
    command = [str(tmp_path / "run"), "-o", str(tmp_path / "p.csv"), f"dataset.path={bare}"]
    assert predict.run_command(command) == 2
    assert capsys.readouterr().err.startswith("flexray: dataset.num_outputs: expected the number of classes, which")
    assert predict.run_command([*command, "dataset.num_outputs=2"]) == 0


def test_what_is_not_predicted_and_what_the_run_was_is_said(
    tabled: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(tabled[0], tmp_path / "run")
    summary = tmp_path / "run" / "summary.json"
    summary.write_text(summary.read_text().replace('"completed"', '"interrupted"'))
    capsys.readouterr()
    assert predict.run_command([str(tmp_path / "run"), "-o", str(tmp_path / "p.csv")]) == 0
    said, warned = capsys.readouterr()
    assert said.startswith("12 predictions in ")
    assert said.endswith(" (of 60 samples: those of the test split; --split all for all)\n")
    assert warned.endswith("/run: the run is interrupted, its model is that after 2 rounds\n")


@pytest.mark.parametrize("space", ["", " "])
def test_a_mapping_is_read_as_the_run_reads_it_and_takes_the_place_of_the_old_one(
    space: str, tabled: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, data = tabled
    files = f"dataset.files={{left:{space}{data},right:{space}{data}}}"
    given = [str(folder), "-o", str(tmp_path / "p.csv"), "dataset.path=null", f"dataset.labels_file={data}", files]
    assert predict.run_command(given) == 0
    assert len(table(tmp_path / "p.csv")) == 60
    capsys.readouterr()
    fewer = "dataset.parties={left:[a]}"
    assert predict.run_command([str(folder), "-o", str(tmp_path / "p.csv"), fewer]) == 2
    assert "dataset: expected the run's parties left, right, got left" in capsys.readouterr().err


def test_the_saved_model_is_the_one_that_reached_the_target(tmp_path: Path) -> None:
    """Running statistics of batch normalization do not follow a batch on which nobody trains any more."""
    words = (
        "model._target_=helpers.ray_models.Normalized",
        "eval_every=2",
        "rounds=40",
        "target=0.5",
        "stop_at_target=true",
    )
    assert run_command([*INLINE, *words, f"hydra.run.dir={tmp_path / 'run'}"]) == 0
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert 2 <= summary["rounds"] < 40
    rows = predicted(tmp_path / "run", tmp_path / "p.csv", "trust=true")[-359:]
    loss = -np.mean([np.log(float(row[f"p{row['label']}"])) for row in rows])
    assert loss == pytest.approx(summary["final"]["test_loss"], abs=2e-6)
