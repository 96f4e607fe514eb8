"""What Python offers of a run folder, whoever made it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from rich.console import Console

import flexray
from flexray.core.errors import ConfigError, RunFolderError, UserError
from flexray.predict import run_command as predict
from flexray.run.command import run_command
from flexray.run.watch.terminal import shows_bars

SHORT: dict[str, Any] = {"cluster": "inline", "progress": False, "rounds": 4, "model": {"hidden": [4]}}
NAMES = ["upper_left", "upper_right", "lower_left", "lower_right", "server"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> flexray.Run:
    """Return a run that the command made, in which parties miss rounds."""
    folder = tmp_path_factory.mktemp("command") / "run"
    words = ("cluster=inline", "progress=false", "rounds=4", "eval_every=2", "model.hidden=[4]", "target=0.05")
    assert run_command([*words, "absence.probability=0.5", f"hydra.run.dir={folder}"]) == 0
    return flexray.read(folder)


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_evals_and_rounds_are_those_of_the_files(run: flexray.Run) -> None:
    evals, rounds = rows(run.folder / "evals.csv"), rows(run.folder / "rounds.csv")
    assert [*run.evals["test_top1"]] == [float(row["test_top1"]) for row in evals]
    assert [*run.evals.columns[:3]] == ["round", "epoch", "sim_time_units"]
    assert [*run.rounds.columns] == ["round", "sim_time_units", "duration_units", "train_loss", "sent_bytes"]
    assert [*run.rounds["sent_bytes"]] == [int(row["sent_bytes"]) for row in rounds]
    assert run.rounds.dtypes.map(str).to_dict()["round"] == "int64"


def test_participants_have_a_row_in_every_round(run: flexray.Run) -> None:
    table = run.participants
    assert [*table.columns] == ["round", "participant", "local_iterations", "lr", "utilization", "absent"]
    assert [*table["participant"]] == NAMES * 4
    away = table[table["absent"]]
    assert len(away)
    assert not away["local_iterations"].any()
    assert away.groupby("participant").size().to_dict() == {k: n for k, n in run.summary["absent_rounds"].items() if n}


def test_the_timeline_covers_every_round(run: flexray.Run) -> None:
    spans = run.timeline
    assert set(spans["activity"]) == {"compute", "communicate", "absent"}
    ends = (spans["begin_units"] + spans["duration_units"]).groupby(spans["round"]).max()
    assert np.allclose(ends, run.rounds["sim_time_units"])


def test_turns_and_seconds_have_columns_of_their_own() -> None:
    turns = flexray.simulate(**SHORT, algo="vafl")
    assert set(turns.rounds["party"]) <= set(NAMES)
    assert "staleness" in turns.participants
    wall = flexray.simulate(**SHORT, clock="wall", timeout=0.01, network={"t_comm": 0.001})
    assert {"sim_time_seconds", "duration_seconds"} < {*wall.rounds.columns}
    assert "begin_seconds" in wall.timeline


def test_predictions_are_those_of_the_command(run: flexray.Run, tmp_path: Path) -> None:
    for split in ("test", "all"):
        assert predict([str(run.folder), "--split", split, "-o", str(tmp_path / "p.csv")]) == 0
        expected = pd.read_csv(tmp_path / "p.csv")
        pd.testing.assert_frame_equal(run.predict(split=split), expected, check_dtype=False)  # type: ignore[arg-type]


def test_an_unknown_split_is_refused(run: flexray.Run) -> None:
    with pytest.raises(ConfigError, match="split: expected one of train, val, test, all, got 'testing'"):
        run.predict(split="testing")  # type: ignore[arg-type]


def test_the_models_are_the_trained_ones(run: flexray.Run) -> None:
    assert [*run.models] == NAMES
    assert not any(model.training for model in run.models.values())
    from flexray.data.digits import Digits

    parts = [Digits().features(k, torch.float32)["test"] for k in range(4)]
    ids = np.arange(len(parts[0]))
    with torch.no_grad():
        embedded = [run.models[name](part.batch(ids, 0).flatten(1)) for name, part in zip(NAMES, parts, strict=False)]
        classes = run.models["server"](torch.cat(embedded, dim=1)).argmax(dim=1)
    table = run.predict()
    assert [*table["prediction"]] == classes.tolist()
    assert (table["prediction"] == table["label"]).mean() == pytest.approx(run.summary["final"]["test_top1"])


def test_time_to_target_is_read_at_evaluations(run: flexray.Run) -> None:
    assert run.time_to(0.05) == run.summary["time_to_target"]
    assert run.time_to(2.0) is None
    assert run.time_to(100.0, "test_loss") == 0.0
    with pytest.raises(ConfigError, match=r"metric: expected one of test_loss, .*, got 'test_topp'"):
        run.time_to(0.9, "test_topp")


def test_figures_are_the_reports(run: flexray.Run) -> None:
    for metric, by, label in ((None, "time", "time (units)"), ("train_loss", "bytes", "sent (MB)")):
        picture = run.plot(metric, by)  # type: ignore[arg-type]
        assert picture.axes[0].get_xlabel() == label
        assert picture._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match="by: expected one of time, rounds, bytes, got 'epochs'"):
        run.plot(by="epochs")  # type: ignore[arg-type]


def test_a_run_shows_itself(run: flexray.Run) -> None:
    final = run.summary["final"]["test_top1"]
    assert repr(run) == f"<Run flex on digits: completed, 4 rounds, test_top1 {final:.4f}>"
    page = run._repr_html_()
    assert "<caption>flex on digits: completed</caption>" in page
    assert f"<td>{run.summary['sim_time']:g}</td>" in page


def test_a_run_that_was_killed_shows_what_it_has(run: flexray.Run, tmp_path: Path) -> None:
    for name in ("rounds.csv", "evals.csv"):
        (tmp_path / name).write_bytes((run.folder / name).read_bytes())
    killed = flexray.read(tmp_path)
    assert killed.status == "unfinished"
    assert killed.evals.equals(run.evals)
    assert "unfinished, 4 rounds" in repr(killed)
    assert killed.plot("train_loss").axes[0].lines
    assert "unfinished, 4 rounds" in killed._repr_html_()
    for act in (lambda: killed.summary, killed.predict, killed.resume):
        with pytest.raises(UserError):
            act()


@pytest.mark.parametrize(
    "content", ['{"traceEvents": [{"name": "x"}]}', '{"traceEvents": 3}', "[", '{"traceEvents": [3]}']
)
def test_a_damaged_timeline_is_one_line(content: str, tmp_path: Path) -> None:
    (tmp_path / "rounds.csv").write_text("round,tau\n")
    (tmp_path / "timeline.json").write_text(content)
    with pytest.raises(RunFolderError, match=r"timeline\.json: "):
        _ = flexray.read(tmp_path).timeline


@pytest.mark.parametrize("line", ["x,[1],[0.1]", "1,[,[0.1]", "1,3,[0.1]"])
def test_damaged_rounds_are_one_line(line: str, tmp_path: Path) -> None:
    (tmp_path / "rounds.csv").write_text("round,tau,lr\n" + line + "\n")
    with pytest.raises(RunFolderError, match=r"rounds\.csv"):
        _ = flexray.read(tmp_path).participants


def test_folders_without_a_run_and_links_are_refused(run: flexray.Run, tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match=r"no run in it; expected a run folder, which has summary\.json or rounds"):
        flexray.read(tmp_path)
    (tmp_path / "rounds.csv").symlink_to(run.folder / "rounds.csv")
    with pytest.raises(RunFolderError, match=r"rounds\.csv: cannot be read: is a link"):
        flexray.read(tmp_path)


def test_bars_are_shown_on_terminals_and_in_jupyter_with_widgets(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not shows_bars(Console(file=io.StringIO()))
    assert shows_bars(Console(file=io.StringIO(), force_terminal=True))
    jupyter = Console(file=io.StringIO(), force_jupyter=True)
    for found in (None, object()):
        monkeypatch.setattr("flexray.run.watch.terminal.find_spec", lambda name, found=found: found)
        assert shows_bars(jupyter) == (found is not None)


def test_the_summary_is_the_files(run: flexray.Run) -> None:
    assert run.summary == json.loads((run.folder / "summary.json").read_text())
    assert run.status == "completed"
