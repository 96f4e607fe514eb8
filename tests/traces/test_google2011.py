from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import pytest

from flexray.core.errors import DataError
from flexray.traces import chunks
from flexray.traces.cleaning import Counts
from flexray.traces.formats.base import Request
from flexray.traces.formats.google2011 import FORMAT
from flexray.traces.reading import trace_info
from helpers.trace_files import Task, close, imported, machine_events, run, task_usage, text

TASKS: list[Task] = [
    (600, 900, 1, 7, "0.1"),  # fills window 2
    (750, 1050, 2, 7, "0.2"),  # half in window 2, half in 3
    (900, 1200, 1, 7, "0.05"),
    (900, 1200, 4, 9, "0.2"),  # while the capacity goes from 1 to 0.25
    (1100, 1900, 3, 7, "0.25"),  # straddles three borders
    (1200, 1350, 5, 11, "0.25"),  # until its machine is removed
    (1200, 1500, 4, 9, "0.2"),
]
EVENTS = [
    (0, 7, 0, "0.5"), (0, 9, 0, "1.0"), (0, 11, 0, "0.5"),
    (1050, 9, 2, "0.25"), (1350, 11, 1, "0.5"), (1650, 11, 0, "0.5"),
]  # fmt: skip
BY_HAND = {
    "7": [0.1 / 0.5 + 0.1 / 0.5, 0.1 / 0.5 + 0.05 / 0.5 + 0.25 * 100 / 300 / 0.5, 0.5, 0.5, 0.25 * 100 / 300 / 0.5],
    "9": [0.0, 0.2 * 300 / (150 * 1.0 + 150 * 0.25), 0.8, 0.0, 0.0],
    "11": [0.0, 0.0, 0.25 * 150 / (150 * 0.5), 0.0, 0.0],
}  # fmt: skip


@pytest.fixture
def events(tmp_path: Path) -> Path:
    return machine_events(tmp_path / "machine_events.csv.gz", EVENTS)


def measured(events: Path, *files: Path, **options: object) -> tuple[dict[str, list[float]], Counts]:
    """Return utilizations as float64, before any repair, and the counts."""
    counts = Counts()
    request = Request(files, events, **options)  # type: ignore[arg-type]
    return {name: value_w.tolist() for name, value_w in FORMAT.read(request, counts).rows}, counts


def test_utilizations_are_those_computed_by_hand(tmp_path: Path, events: Path) -> None:
    found, counts = measured(events, task_usage(tmp_path / "part-0.csv.gz", TASKS))
    assert set(found) == {"7", "9", "11"}
    for name, expected in BY_HAND.items():
        assert found[name] == pytest.approx(expected, rel=1e-14, abs=0), name
    assert counts.number["idle"] == 3 + 4
    assert counts.number["gaps"] == 0
    assert counts.number["start_shift_s"] == 600


def test_the_command_writes_them(tmp_path: Path, events: Path) -> None:
    files = [task_usage(tmp_path / f"part-{i}.csv.gz", TASKS[i : i + 2]) for i in (0, 2, 4, 6)]
    trace = imported(tmp_path, "google2011", *files, "--machine-events", events)
    assert trace.machines == ("11", "7", "9")
    assert trace.step_s == 300
    assert not trace.synthetic
    close(trace.cpu_mt, [BY_HAND[name] for name in trace.machines])
    assert trace.source == "google2011: part-0.csv.gz to part-6.csv.gz, 4 files"


@pytest.mark.parametrize("columns", [19, 20])
def test_both_versions_of_the_2011_trace(tmp_path: Path, events: Path, columns: int) -> None:
    found, _ = measured(events, task_usage(tmp_path / "part.csv", TASKS, columns))
    assert found["7"] == pytest.approx(BY_HAND["7"], rel=1e-14)


def test_another_step(tmp_path: Path, events: Path) -> None:
    found, _ = measured(events, task_usage(tmp_path / "part.csv", TASKS), step_s=600)
    five = BY_HAND["7"]
    assert found["7"] == pytest.approx([(five[0] + five[1]) / 2, (five[2] + five[3]) / 2, five[4] / 2], rel=1e-14)


def test_a_machine_that_is_away_has_gaps(tmp_path: Path) -> None:
    events = machine_events(tmp_path / "e.csv", [(0, 1, 0, "1"), (300, 1, 1, "1"), (900, 1, 0, "0.5"), (0, 2, 0, "1")])
    usage = task_usage(tmp_path / "u.csv", [(0, 300, 1, 1, "0.3"), (0, 1200, 2, 2, "0.1"), (900, 1200, 1, 1, "0.2")])
    found, counts = measured(events, usage)
    assert np.array_equal(found["1"], [0.3, np.nan, np.nan, 0.4], equal_nan=True)
    assert counts.number["gaps"] == 2
    assert "idle" not in counts.number
    for fill, expected in (("hold", [0.3, 0.3, 0.3, 0.4]), ("zero", [0.3, 0, 0, 0.4])):
        trace = imported(tmp_path, "google2011", usage, "--machine-events", events, "--fill", fill)
        close(trace.cpu_mt[0], expected)
    trace = imported(tmp_path, "google2011", usage, "--machine-events", events, "--fill", "drop")
    assert trace.machines == ("2",)


def test_windows_that_name_no_machine_were_not_measured(tmp_path: Path) -> None:
    events = machine_events(tmp_path / "e.csv", [(0, 1, 0, "1"), (0, 2, 0, "1")])
    usage = task_usage(tmp_path / "u.csv", [(0, 300, 1, 1, "0.3"), (300, 600, 2, 2, "0.3"), (900, 1200, 1, 1, "0.2")])
    found, counts = measured(events, usage)
    assert np.array_equal(found["1"], [0.3, 0, np.nan, 0.2], equal_nan=True)
    assert counts.number["gaps"] == 2
    assert counts.number["idle"] == 3
    found, counts = measured(events, usage, idle="gap")
    assert np.array_equal(found["1"], [0.3, np.nan, np.nan, 0.2], equal_nan=True)
    assert counts.number["gaps"] == 5


def test_a_task_that_is_measured_twice_counts_once(tmp_path: Path) -> None:
    events = machine_events(tmp_path / "e.csv", [(0, 1, 0, "1")])
    rows: list[Task] = [
        (0, 300, 1, 1, "0.3"), (0, 300, 1, 1, "0.3"),  # the same row again
        (0, 300, 2, 1, "0.1"),  # another task
        (200, 500, 1, 1, "0.6"),  # 200 to 300 is covered
        (400, 450, 1, 1, "0.9"),  # covered
    ]  # fmt: skip
    found, counts = measured(events, task_usage(tmp_path / "u.csv", rows))
    assert found["1"] == pytest.approx([0.4, 0.6 * 200 / 300], rel=1e-14)
    assert counts.number["overlapping"] == 3
    assert counts.first["overlapping"] == f"{tmp_path / 'u.csv'}: line 2"


def test_overlap_is_seen_across_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events = machine_events(tmp_path / "e.csv", [(0, 1, 0, "1")])
    rows: list[Task] = [(300 * w, 300 * w + 400, job, 1, "0.1") for w in range(20) for job in range(5)]
    path = task_usage(tmp_path / "u.csv.gz", rows)
    found, counts = measured(events, path)
    assert found["1"] == pytest.approx([0.5] * 20 + [0.5 / 3], rel=1e-12)
    assert counts.number["overlapping"] == 95
    monkeypatch.setattr("flexray.traces.chunks.chunks.__defaults__", (200, None))
    monkeypatch.setattr("flexray.traces.chunks.BLOCK_BYTES", 50)
    again, counts = measured(events, path)
    assert again["1"] == pytest.approx(found["1"], rel=1e-12)
    assert counts.number["overlapping"] == 95


def test_faults_of_rows_are_counted(tmp_path: Path) -> None:
    events = machine_events(tmp_path / "e.csv", [(0, 1, 0, "1"), (0, 2, 0, "")])
    rows: list[Task] = [
        (300, 600, 1, 1, "0.5"), (0, 300, 2, 1, "0.25"),  # unsorted
        (600, 900, 3, 1, ""), (600, 900, 4, 1, "-0.1"),  # neither counts: the window is unknown
        (900, 1200, 5, 1, "0.7"), (900, 1200, 6, 1, "0.7"),  # above 1
        (1200, 1100, 7, 1, "0.5"), (1200, 1500, 8, -1, "0.5"),  # reversed; no machine
        (900, 1200, 9, 2, "0.1"),  # capacity not known
        (900, 1200, 9, 3, "0.1"),  # not in the events
    ]  # fmt: skip
    trace = imported(tmp_path, "google2011", task_usage(tmp_path / "u.csv", rows), "--machine-events", events)
    close(trace.cpu_mt, [[0.25, 0.5, 0.5, 1.0]])
    expected = {"nan": 1, "negative": 1, "above_one": 1, "gaps": 0, "unsorted": 2, "overlapping": 0}
    expected |= {"start_shift_s": 0, "all_zero": 0, "reversed": 1, "no_machine": 1, "no_capacity": 2}
    assert trace_info(tmp_path / "out.parquet").cleaning == expected


def test_the_first_window_with_a_row_becomes_time_0(tmp_path: Path) -> None:
    events = machine_events(tmp_path / "e.csv", [(0, 1, 0, "1")])
    usage = task_usage(tmp_path / "u.csv", [(3450, 3600, 1, 1, "0.5"), (3600, 3900, 1, 1, "0.25")])
    trace = imported(tmp_path, "google2011", usage, "--machine-events", events)
    close(trace.cpu_mt, [[0.25, 0.25]])
    assert trace_info(tmp_path / "out.parquet").cleaning["start_shift_s"] == 3300


def test_events_at_one_time_and_updates_without_a_capacity(tmp_path: Path) -> None:
    rows = [(0, 1, 0, "0.25"), (0, 1, 2, "0.5"), (300, 1, 2, ""), (600, 1, 1, ""), (600, 1, 0, "1")]
    usage = task_usage(tmp_path / "u.csv", [(0, 900, 1, 1, "0.2")])
    found, _ = measured(machine_events(tmp_path / "e.csv", rows), usage)
    assert found["1"] == [0.4, 0.4, 0.2]


def test_the_result_does_not_depend_on_the_number_of_threads(tmp_path: Path) -> None:
    draw = np.random.Generator(np.random.PCG64(3))
    events = machine_events(tmp_path / "e.csv", [(0, m, 0, "0.5") for m in range(1, 40)])
    for i in range(6):
        starts = np.sort(draw.integers(0, 40, 500)) * 300 + draw.integers(0, 300, 500)
        rows = [
            (int(t), int(t + d), int(j), int(m), f"{r:.6f}")
            for t, d, j, m, r in zip(
                starts, draw.integers(1, 900, 500), draw.integers(0, 400, 500), draw.integers(1, 40, 500),
                draw.random(500) / 30, strict=True,
            )
        ]  # fmt: skip
        task_usage(tmp_path / f"part-{i}.csv.gz", rows)
    outputs = []
    for workers in (1, 2, 5):
        output = tmp_path / f"{workers}.parquet"
        files = sorted(tmp_path.glob("part-*"))
        assert run("import", "google2011", *files, "--machine-events", events, "-o", output, "--workers", workers) == 0
        outputs.append(output.read_bytes())
    assert outputs[0] == outputs[1] == outputs[2]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1,2,3\n", "line 1: expected 20 or 19 columns, got 3"),
        ("0,300000000,1,0,1,0.1" + ",0" * 14 + "\n0,3000", "line 2: Expected 20 columns, got 2: 0,3000"),
        ("0,300000000,1,0,1,abc" + ",0" * 14 + "\n", "line 1: rate: expected a number, got 'abc'"),
        (
            "start,300000000,1,0,1,0.1" + ",0" * 14 + "\n",
            "line 1: start: expected a whole number, got 'start'",
        ),
        (
            "0," + "9" * 17 + ",1,0,1,0.1" + ",0" * 14 + "\n",
            "line 1: a time beyond 1048576 windows; expected microseconds",
        ),
        ("", "expected rows that name a machine and a time, got none"),
    ],
)
def test_rows_that_cannot_be_read_are_named(tmp_path: Path, events: Path, content: str, message: str) -> None:
    path = text(tmp_path / "part.csv.gz", content)
    with pytest.raises(DataError) as raised:
        measured(events, path)
    assert str(raised.value).startswith(f"{path}: {message}")


@pytest.mark.parametrize("inflating", ["zlib", "isal"])
def test_a_truncated_gzip_is_named_with_its_line(
    tmp_path: Path, events: Path, monkeypatch: pytest.MonkeyPatch, inflating: str
) -> None:
    if inflating == "zlib":  # as on processors for which there is no isal
        monkeypatch.setattr("flexray.traces.chunks.inflating", zlib)
    elif chunks.inflating is zlib:
        pytest.skip("isal is not installed")
    rows: list[Task] = [
        (300 * w, 300 * w + 300, w * 7919 % 1000, 7, f"0.{w * 104729 % 99991:05d}") for w in range(9000)
    ]
    whole = task_usage(tmp_path / "whole.csv.gz", rows).read_bytes()
    path = tmp_path / "part.csv.gz"
    path.write_bytes(whole[: len(whole) // 2])
    lines = _lines_that_survive(path)
    with pytest.raises(DataError) as raised:
        measured(events, path)
    assert str(raised.value).startswith(f"{path}: line {lines + 1}: the gzip data ends too early")
    path.write_bytes(whole[:-3])
    with pytest.raises(DataError, match="line 9001: the gzip data ends too early"):
        measured(events, path)
    path.write_bytes(whole[:3000] + bytes(100) + whole[3100:])
    with pytest.raises(DataError, match=r"part.csv.gz: line \d+: the gzip data ends too early or is damaged"):
        measured(events, path)


def _lines_that_survive(path: Path) -> int:
    return zlib.decompressobj(wbits=31).decompress(path.read_bytes()).count(b"\n")


def test_several_gzip_members_and_padding_are_one_file(tmp_path: Path, events: Path) -> None:
    parts = [task_usage(tmp_path / f"{i}.csv.gz", TASKS[i : i + 1]).read_bytes() for i in range(len(TASKS))]
    path = tmp_path / "all.csv.gz"
    path.write_bytes(b"".join(parts) + bytes(512))
    found, _ = measured(events, path)
    assert found["7"] == pytest.approx(BY_HAND["7"], rel=1e-14)


def test_the_same_shard_twice_is_refused(tmp_path: Path, events: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = task_usage(tmp_path / "a.csv.gz", TASKS)
    two = task_usage(tmp_path / "b.csv.gz", TASKS)
    for files in ((one, one), (one, two)):
        assert run("import", "google2011", *files, "--machine-events", events, "-o", tmp_path / "o.parquet") == 2
        assert "has the same rows as" in capsys.readouterr().err
    assert not list(tmp_path.glob("*.parquet*"))
    assert not list(tmp_path.glob(".*"))


def test_machines_beyond_the_limit_are_left_out(tmp_path: Path, events: Path) -> None:
    usage = task_usage(tmp_path / "u.csv", TASKS)
    trace = imported(tmp_path, "google2011", usage, "--machine-events", events, "--max-machines", 2)
    assert trace.machines == ("7", "9")
    assert trace_info(tmp_path / "out.parquet").cleaning["beyond_limit"] == 1
