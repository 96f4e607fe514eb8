"""Small run folders, written by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

VERSIONS = {"python": "3.11.7", "torch": "2.14.1"}
CONFIG = {"lr": 0.1, "network": {"t_comm": 10.0}, "target": 0.9, "target_metric": "test_top1", "timeout": None}


def write_run(
    folder: Path, algo: str = "flex", seed: int = 0, values: Sequence[float] = (0.1, 0.5, 0.95), every: int = 2,
    duration: float = 30.0, typed: Sequence[str] = (), config: dict[str, Any] | None = None,
    summary: dict[str, Any] | None = None, finished: bool = True, tau: Sequence[int] | None = None,
    joules: float | None = None,
) -> Path:  # fmt: skip
    """Write a run of parties a and b that evaluated ``values`` of ``test_top1`` every so many rounds; 100 B a round.

    With ``tau`` it has a party per number, p1, p2 and so on, but for the last, which is the server's; with ``joules``
    a round costs so much energy.
    """
    (folder / ".hydra").mkdir(parents=True)
    rounds = every * (len(values) - 1)
    flat = {**CONFIG, "seed": seed, "algo": {"_target_": f"x.{algo}"}, **(config or {})}
    choices = {"algo": algo, "dataset": "digits", "speeds": "paper", "cluster": "inline"}
    choices |= {key: str(value) for key, value in (summary or {}).items() if key == "dataset"}
    task = [f"algo={algo}", f"seed={seed}", *typed]
    hydra = {"hydra": {"runtime": {"choices": choices}, "overrides": {"task": task}}}
    (folder / ".hydra" / "config.yaml").write_text(yaml.safe_dump(flat), encoding="utf-8")
    (folder / ".hydra" / "hydra.yaml").write_text(yaml.safe_dump(hydra), encoding="utf-8")
    lines = ["round,sim_time,duration,tau,lr,train_loss,sent_bytes,utilization,party,staleness"]
    names = ["a", "b", "server"] if tau is None else [*(f"p{k + 1}" for k in range(len(tau) - 1)), "server"]
    rates = [0.1, 0.2, 0.3] if tau is None else [0.1] * len(tau)
    lines += [
        f'{r},{r * duration},{duration},"{[1 + r % 2, 4, 5] if tau is None else list(tau)}","{rates}",1.0,100,'
        f'"{[0.0] * len(names)}",,'
        for r in range(1, rounds + 1)
    ]
    (folder / "rounds.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    lines = ["round,epoch,sim_time,test_top1,train_loss"]
    lines += [f"{k * every},{k},{k * every * duration},{v},{1 - v}" for k, v in enumerate(values)]
    if joules is not None:
        spent = ["energy_joules", *(f"{k * every * joules}" for k in range(len(values)))]
        lines = [f"{line},{cell}" for line, cell in zip(lines, spent, strict=True)]
    (folder / "evals.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    write_timeline(folder, rounds, duration, names)
    if finished:
        content = {
            "algo": algo, "dataset": "digits", "data_source": "package", "trace": None, "status": "completed",
            "parties": names[:-1], "rounds": rounds, "sim_time": rounds * duration, "time_unit": "units", "wall_s": 1.5,
            "seed": seed, "metric": "test_top1", "target": 0.9, "versions": VERSIONS, **(summary or {}),
        }  # fmt: skip
        (folder / "summary.json").write_text(json.dumps(content), encoding="utf-8")
        (folder / "configuration.json").write_text(json.dumps(flat), encoding="utf-8")
    return folder


def write_timeline(folder: Path, rounds: int, duration: float, names: Sequence[str]) -> None:
    """Write a timeline in which everybody computes two thirds of a round."""
    events: list[dict[str, Any]] = [
        {"name": "thread_name", "ph": "M", "pid": 0, "tid": k, "args": {"name": name}} for k, name in enumerate(names)
    ]
    for r in range(rounds):
        for k in range(len(names)):
            about = {"cat": "flexray", "ph": "X", "pid": 0, "tid": k, "args": {"round": r + 1, "tau": 1, "lr": 0.1}}
            start, part = r * duration * 1000, duration * 1000 / 3
            events.append({"name": "compute", "ts": start, "dur": 2 * part, **about})
            events.append({"name": "communicate", "ts": start + 2 * part, "dur": part, **about})
    text = json.dumps({"displayTimeUnit": "ms", "traceEvents": events, "otherData": {"rounds": rounds}})
    (folder / "timeline.json").write_text(text, encoding="utf-8")


def sweep(root: Path) -> Path:
    """Write three algorithms of three seeds: one always reaches the target, one sometimes, one never."""
    ends = {"flex": (0.95, 0.92, 0.97), "vafl": (0.95, 0.5, 0.6), "pbcd": (0.3, 0.4, 0.5)}
    for a, (algo, last) in enumerate(ends.items()):
        for seed, value in enumerate(last):
            write_run(root / str(a * 3 + seed), algo, seed, (0.1, 0.2, value), duration=10.0 * (a + 1) + seed)
    return root
