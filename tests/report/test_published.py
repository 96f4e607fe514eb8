"""The paper's figures beside own ones: Table II, ``--paper``, and the report made with them."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from flexray.report.cli import main
from flexray.report.folders import read_run
from flexray.report.published import Published, published
from flexray.report.runs import Run
from flexray.report.statistics import Spread
from helpers.made_runs import write_run
from helpers.pages import unpacked

SGD = {"_target_": "flexray.optimizers.LocalSGD", "momentum": 0.0, "proximal": 0.0, "local_rates": None}
TABLE_2 = {
    (0.0, 0.0): (64_550, 11_740),
    (0.9, 0.0): (35_210, 11_740),
    (0.0, 0.9): (29_340, 0),
    (0.9, 0.9): (41_080, 14_370),
}
"""Momentum of video and audio, and of text: time and deviation."""


def write_sentiment(folder: Path, momentum: float, text: Any, seed: int = 0, **more: Any) -> Path:
    """Write a run of equally fast parties, as in the paper's Table II."""
    config = {"network": {"t_comm": 10.0}, "timeout": 20.0, "optimizer": {**SGD, "momentum": momentum}}
    config |= {"parties": {"text": {"optimizer": {"momentum": text}}}, **more.pop("config", {})}
    summary = {"dataset": "mosei", **more.pop("summary", {})}
    write_run(folder, "flex", seed, config=config, summary=summary, **more)
    choices = folder / ".hydra" / "hydra.yaml"
    choices.write_text(choices.read_text().replace("speeds: paper", "speeds: uniform"))
    return folder


@pytest.mark.parametrize("own", TABLE_2)
def test_table_2_stands_beside_the_same_optimizers(own: tuple[float, float], tmp_path: Path) -> None:
    expected = Published("Table II", Spread(*TABLE_2[own]))
    for place, name in enumerate(("text", "3")):
        parties = {name: {"optimizer": {"momentum": own[1]}}}
        folder = write_sentiment(tmp_path / str(place), *own, config={"parties": parties})
        assert published(read_run(folder, "r")) == expected


OTHERS: dict[str, dict[str, Any]] = {
    "another timeout": {"timeout": 40.0},
    "another t_comm": {"network": {"t_comm": 1.0}},
    "a latency": {"network": {"t_comm": 10.0, "latency": {"video": 3.0}}},
    "another optimizer": {"optimizer": {"_target_": "flexray.optimizers.TorchOptimizer", "name": "Adam"}},
    "proximal": {"optimizer": {**SGD, "proximal": 0.1}},
    "rates inside the round": {"optimizer": {**SGD, "local_rates": [1.0, 0.5]}},
    "video and audio differ": {"parties": {"audio": {"optimizer": {"momentum": 0.9}}}},
    "not a number": {"parties": {"text": {"optimizer": {"momentum": "${oc.env:MOMENTUM}"}}}},
}


@pytest.mark.parametrize("kind", OTHERS)
def test_table_2_does_not_stand_beside_another_setting(kind: str, tmp_path: Path) -> None:
    assert published(read_run(write_sentiment(tmp_path / "r", 0.0, 0.9, config=OTHERS[kind]), "r")) is None


def test_other_data_have_a_figure_only_if_they_stand_for_the_paper_s(tmp_path: Path) -> None:
    run = read_run(write_sentiment(tmp_path / "r", 0.0, 0.9, summary={"dataset": "mosi"}), "r")
    assert published(run) is None
    assert published(run, "mosei") == Published("Table II", Spread(29_340, 0))
    assert published(run, "modelnet40") is None


def test_seconds_are_not_compared_with_units(tmp_path: Path) -> None:
    assert published(read_run(write_sentiment(tmp_path / "r", 0, 0, summary={"time_unit": "seconds"}), "r")) is None


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Return runs on MOSI with two combinations of optimizers, two seeds each."""
    for k, (momentum, text) in enumerate(((0.0, 0.0), (0.9, 0.9))):
        for seed in (0, 1):
            write_sentiment(tmp_path / f"{k}{seed}", momentum, text, seed, summary={"dataset": "mosi"})
    return tmp_path


def test_a_report_shows_the_figures_that_were_asked_for(runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [str(runs), "--formats", "svg", "--axes", "time", "-o", str(out)]
    assert main([*command, "--paper", "mosei"]) == 0
    header, _, *rows = (out / "table.md").read_text().splitlines()[:4]
    assert header.endswith(" | paper: time |")
    assert [row.rpartition(" | ")[2] for row in rows] == [
        "64,550 ± 11,740 (Table II) |",
        "41,080 ± 14,370 (Table II) |",
    ]
    assert "paper: Castiglia, Wang, Patterson" in (out / "table.md").read_text()
    assert r"64,550 $\pm$ 11,740 (Table II) \\" in (out / "table.tex").read_text()
    with (out / "table.csv").open(newline="") as file:
        first = next(csv.DictReader(file))
    assert [first[f"paper_{what}"] for what in ("time_mean", "time_std", "table")] == ["64550", "11740", "Table II"]
    page = (out / "report.html").read_text()
    assert ">64,550 ± 11,740 (Table II)</td>" in page
    assert '"paper":"41,080 \\u00b1 14,370 (Table II)"' in unpacked(page, "data")
    assert main(command) == 0  # MOSI is not a dataset of the paper
    assert "paper" not in (out / "table.md").read_text()


def test_runs_that_the_paper_does_not_have_get_an_empty_cell(runs: Path, tmp_path: Path) -> None:
    write_sentiment(runs / "other", 0.0, 0.0, config={"timeout": 40.0}, summary={"dataset": "mosi"})
    out = tmp_path / "out"
    assert main([str(runs), "--formats", "svg", "--axes", "time", "-o", str(out), "--paper", "mosei"]) == 0
    rows = (out / "table.md").read_text().splitlines()[2:5]
    assert [row.count("(Table II)") for row in rows] == [1, 1, 0]
    assert rows[2].endswith(" |  |")


def test_a_timeout_that_chooses_itself_is_none_of_the_papers() -> None:
    about = {"algo": "flex", "dataset": "mosei", "time_unit": "units"}
    for timeout, has in (("auto", False), (20, True), (None, True)):
        config = {"network.t_comm": 10, "timeout": timeout}
        run = Run(Path(), "r", "completed", summary=about, config=config, choices={"speeds": "paper"})
        assert (published(run) is not None) is has
