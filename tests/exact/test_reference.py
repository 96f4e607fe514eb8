"""Every algorithm against the plain-PyTorch loops of ``reference.py``: plans, losses and final parameters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from flexray import models
from flexray.core.messages import RoundRecord
from flexray.data.batches import BatchStream
from flexray.engine.parties.phi import split_linear
from helpers.reference import GatedHead, Pace, Rates, Rule, WeightNormHead, run_rounds
from helpers.reference_cases import (
    ALGORITHMS,
    BATCH,
    LINEAR,
    LR,
    MLP,
    PACE,
    ROUNDS,
    RULES,
    SEED,
    SERVERS,
    TIES,
    assert_same_parameters,
    assert_same_rows,
    copies,
    expected,
    ids_of,
    overrides,
    participants,
    world_of,
)


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
    max_ahead: int | None = None,
) -> list[RoundRecord]:
    override, default_rates = ALGORITHMS[algo]
    rates = rates or default_rates
    given = [*overrides(folder, override, pace, rates), *more, *(["algo.server=free"] if "free" in algo else [])]
    given += [] if max_ahead is None else [f"algo.max_ahead={max_ahead}"]
    job = compose_job(*given, server=server, parties=participants(rules))
    world = world_of(job.experiment, folder, rules, loss)
    starts = copies(world)
    rows = expected(world, algo, pace, rates, max_ahead)
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


@pytest.mark.parametrize(
    ("algo", "max_ahead", "pace"), [("vafl", 0, PACE), ("vafl", 2, PACE), ("vafl, free server", 1, TIES)]
)
def test_vafl_s_parties_wait_for_slower_ones(compose_job, run_inline, bundle, algo, max_ahead, pace):
    rows = check(compose_job, run_inline, bundle, algo, [RULES["l2"]] * 4, MLP, pace=pace, max_ahead=max_ahead)
    assert any(row.waited_units for row in rows)
    turns = [0] * 3
    for row in rows:
        turns[row.party] += 1
        assert max(turns) - min(turns) <= max_ahead + 1


def test_vafl_s_parties_take_turns_side_by_side(compose_job, run_inline, bundle):
    """Messages take 2, 2 and 4 units, the server's step 1: the third party's ends at 5, when the others go on."""
    rows = check(compose_job, run_inline, bundle, "vafl", [RULES["l2"]] * 4, MLP, pace=TIES, max_ahead=0)
    assert [(row.party, row.start_units, row.sim_time, row.waited_units) for row in rows[:6]] == [
        (1, 0.0, 3.0, 0.0), (2, 0.0, 4.0, 0.0), (0, 0.0, 5.0, 0.0),
        (1, 5.0, 8.0, 2.0), (2, 5.0, 9.0, 1.0), (0, 5.0, 10.0, 0.0),
    ]  # fmt: skip


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
