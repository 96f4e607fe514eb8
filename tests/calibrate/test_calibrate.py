"""``flexray.calibrate`` and its command, in one process; on Ray: tests/on_ray/test_real_seconds.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from torch import nn

import flexray
from flexray.calibrate import cli
from flexray.config.measured import read_measured

SMALL = ("cluster=inline", "dataset=bundle", "model.hidden=[4]", "embedding=3", "dataset.batch_size=5")
NAMES = ("a", "b", "c", "server")


class Own(nn.Linear):
    """A model that no other process can import."""


def test_what_it_measures_is_what_a_run_reads(bundle: Path, tmp_path: Path) -> None:
    file = tmp_path / "new" / "seconds.yaml"
    words = (*SMALL, f"dataset.path={bundle}", "algo=vafl", "speeds=measured", "clock=wall", "max_time=1e-6")
    found = flexray.calibrate(
        *words, file=file, seconds=0.05, frozen=["c"], parties={"b": {"model": {"_target_": Own}}}
    )
    read = read_measured(file, NAMES)
    assert {name: own["iteration_s"] for name, own in found.participants.items()} == dict(
        zip(NAMES, read.measured.iteration_s, strict=True)
    )
    assert read.measured.iteration_s[2] == max(read.measured.iteration_s)  # frozen
    assert all(s > 0 for s in (*read.measured.embedding_s[:3], *read.measured.turn_s, read.measured.first_s[0]))
    assert (read.measured.process, read.measured.embedding_s[3]) == ((0,) * 4, 0.0)
    assert read.network == {"t_comm": {"a": 0.0, "b": 0.0, "c": 0.0}}
    speeds = {"kind": "measured", "path": found}
    keys = {"rounds": 2, "timeout": 0.01, "progress": False, "speeds": speeds}
    run = flexray.simulate(*SMALL, dataset={"path": bundle}, **keys)
    assert run.rounds["duration_seconds"].min() > 4 * 0.01  # one after another


def test_several_batch_sizes(bundle: Path, tmp_path: Path) -> None:
    file = tmp_path / "seconds.yaml"
    found = flexray.calibrate(*SMALL, dataset={"path": bundle}, file=file, seconds=0.05, batch_sizes=(4, 12))
    assert [*found.participants["a"]["iteration_s"]] == found.about["batch_sizes"] == [4, 12]
    assert read_measured(file, NAMES, 8).measured.iteration_s[0] > 0


def test_the_command_prints_a_table(
    bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main([*SMALL, f"dataset.path={bundle}", "--seconds", "0.05"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["milliseconds", "iteration", "spread", "first", "embedding", "turn", "link"]
    assert [line.split()[0] for line in lines[1:5]] == list(NAMES)
    assert lines[-1] == "written to measured.yaml"
    assert read_measured(tmp_path / "measured.yaml", NAMES).measured.round_s >= 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--seconds", "0"], "seconds: expected a number from 0.01 to 60, got 0"),
        (["--seconds", "x"], "--seconds: invalid float value: 'x'"),
        (["--batch-sizes", "4,x"], "--batch-sizes: expected whole numbers such as 16,64, got 'x'"),
        (["--batch-sizes", "0"], "batch_sizes: expected a whole number of at least 1, got 0"),
        (["--batch-sizes", "500"], "dataset.batch_size: expected 1 to 24 (the number of training samples), got 500"),
        (["ronds=3"], "ronds: unknown key; did you mean 'rounds'"),
        (["labels_at=b"], "labels_at: seconds of labels at one party are not measured; expected all or server"),
        (["-m"], "unrecognized arguments: -m"),
        (["dataset.path=nowhere"], "nowhere"),
        (["-o", "{folder}/file/seconds.yaml"], "file: {folder}/file/seconds.yaml: cannot be written: "),
    ],
)
def test_a_mistake_is_one_line(
    words: list[str], said: str, bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    words = [word.format(folder=tmp_path) for word in words]
    first = [*SMALL, f"dataset.path={bundle}", "-o", f"{tmp_path}/seconds.yaml", "--seconds", "0.01"]
    assert cli.main([*first, *words]) == 2
    line = capsys.readouterr().err
    assert said.format(folder=tmp_path) in line
    assert line.count("\n") == 1


def test_data_is_given_as_a_file(bundle: Path) -> None:
    with pytest.raises(flexray.UserError, match=r"dataset.path: got data; flexray.calibrate expects a file or folder"):
        flexray.calibrate("dataset=bundle", dataset={"path": {"train": {}}})
    with pytest.raises(flexray.UserError, match="-m: expected keys of a single run such as cluster=ray"):
        flexray.calibrate("-m")
