from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from flexray.traces.figures import figures
from flexray.traces.reading import read_trace
from helpers.trace_files import native, run, text
from helpers.typed import Typed

Captured = pytest.CaptureFixture[str]


def complaint(capsys: Captured, *arguments: object) -> str:
    """Return the one line that a command with a mistake prints."""
    capsys.readouterr()
    assert run(*arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("flexray: ")
    assert printed.err.count("\n") == 1
    return printed.err.removeprefix("flexray: ").strip()


@pytest.fixture
def wave(tmp_path: Path) -> Path:
    """Two machines over four days, an hour a sample: one rises and falls once a day, one every two hours."""
    t = np.arange(96)
    cpu = np.concatenate([0.5 + 0.25 * np.sin(2 * np.pi * t / 24), 0.2 + 0.1 * (-1.0) ** t])
    return native(tmp_path / "wave.parquet", ["day"] * 96 + ["hour"] * 96, (3600 * t).tolist() * 2, cpu.tolist())


def test_mistakes_end_in_one_line_and_status_2(tmp_path: Path, capsys: Captured, wave: Path) -> None:
    out = tmp_path / "o.parquet"
    csv = text(tmp_path / "w.csv", "time,a\n0,0.1\n300,0.2\n")
    cases = [
        ((), "the following arguments are required: command; see python -m flexray.traces --help"),
        (("improt", "wide"), "unknown command 'improt'; did you mean 'import'?"),
        (("import", "googel2011", csv, "-o", out), "import: unknown format 'googel2011'; did you mean 'google2011'?"),
        (("import", "no.such", csv, "-o", out), "import: format 'no.such': No module named 'no'"),
        (("import", "json.tool", csv, "-o", out), "import: format 'json.tool': module 'json.tool' has no attribute"),
        (("import", "wide", csv), "the following arguments are required: -o/--output; see"),
        (("import", "wide", csv, "-o", out, "--unit", "percents"), "--unit: invalid choice: 'percents' (choose from"),
        (("import", "azure", csv, "-o", out, "--unit", "fraction"), "--unit: azure is in percent by definition"),
        (("import", "google2011", csv, "-o", out), "--machine-events: google2011 needs the capacities of its machines"),
        (("import", "wide", csv, "-o", out, "--machine-events", csv), "--machine-events: wide has no use for it"),
        (("import", "wide", csv, "-o", out, "--step", "0"), "--step: expected a whole number of at least 1, got '0'"),
        (("import", "wide", csv, "-o", out, "--min-coverage", "2"), "--min-coverage: expected a fraction from 0 to 1"),
        (("import", "wide", tmp_path / "x.csv", "-o", out), f"{tmp_path / 'x.csv'}: no such file"),
        (
            ("import", "wide", csv, "-o", tmp_path / "o.csv"),
            f"{tmp_path / 'o.csv'}: expected a name that ends in .parquet",
        ),
        (
            ("import", "wide", csv, "-o", tmp_path / "no" / "o.parquet"),
            f"{tmp_path / 'no' / 'o.parquet'}: no such folder",
        ),
        (("describe",), "the following arguments are required: TRACE; see python -m flexray.traces describe --help"),
        (("describe", "synthetic46"), "synthetic46: no such trace file; did you mean 'synthetic64'?"),
        (("describe", wave, "--machines", "dya"), f"{wave}: no machine 'dya' among its 2; did you mean 'day'?"),
        (("plot", wave, "-o", tmp_path / "a.gif"), f"{tmp_path / 'a.gif'}: expected a name that ends in .png or .svg"),
        (("plot", wave, "-o", tmp_path / "no" / "a.png"), f"{tmp_path / 'no' / 'a.png'}: no such folder"),
        (("plot", wave, "-o", tmp_path / "a.png", "--days", "-1"), "--days: expected a positive number, got '-1'"),
        (("synthesize", "-o", out), "synthesize: expected --like TRACE, or all five figures; --mean, --between"),
        (
            ("synthesize", "--like", wave, "-o", out, "--seed", "x"),
            "--seed: expected a whole number, 0 or more, got 'x'",
        ),
        (
            ("synthesize", "--like", wave, "-o", out, "--machines", "1"),
            "synthesize: expected at least 2 machines, got 1",
        ),
        (("synthesize", "--like", wave, "-o", out, "--days", "1"), "synthesize: expected at least 2 days, got 1"),
        (("synthesize", "--like", wave, "-o", out, "--mean", "1.5"), "synthesize: expected a mean above 0 and below 1"),
        (("synthesize", "--like", wave, "-o", out, "--lag1", "nan"), "--lag1: expected a number, got 'nan'"),
    ]
    for arguments, message in cases:
        assert complaint(capsys, *arguments).startswith(message), arguments
    assert not out.exists()


def test_figures_that_contradict_each_other(tmp_path: Path, capsys: Captured) -> None:
    figures_of = ("--mean", 0.2, "--between", 0.1, "--within", 0.05, "--lag1", 0.1, "--daily", 0.8)
    message = complaint(capsys, "synthesize", *figures_of, "--machines", 4, "-o", tmp_path / "o.parquet")
    assert message.startswith("synthesize: these figures cannot be met together; wanted mean 0.2000, ")


def test_the_program_itself(tmp_path: Path) -> None:
    path = text(tmp_path / "w.csv", "time,a\n0,0.1\n300,2\n")
    command = ["-m", "flexray.traces", "import", "wide", str(path), "-o", str(tmp_path / "o.parquet")]
    status, out, err = Typed(command, tmp_path).end()
    assert status == 2
    assert out == ""
    assert err.startswith(f"flexray: {path}: line 3: machine 'a': 2 is above 1;")
    assert err.count("\n") == 1


@pytest.mark.parametrize("command", ["", "import", "describe", "plot", "synthesize"])
def test_help(capsys: Captured, command: str) -> None:
    with pytest.raises(SystemExit) as ended:
        run(*command.split(), "--help")
    printed = capsys.readouterr().out
    assert ended.value.code == 0
    if command == "import":
        for name in ("alibaba2018", "azure", "google2011", "google2019", "long", "matrix", "wide"):
            assert re.search(rf"^  {name} +\S.{{20}}", printed, re.M), name


def test_describe(capsys: Captured, wave: Path) -> None:
    assert run("describe", wave, "--json") == 0
    found = json.loads(capsys.readouterr().out)[str(wave)]
    assert (found["machines"], found["samples"], found["step_s"], found["span_days"]) == (2, 96, 3600, 4)
    assert found["synthetic"] is False
    assert found["source"] == "wave.parquet"
    assert found["cleaning"] == {}
    assert found["mean"] == pytest.approx(0.35, abs=1e-6)
    assert found["between"] == pytest.approx(0.15, abs=1e-6)
    assert found["within"] == pytest.approx((0.25 / np.sqrt(2) + 0.1) / 2, abs=1e-6)
    # A finite series' autocorrelation at lag k sums n - k of n products.
    day = (95 * np.cos(2 * np.pi / 24) + np.cos(2 * np.pi / 24)) / 96
    assert found["lag1"] == pytest.approx((day - 95 / 96) / 2, abs=1e-2) == found["hourly"]
    assert found["daily"] == pytest.approx(72 / 96, abs=1e-6)
    assert found["minimum"] == pytest.approx(0.1, abs=1e-6)
    assert found["maximum"] == pytest.approx(0.75, abs=1e-6)
    expected = np.quantile(read_trace(wave).cpu_mt, [0.05, 0.25, 0.5, 0.75, 0.95])
    assert list(found["quantiles"].values()) == pytest.approx(expected.tolist())


def test_describe_prints_traces_side_by_side_and_machines(capsys: Captured, wave: Path) -> None:
    assert run("describe", wave, "google_means", "--each") == 0
    printed = capsys.readouterr().out
    assert re.search(r"mean utilization +0\.3500 +0\.2116", printed)
    assert re.search(r"autocorrelation, one day +0\.7500 +-", printed)
    assert re.search(r"^ +hour +0\.2000 +0\.1000 +0\.1000", printed, re.M)


def test_exact_autocorrelation() -> None:
    cpu_mt = np.array([[0.1, 0.2, 0.4, 0.3], [0.5, 0.5, 0.5, 0.5]])
    moving = cpu_mt[0] - 0.25
    assert figures(cpu_mt, 300).lag1 == pytest.approx((moving[1:] * moving[:-1]).sum() / (moving**2).sum())
    assert figures(cpu_mt, 300).daily is None
    assert figures(cpu_mt[1:], 300).lag1 is None


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_plot(tmp_path: Path, capsys: Captured, wave: Path, suffix: str) -> None:
    path = tmp_path / f"cpu.{suffix}"
    assert run("plot", wave, "-o", path, "--machines", "hour, day", "--days", 2) == 0
    assert capsys.readouterr().out.strip().endswith(f"cpu.{suffix}: hour, day")
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG") if suffix == "png" else b"<svg" in content
    if suffix == "svg":
        assert run("plot", wave, "-o", path, "--machines", "hour, day", "--days", 2) == 0
        assert path.read_bytes() == content


def test_plot_draws_machines_by_lot(tmp_path: Path, capsys: Captured) -> None:
    drawn = set()
    for seed in (0, 0, 1):
        assert run("plot", "synthetic64", "-o", tmp_path / "a.png", "--draw", 3, "--seed", seed, "--days", 1) == 0
        drawn.add(capsys.readouterr().out)
    assert len(drawn) == 2


def test_the_account_of_an_import_is_printed(tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    path = text(tmp_path / "w.csv", "time,a,b\n600,0.1,0\n900,,0\n1200,-1,0\n1800,0.4,0\n")
    assert run("import", "wide", path, "-o", tmp_path / "o.parquet") == 0
    printed = capsys.readouterr().out
    for pattern in (
        rf"nan +values that are empty or not numbers +1 +the value before holds +{path}: line 3: machine 'a'",
        rf"negative +values below 0 +1 +the value before holds +{path}: line 4: machine 'a'",
        r"gaps +windows without any value +2 +the value before holds",
        r"start_shift_s +seconds that the first window lay after time 0 +600 +time moved to 0",
        r"all_zero +machines that are at 0 all the time +1 +left out +machine 'b'",
        r"unsorted +rows earlier than the row before +0",
    ):
        assert re.search(pattern, printed), pattern
    assert f"{tmp_path / 'o.parquet'}: 1 machines x 5 samples of 300 s" in printed


def test_an_own_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text(
        tmp_path / "my_format.py",
        """
import numpy as np
from flexray.traces.formats.base import Format, Imported

class Loads(Format):
    summary = "one load average per line"

    def read(self, request, counts):
        values = np.loadtxt(request.files[0])
        return Imported(request.step_s or 60, iter([("me", values)]))

FORMAT = Loads()
""",
    )
    (tmp_path / "my").mkdir()
    (tmp_path / "my_format.py").rename(tmp_path / "my" / "loads.py")
    monkeypatch.syspath_prepend(tmp_path)
    out = tmp_path / "o.parquet"
    assert run("import", "my.loads", text(tmp_path / "l.txt", "0.1\n0.2\n"), "-o", out) == 0
    assert read_trace(out).cpu_mt.tolist() == [[0.1, 0.2]]
    assert read_trace(out).step_s == 60


def test_a_failed_import_leaves_the_old_trace(tmp_path: Path, capsys: Captured) -> None:
    out = tmp_path / "o.parquet"
    good = text(tmp_path / "g.csv", "time,a\n0,0.1\n300,0.2\n")
    assert run("import", "wide", good, "-o", out) == 0
    before = out.read_bytes()
    bad = text(tmp_path / "b.csv", "time,a\n0,0.1\n300,0.2\n900,0.3\n")
    assert "--strict allows none" in complaint(capsys, "import", "wide", bad, "-o", out, "--strict")
    assert out.read_bytes() == before
    assert len(list(tmp_path.glob("*o.parquet*"))) == 1
