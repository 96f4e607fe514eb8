"""``resume=auto`` and sweeps whose jobs run side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flexray.run.command import run_command

SMALL = ("cluster=inline", "progress=false", "dataset.batch_size=256", "timeout=4", "rounds=4", "model.hidden=[8]")


def summary(folder: Path) -> Any:
    return json.loads((folder / "summary.json").read_text())


def test_jobs_side_by_side_one_fails_and_the_same_command_again_does_only_what_is_missing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from joblib.externals.loky import get_reusable_executor

    (tmp_path / "sometimes.py").write_text(
        "from pathlib import Path\nfrom torch import nn\n\n\nclass Net(nn.Linear):\n"
        "    def __init__(self, in_features, out_features, number=0):\n"
        "        super().__init__(in_features, out_features)\n"
        "        if number == 1 and not Path('healed').exists():\n            raise KeyError('by intent')\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    model = ("model._target_=sometimes.Net", "model.number=0,1,2")
    command = ["-m", *SMALL[:5], *model, f"hydra.sweep.dir={tmp_path}/out", "resume=auto"]
    launcher = ["hydra/launcher=joblib", "hydra.launcher.n_jobs=2"]
    assert run_command([*command, *launcher]) == 1
    get_reusable_executor().shutdown()
    told = capfd.readouterr()
    assert told.err.count("flexray: job 1 (") == 1
    assert told.out.split("time to target (units)")[1].count("0 of 1") == 2
    assert "by intent" in (tmp_path / "out" / "1" / "run.log").read_text()
    before = {job: (tmp_path / "out" / job / "summary.json").read_bytes() for job in "02"}
    (tmp_path / "healed").touch()
    assert run_command(command) == 0
    told = capfd.readouterr().out
    assert told.count("completed before, in") == 2
    assert told.split("time to target (units)")[1].count("0 of 1") == 3
    assert {job: (tmp_path / "out" / job / "summary.json").read_bytes() for job in "02"} == before
    assert summary(tmp_path / "out" / "1")["status"] == "completed"


def test_more_rounds_go_on_from_the_checkpoint_and_another_configuration_begins(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    again = (*SMALL, "checkpoint.every=2", "resume=auto", f"hydra.run.dir={tmp_path}/out")
    assert run_command([*again]) == 0
    assert run_command([*again, "rounds=6"]) == 0
    went_on = summary(tmp_path / "out")
    assert went_on["resumed_from"] == 4
    assert run_command([*SMALL, "rounds=6", f"hydra.run.dir={tmp_path}/plain"]) == 0
    assert went_on["model_digest"] == summary(tmp_path / "plain")["model_digest"]
    before = (tmp_path / "out" / "rounds.csv").read_bytes()
    capsys.readouterr()
    assert run_command([*again, "rounds=6", "seed=5"]) == 2
    assert "out: holds a completed run that differs in seed; expected another folder" in capsys.readouterr().err
    assert (tmp_path / "out" / "rounds.csv").read_bytes() == before
    (tmp_path / "out" / "summary.json").unlink()  # it did not end
    assert run_command([*again, "rounds=6", "seed=5"]) == 0
    assert summary(tmp_path / "out")["resumed_from"] is None
    assert "the run begins again" in capsys.readouterr().out


@pytest.mark.parametrize("flags", [["-m", "seed=1,2"], []])
def test_auto_without_a_fixed_folder_is_refused(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command([*flags, *SMALL, "resume=auto"]) == 2
    key = "hydra.sweep.dir" if flags else "hydra.run.dir"
    assert f"expected {key}=FOLDER" in capsys.readouterr().err


def test_a_torn_summary_counts_as_none(tmp_path: Path) -> None:
    command = [*SMALL, "resume=auto", f"hydra.run.dir={tmp_path}/out"]
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "summary.json").write_text('{"status": "comple')
    assert run_command(command) == 0
    assert summary(tmp_path / "out")["status"] == "completed"


def folders(root: Path) -> dict[str, tuple[str, int, int]]:
    """Return algorithm, seed and rounds of each run, by folder."""
    found = {path.parent.name: summary(path.parent) for path in sorted(root.glob("*/summary.json"))}
    return {name: (one["algo"], one["seed"], one["rounds"]) for name, one in found.items()}


def test_jobs_of_a_grown_grid_are_known_by_their_configurations(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    command = ("-m", *SMALL[:4], "model.hidden=[8]", "resume=auto", f"hydra.sweep.dir={out}")
    assert run_command([*command, "rounds=1", "algo=flex,pbcd", "seed=1,2"]) == 0
    first = folders(out)
    assert first == {"0": ("flex", 1, 1), "1": ("flex", 2, 1), "2": ("pbcd", 1, 1), "3": ("pbcd", 2, 1)}
    before = {name: (out / name / "summary.json").read_bytes() for name in first}
    capsys.readouterr()
    assert run_command([*command, "rounds=1", "seed=3,2,1", "algo=pbcd,flex"]) == 0  # grown, and in another order
    assert capsys.readouterr().out.count("completed before, in") == 4
    grown = folders(out)
    assert {name: grown[name] for name in first} == first
    assert {name: (out / name / "summary.json").read_bytes() for name in first} == before
    assert sorted(value for name, value in grown.items() if name not in first) == [("flex", 3, 1), ("pbcd", 3, 1)]
    assert run_command([*command, "rounds=1", "seed=3,2,1", "algo=pbcd,flex"]) == 0
    assert capsys.readouterr().out.count("completed before, in") == 6


def test_more_rounds_of_a_sweep_go_on_but_rounds_that_are_swept_are_other_jobs(tmp_path: Path) -> None:
    command = ("-m", *SMALL[:4], "model.hidden=[8]", "resume=auto", f"hydra.sweep.dir={tmp_path}/out")
    assert run_command([*command, "seed=1,2", "rounds=1"]) == 0
    assert run_command([*command, "seed=1,2", "rounds=2"]) == 0
    assert folders(tmp_path / "out") == {"0": ("flex", 1, 2), "1": ("flex", 2, 2)}
    assert summary(tmp_path / "out" / "0")["resumed_from"] == 1
    assert run_command([*command, "seed=1", "rounds=3,2"]) == 0
    assert sorted(folders(tmp_path / "out").values()) == [("flex", 1, 2), ("flex", 1, 3), ("flex", 2, 2)]


def test_a_run_that_begins_anew_leaves_no_events_of_the_earlier_one(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    command = [*SMALL, "logger=tensorboard", f"hydra.run.dir={tmp_path}/out"]
    assert run_command(command) == 0
    assert run_command([*command, "rounds=2"]) == 0
    events = EventAccumulator(str(tmp_path / "out" / "tensorboard"))
    events.Reload()
    assert [event.step for event in events.Scalars("round/train_loss")] == [1, 2]
