"""Turns with a bound on how far a party may be ahead: the same numbers everywhere, and waits that are seen."""

from __future__ import annotations

from pathlib import Path

from flexray.algorithms.base import EventAlgorithm, System
from flexray.algorithms.vafl import VAFL
from flexray.core.messages import Ended, Record, RoundRecord
from flexray.run.watch.folder import TableObserver
from flexray.run.watch.summary import summary_rows
from flexray.run.watch.timeline import round_events
from flexray.run.watch.totals import WaitObserver
from flexray.run.watch.tracking import waiting_share
from helpers.jobs import Compose, Run
from helpers.records import STARTED, TURN
from helpers.several_hosts import assert_same_on_hosts
from helpers.small import rounds_of

TURNS = ("algo=vafl", "network.t_comm=[1,5,2]", "model.dropout=0.2", "server=mlp", "server.dropout=0.1")


def digests(records: list[Record]) -> dict[str, str]:
    assert isinstance(records[-1], Ended)
    return records[-1].digests


def test_hosts_give_the_numbers_of_one_process(compose_small: Compose) -> None:
    assert_same_on_hosts(compose_small(*TURNS, "algo.max_ahead=1"), (1, 2))


def test_a_bound_that_nobody_meets_changes_nothing(compose_small: Compose, run_inline: Run) -> None:
    free, bound = (run_inline(compose_small(*TURNS, f"algo.max_ahead={most}")) for most in ("null", 12))
    assert bound[:-1] == free[:-1]
    assert digests(bound) == digests(free)


def test_no_party_waits_where_all_are_alike(compose_small: Compose, run_inline: Run) -> None:
    words = ("algo=vafl", "algo.server=free", "speeds=uniform")
    free, bound = (rounds_of(run_inline(compose_small(*words, f"algo.max_ahead={most}"))) for most in ("null", 0))
    assert bound == free


class Own(VAFL):
    """An algorithm of the user's own, with a bound of its own."""

    max_ahead = 1

    def __init__(self, system: System) -> None:
        super(EventAlgorithm, self).__init__(system)
        self.server = "queue"


def test_an_algorithm_of_ones_own_may_bound_turns(compose_small: Compose, run_inline: Run) -> None:
    own = compose_small(*TURNS[1:], f"algo._target_={__name__}.Own")
    assert run_inline(own)[:-1] == run_inline(compose_small(*TURNS, "algo.max_ahead=1"))[:-1]


WAITED = RoundRecord(**{**vars(TURN), "start_units": 40.0, "sim_time": 55.0, "waited_units": 10.0})


def test_a_wait_is_seen(tmp_path: Path) -> None:
    spans = [(e["name"], e["tid"], e["ts"], e["dur"]) for e in round_events(WAITED, 1.0)]
    assert spans == [("wait", 1, 30.0, 10.0), ("compute", 1, 40.0, 5.0), ("communicate", 1, 45.0, 10.0)]
    assert waiting_share(TURN, 1) == 0.0
    assert waiting_share(WAITED, 1) == 10 / 25
    table = TableObserver(tmp_path, waits=True)
    for record in (STARTED, WAITED):
        table.on(record)
    table.close()
    header, row = (tmp_path / "rounds.csv").read_text().splitlines()
    assert (header.split(",")[-1], row.split(",")[-1]) == ("waited", "10.0")
    said = summary_rows({**SUMMARY, "waited": {"a": 0.0, "b": 1234.5}}, tmp_path)
    assert ("waited for slower parties (units)", "a 0, b 1,234.5") in said
    many = summary_rows({**SUMMARY, "waited": {str(k): float(k) for k in range(5)}}, tmp_path)
    assert ("waited for slower parties (units)", "0 to 4 a party") in many


SUMMARY = {
    "time_unit": "units", "data_source": "package", "num_parties": 2, "rounds": 1, "sim_time": 1.0, "final": {},
    "final_round": 1, "target": None, "absent_rounds": None, "sent_bytes": 0, "wall_s": 1.0, "setup_s": 1.0,
    "peak_memory_mb": [],
}  # fmt: skip


def test_sums_lose_nothing() -> None:
    """Where floats added one after another would lose the small ones."""
    waits = [1e16, 1.0, 0.1, 1e-30, 3.0, 1.0]
    totals, again = (WaitObserver(("a", "b", "server")) for _ in range(2))
    for place_, units in enumerate(waits):
        totals.on(RoundRecord(**{**vars(TURN), "waited_units": units}))
        if place_ == 3:
            saved = totals.save()
    again.load(saved)
    for units in waits[4:]:
        again.on(RoundRecord(**{**vars(TURN), "waited_units": units}))
    assert again.save() == totals.save()
    assert totals.summary() == again.summary() == {"waited": {"a": 0.0, "b": 1e16 + 6}}
    assert totals.makes_sense(saved)
    assert not totals.makes_sense({"units": [[float("inf")], [], []]})
    assert not totals.makes_sense({"units": [[], []]})
