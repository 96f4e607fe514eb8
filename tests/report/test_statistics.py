"""What a report averages, and what it never does."""

from __future__ import annotations

import csv
import statistics
from pathlib import Path

import numpy as np
import pytest

from flexray.core.errors import DataError
from flexray.core.neutral import HARMLESS
from flexray.report.folders import find_runs, read_runs
from flexray.report.grouping import Group, make_groups
from flexray.report.runs import Run
from flexray.report.statistics import Result, Spread, band, hold, results, spread, with_deviation
from flexray.report.tables import groups_csv, make_table, runs_csv
from helpers.made_runs import sweep, write_run


def runs_in(*folders: Path) -> list[Run]:
    return read_runs(find_runs(folders))


def results_in(*folders: Path) -> dict[str, Result]:
    return {r.group.label(("algo",)): r for r in results(make_groups(runs_in(*folders)))}


def labels(groups: list[Group]) -> list[dict[str, str]]:
    return [group.values for group in groups]


def test_a_target_that_was_not_reached_is_never_averaged(tmp_path: Path) -> None:
    found = results_in(sweep(tmp_path))
    assert found["flex"].spreads["time"] == Spread(44.0, 4.0)  # reached after 4 rounds of 10, 11, 12 units
    assert found["flex"].spreads["rounds"] == Spread(4.0, 0.0)
    assert found["flex"].spreads["sent_bytes"] == Spread(400.0, 0.0)
    assert (len(found["vafl"].reached), found["vafl"].runs, found["vafl"].spreads["time"]) == (1, 3, None)
    assert found["vafl"].notes == ("1 of 3 runs reached the target (at 80): no mean",)
    assert (found["pbcd"].reached, found["pbcd"].spreads["rounds"]) == ((), None)
    assert found["pbcd"].final == Spread(statistics.fmean([0.3, 0.4, 0.5]), statistics.stdev([0.3, 0.4, 0.5]))
    assert found["flex"].best == {"time", "rounds", "sent_bytes", "final"}
    assert not found["vafl"].best | found["pbcd"].best


def test_one_run_has_no_deviation_and_one_group_is_no_contest(tmp_path: Path) -> None:
    write_run(tmp_path / "a")
    (result,) = results_in(tmp_path).values()
    assert result.spreads["time"] == Spread(120.0, None)
    assert result.notes == ("one seed only: no deviation",)
    assert not result.best
    assert spread([]) is None


def test_costs_are_those_of_reaching_the_target_or_of_the_whole_run(tmp_path: Path) -> None:
    for seed in (0, 1):
        write_run(tmp_path / f"flex{seed}", "flex", seed, (0.1, 0.95, 0.96), joules=3.0 + seed)
        write_run(tmp_path / f"pbcd{seed}", "pbcd", seed, (0.1, 0.5, 0.96), joules=1.0)
        write_run(tmp_path / f"vafl{seed}", "vafl", seed, joules=None if seed else 5.0)
    found = results_in(tmp_path)
    assert found["flex"].costs == {"energy_joules": Spread(7.0, statistics.stdev([6.0, 8.0]))}
    assert found["pbcd"].costs == {"energy_joules": Spread(4.0, 0.0)}
    assert found["vafl"].costs == {"energy_joules": None}
    assert "energy_joules" in found["pbcd"].best - found["flex"].best
    table = make_table(list(found.values()), [None] * 3)
    place = table.header.index("energy (J)")
    assert table.header[place - 1 :] == ("MB", "energy (J)", "final test_top1")
    assert sorted(row[place].text for row in table.rows) == ["--", "4.000 ± 0.000", "7.000 ± 1.414"]
    header, *rows = csv.reader(groups_csv(list(found.values()), [None] * 3).splitlines())
    assert {row[header.index("energy_joules_mean")] for row in rows} == {"7", "4", ""}
    header, *rows = csv.reader(runs_csv(runs_in(tmp_path), ()).splitlines())
    assert [row[header.index("energy_joules")] for row in rows] == ["6", "8", "4", "4", "20", ""]
    whole = results_in(write_run(tmp_path / "alone", summary={"target": None}, joules=2.0))
    assert whole["flex"].costs == {"energy_joules": Spread(8.0, None)}


def test_a_lower_error_is_better_and_meets_its_target(tmp_path: Path) -> None:
    about = {"metric": "train_loss", "target": 0.2}
    write_run(tmp_path / "a", "flex", values=(0.1, 0.5, 0.85), summary=about)
    write_run(tmp_path / "b", "pbcd", values=(0.1, 0.9, 0.95), summary=about)
    found = results_in(tmp_path)
    assert found["flex"].spreads["rounds"] == Spread(4.0, None)
    assert found["pbcd"].spreads["rounds"] == Spread(2.0, None)
    assert found["pbcd"].best == {"time", "rounds", "sent_bytes", "final"}


def test_nan_meets_no_target_and_has_no_mean(tmp_path: Path) -> None:
    write_run(tmp_path / "0", seed=0)
    write_run(tmp_path / "1", seed=1, values=(0.1, float("nan"), float("nan")), summary={"status": "diverged"})
    (result,) = results_in(tmp_path).values()
    assert (len(result.reached), result.runs, result.spreads["time"], result.final) == (1, 2, None, None)
    assert "diverged (the loss became NaN, infinite or a million times the first): 1" in result.notes


def test_the_same_seed_again_counts_once(tmp_path: Path) -> None:
    for name, seed, duration in (("0", 0, 10.0), ("1", 1, 20.0), ("2", 0, 30.0)):
        write_run(tmp_path / name, seed=seed, duration=duration)
    (result,) = results_in(tmp_path).values()
    assert result.spreads["time"] == spread([120.0, 80.0])
    assert result.notes == ("not counted, the same seed again: 0",)


def test_runs_of_another_configuration_are_not_the_same_seed_again(tmp_path: Path) -> None:
    for k, (lr, seed) in enumerate((lr, seed) for lr in (0.1, 0.2) for seed in (1, 2)):
        write_run(tmp_path / str(k), seed=seed, duration=10.0 * (k + 1), config={"lr": lr}, typed=[f"lr={lr}"])
    (result,) = results(make_groups(runs_in(tmp_path), by=["timeout"]))
    assert (result.runs, result.notes) == (4, ())
    assert result.spreads["time"] == spread([40.0, 80.0, 120.0, 160.0])


def test_what_changes_no_number_does_not_separate_seeds(tmp_path: Path) -> None:
    write_run(tmp_path / "0", seed=0, config=dict.fromkeys(HARMLESS, 1))
    write_run(tmp_path / "1", seed=1, config=dict.fromkeys(HARMLESS, 2), typed=[f"{key}=2" for key in HARMLESS])
    assert len(make_groups(runs_in(tmp_path))) == 1


@pytest.mark.parametrize("option", ["by", "over"])
def test_an_unknown_key_is_named(option: str, tmp_path: Path) -> None:
    write_run(tmp_path / "0")
    with pytest.raises(DataError, match=f"--{option}: unknown key 'sed'; did you mean 'seed'"):
        make_groups(runs_in(tmp_path), **{option: ["sed"]})


def test_a_run_that_diverged_has_no_final_value_though_its_last_evaluation_was_before(tmp_path: Path) -> None:
    write_run(tmp_path / "0", seed=0, summary={"status": "diverged"})
    (result,) = results_in(tmp_path).values()
    assert (result.runs, len(result.reached), result.final) == (1, 1, None)


def test_runs_are_grouped_by_the_fewest_keys_that_differ(tmp_path: Path) -> None:
    for k, (algo, t_comm) in enumerate((a, t) for a in ("flex", "pbcd") for t in (1.0, 10.0)):
        for seed in (0, 1):
            config = {
                "network": {"t_comm": t_comm},
                "cluster": {"kind": f"c{seed}"},
                "lr": 0.1 if algo == "flex" else 0.2,
            }
            write_run(tmp_path / f"{k}{seed}", algo, seed, typed=[f"network.t_comm={t_comm}"], config=config)
    groups = make_groups(runs_in(tmp_path))
    assert labels(groups) == [
        {"algo": a, "dataset": "digits", "network.t_comm": t} for t in ("1", "10") for a in ("flex", "pbcd")
    ]  # the rate follows from the algorithm, and where it ran does not matter
    assert {len(group.counted) for group in groups} == {2}
    found = results(groups)
    assert [sorted(r.best) for r in found] == [["final", "rounds", "sent_bytes", "time"]] * 4  # equal, in each setting
    assert len(make_groups(runs_in(tmp_path), by=["lr"])) == 2
    assert len(make_groups(runs_in(tmp_path), over=["seed", "network.t_comm"])) == 2


def test_a_key_that_an_older_version_did_not_know_does_not_separate(tmp_path: Path) -> None:
    write_run(tmp_path / "0", seed=0)
    write_run(tmp_path / "1", seed=1, config={"new_key": 3})
    assert len(make_groups(runs_in(tmp_path))) == 1
    write_run(tmp_path / "2", seed=1, config={"parties": {"a": {"clip_norm": 1}}}, typed=["parties.a.clip_norm=1"])
    assert len(make_groups(runs_in(tmp_path))) == 2


def test_a_value_holds_until_the_next_and_not_beyond_the_end() -> None:
    x, y = np.array([0.0, 10.0, 20.0]), np.array([1.0, 2.0, 3.0])
    grid = np.array([-1.0, 0.0, 9.9, 10.0, 15.0, 20.0, 20.1])
    np.testing.assert_array_equal(hold(grid, x, y), [np.nan, 1, 1, 2, 2, 3, np.nan])


def test_curves_on_different_grids_are_averaged_where_all_have_a_value() -> None:
    first = (np.array([0.0, 10.0, 20.0]), np.array([0.0, 1.0, 2.0]))
    other = (np.array([0.0, 4.0, 8.0, 12.0]), np.array([0.0, 10.0, 20.0, 30.0]))
    mean = band([first, other])
    assert mean is not None
    np.testing.assert_array_equal(mean.x_g, [0, 4, 8, 10, 12])
    np.testing.assert_array_equal(mean.mean_g, [0, 5, 10, 10.5, 15.5])
    np.testing.assert_allclose(mean.std_g, [0, *(np.std(v, ddof=1) for v in ((0, 10), (0, 20), (1, 20), (1, 30)))])
    alone = band([first])
    assert alone is not None
    assert alone.std_g is None
    assert band([first, (np.array([30.0]), np.array([1.0]))]) is None
    assert band([]) is None


@pytest.mark.parametrize(
    ("mean", "std", "text"),
    [(5800, 2107.13, "5,800 ± 2,107"), (193.333, 70.2, "193.3 ± 70.2"), (0.96842, 0.0016, "0.9684 ± 0.0016")],
)  # fmt: skip
def test_numbers_are_short(mean: float, std: float | None, text: str) -> None:
    assert with_deviation(Spread(mean, std)) == text
    assert with_deviation(Spread(7, None)) == "7.000"
    assert with_deviation(None) == "--"
