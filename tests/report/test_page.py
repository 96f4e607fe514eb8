"""The page without a browser: what lies in it."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from flexray.report.contents import Wanted, make_report
from flexray.report.page import make_page
from flexray.report.tables import make_table
from helpers.made_runs import sweep, write_run
from helpers.pages import page_of, unpacked

EVIL = "</script><img src=x onerror=alert(1)>\"'"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the page of a sweep with a damaged and an unfinished run."""
    folder = sweep(tmp_path_factory.mktemp("runs"))
    write_run(folder / "9", "flex", 9, finished=False)
    (write_run(folder / "10", "flex", 10) / "evals.csv").write_text("round\n0\n")
    return page_of(folder)


class Outline(HTMLParser):
    """Notes elements and their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.found if name == tag]


def test_the_page_needs_no_network_and_may_not_use_any(page: str) -> None:
    outline = Outline(page)
    assert not [a for tag, a in outline.found for key in a if key in ("src", "srcset", "integrity")]
    assert not outline.all("link")
    assert all((a["href"] or "").startswith("#") for tag, a in outline.found if "href" in a)
    (policy,) = [a["content"] for a in outline.all("meta") if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy == ("default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:")
    assert "plotly.js v" in unpacked(page, "plotly")[:200]
    assert len(page) < 2_200_000


def test_the_table_is_there_without_scripts(page: str) -> None:
    body = page[page.index('<table id="results">') : page.index('<script type="text/plain"')]
    assert "<strong>44.00 ± 4.00</strong>" in body
    assert "1 of 3 runs reached the target (at 80): no mean" in body
    assert '<tr class="damaged">' in body
    assert "damaged: evals.csv: column" in body
    assert '<tr class="unfinished">' in body
    assert "run 9: still running, killed or crashed: 4 rounds so far; not counted" in page


def test_figures_and_fields_have_names(page: str) -> None:
    outline = Outline(page)
    ids = {a["id"] for _, a in outline.found if "id" in a}
    figures = [a for a in outline.all("div") if "figure" in (a.get("class") or "").split()]
    assert len(figures) == 4
    for figure in figures:
        assert figure["role"] == "img"
        assert figure["aria-label"]
        assert figure["tabindex"] == "0"
        assert figure["aria-describedby"] in ids
    assert {a["aria-labelledby"] for _, a in outline.found if "aria-labelledby" in a} <= ids
    labelled = re.findall(r"<label[^>]*>[^<]*<(?:select|input)", page)
    assert len(labelled) == len(outline.all("select")) + len(outline.all("input"))


def test_the_data_say_what_the_runs_did(page: str) -> None:
    data: dict[str, Any] = json.loads(unpacked(page, "data"))
    assert [group["label"] for group in data["groups"]] == ["flex", "vafl", "pbcd"]
    run = data["runs"][0]
    assert (run["algo"], run["seed"], run["reached"], run["counted"]) == ("flex", "0", [40.0, 4.0, 400.0], True)
    assert run["evals"] == {
        "x": {"time": [0, 20, 40], "rounds": [0, 2, 4], "bytes": [0, 200, 400]},
        "y": {"test_top1": [0.1, 0.2, 0.95], "train_loss": [0.9, 0.8, 0.05]},
    }
    assert run["tau"] == [[[1, 2, 3, 4], [2, 1, 2, 1]], [[1], [4]], [[1], [5]]]
    lane = run["schedule"]["lanes"][0]
    assert (lane["kinds"], lane["steps"][:3], lane["gaps"]) == ("ac" * 4, [1, 0, 1], [0] * 8)
    assert lane["lengths"][:2] == pytest.approx([20 / 3, 10 / 3], rel=1e-5)
    assert [r["status"] for r in data["runs"]].count("damaged") == 1
    assert [r["counted"] for r in data["runs"]].count(False) == 2
    assert data["differences"][0] == ["algo", "flex", "vafl", "pbcd"]


def test_words_of_a_stranger_are_never_markup(tmp_path: Path) -> None:
    about = {"algo": EVIL, "dataset": EVIL, "data_source": EVIL, "parties": [EVIL, EVIL], "versions": {EVIL: EVIL}}
    write_run(tmp_path / "<b>", summary=about)
    write_run(tmp_path / "1", finished=False, config={EVIL: EVIL}).joinpath("summary.json").write_text(EVIL)
    page = page_of(tmp_path)
    assert "<img" not in page
    assert "<b>&" not in page
    assert len(Outline(page).all("script")) == 3
    assert page.count("onerror") == page.count("&lt;img src=x onerror=alert(1)&gt;")


def test_the_page_is_the_same_every_time(page: str, tmp_path: Path) -> None:
    sweep(tmp_path)
    assert page_of(tmp_path) == page_of(tmp_path)


def test_a_timeline_that_is_still_written_shows_what_is_there(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "0", finished=False)
    text = (folder / "timeline.json").read_text()
    (folder / "timeline.json").write_text(text[: len(text) * 2 // 3])
    data = json.loads(unpacked(page_of(tmp_path), "data"))
    assert data["runs"][0]["schedule"]["rounds"] == 3
    (folder / "timeline.json").write_text('{"traceEvents": [{"ph": "X"}]}')
    assert json.loads(unpacked(page_of(tmp_path), "data"))["runs"][0]["schedule"] is None


def test_schedules_are_cut_before_the_page_gets_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_run(tmp_path / "0", values=[0.1 + k / 1000 for k in range(400)])
    whole = json.loads(unpacked(page_of(tmp_path), "data"))["runs"][0]["schedule"]
    assert (whole["shown"], whole["rounds"], len(whole["lanes"][0]["steps"])) == (798, 798, 2 * 798)
    limit = len(re.findall(r'id="data">([^<]*)<', page_of(tmp_path))[0]) - 200
    monkeypatch.setattr("flexray.report.page.MAX_DATA", limit)
    page = page_of(tmp_path)
    cut = json.loads(unpacked(page, "data"))["runs"][0]["schedule"]
    assert 0 <= cut["shown"] < cut["rounds"] == 798
    assert len(cut["lanes"][0]["steps"]) == 2 * cut["shown"]
    assert len(re.findall(r'id="data">([^<]*)<', page)[0]) <= limit


def test_what_refers_to_another_key_is_shown_as_that_is(tmp_path: Path) -> None:
    for name, first in (("0", "speeds"), ("1", "dummy")):
        about = {
            "adaptive": {"first": first},
            "algo": {"first": "${adaptive.first}", "x": "${algo.y}", "y": "${algo.x}"},
        }
        write_run(tmp_path / name, "adaptive", typed=[f"adaptive.first={first}"], config=about)
    rows = json.loads(unpacked(page_of(tmp_path), "data"))["differences"]
    assert ["algo.first", "speeds", "dummy"] in rows
    assert not [row for row in rows if row[0] in ("algo.x", "algo.y")]  # a circle stays what it is


def test_runs_without_a_target_say_nothing_of_reaching_it(tmp_path: Path) -> None:
    for algo in ("flex", "vafl"):
        write_run(tmp_path / algo, algo, summary={"target": None})
    report = make_report([tmp_path], Wanted())
    table = make_table(report.results, report.papers)
    assert table.header == ("dataset", "algo", "runs", "final test_top1")
    assert [cell.text for cell in table.rows[0]][2:] == ["1", "0.9500"]
    page = make_page(report, table)
    assert "no target" not in page.partition("<footer>")[0]
    assert "reach the target" not in page
    assert not json.loads(unpacked(page, "data"))["targets"]


def test_the_table_says_how_far_apart_evaluations_are(page: str, tmp_path: Path) -> None:
    assert "time to target is read at evaluations, which are 20 to 64 units apart" in page
    write_run(tmp_path / "0")
    report = make_report([tmp_path], Wanted())
    assert "read at evaluations, which are 60 units apart; best" in make_table(report.results, report.papers).legend


def test_swept_keys_are_columns_of_all_runs_and_values_to_filter_by(tmp_path: Path) -> None:
    for timeout in (10, 20):
        write_run(tmp_path / str(timeout), typed=[f"timeout={timeout}"], config={"timeout": timeout})
    page = page_of(tmp_path)
    assert '<th scope="col">timeout</th>' in page
    assert page.count('<td data-label="timeout">10</td>') == 1
    data = json.loads(unpacked(page, "data"))
    assert data["columns"] == ["dataset", "algo", "timeout"]
    assert [run["values"][2] for run in data["runs"]] == ["10", "20"]
