"""``resume=auto`` and sweeps whose jobs run side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flexray.run import run_command

SMALL = ("cluster=inline", "progress=false", "dataset.batch_size=256", "rounds=4", "model.hidden=[8]")


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
    command = ["-m", *SMALL[:4], *model, f"hydra.sweep.dir={tmp_path}/out", "resume=auto"]
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
    capsys.readouterr()
    assert run_command([*again, "rounds=6", "seed=5"]) == 0
    assert summary(tmp_path / "out")["resumed_from"] is None
    assert "holds a run that differs in resume" not in (told := capsys.readouterr().out)
    assert "holds a run that differs in seed" in told
    assert "the run begins again" in told


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
