from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from flexray.traces.reading import trace_info
from helpers.trace_files import S, close, imported, run, text

Row = dict[str, object]


def row(start: float, end: float, machine: int, cpus: float | None, instance: int = 0, alloc: int = 0) -> Row:
    return {
        "start_time": int(start * S), "end_time": int(end * S), "collection_id": 5, "instance_index": instance,
        "machine_id": machine, "alloc_collection_id": alloc, "average_usage": {"cpus": cpus, "memory": 0.1},
    }  # fmt: skip


ROWS = [
    row(600, 900, 1, 0.1), row(750, 1050, 1, 0.2, 1), row(600, 1200, 2, 0.5, 2),
    row(600, 900, 2, 0.25, 3, alloc=99),  # inside an alloc: its own row counts it
    row(600, 900, 0, 0.9, 4), row(600, 900, -1, 0.9, 5),  # on no machine, on a dedicated one
]  # fmt: skip
BY_HAND = [[0.1 + 0.1, 0.1], [0.5, 0.5]]


def as_json(path: Path, rows: list[Row]) -> Path:
    """Write as BigQuery exports: whole numbers are texts."""
    quoted = [{k: str(v) if isinstance(v, int) else v for k, v in r.items()} for r in rows]
    return text(path, "".join(json.dumps(r, separators=(",", ":")) + "\n" for r in quoted))


def as_plain_json(path: Path, rows: list[Row]) -> Path:
    return text(path, "".join(json.dumps(r) + "\n" for r in rows))


def as_csv(path: Path, rows: list[Row], name: str = "average_usage.cpus") -> Path:
    flat = [{**{k: v for k, v in r.items() if k != "average_usage"}, name: r["average_usage"]["cpus"]} for r in rows]  # type: ignore[index]
    lines = [",".join(flat[0]), *(",".join("" if v is None else str(v) for v in r.values()) for r in flat)]
    return text(path, "\n".join(lines) + "\n")


def as_csv_with_underscores(path: Path, rows: list[Row]) -> Path:
    return as_csv(path, rows, "average_usage_cpus")


def as_csv_with_texts(path: Path, rows: list[Row]) -> Path:
    lines = [",".join(rows[0]), *(",".join('"' + str(v) + '"' for v in r.values()) for r in rows)]
    return text(path, "\n".join(lines) + "\n")


def as_parquet(path: Path, rows: list[Row]) -> Path:
    parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return path


def as_flat_parquet(path: Path, rows: list[Row]) -> Path:
    parquet.write_table(pyarrow.Table.from_pylist(rows).flatten(), path)
    return path


@pytest.mark.parametrize(
    ("write", "name"),
    [
        (as_json, "u.json.gz"), (as_plain_json, "u.json"), (as_csv, "u.csv.gz"), (as_csv_with_underscores, "u.csv"),
        (as_csv_with_texts, "u.csv"), (as_parquet, "u.parquet"), (as_flat_parquet, "u.parquet"),
    ],
)  # fmt: skip
def test_every_kind_of_export(tmp_path: Path, write: Callable[[Path, list[Row]], Path], name: str) -> None:
    trace = imported(tmp_path, "google2019", write(tmp_path / name, ROWS))
    assert trace.machines == ("1", "2")
    close(trace.cpu_mt, BY_HAND)
    cleaning = trace_info(tmp_path / "out.parquet").cleaning
    assert cleaning["in_alloc"] == 1
    assert cleaning["no_machine"] == 2
    assert cleaning["start_shift_s"] == 600


def test_tasks_in_allocs_can_be_kept(tmp_path: Path) -> None:
    trace = imported(tmp_path, "google2019", as_json(tmp_path / "u.json", ROWS), "--keep-in-alloc")
    close(trace.cpu_mt, [BY_HAND[0], [0.75, 0.5]])


@pytest.mark.parametrize("write", [as_json, as_plain_json, as_csv, as_parquet])
def test_capacities(tmp_path: Path, write: Callable[..., Path]) -> None:
    events: list[Row] = [
        {"time": 0, "machine_id": 1, "type": 1, "average_usage": {"cpus": 0.4}},
        {"time": 0, "machine_id": 2, "type": 1, "average_usage": {"cpus": 1.0}},
        {"time": 1050 * S, "machine_id": 2, "type": 3, "average_usage": {"cpus": 0.5}},
    ]
    path = tmp_path / ("e.parquet" if write is as_parquet else "e.json")
    if write is as_csv:
        write(path, events, "capacity.cpus")
    else:
        write(path, [{("capacity" if k == "average_usage" else k): v for k, v in e.items()} for e in events])
    trace = imported(tmp_path, "google2019", as_json(tmp_path / "u.json", ROWS), "--machine-events", path)
    close(trace.cpu_mt, [[0.5, 0.25], [0.5, 0.5 * 300 / (150 + 75)]])


def test_without_capacities_the_command_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    imported(tmp_path, "google2019", as_json(tmp_path / "u.json", ROWS))
    assert "every machine counts as capacity 1" in capsys.readouterr().out


def test_rows_without_usage(tmp_path: Path) -> None:
    rows = [*ROWS[:3], row(1200, 1500, 1, None, 7), row(1200, 1500, 2, 0.3, 8)]
    for path in (as_json(tmp_path / "u.json", rows), as_csv(tmp_path / "u.csv", rows)):
        trace = imported(tmp_path, "google2019", path)
        close(trace.cpu_mt, [[*BY_HAND[0], 0.1], [*BY_HAND[1], 0.3]])
        assert trace_info(tmp_path / "out.parquet").cleaning["nan"] == 1


def test_files_without_task_names_have_no_overlap(tmp_path: Path) -> None:
    lines = ["start_time,end_time,machine_id,average_usage.cpus"]
    lines += [f"{300 * w * S},{(300 * w + 400) * S},1,0.1" for w in range(4)]
    trace = imported(tmp_path, "google2019", text(tmp_path / "u.csv", "\n".join(lines) + "\n"))
    close(trace.cpu_mt, [[0.1, *[0.1 + 0.1 / 3] * 3, 0.1 / 3]])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("u.json", '{"start_time":"1"}\n', "expected a field 'end_time', got start_time"),
        (
            "u.csv",
            "start_time,end_time,machine_id\n",
            "expected a field 'average_usage.cpus', got start_time, end_time",
        ),
        ("u.csv", "start_time,end_time,machine_id,average_usage_cpus\n1,2,3\n", "line 2: Expected 4 columns, got 3"),
        (
            "u.csv",
            "start_time,end_time,machine_id,average_usage_cpus\n1,2,3,x\n",
            "line 2: average_usage_cpus: expected a number, got 'x'",
        ),
    ],
)
def test_files_that_cannot_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: str, message: str
) -> None:
    path = text(tmp_path / name, content)
    assert run("import", "google2019", path, "-o", tmp_path / "o.parquet") == 2
    assert capsys.readouterr().err.startswith(f"flexray: {path}: {message}")


def test_a_broken_json_line_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = as_json(tmp_path / "u.json", ROWS)
    path.write_text(path.read_text()[:-30])
    assert run("import", "google2019", path, "-o", tmp_path / "o.parquet") == 2
    assert capsys.readouterr().err.startswith(f"flexray: {path}: line 6: JSON parse error")
    path = text(tmp_path / "v.json", path.read_text().splitlines()[0].replace('"1"', '"one"') + "\n")
    assert run("import", "google2019", path, "-o", tmp_path / "o.parquet") == 2
    assert "v.json: line 1: field 'machine_id': Failed to parse string: 'one'" in capsys.readouterr().err
