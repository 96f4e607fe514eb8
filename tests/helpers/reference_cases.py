"""The cases in which runs are compared with ``reference.py``, and the comparison."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from flexray.config.job import Job
from flexray.core.messages import Ended, RoundRecord
from flexray.data.batches import BatchStream
from flexray.engine.driver.experiment import Experiment
from flexray.engine.parties.party import Party
from helpers.jobs import Run
from helpers.reference import Pace, Rates, Row, Rule, World, run_rounds, run_vafl
from helpers.small import ended, rounds_of

ROUNDS, EVENTS, BATCH, SEED = 13, 39, 5, 3
LR = (0.05, 0.1, 0.02, 0.08)
RULES = {
    "sgd": Rule(),
    "momentum": Rule(momentum=0.9),
    "proximal": Rule(proximal=0.7),
    "momentum and proximal": Rule(momentum=0.8, proximal=0.5),
    "varying": Rule(rates=(1.0, 0.5, 1.5)),
    "l2": Rule(l2=0.05),
    "all": Rule(momentum=0.6, proximal=0.4, rates=(0.9, 1.3), l2=0.03),
    "all, clipped": Rule(momentum=0.5, proximal=0.3, rates=(1.1, 0.4), l2=0.02, clip=0.05),
}
LINEAR = {"_target_": "flexray.models.Linear"}
MLP = {"_target_": "flexray.models.MLP", "hidden": [5], "activation": "tanh"}
GATED = {"_target_": "helpers.reference.GatedHead"}
NORMED = {"_target_": "helpers.reference.WeightNormHead"}
SERVERS = {"linear": LINEAR, "mlp": MLP, "not foldable": GATED, "weight norm": NORMED}
MODELS = {
    "a": {"_target_": "flexray.models.MLP", "hidden": [4], "activation": "tanh", "out_features": 2},
    "b": MLP,
    "c": {"_target_": "flexray.models.Linear", "out_features": 4},
}
PACE = Pace(
    base=(Fraction(2), Fraction("1.5"), Fraction(1), Fraction("1.2")),
    utilization=(Fraction("0.25"), Fraction(0), Fraction("0.15"), Fraction("0.5")),
    timeout=Fraction(6),
    t_comm=(Fraction(3), Fraction(1), Fraction(2)),
)
TIES = Pace(base=(Fraction(3), Fraction(1), Fraction(1), Fraction(1)), utilization=(Fraction(0),) * 4,
            timeout=Fraction(6), t_comm=(Fraction(1),) * 3)  # fmt: skip
ALGORITHMS: dict[str, tuple[str, Rates]] = {
    "flex": ("algo=flex", Rates(LR)),
    "adaptive": ("algo=adaptive", Rates(LR, adaptive=True)),
    "adaptive, unweighted": ("algo=adaptive", Rates(LR, adaptive=True, weighted=False)),
    "sync_min": ("algo=sync_min", Rates(LR)),
    "sync_max": ("algo=sync_max", Rates(LR)),
    "pbcd": ("algo=pbcd", Rates(LR)),
    "vafl": ("algo=vafl", Rates(LR)),
    "vafl, free server": ("algo=vafl", Rates(LR)),
}


def numbers(values: Any) -> str:
    return f"[{','.join(repr(float(v)) for v in values)}]"


def overrides(folder: Path, algo: str, pace: Pace, rates: Rates) -> list[str]:
    return [
        "dataset=bundle", f"dataset.path={folder}", f"dataset.batch_size={BATCH}", algo, f"seed={SEED}", "embedding=3",
        f"rounds={EVENTS if algo == 'algo=vafl' else ROUNDS}", "speeds=uniform", "eval_every=7",
        f"speeds.unit_time={numbers(pace.base)}", f"speeds.utilization={numbers(pace.utilization)}",
        f"timeout={float(pace.timeout)}", f"network.t_comm={numbers(pace.t_comm)}", f"lr={numbers(rates.lr)}",
        f"adaptive.A={numbers(rates.lr)}", f"adaptive.weighted={str(rates.weighted).lower()}",
        f"lr_decay.milestones={list(rates.milestones)}", f"lr_decay.factor={rates.factor}",
    ]  # fmt: skip


def participants(rules: list[Rule]) -> dict[str, Any]:
    """Return the overrides of every participant: its model and its local optimizer."""
    nodes: dict[str, Any] = {name: {"model": node} for name, node in MODELS.items()} | {"server": {}}
    for node, rule in zip(nodes.values(), rules, strict=True):
        node["clip_norm"] = rule.clip
        node["optimizer"] = {
            "_target_": "flexray.optimizers.LocalSGD",
            "momentum": rule.momentum,
            "proximal": rule.proximal,
            "local_rates": list(rule.rates) or None,
            "l2": rule.l2,
        }
    return nodes


def world_of(x: Experiment, folder: Path, rules: list[Rule], loss: Any) -> World:
    """Return a world whose modules start where flexray's do."""
    parties = [Party(spec, x.shared) for spec in x.parties]
    arrays = [np.load(folder / "train" / f"{name}.npy") for name in MODELS]
    flat = [torch.from_numpy(array).flatten(1) for array in arrays]
    labels = torch.from_numpy(np.load(folder / "train" / "labels.npy"))
    head = x.shared.build_head([party.width for party in parties])
    return World([party.model for party in parties], head, flat, labels, loss, rules)


def copies(world: World) -> list[dict[str, Tensor]]:
    return [{key: value.clone() for key, value in model.state_dict().items()} for model in world.models()]


def ids_of(stream: BatchStream) -> Any:
    return lambda index: torch.from_numpy(stream.batch(index).ids_b)


def expected(world: World, algo: str, pace: Pace, rates: Rates, max_ahead: int | None = None) -> list[Row]:
    streams = partial(BatchStream, len(world.labels), BATCH, SEED)
    override, _ = ALGORITHMS[algo]
    if override == "algo=vafl":
        own = [ids_of(streams(f"turns-{k + 1}")) for k in range(len(world.parties))]
        return run_vafl(world, pace, rates, own, EVENTS, "free" in algo, max_ahead)
    return run_rounds(world, override.removeprefix("algo="), pace, rates, ids_of(streams("batches")), ROUNDS)


def compare(
    job: Job, run: Run, folder: Path, algo: str, rules: list[Rule], rates: Rates, pace: Pace = PACE, **more: bool
) -> list[tuple[RoundRecord, Row]]:
    """Check a run of rounds, absences and all, against the plain loop; return the rounds of both."""
    x = job.experiment
    away = [x.absent(r, (0.0,) * 4) for r in range(ROUNDS)]
    world = world_of(x, folder, rules, functional.cross_entropy)
    starts, ids = copies(world), ids_of(BatchStream(24, BATCH, SEED))
    kind = ALGORITHMS[algo][0].removeprefix("algo=")
    rows = run_rounds(world, kind, pace, rates, ids, ROUNDS, away.__getitem__, **more)
    records = run(job)
    assert_same_rows(rounds_of(records), rows)
    assert_same_parameters(ended(records), world.models(), starts)
    return list(zip(rounds_of(records), rows, strict=True))


def assert_same_rows(records: list[RoundRecord], rows: list[Row]) -> None:
    assert len(records) == len(rows)
    for record, row in zip(records, rows, strict=True):
        assert record.tau == tuple(row.tau)
        assert record.party == row.party
        assert record.sim_time == pytest.approx(row.sim_time, rel=1e-13)
        assert record.lr == pytest.approx(row.lr, rel=1e-12)
        assert record.train_loss == pytest.approx(row.loss, rel=1e-10)
        assert record.waited_units == pytest.approx(row.waited, rel=1e-12, abs=1e-12)
        assert (record.staleness is None) == (row.staleness is None)
        if row.staleness is not None:
            assert record.staleness == pytest.approx(row.staleness, rel=1e-12)


def assert_same_parameters(ended: Ended, models: list[nn.Module], starts: list[dict[str, Tensor]]) -> None:
    for (name, state), model, start in zip(ended.states.items(), models, starts, strict=True):
        assert list(state) == list(model.state_dict())
        for key, value in model.state_dict().items():
            error = np.abs(state[key] - value.numpy()).max()
            assert error <= 1e-10 * float(value.abs().max()), (name, key)
            assert not torch.equal(value, start[key]), (name, key)
