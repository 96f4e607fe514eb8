"""What a run leaves: rounds.csv with the paper's durations, evals.csv, timeline.json, summary.json, the model."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from flexray.predict import run_command as predict
from flexray.run.command import run_command
from flexray.run.watch.folder import TableObserver
from helpers.jobs import Compose, Run, save_bundle

SHORT = ("cluster=inline", "progress=false", "rounds=3", "eval_train=false")

# Parties' iterations per timeout, timeout, durations at t_comm = 1, 10, 50 (the server's iterations fit t_o).
PAPER = {
    "mosei": ((5, 10, 15), 20.0, {"flex": (21, 30, 70), "sync_max": (81, 90, 130), "pbcd": (5, 14, 54)}),
    "imagenet100": ((2, 4, 6, 8), 10.0, {"flex": (11, 20, 60), "sync_max": (51, 60, 100), "pbcd": (6, 15, 55)}),
    "modelnet40": (
        (5,) * 3 + (10,) * 3 + (15,) * 3 + (20,) * 3, 20.0,
        {"flex": (21, 30, 70), "sync_max": (81, 90, 130), "pbcd": (5, 14, 54)},
    ),
}  # fmt: skip
GOOGLE_TAU = [12, 16, 17, 13, 16, 18, 17, 14, 15, 17, 14, 17, 13]


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """Return bundles of 3, 4 and 12 small parties."""
    home = tmp_path_factory.mktemp("bundles")
    return {k: save_bundle(home / str(k), {f"p{i:02d}": (2,) for i in range(k)}) for k in (3, 4, 12)}


def run(folder: Path, *overrides: str) -> Path:
    assert run_command([*SHORT, f"hydra.run.dir={folder}", *overrides]) == 0
    return folder


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("workload", PAPER)
@pytest.mark.parametrize("place", [0, 1, 2], ids=["t_comm=1", "t_comm=10", "t_comm=50"])
def test_rounds_csv_has_the_papers_tau_and_durations(
    workload: str, place: int, bundles: dict[int, Path], compose_job: Compose, run_inline: Run, tmp_path: Path
) -> None:
    iterations, timeout, durations = PAPER[workload]
    server = int(timeout)
    listed = f"[{','.join(map(str, (*iterations, server)))}]"
    expected_tau = {
        "flex": [*iterations, server], "adaptive": [*iterations, server],
        "sync_min": [min(iterations)] * (len(iterations) + 1), "sync_max": [server] * (len(iterations) + 1),
        "pbcd": [1] * (len(iterations) + 1),
    }  # fmt: skip
    for algo, tau in expected_tau.items():
        job = compose_job(
            f"algo={algo}", "dataset=bundle", f"dataset.path={bundles[len(iterations)]}", "dataset.batch_size=8",
            "rounds=3", "eval_train=false", f"network.t_comm={(1, 10, 50)[place]}", "speeds=uniform",
            f"timeout={timeout}", f"speeds.unit_time=[{','.join(str(timeout / n) for n in (*iterations, server))}]",
        )  # fmt: skip
        folder = tmp_path / algo
        folder.mkdir()
        table = TableObserver(folder)
        for record in run_inline(job):
            table.on(record)
        table.close()
        duration = durations[algo if algo in durations else "flex"][place]
        found = rows(folder / "rounds.csv")
        assert [json.loads(row["tau"]) for row in found] == [tau] * 3, (algo, listed)
        assert [float(row["duration"]) for row in found] == [duration] * 3
        assert [float(row["sim_time"]) for row in found] == [duration, 2 * duration, 3 * duration]
        assert [int(row["round"]) for row in found] == [1, 2, 3]


def test_google_means_give_the_papers_local_iterations(bundles: dict[int, Path], tmp_path: Path) -> None:
    folder = run(
        tmp_path / "run", "dataset=bundle", f"dataset.path={bundles[12]}", "dataset.batch_size=8", "speeds=google_mean"
    )
    assert json.loads(rows(folder / "rounds.csv")[0]["tau"]) == GOOGLE_TAU


def test_vafl_counts_updates_at_multiples_of_the_turn(bundles: dict[int, Path], tmp_path: Path) -> None:
    folder = run(
        tmp_path / "run", "algo=vafl", "algo.server=free", "dataset=bundle", f"dataset.path={bundles[3]}",
        "dataset.batch_size=8", "speeds.iterations=[20,10,5,20]", "network.t_comm=1", "rounds=9",
    )  # fmt: skip
    found = [(float(r["sim_time"]), r["party"], float(r["duration"])) for r in rows(folder / "rounds.csv")]
    assert found == [
        (2.0, "p00", 2.0), (3.0, "p01", 3.0), (4.0, "p00", 2.0), (5.0, "p02", 5.0), (6.0, "p00", 2.0),
        (6.0, "p01", 3.0), (8.0, "p00", 2.0), (9.0, "p01", 3.0), (10.0, "p00", 2.0),
    ]  # fmt: skip
    assert json.loads(rows(folder / "rounds.csv")[1]["tau"]) == [0, 1, 0, 1]


def test_a_run_reaches_its_target_and_says_everything(tmp_path: Path) -> None:
    """Not all 500 rounds to 0.96: those are run on Ray."""
    few = ("rounds=60", "eval_every=10", "target=0.5")
    assert run_command(["cluster=inline", f"hydra.run.dir={tmp_path}", *few]) == 0
    summary: dict[str, Any] = json.loads((tmp_path / "summary.json").read_text())
    assert summary["final"]["test_top1"] >= 0.5
    assert (summary["metric"], summary["target"], summary["status"]) == ("test_top1", 0.5, "completed")
    reached = [r for r in rows(tmp_path / "evals.csv") if float(r["test_top1"]) >= 0.5]
    assert summary["time_to_target"] == float(reached[0]["sim_time"])
    assert summary["rounds_to_target"] == int(reached[0]["round"])
    assert summary["data_source"] == "package"
    assert summary["num_parties"] == 4
    assert set(summary["model_digest"]) == {"upper_left", "upper_right", "lower_left", "lower_right", "server"}
    assert summary["sent_bytes"] == sum(int(r["sent_bytes"]) for r in rows(tmp_path / "rounds.csv"))
    assert {"flexray", "python", "torch"} <= set(summary["versions"])
    assert len(summary["peak_memory_mb"]) == 1  # all parties live in this process
    assert summary["peak_memory_mb"][0] is None or summary["peak_memory_mb"][0] > 50
    assert {p.name for p in (tmp_path / "checkpoints" / "final").iterdir()} == {
        f"{name}.safetensors" for name in summary["model_digest"]
    }
    assert (tmp_path / "run.log").read_text()
    assert (tmp_path / ".hydra" / "config.yaml").is_file()


def test_sent_bytes_follow_the_papers_count(bundles: dict[int, Path], tmp_path: Path) -> None:
    folder = run(
        tmp_path / "run", "dataset=bundle", f"dataset.path={bundles[3]}", "dataset.batch_size=8", "embedding=5"
    )
    parties, batch, width, classes, size = 3, 8, 5, 4, 4
    head = parties * width * classes + classes
    numbers = parties * (head + batch * parties * width) + batch * parties * width
    assert [int(row["sent_bytes"]) for row in rows(folder / "rounds.csv")] == [numbers * size] * 3
    by_party = json.loads((folder / "summary.json").read_text())["bytes_by_party"]
    assert by_party["p01"] == {"up": 3 * batch * width * size, "down": 3 * (head + batch * parties * width) * size}


def test_the_timeline_is_a_valid_schedule(tmp_path: Path) -> None:
    run(tmp_path, "speeds=paper", "timeline_rounds=2")
    document = json.loads((tmp_path / "timeline.json").read_text())
    assert document["otherData"] == {"rounds": 3, "rounds_shown": 2}
    names = [e["args"]["name"] for e in document["traceEvents"] if e["name"] == "thread_name"]
    assert names == ["upper_left", "upper_right", "lower_left", "lower_right", "server"]
    spans = [e for e in document["traceEvents"] if e["ph"] == "X"]
    for tid in range(5):
        own = [e for e in spans if e["tid"] == tid]
        assert [e["name"] for e in own[:2]] == ["compute", "communicate"]
        ends = [e["ts"] + e["dur"] for e in own]
        assert [e["ts"] for e in own] == [0.0, *ends[:-1]]
        assert ends[-1] == 2 * 30.0 * 1000
    assert {e["args"]["tau"] for e in spans} == {5, 10, 15, 20}


def test_a_diverging_run_stops_and_says_where(tmp_path: Path) -> None:
    status = run_command([*SHORT, "rounds=50", "lr=1e18", f"hydra.run.dir={tmp_path}"])
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert status == 1
    assert summary["status"] == "diverged"
    assert summary["rounds"] == summary["divergence"]["round"] == len(rows(tmp_path / "rounds.csv")) < 5
    assert summary["divergence"]["participant"] in summary["model_digest"]
    assert "diverged: the loss became NaN or infinite in round" in (tmp_path / "run.log").read_text()


def test_the_run_ends_at_the_first_limit(tmp_path: Path) -> None:
    by_time = run(tmp_path / "time", "rounds=null", "epochs=null", "max_time=100")
    assert [float(r["sim_time"]) for r in rows(by_time / "rounds.csv")] == [30.0, 60.0, 90.0]
    assert [r["round"] for r in rows(by_time / "evals.csv")] == ["0", "3"]
    by_target = run(tmp_path / "target", "rounds=200", "target=0.5", "stop_at_target=true", "eval_every=5")
    last = rows(by_target / "evals.csv")[-1]
    assert float(last["test_top1"]) >= 0.5
    assert int(last["round"]) == len(rows(by_target / "rounds.csv")) < 100


REFUSED = {
    "by the configuration": ("dataset.batch_size=0",),
    "by a class of the user": ("model._target_=torch.nn.Bilinear",),
    "by the driver, which knows what bytes take": ("rounds=null", "max_time=31", "network.bandwidth=1"),
    "by a tracker": ("logger=wandb", "logger.kind=wombat"),
}


@pytest.mark.parametrize("words", REFUSED.values(), ids=REFUSED)
def test_a_run_that_is_refused_leaves_the_results_that_are_in_its_folder(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    run(tmp_path)
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file() and ".hydra" not in p.parts}
    del before[tmp_path / "run.log"]
    assert run_command([*SHORT, f"hydra.run.dir={tmp_path}", *words]) != 0
    assert before == {path: path.read_bytes() for path in before}


def test_a_run_that_begins_in_a_used_folder_leaves_nothing_of_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tmp_path, "checkpoint.every=1")

    def killed(*args: Any) -> None:
        raise RuntimeError("killed")

    monkeypatch.setattr("flexray.run.watch.folder.TableObserver._round_row", killed)
    assert run_command([*SHORT, f"hydra.run.dir={tmp_path}", "seed=7"]) == 1
    left = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    hydra = {f".hydra/{name}.yaml" for name in ("config", "hydra", "overrides")}
    assert left == {"rounds.csv", "evals.csv", "timeline.json", "run.log", *hydra}
    assert len((tmp_path / "rounds.csv").read_text().splitlines()) == 1
    assert predict([str(tmp_path), "-o", str(tmp_path / "p.csv")]) == 2


def test_the_saved_model_is_the_one_that_was_digested(tmp_path: Path) -> None:
    run(tmp_path)
    state = load_file(tmp_path / "checkpoints" / "final" / "server.safetensors")
    assert {key: value.shape for key, value in state.items()} == {"weight": (10, 128), "bias": (10,)}
    assert all(np.isfinite(value).all() for value in state.values())
    assert not math.isclose(float(np.abs(state["weight"]).sum()), 0.0)
