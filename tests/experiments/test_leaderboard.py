"""The leaderboard: rates are searched beyond an edge, and what is there is not run again."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))

import leaderboard


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
    found = leaderboard.search((4, 5, 6), lambda place: losses[place])
    assert (min(found, key=lambda place: found[place]), len(found)) == (best, tried)


def test_a_table_is_made_and_made_again_without_running(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(leaderboard.SETTINGS, "wine", (60, 0.3, {"embedding": 4}))
    monkeypatch.setattr(leaderboard, "RATES", (0.001, 0.01, 0.03))
    monkeypatch.setitem(leaderboard.FIRST, "lr", (1,))
    words = ["--out", str(tmp_path), "--data", "wine", "--seeds", "2", "--algo", "flexray.algorithms.pbcd.PBCD"]
    assert leaderboard.main(words) == 0
    made = (tmp_path / "wine.md").read_text()
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in made.splitlines()[2:]]
    assert [(row[0], row[3][-2:], row[6]) for row in rows] == [("flexray.algorithms.pbcd.PBCD", "/2", "3")]
    monkeypatch.setattr(leaderboard.flexray, "simulate", None)
    assert leaderboard.main(words) == 0
    assert (tmp_path / "wine.md").read_text() == made
    assert "wine, test accuracy 0.3 within 60 units" in capsys.readouterr().out
