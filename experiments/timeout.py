"""``timeout=auto`` against the best timeout of a sweep: time to targets in 20 settings, and in 11 others.

    python experiments/timeout.py [OUT]

Every setting has a learning rate for which some timeout between 10 and 60 is best (Adaptive Flex-VFL: A). A run of
``timeout=auto`` is compared with runs of six fixed timeouts. A test loss is met by chance a few rounds earlier or
later, so times are means of four targets and of several seeds. The rule was found with the 20 settings; the others,
with seeds of their own, were fixed before any of their runs. Rounds of these algorithms do not depend on how long
messages take, so a fixed timeout is run once, without any, and t_comm is added to each of its rounds. OUT
(``outputs/timeout``) holds ``runs.jsonl``, where what is there is not run again, and ``table.md``.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from sklearn.datasets import load_breast_cancer

import flexray

TIMEOUTS = (10, 15, 20, 30, 40, 60)
SEEDS = (0, 1, 2, 3)
OTHER_SEEDS = (5, 6)
GOAL = 1.05
FORMATS = (("time", ",.0f"), ("ratio", ".2f"))
DATASETS = {"digits": "digits", "cancer": "table"}
TARGETS = {"digits": (0.4, 0.35, 0.3, 0.25), "cancer": (0.12, 0.105, 0.09, 0.075)}
"""Test losses; a run ends with the last."""
REACH = {"digits": 1.0, "cancer": 1.0}
"""``adaptive.A``: one number for a dataset and its models, whatever the algorithm, the speeds and the links."""
PARTIES = {"mean": range(10), "error": range(10, 20), "worst": range(20, 30)}


@dataclass(frozen=True)
class Setting:
    """What both kinds of runs have in common."""

    data: str
    algo: str
    speeds: str
    lr: float
    t_comm: float
    also: str = ""
    """One more word of the command line."""


def _settings(rows: Sequence[tuple[Any, ...]]) -> list[Setting]:
    return [Setting(*row[:4], t_comm, *row[5:]) for row in rows for t_comm in row[4]]


SETTINGS = _settings(
    [
        ("digits", "flex", "paper", 0.005, (1, 10, 50)),
        ("digits", "flex", "google_mean", 0.005, (10, 50)),
        ("digits", "flex", "trace", 0.005, (10,)),
        ("digits", "adaptive", "paper", 1.0, (1, 50)),
        ("digits", "adaptive", "trace", 1.0, (10,)),
        ("digits", "sync_max", "paper", 0.005, (10, 50)),
        ("digits", "sync_min", "paper", 0.02, (1, 50)),
        ("cancer", "flex", "paper", 0.005, (1, 10, 50)),
        ("cancer", "flex", "google_mean", 0.005, (50,)),
        ("cancer", "adaptive", "google_mean", 1.0, (10,)),
        ("cancer", "sync_max", "trace", 0.005, (10,)),
        ("cancer", "sync_min", "google_mean", 0.005, (10,)),
    ]
)
OTHERS = _settings(
    [
        ("digits", "flex", "paper", 0.01, (20, 200)),
        ("digits", "flex", "paper", 0.05, (10,), "optimizer=sgd"),
        ("digits", "flex", "paper", 0.007, (20, 200), "speeds.utilization=[0.3,0,0.3,0.5,0.2]"),
        ("digits", "sync_max", "google_mean", 0.005, (20,)),
        ("digits", "sync_min", "trace", 0.005, (100,)),
        ("cancer", "flex", "trace", 0.005, (20, 200)),
        ("cancer", "flex", "paper", 0.01, (100,)),
        ("cancer", "sync_max", "paper", 0.01, (20,)),
    ]
)


class Runs:
    """Runs, and what earlier ones took, in a file."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "runs.jsonl"
        self.table = folder / "cancer.csv"
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        self.known = {json.dumps(row["key"]): row for row in map(json.loads, lines)}
        if not self.table.exists():
            load_breast_cancer(as_frame=True).frame.to_csv(self.table, index=False)

    def of(self, setting: Setting, timeout: float | str, seed: int) -> dict[str, Any]:
        """Return test loss and time at the end of every round, and the mean timeout."""
        key = [*asdict(setting).values(), timeout, seed]
        if (text := json.dumps(key)) not in self.known:
            self.known[text] = row = {"key": key, **self._run(setting, timeout, seed)}
            with self.path.open("a") as file:
                file.write(json.dumps(row) + "\n")
        return self.known[text]

    def _run(self, setting: Setting, timeout: float | str, seed: int) -> dict[str, Any]:
        data = {} if setting.data == "digits" else {"dataset": self._cancer()}
        run = flexray.simulate(
            *setting.also.split(), f"dataset={DATASETS[setting.data]}", f"algo={setting.algo}",
            f"speeds={setting.speeds}", cluster="inline", seed=seed, lr=setting.lr, adaptive={"A": REACH[setting.data]},
            timeout=timeout, rounds=200, **data, network={"t_comm": setting.t_comm}, eval_every=1, eval_train=False,
            target_metric="test_loss", target=TARGETS[setting.data][-1], stop_at_target=True, progress=False,
            timeline_rounds=0,
        )  # fmt: skip
        evals = run.evals[run.evals["round"] > 0]
        chosen = run.summary["timeout"]["mean"] if timeout == "auto" else timeout
        return {"loss": evals["test_loss"].tolist(), "time": evals["sim_time_units"].tolist(), "timeout": chosen}

    def _cancer(self) -> dict[str, Any]:
        columns = load_breast_cancer().feature_names
        parties = {name: [str(columns[k]) for k in places] for name, places in PARTIES.items()}
        return {"path": str(self.table), "label": "target", "parties": parties}


def times(run: dict[str, Any], targets: Sequence[float], t_comm: float = 0.0) -> list[float | None]:
    """Return the time to each target, with t_comm added to every round (None: not met)."""
    met = [next((r for r, loss in enumerate(run["loss"]) if loss <= target), None) for target in targets]
    return [None if r is None else run["time"][r] + (r + 1) * t_comm for r in met]


def mean(found: Sequence[float | None]) -> float | None:
    """Return the mean of times, None if a target was not met."""
    met = [time for time in found if time is not None]
    return statistics.fmean(met) if len(met) == len(found) else None


def compared(runs: Runs, setting: Setting, seeds: Sequence[int]) -> dict[str, Any]:
    """Return a row of the table: times are means of all targets and seeds."""
    targets, still = TARGETS[setting.data], replace(setting, t_comm=0.0)
    fixed = {}
    for timeout in TIMEOUTS:
        each = [times(runs.of(still, timeout, seed), targets, setting.t_comm) for seed in seeds]
        if (time := mean([time for run in each for time in run])) is not None:
            fixed[timeout] = time
    auto = [runs.of(setting, "auto", seed) for seed in seeds]
    time = mean([time for run in auto for time in times(run, targets)])
    best = min(fixed, key=lambda timeout: fixed[timeout])
    return {
        **asdict(setting), "best": best, "best_time": fixed[best], "time": time,
        "timeout": statistics.fmean(run["timeout"] for run in auto), "ratio": time / fixed[best] if time else None,
    }  # fmt: skip


def as_table(rows: list[dict[str, Any]]) -> str:
    """Return the rows in Markdown."""
    lines = [
        "| data | algorithm | speeds | rate | t_comm | best of the sweep | time | auto | time | ratio |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        time, ratio = ("--" if row[key] is None else f"{row[key]:{form}}" for key, form in FORMATS)
        speeds = " ".join(filter(None, (row["speeds"], row["also"])))
        lines.append(
            f"| {row['data']} | {row['algo']} | {speeds} | {row['lr']:g} | {row['t_comm']:g} | {row['best']:g}"
            f" | {row['best_time']:,.0f} | {row['timeout']:.3g} | {time} | {ratio} |"
        )
    near = sum(row["ratio"] is not None and row["ratio"] <= GOAL for row in rows)
    return "\n".join(
        [*lines, "", f"{near} of {len(rows)} within {100 * (GOAL - 1):.0f} % of the best, or before it", ""]
    )


def main(folder: Path) -> None:
    """Run what is missing and write the table."""
    folder.mkdir(parents=True, exist_ok=True)
    runs = Runs(folder)
    parts = ((SETTINGS, SEEDS), (OTHERS, OTHER_SEEDS))
    text = "\n".join(as_table([compared(runs, setting, seeds) for setting in settings]) for settings, seeds in parts)
    (folder / "table.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "outputs/timeout"))
