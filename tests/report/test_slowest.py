"""Of many parties the page shows the slowest, the fastest and the server, and groups by speed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flexray.report.folders import read_run
from flexray.report.schedule import read_schedule
from flexray.report.slowest import ALL, SLOWEST, Selection, select
from helpers.made_runs import write_run
from helpers.pages import page_of, unpacked


def selected(folder: Path, tau: list[int], timeline: bool = True) -> tuple[Selection, list[str]]:
    run = read_run(write_run(folder, tau=[*tau, 20]), "run")
    if not timeline:
        (folder / "timeline.json").write_text("{")
    selection = select(run, read_schedule(run))
    return selection, [run.names[k] for k in selection.places]


def test_a_few_parties_are_all_shown_in_their_order(tmp_path: Path) -> None:
    selection, names = selected(tmp_path, list(range(1, ALL + 1)))
    assert names == [*(f"p{k + 1}" for k in range(ALL)), "server"]
    assert (selection.words, selection.rows) == ("", ())


@pytest.mark.parametrize("timeline", [True, False])
def test_of_many_the_slowest_come_first_then_the_fastest_and_the_server(timeline: bool, tmp_path: Path) -> None:
    selection, names = selected(tmp_path, list(range(50, 0, -1)), timeline)
    assert names == [*(f"p{k}" for k in range(50, 50 - SLOWEST, -1)), "p1", "server"]
    assert selection.words == "the 10 slowest of 50 parties, the fastest one, and the server"
    assert (selection.schedule is not None) == timeline
    assert selection.schedule is None or len(selection.schedule.lanes) == len(names)


def test_parties_are_summarized_by_their_speeds_or_in_quarters(tmp_path: Path) -> None:
    few, _ = selected(tmp_path / "few", [5, 10, 20] * 10)
    assert few.header[:4] == ("parties", "how many", "units an iteration", "local iterations")
    assert few.rows == (  # 20 of the 30 units of each of the 4 rounds
        ("slowest", "10", "4", "20.0", "66.7 %", "0.0 %", "33.3 %"),
        ("2.", "10", "2", "40.0", "66.7 %", "0.0 %", "33.3 %"),
        ("fastest", "10", "1", "80.0", "66.7 %", "0.0 %", "33.3 %"),
    )
    many, _ = selected(tmp_path / "many", list(range(1, 1001)))
    assert [row[:3] for row in many.rows] == [
        ("slowest quarter", "250", "0.08 to 20"), ("second quarter", "250", "0.04 to 0.07968"),
        ("third quarter", "250", "0.02667 to 0.03992"), ("fastest quarter", "250", "0.02 to 0.02663"),
    ]  # fmt: skip


def test_a_party_that_never_computes_is_the_slowest(tmp_path: Path) -> None:
    _, names = selected(tmp_path, [5] * 20 + [0] + [5] * 20)
    assert names[0] == "p21"


def test_the_page_of_a_thousand_parties_has_no_more_of_each_run_than_it_shows(tmp_path: Path) -> None:
    write_run(tmp_path / "0", tau=[*range(1, 1001), 20])
    (run,) = json.loads(unpacked(page_of(tmp_path), "data"))["runs"]
    shown = SLOWEST + 2
    assert [len(part) for part in (run["names"], run["tau"], run["lr"], run["schedule"]["lanes"])] == [shown] * 4
    assert (run["names"][:2], run["names"][-2:]) == (["p1", "p2"], ["p1000", "server"])
    assert run["tau"][-2:] == [[[1], [1000]], [[1], [20]]]
    assert len(run["speeds"]) == 5
