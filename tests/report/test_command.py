"""``python -m flexray.report``: its files, again and again the same, and what it refuses."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest

from flexray.report.cli import main
from flexray.report.folders import read_run
from flexray.report.published import published
from flexray.report.statistics import Spread
from helpers.made_runs import sweep, write_run

FIGURES = ["target_by_bytes", "train_loss_by_bytes"]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the report of a small sweep."""
    root = tmp_path_factory.mktemp("sweep")
    assert main([str(sweep(root / "runs")), "-o", str(root / "out"), "--axes", "bytes"]) == 0
    return root / "out"


def test_the_table_shows_what_was_not_reached(report: Path) -> None:
    rows = (report / "table.md").read_text().splitlines()
    figures = "**44.00 ± 4.00** | 3/3 | **4.000 ± 0.000** | **0.000400 ± 0.000000** | **0.9467 ± 0.0252**"
    assert rows[2] == f"| digits | flex | {figures} |"
    assert rows[3] == r"| digits | vafl \[1\] | -- | 1/3 | -- | -- | 0.6833 ± 0.2363 |"
    assert rows[4] == "| digits | pbcd | -- | 0/3 | -- | -- | 0.4000 ± 0.1000 |"
    assert rows[6] == "[1] 1 of 3 runs reached the target (at 80): no mean.  "


def test_latex_compiles_by_the_look_of_it(report: Path) -> None:
    text = (report / "table.tex").read_text()
    assert r"digits & flex & \textbf{44.00 $\pm$ 4.00} & 3/3" in text
    assert r"time to test\_top1 $\ge$ 0.9 (units)" in text
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert {row.count(" & ") for row in rows} == {6}
    assert text.count("{") == text.count("}")


def test_csv_has_plain_numbers(report: Path) -> None:
    with (report / "table.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["time_to_target_mean"] for row in rows] == ["44", "", ""]
    assert [(row["runs"], row["reached"]) for row in rows] == [("3", "3"), ("3", "1"), ("3", "0")]
    with (report / "runs.csv").open(newline="") as file:
        runs = list(csv.DictReader(file))
    assert [row["time_to_target"] for row in runs] == ["40", "44", "48", "80", *[""] * 5]
    assert runs[4]["status"] == "completed"


def test_all_files_come_out_byte_identical(report: Path, tmp_path: Path) -> None:
    done = subprocess.run(  # another process, with other hashes
        [sys.executable, "-m", "flexray.report", str(report.parent / "runs"), "-o", str(tmp_path), "--axes", "bytes"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.startswith("| dataset | algo |")
    names = sorted(path.name for path in tmp_path.iterdir())
    assert {f"{name}.{form}" for name in FIGURES for form in ("svg", "png", "pdf")} <= set(names)
    for name in names:
        assert (tmp_path / name).read_bytes() == (report / name).read_bytes(), name


def test_no_torch_and_no_ray_is_imported() -> None:
    script = "import sys, flexray.report.cli, flexray.report.plots; print({'torch', 'ray', 'hydra'} & set(sys.modules))"
    assert (
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "set()\n"
    )


def test_another_target_is_read_from_the_evaluations(report: Path, tmp_path: Path) -> None:
    runs = str(report.parent / "runs")
    assert main([runs, "-o", str(tmp_path), "--target", "train_loss=0.81", "--formats", "svg", "--axes", "time"]) == 0
    rows = (tmp_path / "table.md").read_text().splitlines()
    assert r"time to train\_loss ≤ 0.81 (units)" in rows[0]
    assert rows[2].startswith("| digits | flex | **22.00 ± 2.00** | 3/3 |")
    assert [p.suffix for p in tmp_path.glob("*_by_*")] == [".svg", ".svg"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["absent"], "absent: no such folder"),
        (["RUNS", "--target", "0.9"], "--target: expected METRIC=VALUE"),
        (["RUNS", "--target", "val_top1=0.9"], "has no metric 'val_top1'; it has: test_top1, train_loss"),
        (["RUNS", "--by", "network.tcomm"], "--by: unknown key 'network.tcomm'; did you mean 'network.t_comm'?"),
        (["RUNS", "--formats", "jpg"], "--formats: expected some of svg, png, pdf, got 'jpg'"),
        (["RUNS", "--axes", "epochs"], "--axes: expected some of time, rounds, bytes, got 'epochs'"),
        (["RUNS", "--paper", "cifar"], "--paper: invalid choice: 'cifar'"),
        (["RUNS", "-o", "FILE/out"], "--output: "),
        ([], "required: RUNS"),
    ],
)
def test_mistakes_are_told_in_one_line(
    arguments: list[str], words: str, report: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    known = {"RUNS": str(report.parent / "runs"), "FILE/out": str(tmp_path / "file" / "out")}
    assert main([known.get(word, word) for word in arguments]) == 2
    out, err = capsys.readouterr()
    assert err.count("\n") == 1
    assert err.startswith("flexray: ")
    assert words in err
    assert not out


def test_words_of_a_stranger_are_words_in_every_format(tmp_path: Path) -> None:
    evil = r"=cmd|'/c'!A1 </script><b>$x$_{\input{a}}"
    write_run(tmp_path / "runs" / "0", summary={"algo": evil, "dataset": evil})
    write_run(tmp_path / "runs" / "1")
    assert main([str(tmp_path / "runs"), "-o", str(tmp_path / "out"), "--axes", "time"]) == 0
    assert r"\textbackslash{}input\{a\}" in (tmp_path / "out" / "table.tex").read_text()
    assert r"\input{" not in (tmp_path / "out" / "table.tex").read_text().replace(r"\textbackslash{}input", "")
    markdown = (tmp_path / "out" / "table.md").read_text()
    assert "<b>" not in markdown.replace(r"\<b\>", "")
    with (tmp_path / "out" / "table.csv").open(newline="") as file:
        assert next(csv.DictReader(file))["algo"].startswith("'=cmd")


PAPER = [
    ("modelnet40", {"network": {"t_comm": 10.0}}, "flex", ("Table III", Spread(36_040, 3_460))),
    ("modelnet40", {"network": {"t_comm": 50.0}}, "vafl", ("Table III", None)),
    ("modelnet40", {"network": {"t_comm": 10.0}, "timeout": 35.0}, "sync_max", ("Table IV", Spread(58_210, 5_540))),
    ("mosei", {"network": {"t_comm": 1.0}}, "pbcd", ("Table III", Spread(5_220, 650))),
    ("digits", {"network": {"t_comm": 10.0}}, "flex", None),
    ("mosei", {"network": {"t_comm": 7.0}}, "flex", None),
]


@pytest.mark.parametrize(("dataset", "config", "algo", "expected"), PAPER)
def test_the_papers_figures_stand_beside(
    dataset: str, config: dict[str, object], algo: str, expected: tuple[str, Spread | None] | None, tmp_path: Path
) -> None:
    folder = write_run(tmp_path / "r", algo, config=config, summary={"dataset": dataset})
    found = published(read_run(folder, "r"))
    assert (found and found.table) == (expected and expected[0])
    if found and found.time and expected and expected[1]:
        assert (found.time.mean, found.time.std) == pytest.approx((expected[1].mean, expected[1].std))
    else:
        assert (found and found.time) == (expected and expected[1])
