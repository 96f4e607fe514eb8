"""Every algorithm against the plain-PyTorch loops of ``reference.py``: plans, losses and final parameters."""

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

from flexray import models
from flexray.core.messages import Ended, RoundRecord
from flexray.data.batches import BatchStream
from flexray.engine.driver.experiment import Experiment
from flexray.engine.parties.party import Party
from flexray.engine.parties.phi import split_linear
from reference import GatedHead, Pace, Rates, Row, Rule, WeightNormHead, World, run_rounds, run_vafl

ROUNDS, EVENTS, BATCH, SEED = 20, 60, 5, 3
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
GATED = {"_target_": "reference.GatedHead"}
NORMED = {"_target_": "reference.WeightNormHead"}
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


def expected(world: World, algo: str, pace: Pace, rates: Rates) -> list[Row]:
    streams = partial(BatchStream, len(world.labels), BATCH, SEED)
    override, _ = ALGORITHMS[algo]
    if override == "algo=vafl":
        own = [ids_of(streams(f"turns-{k + 1}")) for k in range(len(world.parties))]
        return run_vafl(world, pace, rates, own, EVENTS, "free" in algo)
    return run_rounds(world, override.removeprefix("algo="), pace, rates, ids_of(streams("batches")), ROUNDS)


def assert_same_rows(records: list[RoundRecord], rows: list[Row]) -> None:
    assert len(records) == len(rows)
    for record, row in zip(records, rows, strict=True):
        assert record.tau == tuple(row.tau)
        assert record.party == row.party
        assert record.sim_time == pytest.approx(row.sim_time, rel=1e-13)
        assert record.lr == pytest.approx(row.lr, rel=1e-12)
        assert record.train_loss == pytest.approx(row.loss, rel=1e-10)
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


def check(
    compose_job: Any,
    run_inline: Any,
    folder: Path,
    algo: str,
    rules: list[Rule],
    server: dict[str, Any],
    pace: Pace = PACE,
    rates: Rates | None = None,
    more: tuple[str, ...] = (),
    loss: Any = functional.cross_entropy,
) -> list[RoundRecord]:
    override, default_rates = ALGORITHMS[algo]
    rates = rates or default_rates
    given = [*overrides(folder, override, pace, rates), *more, *(["algo.server=free"] if "free" in algo else [])]
    job = compose_job(*given, server=server, parties=participants(rules))
    world = world_of(job.experiment, folder, rules, loss)
    starts = copies(world)
    rows = expected(world, algo, pace, rates)
    records = run_inline(job)
    rounds = [record for record in records if isinstance(record, RoundRecord)]
    assert_same_rows(rounds, rows)
    assert_same_parameters(records[-1], world.models(), starts)
    return rounds


@pytest.mark.parametrize("half", [0, 1])
@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("algo", ALGORITHMS)
def test_classes(compose_job, run_inline, bundle, algo, server, half):
    """Each half has four of the eight optimizers, turned so that all come to parties and to the server."""
    turn = list(ALGORITHMS).index(algo) + list(SERVERS).index(server)
    rules = list(RULES.values())[4 * half : 4 * half + 4]
    rules = [rules[(k + turn) % 4] for k in range(4)]
    check(compose_job, run_inline, bundle, algo, rules, SERVERS[server])


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_regression_with_l1(compose_job, run_inline, write_bundle, algo):
    def l1(prediction: Tensor, labels: Tensor) -> Tensor:
        return functional.l1_loss(prediction[:, 0], labels)

    rules = [RULES["momentum"], RULES["all, clipped"], RULES["varying"], RULES["momentum and proximal"]]
    folder = write_bundle(classes=None)
    check(compose_job, run_inline, folder, algo, rules, MLP, more=("dataset.loss=l1",), loss=l1)


@pytest.mark.parametrize("algo", ["flex", "adaptive", "vafl"])
def test_decaying_rates(compose_job, run_inline, bundle, algo):
    _, plain = ALGORITHMS[algo]
    rates = Rates(LR, plain.adaptive, plain.weighted, milestones=(6, 18), factor=0.5)
    rows = check(compose_job, run_inline, bundle, algo, [RULES["all"]] * 4, LINEAR, rates=rates)
    assert len({row.lr[-1] for row in rows}) >= 3


def test_vafl_takes_turns_that_end_together_in_party_order(compose_job, run_inline, bundle):
    rows = check(compose_job, run_inline, bundle, "vafl, free server", [RULES["l2"]] * 4, MLP, pace=TIES)
    assert [row.party for row in rows[:10]] == [1, 2, 0, 1, 2, 1, 2, 0, 1, 2]
    assert [row.sim_time for row in rows[:10]] == [2.0, 2.0, 4.0, 4.0, 4.0, 6.0, 6.0, 8.0, 8.0, 8.0]


def test_vafl_s_server_answers_one_message_after_another(compose_job, run_inline, bundle):
    """Messages at 2, 2 and 4; the server steps in one unit: to 3, 4 and 5, and so on."""
    rows = check(compose_job, run_inline, bundle, "vafl", [RULES["l2"]] * 4, MLP, pace=TIES)
    assert [row.party for row in rows[:8]] == [1, 2, 0, 1, 2, 1, 0, 2]
    assert [row.sim_time for row in rows[:8]] == [3.0, 4.0, 5.0, 6.0, 7.0, 9.0, 10.0, 11.0]


def test_batches_without_the_short_one_and_with_replacement(compose_job, run_inline, bundle):
    rules = [RULES["momentum"]] * 4
    for key in ("drop_last", "replacement"):
        given = (*overrides(bundle, "algo=flex", PACE, Rates(LR)), f"dataset.{key}=true")
        job = compose_job(*given, server=LINEAR, parties=participants(rules))
        assert getattr(job.experiment.shared, key) is True
        stream = BatchStream(24, BATCH, SEED, **{key: True})
        world = world_of(job.experiment, bundle, rules, functional.cross_entropy)
        starts = copies(world)
        rows = run_rounds(world, "flex", PACE, Rates(LR), ids_of(stream), ROUNDS)
        records = run_inline(job)
        assert_same_rows([record for record in records if isinstance(record, RoundRecord)], rows)
        assert_same_parameters(records[-1], world.models(), starts)


def test_the_servers_above_are_of_both_kinds():
    """Two whose first layer flexray folds, others that it must send through whole."""
    heads = [
        models.Linear(3, 2),
        models.MLP(3, 2),
        nn.Sequential(nn.Linear(3, 2)),
        GatedHead(3, 2),
        nn.Sequential(nn.Tanh()),
        WeightNormHead(3, 2),
    ]
    assert [split_linear(head)[0] is not None for head in heads] == [True, True, True, False, False, False]
    assert split_linear(heads[0]) == (heads[0], None)
    first, rest = split_linear(heads[1])
    x = torch.ones(4, 3)
    assert torch.equal(rest(first(x)), heads[1](x))
