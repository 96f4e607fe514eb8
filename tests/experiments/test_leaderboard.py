"""The leaderboard: rates are searched beyond an edge, and what is there is not run again."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))

import leaderboard
from paper_runs import Cell, run_one


@pytest.mark.parametrize(
    ("losses", "best", "tried"),
    [
        ({4: 2.0, 5: 1.0, 6: 3.0}, 5, 3),
        ({4: 3.0, 5: 2.0, 6: 1.0, 7: 0.5, 8: 0.6}, 7, 5),
        ({4: math.inf, 5: math.inf, 6: math.inf, 3: math.inf, 2: 1.0, 1: 2.0}, 2, 6),
        ({k: float(k) for k in range(7)}, 0, 7),
    ],
    ids=["within", "larger", "all diverge", "smallest of all"],
)
def test_rates_are_tried_until_the_best_is_no_edge(losses: dict[int, float], best: int, tried: int) -> None:
    entry = leaderboard.Entry("flex", "wine", "even", Path(), ())
    while places := entry.wanted():
        entry.losses |= {place: losses[place] for place in places}
    assert (entry.best, len(entry.losses)) == (best, tried)


def test_tables_and_page_are_made_and_made_again_without_running(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[Path] = []

    def run_here(cells: Sequence[Cell], jobs: int, stops_at_refusal: bool) -> dict[Path, str]:
        for cell in [cell for cell in cells if not cell.done]:
            begun.append(cell.folder)
            assert run_one(cell).exit_status == 0
        return {}

    monkeypatch.setattr(leaderboard, "run_all", run_here)
    monkeypatch.setitem(leaderboard.DATA, "wine", replace(leaderboard.DATA["wine"], max_time=60, target=0.3))
    monkeypatch.setattr(leaderboard, "RATES", (0.001, 0.01, 0.03))
    monkeypatch.setitem(leaderboard.FIRST, "lr", (1,))
    algos = ["flexray.algorithms.pbcd.PBCD", "split"]
    words = ["--out", str(tmp_path), "--only", "wine", "--systems", "trace", "--seeds", "3", "--algo", *algos]
    assert leaderboard.main(words) == 0
    made = (tmp_path / "leaderboard.md").read_text()
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in made.splitlines() if row.startswith("| ")]
    assert sorted(row[0] for row in rows[1:3]) == sorted(row[0] for row in rows[4:]) == sorted(algos)
    assert "wine, trace: test accuracy 0.3 within 60 units" in made
    assert len(begun) == len(set(begun)) == 2 * (3 * 2 + 1)  # three rates with two seeds, and the third seed
    page, board = ((tmp_path / name).read_bytes() for name in ("report.html", "leaderboard.svg"))
    assert all(f">{word}<".encode() in board for word in (*algos, "trace", "wine, to 0.3"))
    assert leaderboard.main(words) == 0
    assert len(begun) == 14
    assert (tmp_path / "leaderboard.md").read_text() == made
    assert (tmp_path / "report.html").read_bytes() == page
    assert (tmp_path / "leaderboard.svg").read_bytes() == board
    assert (tmp_path / "wine.png").exists()
    assert (tmp_path / "wine-trace" / "target_by_time.png").exists()


def test_a_run_that_fails_is_named_and_others_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [
        f"--out={tmp_path}",
        "--only",
        "wine",
        "--systems",
        "even",
        "--seeds",
        "1",
        "--algo",
        "flex",
        "vafl",
        "split",
    ]

    def run_none(cells: Sequence[Cell], jobs: int, stops_at_refusal: bool) -> dict[Path, str]:
        """Let every rate of VAFL fail, and one of Flex; other runs end with losses of their rates."""
        faults = {}
        for cell in cells:
            rate, algo = cell.axes["lr"], next(word for word in cell.overrides if word.startswith("algo="))
            if algo == "algo=vafl" or (algo, rate) == ("algo=flex", "0.03"):
                faults[cell.folder] = "a party was lost"
            else:
                cell.folder.mkdir(parents=True, exist_ok=True)
                (cell.folder / "summary.json").write_text('{"status": "completed"}')
        return faults

    rows: list[tuple[str, int, list[int]]] = []

    def write(entries: Sequence[leaderboard.Entry], cells: object, out: Path) -> str:
        rows.extend((entry.algo, entry.best, sorted(entry.losses)) for entry in entries)
        return "tables"

    monkeypatch.setattr(leaderboard, "run_all", run_none)
    monkeypatch.setattr(leaderboard, "write", write)
    monkeypatch.setattr(leaderboard, "training_loss", lambda cell: abs(float(cell.axes["lr"]) - 0.03))
    assert leaderboard.main(words) == 1
    assert rows == [("flex", 4, [3, 4, 6]), ("split", 5, [4, 5, 6])]
    said = capsys.readouterr()
    assert said.out == "tables\n"
    assert said.err.count("a party was lost\n") == 2 * (3 + 1)
    assert "flexray: vafl on wine, even: all rates failed, no row\n" in said.err


@pytest.mark.parametrize("data", [name for name, data in leaderboard.DATA.items() if not data.table])
def test_keys_of_a_data_set_and_of_an_algorithm_go_together(data: str, tmp_path: Path) -> None:
    """With each server: its own for LASER-VFL, and that of the data set for others."""
    (tmp_path / (leaderboard.DATA[data].folder or "none")).mkdir()
    options = leaderboard.build_parser().parse_args(["--out", str(tmp_path), "--data", str(tmp_path)])
    for algo in ("flex", *leaderboard.OWN):
        words = (*leaderboard.words_of(data, "trace", options), *leaderboard.algorithm(algo))
        entry = leaderboard.Entry(algo, data, "trace", tmp_path, words)
        assert entry.cell(5, 1).folder.parent.name.startswith(f"{algo}-")


def test_a_data_set_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert leaderboard.main(["--out", str(tmp_path), "--only", "mosi", "--data", str(tmp_path)]) == 2
    assert f"--data: expected a folder with mosi/ in it, got {tmp_path}" in capsys.readouterr().err
    assert leaderboard.main(["--out", str(tmp_path), "--only", "mosi"]) == 2
    assert "--data: expected a folder with mosi/ in it, got None" in capsys.readouterr().err
