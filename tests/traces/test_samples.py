"""Formats that sample machines: alibaba2018, azure, long, wide, matrix; and every kind of fault in them."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest

from flexray.traces.reading import trace_info
from helpers.trace_files import close, imported, run, text


def cleaning(folder: Path) -> dict[str, int]:
    return {kind: count for kind, count in trace_info(folder / "out.parquet").cleaning.items() if count}


def refusal(capsys: pytest.CaptureFixture[str], folder: Path, *arguments: object) -> str:
    capsys.readouterr()
    assert run("import", *arguments, "-o", folder / "o.parquet") == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert printed.err.startswith("flexray: ")
    assert not list(folder.glob("*o.parquet*"))
    return printed.err.removeprefix("flexray: ").strip()


ALIBABA = "".join(
    f"m_{m},{t},{cpu},50,,,30.1,40.2,5\n"
    for m, samples in ((2, [(0, 20), (10, 40), (310, 50), (620, 101)]), (1, [(5, 10), (300, 30), (590, 50), (600, 70)]))
    for t, cpu in samples
)


@pytest.mark.parametrize("name", ["machine_usage.csv", "machine_usage.csv.gz", "machine_usage.tar.gz"])
def test_alibaba_is_in_per_cent_by_definition(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name.endswith(".tar.gz"):
        with tarfile.open(path, "w:gz") as archive:
            member = tarfile.TarInfo("machine_usage.csv")
            member.size = len(ALIBABA)
            archive.addfile(member, io.BytesIO(ALIBABA.encode()))
    else:
        text(path, ALIBABA)
    trace = imported(tmp_path, "alibaba2018", path)
    assert trace.machines == ("m_1", "m_2")
    assert trace.step_s == 300
    close(trace.cpu_mt, [[0.1, 0.4, 0.7], [0.3, 0.5, 1.0]])
    assert cleaning(tmp_path) == {"above_one": 1}


def test_a_truncated_tar_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "machine_usage.tar.gz"
    draw = np.random.Generator(np.random.PCG64(1))
    rows = "".join(f"m_1,{10 * i},{draw.integers(99)},5,,,3,4,5\n" for i in range(20_000)).encode()
    with tarfile.open(path, "w:gz") as archive:
        member = tarfile.TarInfo("machine_usage.csv")
        member.size = len(rows)
        archive.addfile(member, io.BytesIO(rows))
    path.write_bytes(path.read_bytes()[:9000])
    message = refusal(capsys, tmp_path, "alibaba2018", path)
    assert message.startswith(f"{path}: line ")
    assert "ends too early" in message


def test_azure_takes_the_average_column_in_per_cent(tmp_path: Path) -> None:
    one = text(tmp_path / "1.csv.gz", "0,a/+=,1,99,20.5\n0,b,1,99,30\n300,a/+=,0,99,10\n300,b,0,99,40\n")
    two = text(tmp_path / "2.csv.gz", "600,a/+=,0,99,0\n600,c,0,99,60\n")
    trace = imported(tmp_path, "azure", one, two, "--min-coverage", 0.5)
    assert trace.machines == ("a/+=", "b")
    close(trace.cpu_mt, [[0.205, 0.1, 0.0], [0.3, 0.4, 0.4]])
    assert cleaning(tmp_path) == {"gaps": 3, "sparse": 1}


def test_matrix(tmp_path: Path) -> None:
    path = tmp_path / "m.npy"
    np.save(path, np.array([[0.25, np.nan, -1.0, 0.5], [0.0, 0.0, 0.0, 0.0]]))
    trace = imported(tmp_path, "matrix", path, "--step", 60)
    assert trace.machines == ("machine_000",)
    assert trace.step_s == 60
    close(trace.cpu_mt, [[0.25, 0.25, 0.25, 0.5]])
    assert cleaning(tmp_path) == {"nan": 1, "negative": 1, "all_zero": 1}
    np.save(path, np.array([[25, 150]]))
    close(imported(tmp_path, "matrix", path, "--unit", "percent", "--above-one", "clip").cpu_mt, [[0.25, 1.0]])


@pytest.mark.parametrize("time", ["time", "time_s"])
def test_wide_and_long(tmp_path: Path, time: str) -> None:
    wide = text(tmp_path / "w.csv", f"{time},b,a\n0,0.1,0.2\n60,0.3,0.4\n120,0.5,0.6\n")
    long = text(tmp_path / "l.csv", f"machine,{time},cpu\na,0,0.2\na,60,0.4\na,120,0.6\nb,0,0.1\nb,60,0.3\nb,120,0.5\n")
    for name, path in (("wide", wide), ("long", long)):
        trace = imported(tmp_path, name, path)
        assert trace.machines == ("a", "b")
        assert trace.step_s == 60
        close(trace.cpu_mt, [[0.2, 0.4, 0.6], [0.1, 0.3, 0.5]])
        assert cleaning(tmp_path) == {}
        close(imported(tmp_path, name, path, "--step", 120).cpu_mt, [[0.3, 0.6], [0.2, 0.5]])


FAULTY = {
    "nan": ("0.1,0.2", ",nan"),
    "negative": ("0.1,0.2", "-0.1,-2"),
    "above_one": ("0.1,0.2", "1.5,20"),
}


@pytest.mark.parametrize("kind", FAULTY)
def test_bad_values_are_repaired_and_counted(tmp_path: Path, kind: str) -> None:
    before, after = FAULTY[kind]
    content = "time,a,b\n0,0.3,0.4\n300,0.1,0.2\n600,0.5,0.6\n".replace(before, after)
    path = text(tmp_path / "w.csv", content)
    options = ("--above-one", "fill") if kind == "above_one" else ()
    trace = imported(tmp_path, "wide", path, *options)
    close(trace.cpu_mt, [[0.3, 0.3, 0.5], [0.4, 0.4, 0.6]])
    assert cleaning(tmp_path) == {kind: 2}
    close(imported(tmp_path, "wide", path, *options, "--fill", "zero").cpu_mt, [[0.3, 0, 0.5], [0.4, 0, 0.6]])


def test_values_above_one_are_never_taken_for_per_cent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = text(tmp_path / "w.csv", "time,a\n0,0.5\n300,45.5\n600,20\n")
    message = refusal(capsys, tmp_path, "wide", path)
    assert message.startswith(
        f"{path}: line 3: machine 'a': 45.5 is above 1; if the values are in per cent, add --unit"
    )
    close(imported(tmp_path, "wide", path, "--unit", "percent").cpu_mt, [[0.005, 0.455, 0.2]])
    close(imported(tmp_path, "wide", path, "--above-one", "clip").cpu_mt, [[0.5, 1, 1]])
    assert cleaning(tmp_path) == {"above_one": 2}


def test_gaps_are_filled_and_counted(tmp_path: Path) -> None:
    rows = "machine,time,cpu\na,0,0.1\na,300,0.2\na,1200,0.3\nb,300,0.5\nb,600,0.6\nb,900,0.7\nb,1200,0.8\n"
    path = text(tmp_path / "l.csv", rows)
    trace = imported(tmp_path, "long", path)
    close(trace.cpu_mt, [[0.1, 0.2, 0.2, 0.2, 0.3], [0.5, 0.5, 0.6, 0.7, 0.8]])
    assert cleaning(tmp_path) == {"gaps": 3}
    assert imported(tmp_path, "long", path, "--min-coverage", 0.7).machines == ("b",)
    assert cleaning(tmp_path) == {"gaps": 3, "sparse": 1}
    text(path, rows + "c,0,0.1\nc,300,0.1\nc,600,0.2\nc,900,0.1\nc,1200,0.3\n")
    assert imported(tmp_path, "long", path, "--fill", "drop").machines == ("c",)


def test_unsorted_and_repeated_times_are_put_in_order_and_counted(tmp_path: Path) -> None:
    long = "machine,time,cpu\na,300,0.2\na,0,0.1\nb,0,0.5\na,600,0.3\nb,300,0.6\nb,300,0.8\nb,600,0.1\n"
    trace = imported(tmp_path, "long", text(tmp_path / "l.csv", long))
    close(trace.cpu_mt, [[0.1, 0.2, 0.3], [0.5, 0.7, 0.1]])
    assert cleaning(tmp_path) == {"unsorted": 1, "overlapping": 1}
    wide = "time,a,b,c\n300,0.2,0.2,0.2\n0,0.1,0.1,0.1\n600,0.3,0.3,0.3\n600,0.5,0.5,0.5\n"
    close(imported(tmp_path, "wide", text(tmp_path / "w.csv", wide)).cpu_mt, [[0.1, 0.2, 0.4]] * 3)
    assert cleaning(tmp_path) == {"unsorted": 1, "overlapping": 1}, "rows, not samples"


def test_order_is_watched_across_chunks_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flexray.traces.chunks.chunks.__defaults__", (1, None))
    monkeypatch.setattr("flexray.traces.chunks.BLOCK_BYTES", 7)
    one = text(tmp_path / "1.csv", "machine,time,cpu\na,0,0.1\na,300,0.3\na,300,0.5\n")
    two = text(tmp_path / "2.csv", "machine,time,cpu\na,300,0.1\na,600,0.2\na,0,0.3\n")
    close(imported(tmp_path, "long", one, two, "--step", 300).cpu_mt, [[0.2, 0.3, 0.2]])
    assert cleaning(tmp_path) == {"unsorted": 1, "overlapping": 2}


def test_time_is_moved_to_0_and_counted(tmp_path: Path) -> None:
    path = text(tmp_path / "w.csv", "time,a\n1000000123,0.1\n1000000423,0.2\n")
    close(imported(tmp_path, "wide", path).cpu_mt, [[0.1, 0.2]])
    assert cleaning(tmp_path) == {"start_shift_s": 999999900}


def test_machines_at_zero_are_left_out_and_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = text(tmp_path / "w.csv", "time,a,b,c\n0,0,0.1,0\n300,0,0,0.2\n")
    assert imported(tmp_path, "wide", path).machines == ("b", "c")
    assert cleaning(tmp_path) == {"all_zero": 1}
    message = refusal(capsys, tmp_path, "wide", path, "--min-machines", 3)
    assert message == f"{path}: expected at least 3 machines, got 2 that can be used, of 3"
    text(path, "time,a\n0,0\n300,0\n")
    assert refusal(capsys, tmp_path, "wide", path).startswith(f"{path}: expected at least 1 machine, got 0")


def test_rows_without_a_machine(tmp_path: Path) -> None:
    path = text(tmp_path / "l.csv", 'machine,time,cpu\na,0,0.1\n,0,0.9\n"",300,0.9\na,300,0.3\nb,0,0.5\nb,300,0.6\n')
    close(imported(tmp_path, "long", path).cpu_mt, [[0.1, 0.3], [0.5, 0.6]])
    assert cleaning(tmp_path) == {"no_machine": 2}


STRICT = {
    "nan": ("time,a\n0,0.1\n300,\n600,0.2\n", "line 3: machine 'a': values that are empty or not numbers: 1;"),
    "negative": ("time,a\n0,-0.1\n300,0.1\n", "line 2: machine 'a': values below 0: 1;"),
    "gaps": ("time,a\n0,0.1\n300,0.1\n900,0.2\n", "machine 'a': windows without any value: 1;"),
    "unsorted": ("time,a\n300,0.1\n0,0.1\n600,0.2\n", "line 3: machine 'a': rows earlier than the row before: 1;"),
    "overlapping": ("time,a\n0,0.1\n300,0.1\n300,0.2\n", "line 4: machine 'a': rows that cover time"),
    "start_shift_s": ("time,a\n600,0.1\n900,0.1\n", "seconds that the first window lay after time 0: 600;"),
    "all_zero": ("time,a,b\n0,0.1,0\n300,0.1,0\n", "machine 'b': machines that are at 0 all the time: 1;"),
    "above_one": ("time,a\n0,0.1\n300,1.1\n", "line 3: machine 'a': values above 1: 1;"),
}


@pytest.mark.parametrize("kind", STRICT)
def test_strict_refuses_every_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str) -> None:
    content, expected = STRICT[kind]
    path = text(tmp_path / "w.csv", content)
    assert expected in refusal(capsys, tmp_path, "wide", path, "--strict", "--above-one", "clip")


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("long", "machine,cpu\n", "expected the header 'machine,time,cpu', got 'machine,cpu'"),
        ("long", "machine,time,cpu\na,0,x\n", "line 2: cpu: expected a number, got 'x'"),
        ("long", "machine,time_s,cpu\na,0,1\na,1:00,1\n", "line 3: time_s: expected seconds, a number, got '1:00'"),
        (
            "wide",
            "time,a\n2024-01-01T00:00:00,0.5\n",
            "line 2: time: expected seconds, a number, got '2024-01-01T00:00:00'",
        ),
        ("wide", "time,a,b\n0,0.5,busy\n", "line 2: b: expected a number, got 'busy'"),
        ("long", "machine,time,cpu\na,0\n", "line 2: Expected 3 columns, got 2: a,0"),
        (
            "long",
            "machine,time,cpu\na,0,0.1\na,,0.1\na,300,0.2\n",
            "line 3: machine 'a': expected a time in seconds, got nan",
        ),
        (
            "long",
            "machine,time,cpu\na,-300,0.1\na,0,0.1\n",
            "line 2: machine 'a': expected a time in seconds, got -300",
        ),
        ("long", "machine,time,cpu\na,0,0.1\n", "expected at least two times to find the step; or give it with --step"),
        ("long", "machine,time,cpu\na,0,0.1\na,0.5,0.1\n", "times are 0.5 s apart; give a window of whole seconds"),
        ("long", "machine,time,cpu\n", "expected samples of machines, got none"),
        ("long", "", "expected samples of machines, got none"),
        ("wide", "a,b\n0,0.1\n", "expected the header 'time', then one machine per column, got 'a,b'"),
        ("wide", "time,a,a\n0,0.1,0.2\n", "machine 'a' has two columns"),
        (
            "wide",
            "time,a\n0,0.1\n1" + "0" * 15 + ",0.1\n",
            "line 3: machine 'a': expected a time in seconds, got 1e+15",
        ),
        ("azure", "timestamp,vm,min,max,avg\n", "line 1: time: expected seconds, a number, got 'timestamp'"),
        ("alibaba2018", "m_1,0,10\n", "line 1: expected 9 columns, got 3"),
        ("matrix", "0,1\n", "cannot be read: "),
    ],
)
def test_files_that_cannot_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: str, expected: str
) -> None:
    path = text(tmp_path / "file", content)
    message = refusal(capsys, tmp_path, name, path, *(("--step", 300) if "e+15" in expected else ()))
    assert message.startswith(f"{path}: {expected}")


def test_a_folder_stands_for_its_files_in_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "shards"
    folder.mkdir()
    assert "expected files in this folder, got none" in refusal(capsys, tmp_path, "azure", folder)
    text(folder / "2.csv", "300,a,0,0,20\n")
    text(folder / "1.csv", "0,a,0,0,10\n")
    close(imported(tmp_path, "azure", folder).cpu_mt, [[0.1, 0.2]])
    assert cleaning(tmp_path) == {}
