"""Tables and arrays in place of files: the same numbers, in a run folder that needs no other file."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
import pytest

import flexray
from flexray.core.errors import RunFolderError, UserError
from flexray.predict import run_command as predict
from flexray.run.command import run_command
from helpers.jobs import SHAPES, save_bundle

SHORT: dict[str, Any] = {"cluster": "inline", "progress": False, "rounds": 2, "model": {"hidden": [4]}}
PARTIES = {"bank": ["age", "balance"], "shop": ["visits"]}


@pytest.fixture(scope="module")
def customers() -> pd.DataFrame:
    """Return 90 customers, some of whom buy."""
    draw = np.random.default_rng(1)
    frame = pd.DataFrame(draw.normal(size=(90, 3)), columns=["age", "balance", "visits"])
    bought = frame["age"] + frame["visits"] > 0
    return frame.assign(y=np.where(bought, "yes", "no"), customer=[f"c{k:02d}" for k in range(90)])


def simulate_table(**keys: Any) -> flexray.Run:
    folder = keys.pop("folder", None)
    return flexray.simulate("dataset=table", dataset={"label": "y", **keys}, folder=folder, **SHORT)


def test_a_table_gives_the_numbers_of_its_file(customers: pd.DataFrame, tmp_path: Path) -> None:
    customers.to_parquet(tmp_path / "customers.parquet")
    customers.to_csv(tmp_path / "customers.csv")
    runs = [
        simulate_table(path=path, parties=PARTIES)
        for path in (tmp_path / "customers.parquet", tmp_path / "customers.csv", customers, pyarrow.table(customers))
    ]
    digests = [run.summary["model_digest"] for run in runs]
    assert digests == [digests[0]] * 4
    assert runs[2].summary["data_source"] == "files"


def test_a_named_index_is_a_column(customers: pd.DataFrame) -> None:
    run = simulate_table(path=customers.set_index("customer"), parties=PARTIES, id="customer")
    assert run.predict()["id"].str.fullmatch(r"c\d\d").all()


def test_a_moved_run_folder_resumes_and_predicts(customers: pd.DataFrame, tmp_path: Path) -> None:
    run = simulate_table(path=customers, parties=PARTIES, folder=tmp_path / "run")
    table, digests = run.predict(), run.summary["model_digest"]
    shutil.move(tmp_path / "run", tmp_path / "moved")
    moved = flexray.read(tmp_path / "moved")
    assert moved.predict().equals(table)
    assert predict([str(tmp_path / "moved"), "-o", str(tmp_path / "p.csv")]) == 0
    assert [*pd.read_csv(tmp_path / "p.csv")["prediction"]] == [*table["prediction"]]
    assert run_command([f"resume={tmp_path / 'moved'}", "rounds=2"]) == 0
    assert flexray.simulate(resume=tmp_path / "moved", rounds=2).summary["model_digest"] == digests


def test_tables_by_party_and_predictions_of_new_ones(customers: pd.DataFrame) -> None:
    bank, shop = customers[["customer", "age", "balance", "y"]], customers[["customer", "visits"]].sample(frac=1)
    files = {"bank": bank, "shop": shop}
    run = simulate_table(files=files, id="customer")
    new = run.predict(
        {"bank": bank.drop(columns="y").head(7), "shop": shop[shop["customer"].isin(bank["customer"][:7])]}
    )
    known = run.predict(files).head(7)
    assert list(new["prediction"]) == list(known["prediction"])
    assert set(known["label"]) == {"no", "yes"}


def test_new_data_is_a_table_or_a_path(customers: pd.DataFrame, tmp_path: Path) -> None:
    run = simulate_table(path=customers, parties=PARTIES)
    customers.head(5).to_csv(tmp_path / "new: 5.csv", index=False)
    frames = [
        run.predict(customers.head(5)),
        run.predict(tmp_path / "new: 5.csv"),
        run.predict(str(tmp_path / "new: 5.csv")),
    ]
    assert len(frames[0]) == 5
    assert all(frame.equals(frames[0]) for frame in frames)


def arrays_of(folder: Path) -> dict[str, dict[str, Any]]:
    return {split: {f.stem: np.load(f) for f in (folder / split).iterdir()} for split in ("train", "test")}


def test_arrays_give_the_numbers_of_their_bundle(tmp_path: Path) -> None:
    bundle = save_bundle(tmp_path / "bundle", SHAPES)
    arrays = arrays_of(bundle)
    arrays["train"]["labels"] = arrays["train"]["labels"].tolist()
    of_files, of_arrays = (
        flexray.simulate("dataset=bundle", dataset={"path": path, "batch_size": 5}, **SHORT)
        for path in (bundle, arrays)
    )
    assert of_arrays.summary["model_digest"] == of_files.summary["model_digest"]
    assert of_arrays.predict(arrays).equals(of_files.predict())


@pytest.mark.parametrize("form", ["index", "column", "dates", "array"])
def test_a_trace_gives_the_numbers_of_its_file(form: str, tmp_path: Path) -> None:
    cpu = np.random.default_rng(2).uniform(0.1, 0.9, size=(6, 5))
    machines = [f"machine_{k:03d}" for k in range(5)]
    times = np.arange(6) * 300
    pd.DataFrame(cpu, times, machines).to_csv(tmp_path / "trace.csv", index_label="time")
    given: Any = {
        "index": pd.DataFrame(cpu, times, machines),
        "column": pd.DataFrame(cpu, columns=machines).assign(time=times)[["time", *machines]],
        "dates": pd.DataFrame(cpu, pd.Timestamp("2026-01-01") + pd.to_timedelta(times, unit="s"), machines),
        "array": cpu.T,
    }[form]
    traces = [
        flexray.simulate(**SHORT, speeds={"kind": "trace", "path": path}) for path in (given, tmp_path / "trace.csv")
    ]
    assert traces[0].participants.equals(traces[1].participants)
    assert traces[0].participants["utilization"].between(0.1, 0.9).all()


def test_a_run_may_be_given_where_a_run_folder_may() -> None:
    run = flexray.simulate(**SHORT)
    again = flexray.simulate(**SHORT, speeds={"kind": "replay", "path": run})
    assert again.rounds["duration_units"].equals(run.rounds["duration_units"])


def test_other_data_is_refused_when_a_run_goes_on(customers: pd.DataFrame, tmp_path: Path) -> None:
    run = simulate_table(path=customers, parties=PARTIES, folder=tmp_path)
    assert run.resume(rounds=3, dataset={"path": customers}).summary["rounds"] == 3
    with pytest.raises(RunFolderError, match=r"dataset\.path: the run began with other data"):
        run.resume(rounds=4, dataset={"path": customers.head(80)})


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "a table elsewhere": ({"lr": pd.DataFrame({"a": [1.0]})}, "lr: got a DataFrame; keys that take one are"),
    "nothing that is data": (
        {"dataset": {"path": 3}},
        "dataset.path: expected a path, a DataFrame, or arrays by name, got a",
    ),
    "numbered columns": ({"dataset": {"path": pd.DataFrame([[1.0, 2.0]])}}, "dataset.path: column 0: expected a text"),
    "mixed values": ({"dataset": {"path": pd.DataFrame({"a": [1, "x"]})}}, "dataset.path: cannot be stored as parquet"),
    "objects": ({"dataset": {"path": {"train": {"a": [object()]}}}}, "dataset.path.train.a: cannot be stored as npy"),
    "a strange name": ({"dataset": {"path": {"../a": [1]}}}, "dataset.path: expected names of letters, digits and _"),
    "a column that is not there": (
        {"dataset": {"path": pd.DataFrame({"a": [1.0], "y": [1]}), "label": "y", "parties": {"p": ["b"]}}},
        "dataset.parties.p: ",
    ),
}


@pytest.mark.parametrize(("keys", "line"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_one_line(keys: dict[str, Any], line: str) -> None:
    with pytest.raises(UserError) as caught:
        flexray.simulate("dataset=table", **SHORT, **keys)
    assert line in str(caught.value)
