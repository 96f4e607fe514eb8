"""Local optimizers: theta^tau - theta^0 = -eta sum_t w_t g_t of recorded gradients; closed forms; torch's own."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from flexray.core.errors import ConfigError
from flexray.core.messages import Order
from flexray.engine.parties.trainer import Trainer
from flexray.optimizers import LocalOptimizer, LocalSGD, TorchOptimizer, clip_gradients
from flexray.tasks import Task

F64 = torch.float64
RATES = (1.0, 0.5, 2.0, 0.25)
OPTIMIZERS: dict[str, dict[str, Any]] = {
    "sgd": {},
    "momentum": {"momentum": 0.9},
    "proximal": {"proximal": 0.8},
    "momentum, proximal": {"momentum": 0.7, "proximal": 0.8},
    "varying": {"local_rates": RATES},
    "momentum, varying": {"momentum": 0.6, "local_rates": RATES},
    "proximal, varying": {"proximal": 1.1, "local_rates": RATES},
    "all": {"momentum": 0.5, "proximal": 0.9, "local_rates": RATES},
}
Problem = tuple[list[Tensor], Callable[[], Tensor]]


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=F64, generator=torch.Generator().manual_seed(seed))


def quadratic() -> Problem:
    """Return two parameter tensors and theta' H theta / 2 - b' theta with a random positive definite H."""
    params = [draw(3, seed=1).requires_grad_(), draw(2, 2, seed=2).requires_grad_()]
    root, b = draw(7, 7, seed=3), draw(7, seed=4)

    def loss() -> Tensor:
        theta = torch.cat([p.reshape(-1) for p in params])
        return (root @ theta).square().sum() / 14 - b @ theta

    return params, loss


def network() -> Problem:
    with torch.random.fork_rng():
        torch.manual_seed(5)
        net = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).double()
    x, y = draw(12, 4, seed=6), torch.arange(12) % 3
    return list(net.parameters()), lambda: nn.functional.cross_entropy(net(x), y)


PROBLEMS = {"quadratic": quadratic, "network": network}


def gradients(problem: Problem) -> list[Tensor]:
    params, loss = problem
    return list(torch.autograd.grad(loss(), params))


def record_round(optimizer: LocalOptimizer, problem: Problem, lr: float, tau: int, l2: float) -> list[list[Tensor]]:
    """Run a round and return g_t, the L2 term included, of every local iteration."""
    params, _ = problem
    step, recorded = optimizer.begin(params, lr), []
    for _ in range(tau):
        grads = gradients(problem)
        recorded.append([g + l2 * p.detach() for g, p in zip(grads, params, strict=True)])
        step(grads)
    return recorded


def assert_moved_by_weights(
    start: Sequence[Tensor], params: Sequence[Tensor], lr: float, weights: Sequence[float], recorded: list[list[Tensor]]
) -> None:
    assert len(weights) == len(recorded)
    for k, (before, after) in enumerate(zip(start, params, strict=True)):
        terms = [w * g[k] for w, g in zip(weights, recorded, strict=True)]
        size = lr * sum(term.abs().max() for term in terms)
        move = after.detach() - before
        assert float((move + lr * sum(terms)).abs().max()) <= 1e-12 * float(torch.maximum(size, before.abs().max()))
        assert float(move.abs().max()) > 1e-6


@pytest.mark.parametrize("l2", [0.0, 0.03])
@pytest.mark.parametrize("build", PROBLEMS.values(), ids=PROBLEMS)
@pytest.mark.parametrize("options", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_a_round_moves_by_the_weighted_gradients(options, build, l2):
    optimizer, lr = LocalSGD(**options, l2=l2), 0.05
    for tau in range(1, 26):
        problem = build()
        start = [p.detach().clone() for p in problem[0]]
        recorded = record_round(optimizer, problem, lr, tau, l2)
        assert_moved_by_weights(start, problem[0], lr, optimizer.weights(tau, lr), recorded)


@pytest.mark.parametrize("options", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_momentum_and_anchor_start_afresh_in_every_round(options):
    """One object runs three rounds of different length and rate; each obeys its own weights."""
    optimizer, problem = LocalSGD(**options, l2=0.01), quadratic()
    for tau, lr in ((7, 0.05), (3, 0.02), (12, 0.1)):
        start = [p.detach().clone() for p in problem[0]]
        recorded = record_round(optimizer, problem, lr, tau, 0.01)
        assert_moved_by_weights(start, problem[0], lr, optimizer.weights(tau, lr), recorded)


@pytest.mark.parametrize("tau", range(1, 26))
def test_closed_forms_of_the_weights(tau):
    lr, rho, mu = 0.05, 0.9, 0.8
    ages = [tau - t for t in range(tau)]
    assert LocalSGD().weights(tau, lr) == (1.0,) * tau
    assert LocalSGD(l2=0.1).weights(tau, lr) == (1.0,) * tau
    momentum, proximal, varying = LocalSGD(momentum=rho), LocalSGD(proximal=mu), LocalSGD(local_rates=RATES)
    assert momentum.weights(tau, lr) == pytest.approx([(1 - rho**n) / (1 - rho) for n in ages], rel=1e-13)
    assert momentum.max_weight(tau, lr) == pytest.approx((1 - rho**tau) / (1 - rho), rel=1e-13)
    assert proximal.weights(tau, lr) == pytest.approx([(1 - lr * mu) ** (n - 1) for n in ages], rel=1e-13)
    assert proximal.max_weight(tau, lr) == 1.0
    rates = [RATES[min(t, 3)] for t in range(tau)]
    assert varying.weights(tau, lr) == tuple(rates)
    assert varying.max_weight(tau, lr) == max(rates)
    a = 1 - lr * mu
    both = LocalSGD(momentum=rho, proximal=mu).weights(tau, lr)
    assert both == pytest.approx([(a**n - rho**n) / (a - rho) for n in ages], rel=1e-12)


def test_the_largest_weight_need_not_be_the_first():
    optimizer = LocalSGD(momentum=0.5, proximal=4.0)
    weights = optimizer.weights(20, 0.05)
    assert max(weights) > weights[0]
    assert optimizer.max_weight(20, 0.05) == max(weights)


@pytest.mark.parametrize("optimizer", [LocalSGD(momentum=0.9), TorchOptimizer("Adam")])
def test_a_round_without_iterations(optimizer):
    assert optimizer.weights(0, 0.1) == ()
    assert optimizer.max_weight(0, 0.1) == 1.0


TORCH: list[tuple[str, dict[str, Any]]] = [
    ("Adam", {"betas": [0.8, 0.9]}),
    ("AdamW", {"weight_decay": 0.1}),
    ("RMSprop", {"momentum": 0.5}),
    ("Adagrad", {}),
    ("SGD", {"momentum": 0.9, "nesterov": True}),
    ("torch.optim.NAdam", {}),
    ("Adafactor", {}),
]


@pytest.mark.parametrize("keep_state", [False, True])
@pytest.mark.parametrize(("name", "options"), TORCH)
def test_a_class_of_torch_does_what_it_does_in_torch(name, options, keep_state):
    optimizer = TorchOptimizer(name, keep_state=keep_state, **options)
    ours, theirs = network(), network()
    make = getattr(torch.optim, name.rpartition(".")[2])
    own = make(theirs[0], lr=1.0, **options)
    for tau, lr in ((4, 0.01), (1, 0.03), (5, 0.02)):
        step = optimizer.begin(ours[0], lr)
        if not keep_state:
            own = make(theirs[0], lr=lr, **options)
        own.param_groups[0]["lr"] = lr
        for _ in range(tau):
            step(gradients(ours))
            for p, g in zip(theirs[0], gradients(theirs), strict=True):
                p.grad = g
            own.step()
    for mine, other in zip(ours[0], theirs[0], strict=True):
        assert torch.equal(mine, other)


@pytest.mark.parametrize("name", ["Adam", "Adafactor"])
def test_a_class_of_torch_imports_no_compiler(name, monkeypatch):
    """A kept state is saved and loaded without it, too."""
    monkeypatch.setitem(sys.modules, "torch._dynamo", None)
    params, optimizer = network()[0], TorchOptimizer(name, keep_state=True)
    optimizer.begin(params, 0.1)([torch.ones_like(p) for p in params])
    optimizer.load(params, optimizer.save())


def test_a_class_of_torch_is_outside_the_theory():
    optimizer = TorchOptimizer("Adam")
    assert not optimizer.in_theory
    assert optimizer.weights(4, 0.1) == (1.0,) * 4
    assert optimizer.max_weight(4, 0.1) == 1.0


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("Adma", {}, "optimizer.name.*'Adma'"),
        ("lr_scheduler", {}, "optimizer.name.*'lr_scheduler'"),
        ("torch.nn.Linear", {}, "optimizer.name.*'torch.nn.Linear'"),
        ("no_such_package.Adam", {}, "no_such_package"),
        ("", {}, "optimizer.name"),
        (5, {}, "optimizer.name"),
        ("Adam", {"momentums": 0.9}, "Adam.*momentums"),
        ("Adam", {"lr": 0.1}, "Adam.*lr"),
        ("Adam", {"betas": [2.0, 0.9]}, "Adam.*beta"),
        ("LBFGS", {}, "LBFGS.*closure"),
    ],
)
def test_refusals_of_classes_of_torch(name, options, says):
    with pytest.raises(ConfigError, match=says):
        TorchOptimizer(name, **options)


BAD: list[tuple[str, Any]] = [
    *(("momentum", value) for value in (1.0, 1.5, -0.1, math.nan, math.inf, True, "0.9", None, [0.9])),
    *(("proximal", value) for value in (-0.1, math.nan, math.inf, -math.inf, False, "1")),
    *(("l2", value) for value in (-1e-9, math.nan, math.inf, True, None)),
    *(("local_rates", value) for value in ([], (), [0.0], [1.0, -1.0], [math.nan], [1.0, math.inf], [True], ["1"])),
    *(("local_rates", value) for value in (1.0, "1.0", {1.0: 1.0})),
]


@pytest.mark.parametrize(("key", "value"), BAD)
def test_bad_parameters_are_refused_by_name(key, value):
    with pytest.raises(ConfigError, match=rf"^optimizer\.{key}(\[\d\])?: expected .*, got "):
        LocalSGD(**{key: value})


@pytest.mark.parametrize("max_norm", [0.1, 1.0, 1e3])
def test_clipping_equals_torch(max_norm):
    grads = [draw(3, 4, seed=7), draw(5, seed=8)]
    theirs = [torch.zeros_like(g) for g in grads]
    for p, g in zip(theirs, grads, strict=True):
        p.grad = g.clone()
    torch.nn.utils.clip_grad_norm_(theirs, max_norm)
    for mine, other in zip(clip_gradients(grads, max_norm), theirs, strict=True):
        assert torch.equal(mine, other.grad)


def test_clipping_of_parameters_that_share_one_gradient_tensor():
    """Autograd returns one tensor as the gradient of both summands."""
    a, b, x = draw(2, seed=9).requires_grad_(), draw(2, seed=10).requires_grad_(), draw(6, 2, seed=11)
    before, task = [a.detach().clone(), b.detach().clone()], Task("l1", 1)
    trainer = Trainer([a, b], LocalSGD(), task, clip_norm=0.01)
    trainer.run(trainer.down(lambda: x @ (a + b)[:, None] + 100.0, torch.zeros(6, dtype=F64)), Order(1, 1.0))
    moved = torch.cat([a.detach() - before[0], b.detach() - before[1]])
    assert float(moved.norm()) == pytest.approx(0.01, rel=1e-3)


def test_clipping_of_a_gradient_that_is_one_number_broadcast():
    p = draw(4, seed=12).requires_grad_()
    (clipped,) = clip_gradients(torch.autograd.grad(p.sum(), [p]), 1.0)
    assert clipped.tolist() == pytest.approx([0.5] * 4, rel=1e-5)


def test_kept_state_belongs_to_one_participant():
    """Two participants are built from one description, as when a run is repeated; both must move."""
    optimizer, task, ends = TorchOptimizer("Adam", keep_state=True), Task("mse", 1), []
    for _ in range(2):
        w = torch.ones(3, 1, dtype=F64, requires_grad=True)
        trainer = Trainer([w], optimizer, task)
        for _ in range(2):
            trainer.run(trainer.down(lambda w=w: draw(8, 3) @ w, torch.zeros(8, dtype=F64)), Order(3, 0.1))
        ends.append(w.detach())
    assert not torch.equal(ends[0], torch.ones(3, 1, dtype=F64))
    assert torch.equal(ends[0], ends[1])


def test_options_that_are_null_are_left_to_the_class() -> None:
    assert TorchOptimizer("Adam", momentum=None).options == {}
    with pytest.raises(ConfigError, match="momentum"):
        TorchOptimizer("Adam", momentum=0.9)
