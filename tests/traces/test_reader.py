from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from flexray.core.errors import DataError
from flexray.core.speeds import local_iterations
from flexray.traces import parquet as trace_parquet
from flexray.traces.parquet import TraceWriter
from flexray.traces.reading import read_trace, shipped_traces, trace_info
from helpers.trace_files import close, native, text

CPU = {"a": [0.1, 0.15, 0.2], "b": [0.5, 0.0, 1.0], "c": [0.25, 0.75, 0.125]}
LONG = "machine,time,cpu\n" + "".join(f"{m},{300 * t},{v}\n" for m, cpu in CPU.items() for t, v in enumerate(cpu))
WIDE = "time_s,a,b,c\n" + "".join(f"{300 * t},{CPU['a'][t]},{CPU['b'][t]},{CPU['c'][t]}\n" for t in range(3))


def written(path: Path) -> Path:
    rows = ((name, np.array(cpu)) for name, cpu in CPU.items())
    TraceWriter(path, 300).write(rows, "somewhere", True, {"nan": 3})
    return path


def every_form(folder: Path) -> dict[str, Path]:
    np.save(folder / "m.npy", np.array(list(CPU.values())))
    machine = [m for m in CPU for _ in range(3)]
    return {
        "native": written(folder / "n.parquet"),
        "mixed": native(
            folder / "x.parquet", machine, [0, 300, 600] * 3, np.ravel(list(CPU.values())).tolist(), rows=4
        ),
        "long": text(folder / "l.csv", LONG),
        "wide": text(folder / "w.csv", WIDE),
        "npy": folder / "m.npy",
    }


@pytest.mark.parametrize("form", ["native", "mixed", "long", "wide", "npy"])
def test_every_form_gives_the_same_values(tmp_path: Path, form: str) -> None:
    path = every_form(tmp_path)[form]
    trace, info = read_trace(path), trace_info(path)
    names = ("machine_000", "machine_001", "machine_002") if form == "npy" else ("a", "b", "c")
    assert trace.machines == info.machines == names
    assert trace.cpu_mt.dtype == np.float64
    assert trace.cpu_mt.tolist() == list(CPU.values())
    assert not trace.cpu_mt.flags.writeable
    assert (trace.step_s, info.step_s, info.length) == (300, 300, 3)
    assert trace.synthetic == info.synthetic == (form == "native")
    assert trace.source == info.source == ("somewhere" if form == "native" else path.name)
    assert info.cleaning == ({"nan": 3} if form == "native" else {})
    some = read_trace(path, [names[2], names[0], names[2]])
    assert some.machines == (names[2], names[0], names[2])
    assert some.cpu_mt.tolist() == [CPU["c"], CPU["a"], CPU["c"]]


def test_the_native_file_is_what_it_is_said_to_be(tmp_path: Path) -> None:
    from pyarrow.parquet import ParquetFile

    file = ParquetFile(written(tmp_path / "n.parquet"))
    assert [(f.name, str(f.type)) for f in file.schema_arrow] == [
        ("machine", "string"), ("time_s", "int64"), ("cpu", "float"),
    ]  # fmt: skip
    assert file.num_row_groups == 3
    said = {k.decode(): v.decode() for k, v in file.metadata.metadata.items() if k.startswith(b"flexray.")}
    assert json.loads(said.pop("flexray.cleaning")) == {"nan": 3}
    assert said == {"flexray.step_s": "300", "flexray.source": "somewhere", "flexray.synthetic": "true"}


def test_names_and_length_are_known_without_reading_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "n.parquet")
    read: list[list[str]] = []
    whole = trace_parquet.ParquetTrace._read

    def spy(self: trace_parquet.ParquetTrace, g: int, columns: list[str]) -> object:
        read.append([str(g), *columns])
        return whole(self, g, columns)

    monkeypatch.setattr(trace_parquet.ParquetTrace, "_read", spy)
    trace_info(path)
    assert read == [["0", "time_s"]]
    read.clear()
    read_trace(path, ["c"])
    assert read == [["0", "time_s"], ["2", "time_s", "cpu"]]


def test_a_decimal_survives_float32(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path / "n.parquet"), ["a"])
    assert trace.cpu_mt[0, 1] == 0.15
    assert local_iterations(20, 1, trace.cpu_mt[0, 1]) == 17


def test_one_sample_is_a_constant_trace(tmp_path: Path) -> None:
    trace = read_trace(text(tmp_path / "l.csv", "machine,time,cpu\na,0,0.5\nb,0,0.25\n"))
    assert trace.step_s == 300
    assert trace.cpu_mt.tolist() == [[0.5], [0.25]]


FAULTS = {
    "a,0,0.1\n": ("a,0,some\n", "row 2: cpu: expected a number, got 'some'"),
    "a,300,0.1": ("a,2024-01-01T00:05,0.1", "row 3: time: expected seconds, a number, got '2024-01-01T00:05'"),
    "b,300,0.0": ("b,300,nan", "machine 'b', row 6: utilization nan is not a number; expected a fraction from 0 to 1"),
    "c,0,0.25": ("c,0,", "machine 'c', row 8: utilization nan is not a number"),
    "a,600,0.2": ("a,600,-0.2", "machine 'a', row 4: utilization -0.2 is negative"),
    "c,600,0.125": (
        "c,600,12.5",
        "machine 'c', row 10: utilization 12.5 is above 1; expected a fraction from 0 to 1 (per",
    ),
    "a,300,0.15": ("a,700,0.15", "machine 'a', row 4: time 600 after 700; expected sorted times"),
    "b,300,0": ("b,0,0", "machine 'b', row 6: time 0 after 0; expected sorted times"),
    "b,600,1.0": ("b,900,1.0", "machine 'b', row 7: a step of 600 s; expected 300 s as before (a gap?)"),
    "c,300,0.75": ("a,900,0.3", "machine 'b', row 7: 3 samples, 300 s apart; expected 4 samples, 300 s apart"),
    "a,0,0.1": ("a,100,0.1", "machine 'a', row 2: time 100; expected the first time to be 0"),
    "b,0,0.5": ("b,,0.5", "row 5: expected a time in seconds, got none"),
    "c,0,0": ("c,zero,0", "row 8: time: expected seconds, a number, got 'zero'"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_names_file_machine_and_row(tmp_path: Path, fault: str) -> None:
    replacement, message = FAULTS[fault]
    assert fault in LONG
    path = text(tmp_path / "l.csv", LONG.replace(fault, replacement, 1))
    with pytest.raises(DataError) as raised:
        read_trace(path)
    assert str(raised.value).startswith(f"{path}: {message}")


def test_faults_of_other_forms_are_named_too(tmp_path: Path) -> None:
    def parquet(name: str, *cpu: float | None, **said: str) -> Path:
        return native(tmp_path / name, ["a"] * 3 + ["b"] * 3, [0, 300, 600] * 2, cpu, **said)

    cases = [
        (parquet("1.parquet", 0.1, 0.2, 0.3, 0.1, 1.5, 0.2), "machine 'b', row 5: utilization 1.5 is above 1"),
        (parquet("2.parquet", 0.1, None, 0.3, 0.1, 0.5, 0.2), "machine 'a', row 2: utilization nan is not a number"),
        (parquet("3.parquet", 0.1, 0.1, 0.1, 0.0, 0.0, 0.0), "machine 'b', row 4: all its utilizations are 0"),
        (parquet("4.parquet", *[0.1] * 6, step_s="60"), "machine 'a', row 2: a step of 300 s; the file says 60 s"),
        (text(tmp_path / "w.csv", WIDE.replace("300", "301")), "machine 'a', row 4: a step of 299 s; expected 301 s"),
        (text(tmp_path / "z.csv", "time,a,b\n0,0,0.1\n300,0,0.1\n"), "machine 'a', row 2: all its utilizations are 0"),
    ]
    np.save(tmp_path / "m.npy", np.array([[0.1, 0.2], [0.3, np.inf]]))
    cases.append((tmp_path / "m.npy", "machine 'machine_001', row 2, column 2: utilization inf is not a number"))
    for path, message in cases:
        with pytest.raises(DataError) as raised:
            read_trace(path)
        assert str(raised.value).startswith(f"{path}: {message}")


def test_a_fault_of_a_machine_nobody_asked_for_is_let_pass(tmp_path: Path) -> None:
    path = text(tmp_path / "l.csv", LONG.replace("b,300,0.0", "b,300,7"))
    close(read_trace(path, ["a", "c"]).cpu_mt, [CPU["a"], CPU["c"]])


def test_files_that_are_no_traces(tmp_path: Path) -> None:
    from pyarrow import parquet, table

    parquet.write_table(table({"machine": ["a"], "time_s": [0]}), tmp_path / "two.parquet")
    parquet.write_table(table({"machine": ["a"], "time_s": [0.5], "cpu": [0.1]}), tmp_path / "float.parquet")
    np.save(tmp_path / "flat.npy", np.zeros(3))
    np.save(tmp_path / "objects.npy", np.array([["a", {}]], object), allow_pickle=True)
    whole = written(tmp_path / "n.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(whole[:-20])
    np.save(tmp_path / "cut.npy", np.zeros((3, 100)))
    (tmp_path / "cut.npy").write_bytes((tmp_path / "cut.npy").read_bytes()[:500])
    cases = {
        "two.parquet": "expected the columns machine, time_s, cpu, got machine, time_s",
        "float.parquet": "column 'time_s': expected numbers, got double",
        "flat.npy": "expected numbers of shape machines x time, got float64 of shape (3,)",
        "objects.npy": "cannot be read: ",
        "cut.parquet": "cannot be read: ",
        "cut.npy": "cannot be read: ",
    }
    for name, content, message in (
        ("x.csv", "", "expected the header 'machine,time,cpu', or 'time' and one column per machine, got ''"),
        ("y.csv", "a,b\n1,2\n", "expected the header 'machine,time,cpu'"),
        ("h.csv", "machine,time,cpu\n", "expected at least one machine and one sample, got none"),
        ("d.csv", "time,a,a\n0,1,1\n", "machine 'a' occurs twice"),
        ("e.csv", "machine,time,cpu\na,0,0.1\n,0,0.1\n", "row 3: expected the name of a machine, got none"),
        ("n.csv", "time,a,\n0,0.1,0.1\n", "column 3: expected the name of a machine, got none"),
        ("r.csv", "time,a,b\n0,0.1,0.2\n300,0.1\n", "cannot be read: CSV parse error: "),
        ("t.txt", "x", "expected a .parquet, .csv or .npy file; other formats have to be imported"),
    ):
        text(tmp_path / name, content)
        cases[name] = message
    for name, message in cases.items():
        with pytest.raises(DataError) as raised:
            read_trace(tmp_path / name)
        assert str(raised.value).startswith(f"{tmp_path / name}: {message}"), name


def test_unknown_machines_and_traces(tmp_path: Path) -> None:
    path = written(tmp_path / "n.parquet")
    with pytest.raises(DataError, match=r"n\.parquet: no machine 'aa' among its 3; did you mean 'a'\?"):
        read_trace(path, ["b", "aa"])
    with pytest.raises(DataError, match=r"no machine 'xyz' among its 3; expected one of: a, b, c"):
        read_trace(path, ["xyz"])
    with pytest.raises(DataError, match=r"expected at least one machine, got none"):
        read_trace(path, [])
    with pytest.raises(DataError, match=r"^sythetic64: no such trace file; did you mean 'synthetic64'\?"):
        read_trace("sythetic64")
    with pytest.raises(DataError, match=r"missing.csv: no such trace file$"):
        read_trace(tmp_path / "missing.csv")
    with pytest.raises(DataError, match=r"is a folder; expected a trace file"):
        read_trace(tmp_path)


def test_many_machines_are_not_listed(tmp_path: Path) -> None:
    np.save(tmp_path / "m.npy", np.full((100, 2), 0.5))
    with pytest.raises(DataError, match=r"no machine 'q' among its 100$"):
        read_trace(tmp_path / "m.npy", ["q"])


def test_a_bare_name_is_a_shipped_trace_whatever_lies_in_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "google_means").mkdir()
    assert read_trace("google_means").cpu_mt.shape == (13, 1)
    assert set(shipped_traces()) == {"google2019_cell", "google_means", "synthetic64"}
