"""Energy and money of runs: in summary.json, evals.csv and the closing table, and only where they are asked for."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flexray.core.costs import Costs
from flexray.core.messages import EvalRecord
from flexray.engine.driver.experiment import Target
from flexray.run.watch.summary import summary_rows
from flexray.run.watch.totals import CostObserver
from helpers.records import ROUND, TURN
from helpers.refusals import refusal

SMALL = ("cluster=inline", "progress=false", "dataset.batch_size=8", "rounds=4", "eval_every=2", "target=0")


def summary(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    return found


def test_computing_and_bytes_of_every_round_count() -> None:
    """A round: a and b compute 20 and 8 units, the server 20; a turn: b 5 units, the server 1."""
    costs = Costs(joules_per_unit=(1.0, 10.0, 100.0), joules_per_byte=(0.5, 0.25), price_per_hour=(3600.0,) * 3)
    seen = CostObserver(("a", "b", "server"), costs, Target("test_top1", 0.9))
    seen.on(ROUND)
    seen.on(EvalRecord(1, 1.0, 30.0, {"test_top1": 0.95}))
    seen.on(TURN)
    assert seen.until(45.0) == {"energy_joules": 20 + 130 + 2100 + 0.5 * 40 + 0.25 * 120, "price": 3 * 45.0}
    first = 20 + 80 + 2000 + 0.5 * 40 + 0.25 * 60
    assert seen.summary()["energy_joules_to_target"] == first
    assert seen.summary()["price_to_target"] == 90.0
    assert seen.makes_sense(seen.save())
    assert not seen.makes_sense({**seen.save(), "sent": [1]})
    assert not seen.makes_sense({**seen.save(), "to_target": {"price": 1.0}})


def test_equal_rounds_and_others_add_up_over_saves() -> None:
    costs = Costs(joules_per_unit=(1.0, 10.0, 100.0))
    seen, again = (CostObserver(("a", "b", "server"), costs, Target("test_top1")) for _ in range(2))
    for record in (ROUND, ROUND, TURN, ROUND):
        seen.on(record)
        again.load(seen.save())
    assert seen.until(0.0) == again.until(0.0) == {"energy_joules": 3 * (20 + 80 + 2000) + 50 + 100}
    assert again.save() == seen.save()


@pytest.mark.parametrize("algo", ["flex", "vafl"])
def test_a_run_says_what_it_cost(algo: str, run_once: Callable[..., Path], bundle: Path) -> None:
    words = (*SMALL, f"algo={algo}", "dataset=bundle", f"dataset.path={bundle}")
    plain = run_once(*words)
    costs = ("costs.joules_per_unit={server:2,default:1}", "costs.joules_per_byte=[1,2,3]", "costs.price_per_hour=36")
    folder = run_once(*words, *costs, "costs.seconds_per_unit=100")
    found, before = summary(folder), summary(plain)
    assert not [key for key in before if "energy" in key or "price" in key]
    assert found["model_digest"] == before["model_digest"]
    sent = [sum(found["bytes_by_party"][name].values()) for name in "abc"]
    by_participant = found["energy_joules_by_participant"]
    assert [by_participant[name]["link"] for name in "abc"] == [sent[0], 2 * sent[1], 3 * sent[2]]
    assert found["price"] == pytest.approx(4 * found["sim_time"], rel=1e-15)
    with (folder / "evals.csv").open(encoding="utf-8") as file:
        evals = list(csv.DictReader(file))
    assert [float(row["price"]) for row in evals] == [4 * float(row["sim_time"]) for row in evals]
    assert float(evals[0]["energy_joules"]) == found["energy_joules_to_target"] == found["price_to_target"] == 0.0
    assert float(evals[-1]["energy_joules"]) == found["energy_joules"]
    rows = [row.rsplit(",", 2)[0] for row in (folder / "evals.csv").read_text().splitlines()]
    assert rows == (plain / "evals.csv").read_text().splitlines()
    assert ("energy (J), to target", f"{found['energy_joules']:,.6g}, 0") in summary_rows(found, folder)


def test_computing_is_iterations_times_their_length(run_once: Callable[..., Path]) -> None:
    """At 4, 2, 4/3 and 1 units an iteration everybody computes 20 units a round, in Sync-Min the fastest 5."""
    words = (*SMALL, "rounds=1", "costs.joules_per_unit=1")
    for algo, units in (("flex", [20, 20, 20, 20, 20]), ("sync_min", [20, 10, 20 / 3, 5, 5])):
        spent = summary(run_once(*words, f"algo={algo}"))["energy_joules_by_participant"]
        assert [own["machine"] for own in spent.values()] == pytest.approx(units, rel=1e-15)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("costs.joules_per_unit=-1", "costs.joules_per_unit: expected a number of at least 0, got -1"),
        ("costs.joules_per_byte=[1,2]", "costs.joules_per_byte: expected one number or 4 numbers (upper_left,"),
        ("costs.price_per_gb={server:1}", "costs.price_per_gb: unknown participant 'server'"),
        ("costs.price_per_hour=1", "costs.price_per_hour: an hour has no number of units yet; expected costs.seconds"),
        ("costs.seconds_per_unit=0", "costs.seconds_per_unit: expected a positive number, got 0"),
        ("clock=wall costs.seconds_per_unit=2", "costs.seconds_per_unit: times are seconds already; expected null"),
        ("clock=wall algo=vafl costs.joules_per_unit=1", "costs.joules_per_unit: in turns on clock=wall the server's"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(words: str, line: str) -> None:
    said = refusal(("cluster=inline",), words.split())
    assert said is not None
    assert said.startswith(line)


def test_a_replay_does_not_know_how_long_each_computed(run_once: Callable[..., Path], capsys: Any) -> None:
    first = run_once(*SMALL, "rounds=1")
    with pytest.raises(AssertionError):
        run_once("cluster=inline", "speeds=replay", f"speeds.path={first}", "costs.joules_per_unit=1")
    assert "costs.joules_per_unit: speeds=replay does not know how long each" in capsys.readouterr().err
