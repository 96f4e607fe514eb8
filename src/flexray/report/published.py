"""The paper's figures, shown beside those of a sweep.

Source: T. Castiglia, S. Wang, S. Patterson, *Flexible Vertical Federated Learning with Heterogeneous Parties*, Tables
II, III and IV: time units (printed there in thousands) to the target, mean and standard deviation of five runs.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from flexray.core.neutral import is_under
from flexray.report.runs import Run
from flexray.report.statistics import Spread

SOURCE = (
    "Castiglia, Wang, Patterson: Flexible Vertical Federated Learning with Heterogeneous Parties; "
    "its targets are MAE 0.65 (MOSEI), top-5 0.6 (ImageNet100) and 0.7 (ModelNet40)"
)
DATASETS = ("mosei", "imagenet100", "modelnet40")
THOUSAND = 1000.0
TIMEOUTS = {"mosei": 20.0, "imagenet100": 10.0, "modelnet40": 20.0}


@dataclass(frozen=True)
class Published:
    """A figure of the paper.

    Args:
        table: Its table.
        time: Units to the target; None where the paper prints ``--``.
    """

    table: str
    time: Spread | None


FINER = tuple(f"network.{key}" for key in ("latency", "up", "down", "shared", "jitter", "loss", "trace.path"))
"""Keys of links that the paper does not have."""


def published(run: Run, dataset: str | None = None) -> Published | None:
    """Return the paper's figure for a run's setting and algorithm, or None if the paper has none.

    Args:
        run: A run of the group.
        dataset: The paper's dataset to compare with; None: that of the run.
    """
    name = dataset or run.text("dataset")
    if name not in DATASETS or run.time_unit != "units":
        return None
    if any(value not in (None, 0) and is_under(key, FINER) for key, value in run.config.items()):
        return None
    config, algo, speeds = run.config, run.text("algo"), run.choices.get("speeds")
    t_comm, timeout = _number(config.get("network.t_comm")), _number(config.get("timeout")) or TIMEOUTS[name]
    if speeds == "uniform" and (name, algo, t_comm, timeout) == ("mosei", "flex", 10, 20):
        return _optimizers(config)
    if speeds != "paper" or t_comm is None or config.get("timeout") == "auto":
        return None
    if timeout == TIMEOUTS[name]:
        for row in _rows("table3_fixed_speeds"):
            if float(row["t_comm"]) == t_comm and row["algorithm"] == algo:
                return Published("Table III", _spread(row, name))
    if name == "modelnet40" and t_comm == 10 and algo in ("flex", "sync_max"):
        for row in _rows("table4_timeout"):
            if float(row["timeout"]) == timeout:
                return Published("Table IV", _spread(row, algo))
    return None


def _optimizers(config: Mapping[str, Any]) -> Published | None:
    """Return the figure of Table II for the optimizers of the parties video, audio and text."""
    used = [_optimizer(config, k, name) for k, name in ((1, "video"), (2, "audio"), (3, "text"))]
    if used[0] != used[1]:
        return None
    for row in _rows("table2_optimizers"):
        if [row["video_audio"], row["text"]] == used[1:]:
            return Published("Table II", _spread(row, ""))
    return None


def _optimizer(config: Mapping[str, Any], place: int, name: str) -> str | None:
    """Return the paper's name of a party's optimizer; None if it is neither SGD nor local momentum."""

    def get(key: str) -> Any:
        keys = (f"parties.{place}.optimizer.{key}", f"parties.{name}.optimizer.{key}", f"optimizer.{key}")
        return next((config[k] for k in keys if k in config), None)

    momentum = _number(get("momentum"))
    if get("_target_") != "flexray.optimizers.LocalSGD" or get("proximal") or get("local_rates") or momentum is None:
        return None
    return "momentum" if momentum else "sgd"


def _rows(table: str) -> Sequence[dict[str, str]]:
    text = (resources.files("flexray.report") / "paper" / f"{table}.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def _spread(row: Mapping[str, str], prefix: str) -> Spread | None:
    mean, std = (row[f"{prefix}_{part}" if prefix else part] for part in ("mean", "std"))
    return Spread(float(mean) * THOUSAND, float(std) * THOUSAND) if mean else None


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
