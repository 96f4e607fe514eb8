"""Trackers and the cluster's monitoring get the same series as the run folder."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from flexray.core.messages import Ended, EvalRecord
from flexray.run.command import run_command
from flexray.run.watch.tracking import ClusterMetrics, Tracker, TrackingObserver, waiting_share
from helpers.records import ROUND, STARTED, TURN


class Kept(Tracker):
    """Keeps what it gets."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, dict[str, float]]] = []
        self.closed = 0

    def log(self, values: Mapping[str, float], step: int) -> None:
        self.steps.append((step, dict(values)))

    def close(self) -> None:
        self.closed += 1


def test_a_tracker_gets_rounds_turns_and_evaluations_but_no_nan() -> None:
    tracker = Kept()
    observer = TrackingObserver(tracker)
    for record in (STARTED, ROUND, TURN, EvalRecord(2, 1.0, 45.0, {"test_top1": 0.5, "test_loss": float("inf")})):
        observer.on(record)
    observer.close()
    assert tracker.steps == [
        (1, {
            "round/train_loss": 2.5, "round/sim_time": 30.0, "round/sent_bytes": 100.0,
            "tau/a": 5.0, "lr/a": 0.1, "waiting_share/a": 0.0, "tau/b": 2.0, "lr/b": 0.2, "waiting_share/b": 0.4,
            "tau/server": 20.0, "lr/server": 0.3, "waiting_share/server": 0.0,
        }),
        (2, {"round/sim_time": 45.0, "round/sent_bytes": 160.0, "tau/b": 1.0, "lr/b": 0.2, "waiting_share/b": 0.0}),
        (2, {"eval/test_top1": 0.5}),
    ]  # fmt: skip
    assert tracker.closed == 1


def test_waiting_is_what_is_left_of_computing_time() -> None:
    assert [waiting_share(ROUND, k) for k in range(3)] == [0.0, 12 / 30, 0.0]


class Instrument:
    """Adds up and remembers, as Ray's metrics do."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, ...], float] = {}
        self.calls = 0

    def set(self, value: float, tags: Mapping[str, str]) -> None:
        self.values[tuple(tags.values())] = value
        self.calls += 1

    def inc(self, value: float, tags: Mapping[str, str]) -> None:
        self.set(self.values.get(tuple(tags.values()), 0) + value, tags)


@pytest.mark.parametrize("every_s", [0.0, 1e9])
def test_the_clusters_monitoring_gets_totals_however_often_it_is_told(every_s: float) -> None:
    instruments = {name: Instrument() for name in ("rounds", "tau", "waiting_share", "sent_bytes")}
    observer = ClusterMetrics(lambda: instruments, "r", every_s)
    for record in (STARTED, ROUND, TURN, Ended(2, 45.0, None, {}, {})):
        observer.on(record)
    assert instruments["rounds"].values == {("r",): 2}
    assert instruments["tau"].values == {("r", "a"): 5, ("r", "b"): 1, ("r", "server"): 20}
    assert instruments["waiting_share"].values == {("r", "a"): 0.0, ("r", "b"): 0.0, ("r", "server"): 0.0}
    assert instruments["sent_bytes"].values == {
        ("r", "a", "up"): 10, ("r", "a", "down"): 30, ("r", "b", "up"): 70, ("r", "b", "down"): 50,
    }  # fmt: skip
    assert instruments["rounds"].calls == (3 if every_s == 0 else 2)


def run(folder: Path, *arguments: str) -> int:
    return run_command([
        "cluster=inline", "progress=false", f"hydra.run.dir={folder}", "rounds=4", "eval_every=2", "eval_train=false",
        *arguments,
    ])  # fmt: skip


def test_tensorboard_reads_what_the_run_folder_says(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    assert run(tmp_path, "logger=tensorboard") == 0
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    with (tmp_path / "rounds.csv").open() as file:
        rows = list(csv.DictReader(file))
    loss = events.Scalars("round/train_loss")
    assert [e.step for e in loss] == [1, 2, 3, 4]
    assert [e.value for e in loss] == pytest.approx([float(row["train_loss"]) for row in rows])
    assert [e.value for e in events.Scalars("tau/upper_right")] == [json.loads(row["tau"])[1] for row in rows]
    assert [e.step for e in events.Scalars("eval/test_top1")] == [0, 2, 4]
    assert "configuration/text_summary" in events.Tags()["tensors"]


@pytest.mark.parametrize("kind", ["mlflow", "wandb"])
def test_a_tracker_that_is_not_installed_is_named(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, kind, None)
    assert run(tmp_path, f"logger={kind}") == 2
    message = f"flexray: logger.kind: '{kind}' is not installed here; expected it by: pip install 'flexray[{kind}]'\n"
    assert capsys.readouterr().err.endswith(message)
    assert not (tmp_path / "rounds.csv").exists()


def test_an_unknown_tracker_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "logger.kind=tensorbord") == 2
    assert "logger.kind: unknown logger 'tensorbord'; did you mean 'tensorboard'?" in capsys.readouterr().err


def test_mlflow_keeps_the_series(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow", reason="mlflow is an extra: pip install 'flexray[mlflow]'")
    uri = f"sqlite:///{tmp_path / 'm.db'}"
    assert run(tmp_path / "run", "logger=mlflow", f"logger.uri={uri}") == 0
    client = mlflow.MlflowClient(uri)
    (found,) = client.search_runs([client.get_experiment_by_name("flexray").experiment_id])
    assert found.info.status == "FINISHED"
    history: list[Any] = client.get_metric_history(found.info.run_id, "tau/upper_left")
    assert [(m.step, m.value) for m in history] == [(1, 5), (2, 5), (3, 5), (4, 5)]


def test_wandb_stays_offline(tmp_path: Path) -> None:
    pytest.importorskip("wandb", reason="wandb is an extra: pip install 'flexray[wandb]'")
    assert run(tmp_path, "logger=wandb") == 0
    assert list(tmp_path.glob("wandb/offline-run-*/*.wandb"))


def test_a_run_without_tracker_imports_none(tmp_path: Path) -> None:
    script = (
        "import sys; from flexray.run.command import run_command;"
        f"run_command(['cluster=inline', 'progress=false', 'rounds=2', 'hydra.run.dir={tmp_path}']);"
        "print({'tensorboard', 'mlflow', 'wandb', 'plotly', 'matplotlib', 'ray'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("set()\n")
