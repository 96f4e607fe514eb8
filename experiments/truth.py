"""How well ``speeds=measured`` predicts real seconds: calibrated, predicted on the virtual clock, and really run.

``python experiments/truth.py [--out outputs/truth] [--only NAME ...] [--repeats 2] [--max-load 2] [--plain]``

Four systems of 2 to 4 parties hold scikit-learn's digits; each is run with five algorithms. A setting is calibrated
(``flexray.calibrate``), predicted (``speeds=measured``), then really run (``clock=wall``), on the same warm processes.
Models wait for a third of an iteration in the forward pass and two thirds in the backward pass, so that five
participants fit the cores of a small machine as if each had one of its own; with ``--plain`` they compute instead, wide
enough for the same order of time. Every setting is printed when it is done, and the table so far is in
``OUT/table.md``: total time and time to the target, predicted and real; then the median and the worst error, and how
many pairs of algorithms of a system that really differ by over 10 % are ranked alike. What was done is kept in
``OUT/results.json``; the same command goes on from there. 20 settings take about ten minutes on an idle machine;
``--repeats`` does them all again, and takes medians.

The time to the target lies on the straight line between two evaluations: few fit into some seconds, and a run that
just misses the target at one would else seem to take until the next. Learning rates are such that no algorithm
diverges: where accuracy jumps up and down, the time to a target is chance.

``--max-load`` waits before a setting until the machine's load is no higher; the load is noted with every setting.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

import flexray

ALGORITHMS = ("flex", "adaptive", "sync_min", "sync_max", "pbcd", "vafl")
METRIC, TARGET = "test_top1", 0.6
RATES = {"pbcd": 0.2, "vafl": 0.05}
"""Learning rates of algorithms with one local iteration."""
USUAL_RATE = 0.01


@dataclass(frozen=True)
class System:
    """Parties, their machines and their links.

    Args:
        iteration_ms: Milliseconds of a local iteration of each party, then of the server.
        timeout: Seconds.
        t_comm: Seconds that each party's messages take.
        utilization: What others use of each machine.
        algorithms: What it is run with.
        seconds: About how long a run is to last.
    """

    iteration_ms: tuple[float, ...]
    timeout: float
    t_comm: tuple[float, ...]
    utilization: tuple[float, ...]
    algorithms: tuple[str, ...]
    seconds: float = 6.0

    @property
    def parties(self) -> list[str]:
        """Names of the parties."""
        return [f"p{k + 1}" for k in range(len(self.iteration_ms) - 1)]


ROUNDS = ("flex", "sync_min", "sync_max", "pbcd")
SYSTEMS = {
    "even": System((5, 5, 5), 0.1, (0,) * 2, (0, 0, 0), (*ROUNDS, "vafl")),
    "links": System((2, 4, 8, 1), 0.05, (0.02, 0.05, 0.01), (0,) * 4, ("flex", "adaptive", "sync_max", "pbcd", "vafl")),
    "busy": System((10, 10, 10, 5), 0.2, (0.01,) * 3, (0.2, 0.5, 0.8, 0), (*ROUNDS, "vafl")),
    "straggler": System((3, 6, 12, 50, 3), 0.15, (0.005,) * 4, (0, 0.3, 0, 0, 0), (*ROUNDS, "adaptive")),
}


class _Waits(torch.autograd.Function):
    """Passes a tensor on; waits on the way back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, seconds: float) -> Tensor:
        ctx.seconds = seconds
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        time.sleep(ctx.seconds)
        return grad, None


class Waiting(nn.Module):
    """A linear model whose local iteration takes ``seconds``, a third of it in the forward pass."""

    def __init__(self, in_features: int, out_features: int, seconds: float = 0.0) -> None:
        super().__init__()
        self.layer = nn.Linear(in_features, out_features)
        self.seconds = seconds

    def forward(self, x: Tensor) -> Tensor:
        """Wait only where it trains: not in evaluations, nor in a party's copy of the server's model."""
        if not self.training or not self.layer.weight.requires_grad:
            return self.layer(x)
        time.sleep(self.seconds / 3)
        return _Waits.apply(self.layer(x), self.seconds * 2 / 3)


class Wide(nn.Sequential):
    """A model that computes for about ``seconds`` an iteration."""

    def __init__(self, in_features: int, out_features: int, seconds: float = 0.0) -> None:
        width = int(24 * (seconds * 1e3) ** 0.5 * 8)
        super().__init__(
            nn.Linear(in_features, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, out_features)
        )


def main() -> int:
    """Run what is missing, then print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("outputs/truth"))
    parser.add_argument("--only", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument(
        "--max-load", type=float, default=None, help="wait until the load is no higher (an hour at most)"
    )
    parser.add_argument("--plain", action="store_true", help="models compute instead of waiting")
    parser.add_argument("--calibrate-seconds", type=float, default=5.0)
    parser.add_argument("--repeats", type=int, default=1, help="how often every setting is calibrated and run")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / "results.json"
    results: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    model = Wide if options.plain else Waiting
    with flexray.cluster(kind="local", num_cpus=os.cpu_count()):
        for key, name, algo in todo(options):
            if key not in results:
                wait_for(options.max_load)
                first = results.get(key.partition("#")[0], {})
                results[key] = setting(SYSTEMS[name], algo, model, options, first.get("rounds"))
                file.write_text(json.dumps(results, indent=1), encoding="utf-8")
                (options.out / "table.md").write_text(markdown(combined(results)), encoding="utf-8")
                print(row(key, results[key]), flush=True)
    report(combined(results))
    return 0


def todo(options: argparse.Namespace) -> Iterator[tuple[str, str, str]]:
    """Yield the keys of settings, in the order in which they are done, each with its system and algorithm."""
    for repeat in range(options.repeats):
        for name in options.only:
            for algo in SYSTEMS[name].algorithms:
                yield f"{name}/{algo}{'/plain' if options.plain else ''}{f'#{repeat + 1}' * (repeat > 0)}", name, algo


def combined(results: dict[str, Any]) -> dict[str, Any]:
    """Return the medians of settings that were repeated; a target that was missed once counts as missed."""
    groups: dict[str, list[Any]] = {}
    for key, result in results.items():
        groups.setdefault(key.partition("#")[0], []).append(result)

    def middle(values: list[float | None]) -> float | None:
        met = [value for value in values if value is not None]
        return statistics.median(met) if len(met) == len(values) else None

    return {
        key: {
            "rounds": group[0]["rounds"],
            "load": [max(result["load"][i] for result in group) for i in (0, 1)],
            **{
                of: {kind: middle([result[of][kind] for result in group]) for kind in ("total", "to_target")}
                for of in ("predicted", "real")
            },
        }
        for key, group in groups.items()
    }


def wait_for(load: float | None) -> None:
    """Wait until the machine is quiet, an hour at most."""
    deadline = time.monotonic() + 3600
    while load is not None and os.getloadavg()[0] > load and time.monotonic() < deadline:
        time.sleep(5)


def setting(
    system: System, algo: str, model: type[nn.Module], options: argparse.Namespace, rounds: int | None = None
) -> dict[str, Any]:
    """Return seconds of a setting, predicted and real; ``rounds``: None: as many as fit the system's seconds."""
    data, file, before = bundle(options.out, system), options.out / "measured.yaml", os.getloadavg()[0]
    own = run_keys(system, data, model)
    found = flexray.calibrate("dataset=bundle", file=file, seconds=options.calibrate_seconds, **own)
    links = {name: found.network["t_comm"][name] + t for name, t in zip(system.parties, system.t_comm, strict=True)}
    limits = {"timeout": system.timeout, "eval_train": False, "progress": False, **learning(algo)}
    predict = {
        **(run_keys(system, data, model) if options.plain else run_keys(system, data, model, waits=False)),
        **limits, "cluster": "inline", "network": {"t_comm": links},
        "speeds": {"kind": "measured", "path": file, "utilization": list(system.utilization)},
    }  # fmt: skip
    turns = len(system.parties) if algo == "vafl" else 1
    probe = flexray.simulate("dataset=bundle", rounds=4 * turns, **predict)
    rounds = rounds or max(4, round(system.seconds / probe.summary["sim_time"] * probe.summary["rounds"]))
    every = max(4, rounds // (8 if algo == "vafl" else 25))  # embeddings after an evaluation are not counted
    ends = {"rounds": rounds, "eval_every": every}
    predicted = flexray.simulate("dataset=bundle", **predict, **ends)
    real = flexray.simulate(
        "dataset=bundle", **own, **limits, **ends, clock="wall", network={"t_comm": list(system.t_comm)},
        speeds={"kind": "uniform", "utilization": list(system.utilization)},
    )  # fmt: skip
    return {
        "rounds": rounds,
        "load": [before, os.getloadavg()[0]],
        **{
            kind: {
                "total": run.summary["sim_time"],
                "to_target": crossing(run.evals["sim_time_seconds"].tolist(), run.evals[METRIC].tolist()),
            }
            for kind, run in (("predicted", predicted), ("real", real))
        },
    }


def run_keys(system: System, data: Path, model: type[nn.Module], waits: bool = True) -> dict[str, Any]:
    """Return what calibration, prediction and the real run have in common."""
    models = [{"_target_": model, "seconds": ms / 1e3 if waits else 0.0} for ms in system.iteration_ms]
    return {
        "dataset": {"path": data}, "adaptive": {"A": 0.2}, "server": models[-1],
        "parties": {name: {"model": own} for name, own in zip(system.parties, models[:-1], strict=True)},
    }  # fmt: skip


def learning(algo: str) -> dict[str, Any]:
    """Return an algorithm and its rate."""
    return {"algo": algo, "lr": RATES.get(algo, USUAL_RATE)}


def crossing(times: list[float], values: list[float]) -> float | None:
    """Return when the target is met, on the straight line to the first evaluation that meets it; None: never."""
    for place, value in enumerate(values):
        if value >= TARGET:
            if not place:
                return times[0]
            part = (TARGET - values[place - 1]) / (value - values[place - 1])
            return times[place - 1] + part * (times[place] - times[place - 1])
    return None


def bundle(out: Path, system: System) -> Path:
    """Write the digits, cut by columns of pixels among the parties, and return their folder."""
    folder, digits = out / f"digits{len(system.parties)}", load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    pictures = (digits.images / 16).astype(np.float32)
    for split, rows in (("train", order[:1400]), ("test", order[1400:])):
        (folder / split).mkdir(parents=True, exist_ok=True)
        np.save(folder / split / "labels.npy", digits.target[rows])
        for name, columns in zip(system.parties, np.array_split(np.arange(8), len(system.parties)), strict=True):
            np.save(folder / split / f"{name}.npy", pictures[rows][:, :, columns].reshape(len(rows), -1))
    return folder


def error(result: dict[str, Any], kind: str) -> float | None:
    """Return the error of a prediction as a share of the truth; None where one of them does not reach the target."""
    predicted, real = result["predicted"][kind], result["real"][kind]
    return predicted / real - 1 if predicted and real else None


def row(key: str, result: dict[str, Any]) -> str:
    """Return a setting's line of the table."""
    return "{:22} {:>6} {:>7} {:>7} {:>9} {:>7} {:>7} {:>9}   load {}".format(*cells(key, result))


def cells(key: str, result: dict[str, Any]) -> list[str]:
    """Return a setting, its rounds, each time predicted, real and the error, and the load before and after."""
    found = [key, str(result["rounds"])]
    for kind in ("total", "to_target"):
        values, off = (result["predicted"][kind], result["real"][kind]), error(result, kind)
        found += ["--" if value is None else f"{value:.2f}" for value in values]
        found.append("--" if off is None else f"{100 * off:+.1f} %")
    return [*found, f"{result['load'][0]:.1f}, {result['load'][1]:.1f}"]


def markdown(results: dict[str, Any]) -> str:
    """Return the table and what it comes to, as Markdown."""
    head = ("setting", "rounds", "total", "real", "error", f"to {METRIC} {TARGET}", "real", "error", "load")
    rows = [head, ["---"] * len(head), *(cells(key, result) for key, result in results.items())]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return "\n\n".join([table, *summary(results)]) + "\n"


def report(results: dict[str, Any]) -> None:
    """Print the table and what it comes to."""
    print(f"{'setting':22} rounds   total    real     error  target    real     error   ({TARGET} {METRIC}, seconds)")
    for key, result in results.items():
        print(row(key, result))
    print(*summary(results), sep="\n")


def summary(results: dict[str, Any]) -> Iterator[str]:
    """Yield the errors and the ranking, a line each."""
    for kind in ("total", "to_target"):
        errors = [abs(found) for result in results.values() if (found := error(result, kind)) is not None]
        if errors:
            yield (
                f"{kind}: median error {100 * statistics.median(errors):.1f} %, worst {100 * max(errors):.1f} %"
                f" of {len(errors)} settings"
            )
    alike = [ranked for _, _, ranked in pairs(results)]
    yield f"{sum(alike)} of {len(alike)} pairs of algorithms that really differ by over 10 % are ranked alike"
    for one, two, ranked in pairs(results):
        if not ranked:
            yield f"  not: {one}, {two}"


def pairs(results: dict[str, Any]) -> Iterator[tuple[str, str, bool]]:
    """Yield pairs of one system's algorithms that really differ by over 10 %, and whether they are ranked alike.

    They are compared by their time to the target or, where one of them does not reach it, by the time of a round.
    """
    for one, two in itertools.combinations(results, 2):
        first, second = results[one], results[two]
        if one.split("/")[0] != two.split("/")[0] or one.split("/")[2:] != two.split("/")[2:]:
            continue
        real = compared(first, second, "real")
        if abs(real) > 0.1:
            yield one, two, real * compared(first, second, "predicted") > 0


def compared(first: dict[str, Any], second: dict[str, Any], of: str) -> float:
    """Return by how much, as a share, the second takes longer than the first."""
    kind = "to_target" if all(r[o]["to_target"] for r in (first, second) for o in ("real", "predicted")) else "total"
    scale = [1 if kind == "to_target" else result["rounds"] for result in (first, second)]
    return (second[of][kind] / scale[1]) / (first[of][kind] / scale[0]) - 1


if __name__ == "__main__":
    sys.exit(main())
