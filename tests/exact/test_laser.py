"""LASER-VFL is the plain loop over samples and subsets that the paper describes."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from flexray.core.errors import ConfigError
from flexray.data.batches import BatchStream
from flexray.engine.driver.make import make_driver
from flexray.engine.hosts.inline import borrowed_torch
from flexray.engine.hosts.plan import place
from flexray.engine.parties.devices import seed_torch
from flexray.models.laser import Laser, draw_subsets
from flexray.tasks import Task
from helpers.jobs import Compose, Run
from helpers.reference import World
from helpers.reference_cases import RULES, assert_same_parameters, copies, ids_of, world_of
from helpers.several_hosts import SeveralHosts
from helpers.small import ended, rounds_of

ROUNDS, SEED, RATE = 20, 3, 0.02
WORDS = ("algo=laser", "server=laser", "missing.fraction={a:0.3,b:0.6,c:0.2}", "optimizer=sgd", f"seed={SEED}")


def joint_loss(world: World, has: Tensor, batch: Tensor, r: int) -> Tensor:
    """The loss of a batch, sample by sample, with the same numbers drawn."""
    parties, total = len(world.parties), torch.zeros((), dtype=torch.float64)
    seed_torch(SEED, 0, "train", r)
    draws = [torch.rand(parties, len(batch), parties) for _ in range(parties)]
    counted = 0
    for row, sample in enumerate(batch.tolist()):
        there = [k for k in range(parties) if has[sample, k]]
        counted += bool(there)
        for k in there:
            others = [j for j in there if j != k]
            for size in range(1, len(there) + 1):
                order = sorted(others, key=lambda j, draw=draws[k][size - 1][row]: -float(draw[j]))  # type: ignore[misc]
                subset = [k, *order[: size - 1]]
                own = [world.parties[j](world.features[j][sample : sample + 1]) for j in subset]
                prediction = world.server.fusions[k](sum(own) / size)  # type: ignore[index, operator]
                loss = functional.cross_entropy(prediction, world.labels[sample : sample + 1])
                total = total + loss * math.comb(len(there) - 1, size - 1) / size
    return total / max(1, counted)


def test_it_is_the_plain_loop(compose_small: Compose, run_inline: Run, bundle: Path) -> None:
    """A whole model in one place, plain SGD."""
    job = compose_small(*WORDS, f"rounds={ROUNDS}", f"lr={RATE}", "eval_every=20", "model.activation=tanh")
    world = world_of(job.experiment, bundle, [RULES["sgd"]] * 4, functional.cross_entropy)
    present = job.experiment.shared.outline.present
    assert present is not None
    has, starts, ids = torch.from_numpy(present["train"]), copies(world), ids_of(BatchStream(24, 5, SEED))
    assert not has.any(dim=1).all(), "a sample that nobody has is wanted"
    params = [p for model in world.models() for p in model.parameters()]
    losses = []
    for r in range(ROUNDS):
        loss = joint_loss(world, has, ids(r), r)
        losses.append(float(loss.detach()))
        grads = torch.autograd.grad(loss, params, allow_unused=True)
        with torch.no_grad():
            for p, grad in zip(params, grads, strict=True):
                p -= RATE * (torch.zeros_like(p) if grad is None else grad)
    records = run_inline(job)
    assert [r.train_loss for r in rounds_of(records)] == pytest.approx(losses, rel=1e-10)
    assert_same_parameters(ended(records), world.models(), starts)


def test_a_drawn_subset_stands_for_all_of_its_size() -> None:
    """The mean of many draws is the sum of the losses of all subsets, each once."""
    torch.manual_seed(0)
    model, parties = Laser(8, 3, parties=4).double(), 4
    present = torch.tensor([[True, True, True, True], [True, False, True, True], [False, False, False, False]])
    embeddings, labels = torch.randn(3, 8, dtype=torch.float64), torch.tensor([0, 2, 1])
    losses = Task("cross_entropy", 3).losses
    expected = 0.0
    for row in range(2):
        there = [k for k in range(parties) if present[row, k]]
        for size in range(1, len(there) + 1):
            for subset in itertools.combinations(there, size):
                mean = torch.stack([embeddings[row, 2 * j : 2 * j + 2] for j in subset]).mean(dim=0, keepdim=True)
                each = [float(losses(model.fusions[k](mean), labels[row : row + 1]).detach()) for k in subset]
                expected += sum(each) / size
    many = 4000
    with torch.no_grad():
        found = model.loss(embeddings.repeat(many, 1), present.repeat(many, 1), labels.repeat(many), losses)
    assert float(found) == pytest.approx(expected / 2, rel=0.005)


def test_subsets_have_the_party_and_only_who_is_there() -> None:
    torch.manual_seed(1)
    present = torch.tensor([[True, True, False, True]]).expand(3000, 4)
    found = draw_subsets(present, 1)[1]
    assert found[:, 1].all()
    assert not found[:, 2].any()
    assert (found.sum(dim=1) == 2).all()
    assert found[:, 0].double().mean() == pytest.approx(0.5, abs=0.03)


def test_a_prediction_is_the_mean_of_those_that_are_there() -> None:
    model = Laser(4, 2, parties=2).double()
    x = torch.randn(4, 4, dtype=torch.float64)
    present = torch.tensor([[True, True], [True, False], [False, True], [False, False]])
    found, (one, other) = model(x, present), model.fusions
    both = (x[0, :2] + x[0, 2:]) / 2
    torch.testing.assert_close(found[0], (one(both) + other(both)) / 2)
    torch.testing.assert_close(found[1], one(x[1, :2]))
    torch.testing.assert_close(found[2], other(x[2, 2:]))
    assert not found[3].any()


def test_hosts_and_whole_samples(compose_small: Compose, run_inline: Run) -> None:
    for more in ((), ("missing.fraction=0",)):
        job = compose_small(*WORDS, *more)
        alone = run_inline(job)
        with borrowed_torch():
            spread = list(make_driver(job.experiment, SeveralHosts(), place(3, 2)).run())
        assert spread[:-1] == alone[:-1]
        assert ended(spread).digests == ended(alone).digests


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("algo=laser", "server: LaserVFL needs fusion models that take any embeddings; expected server=laser"),
        ("server=laser", "labels_at: the server's model has a loss of its own; expected server, as with algo=laser"),
        ("algo=laser server=laser labels_at=b", "labels_at: the server's model has a loss of its own"),
        ("algo=laser server=laser labels_at=all", "labels_at: LaserVFL leaves the labels with one participant"),
    ],
)
def test_what_does_not_go_together_is_refused(words: str, told: str, compose_small: Compose) -> None:
    with pytest.raises(ConfigError, match=told):
        compose_small(*words.split())


def test_embeddings_of_other_widths_have_no_mean(compose_small: Compose, run_inline: Run) -> None:
    job = compose_small(*WORDS, "+parties.b.model.out_features=4")
    with pytest.raises(ConfigError, match=r"expected equal widths, got \[3, 4, 3\]"):
        run_inline(job)


def test_other_losses(compose_job: Any, run_inline: Run, write_bundle: Any) -> None:
    path = write_bundle(classes=None)
    for loss in ("l1", "mse"):
        words = ("dataset=bundle", f"dataset.path={path}", f"dataset.loss={loss}", "rounds=3", "dataset.batch_size=5")
        records = run_inline(compose_job(*words, *WORDS[:3]))
        assert all(math.isfinite(r.train_loss) for r in rounds_of(records))
