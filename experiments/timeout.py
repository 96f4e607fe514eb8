"""``timeout=auto`` against the best timeout of a sweep: time to a target in 20 settings.

    python experiments/timeout.py [OUT]

Every setting has a learning rate for which some timeout between 10 and 60 is best (Adaptive Flex-VFL: A). A run of
``timeout=auto`` is compared with runs of six fixed timeouts. Rounds of these algorithms do not depend on how long
messages take, so a fixed timeout is run once, without any, and t_comm is added to each of its rounds. OUT
(``outputs/timeout``) holds ``runs.jsonl``, where what is there is not run again, and ``table.md``.
"""

from __future__ import annotations

import json
import statistics
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sklearn.datasets import load_breast_cancer

import flexray

TIMEOUTS = (10, 15, 20, 30, 40, 60)
SEEDS = (0,)
GOAL = 1.05
FORMATS = (("time", ",.0f"), ("ratio", ".2f"))
DATASETS = {"digits": "digits", "cancer": "table"}
TARGETS = {"digits": 0.25, "cancer": 0.075}
"""Test loss."""
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


def _settings() -> list[Setting]:
    rows = [
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
    return [Setting(*row[:4], t_comm) for row in rows for t_comm in row[4]]


SETTINGS = _settings()


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
        """Return rounds and time to the target (None: not met), and the mean timeout."""
        key = [*asdict(setting).values(), timeout, seed]
        if (text := json.dumps(key)) not in self.known:
            self.known[text] = row = {"key": key, **self._run(setting, timeout, seed)}
            with self.path.open("a") as file:
                file.write(json.dumps(row) + "\n")
        return self.known[text]

    def _run(self, setting: Setting, timeout: float | str, seed: int) -> dict[str, Any]:
        data = {} if setting.data == "digits" else {"dataset": self._cancer()}
        found = flexray.simulate(
            f"dataset={DATASETS[setting.data]}", f"algo={setting.algo}", f"speeds={setting.speeds}", cluster="inline",
            seed=seed, lr=setting.lr, adaptive={"A": REACH[setting.data]}, timeout=timeout, rounds=200, **data,
            network={"t_comm": setting.t_comm}, eval_every=1, eval_train=False, target_metric="test_loss",
            target=TARGETS[setting.data], stop_at_target=True, progress=False, timeline_rounds=0,
        ).summary  # fmt: skip
        chosen = found["timeout"]["mean"] if timeout == "auto" else timeout
        return {"rounds": found["rounds_to_target"], "time": found["time_to_target"], "timeout": chosen}

    def _cancer(self) -> dict[str, Any]:
        columns = load_breast_cancer().feature_names
        parties = {name: [str(columns[k]) for k in places] for name, places in PARTIES.items()}
        return {"path": str(self.table), "label": "target", "parties": parties}


def compared(runs: Runs, setting: Setting) -> dict[str, Any]:
    """Return a row of the table: times are means of all seeds."""
    still = Setting(**{**asdict(setting), "t_comm": 0.0})
    fixed = {}
    for timeout in TIMEOUTS:
        found = [runs.of(still, timeout, seed) for seed in SEEDS]
        if all(run["time"] is not None for run in found):
            fixed[timeout] = statistics.fmean(run["time"] + run["rounds"] * setting.t_comm for run in found)
    auto = [runs.of(setting, "auto", seed) for seed in SEEDS]
    met = all(run["time"] is not None for run in auto)
    best = min(fixed, key=lambda timeout: fixed[timeout])
    time = statistics.fmean(run["time"] for run in auto) if met else None
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
        lines.append(
            f"| {row['data']} | {row['algo']} | {row['speeds']} | {row['lr']:g} | {row['t_comm']:g} | {row['best']:g}"
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
    text = as_table([compared(runs, setting) for setting in SETTINGS])
    (folder / "table.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "outputs/timeout"))
