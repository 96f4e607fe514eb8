"""Every fault of a trace, through both commands: the run that is to follow it, and the strict import."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from flexray.traces import chunks
from flexray.traces.cli import main as traces_command
from helpers.outcome import Command

GOOD = "machine,time,cpu\n" + "".join(f"{m},{t},0.{k + 1}\n" for k, m in enumerate("pqrs") for t in (0, 300, 600))
FAULTS = {
    "nan": ("q,300,0.2", "q,300,nan", "machine 'q', row 6: utilization nan is not a number", "line 6: machine 'q': "),
    "empty": ("q,300,0.2", "q,300,", "machine 'q', row 6: utilization nan is not a number", "line 6: machine 'q': "),
    "gap": (
        "q,300,0.2\n",
        "",
        "machine 'q', row 6: 2 samples, 600 s apart; expected 3 samples, 300",
        "t.csv: machine 'q': windows",
    ),
    "negative": ("q,300,0.2", "q,300,-0.2", "machine 'q', row 6: utilization -0.2 is negative", "line 6: machine 'q'"),
    "above 1": ("q,300,0.2", "q,300,1.2", "machine 'q', row 6: utilization 1.2 is above 1", "line 6: machine 'q': 1.2"),
    "per cent": (
        "q,300,0.2",
        "q,300,20",
        "expected a fraction from 0 to 1 (per cent",
        "line 6: machine 'q': 20 is above",
    ),
    "all zero": (",0.2", ",0", "machine 'q', row 5: all its utilizations are 0", "t.csv: machine 'q': machines that"),
    "unsorted": ("q,300,0.2\nq,600,0.2", "q,600,0.2\nq,300,0.2", "time 300 after 600; expected sorted", "line 7: "),
    "overlapping": ("q,300,0.2", "q,0,0.2", "machine 'q', row 6: time 0 after 0; expected sorted times", "line 6: "),
}
"""What is replaced in a good trace, and what a run and an import say."""


def write(path: Path, fault: str) -> Path:
    old, new, *_ = FAULTS[fault]
    changed = GOOD.replace(old, new) if fault == "all zero" else GOOD.replace(old, new, 1)
    assert changed != GOOD
    path.write_text(changed, encoding="utf-8")
    return path


@pytest.mark.parametrize("fault", FAULTS)
def test_a_run_refuses_a_faulty_trace(fault: str, run: Command, tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", fault)
    run("speeds=trace", f"speeds.path={path}").assert_refused(f"flexray: {path}: ", FAULTS[fault][2])


def imported(*arguments: object) -> int:
    return traces_command(["import", *map(str, arguments)])


@pytest.mark.parametrize("fault", FAULTS)
def test_a_strict_import_refuses_it(fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = write(tmp_path / "t.csv", fault), tmp_path / "o.parquet"
    assert imported("long", path, "-o", out, "--step", 300, "--strict") == 2
    printed = capsys.readouterr()
    assert printed.err.startswith(f"flexray: {path}"), printed.err
    assert FAULTS[fault][3] in printed.err
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert not out.exists()


def test_a_start_later_than_0(run: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.csv"
    path.write_text("time,p,q,r,s\n300,0.1,0.1,0.1,0.1\n600,0.1,0.1,0.1,0.1\n", encoding="utf-8")
    run("speeds=trace", f"speeds.path={path}").assert_refused("time 300; expected the first time to be 0")
    assert imported("wide", path, "-o", tmp_path / "o.parquet", "--strict") == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_fewer_machines_than_participants(run: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.csv"
    path.write_text("time,p,q\n0,0.1,0.1\n300,0.1,0.1\n", encoding="utf-8")
    run("speeds=trace", f"speeds.path={path}").assert_refused("has 2 machines, and 4 participants")
    assert imported("wide", path, "-o", tmp_path / "o.parquet", "--min-machines", 4) == 2
    printed = capsys.readouterr().err
    assert (printed.count("\n"), "got 2" in printed) == (1, True), printed


def test_a_truncated_gzip_names_file_and_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = gzip.compress(("time,p\n" + "".join(f"{300 * t},0.{t % 9 + 1}\n" for t in range(5000))).encode())
    path = tmp_path / "t.csv.gz"
    path.write_bytes(whole[: len(whole) // 2])
    assert imported("wide", path, "-o", tmp_path / "o.parquet") == 2
    printed = capsys.readouterr().err
    assert printed.startswith(f"flexray: {path}: line "), printed
    assert printed.count("\n") == 1


def test_a_pipe_in_place_of_a_trace_is_not_waited_for(
    run: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.csv"
    os.mkfifo(path)
    run("speeds=trace", f"speeds.path={path}").assert_refused(f"flexray: {path}: is a pipe; expected a trace file")
    usage = tmp_path / "usage.csv"
    usage.write_text("0,300000000,1,0,1,0.5" + ",0" * 14 + "\n")
    events = ("--machine-events", path, "-o", tmp_path / "o.parquet")
    assert imported("google2011", usage, *events) == imported("google2019", usage, *events) == 2
    assert imported("long", path, "-o", tmp_path / "o.parquet") == imported("long", tmp_path, *events[2:]) == 2
    assert set(capsys.readouterr().err.splitlines()) == {f"flexray: {path}: is a pipe; expected a regular file"}


def test_a_line_that_never_ends_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "LONGEST_LINE", 1 << 21)
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"time,p\n" + b"0" * (1 << 24)))
    assert imported("wide", path, "-o", tmp_path / "o.parquet") == 2
    assert capsys.readouterr().err == f"flexray: {path}: line 1: expected lines of at most 2 MiB\n"
