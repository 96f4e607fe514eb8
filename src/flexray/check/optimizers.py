"""What flexray relies on in a local optimizer."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from flexray.check.causes import Cause, Watch, changed, fingerprint, remembered
from flexray.check.promises import ELSEWHERE, BrokenError, Checks, same
from flexray.check.trial import seeded
from flexray.engine.hosts.inline import borrowed_torch
from flexray.engine.parties.state import CODEC
from flexray.optimizers import LocalOptimizer

Make = Callable[[], LocalOptimizer]
ROUNDS = ((3, 0.05), (1, 0.02), (5, 0.1))
"""Local iterations and learning rate of each round."""
PRECISION = 1e-12
AFRESH = "starts every round afresh"
WEIGHTS = "moves by the weights that it states: theta^tau - theta^0 = -eta sum_t w_t g_t"
UNSEEN = Cause("with nothing seen that may be why", "step by the gradients and the state of the round alone")


class Course:
    """Parameters in float64 or float32 that go down a quadratic, whose gradients are recorded.

    Args:
        dtype: Of the parameters.
    """

    def __init__(self, dtype: torch.dtype = torch.float64) -> None:
        draw = seeded(1)
        self.params = [torch.randn(*shape, dtype=torch.float64, generator=draw).to(dtype) for shape in ((3,), (2, 2))]
        self._target = torch.randn(7, dtype=torch.float64, generator=draw).to(dtype)
        for param in self.params:
            param.requires_grad_()

    def gradients(self) -> list[Tensor]:
        """Return the gradients at the current parameters."""
        theta = torch.cat([param.reshape(-1) for param in self.params])
        scales = torch.arange(1, 8, dtype=theta.dtype) / 4
        return list(torch.autograd.grad((scales * (theta - self._target).square()).sum(), self.params))

    def round(self, optimizer: LocalOptimizer, tau: int, lr: float, l2: float = 0.0) -> list[list[Tensor]]:
        """Take the local iterations of a round; return the gradients, those of an L2 term included."""
        recorded, step = [], optimizer.begin(self.params, lr)
        for _ in range(tau):
            grads = self.gradients()
            recorded.append([g + l2 * p.detach() for g, p in zip(grads, self.params, strict=True)])
            step(grads)
        return recorded

    def move_to(self, values: Sequence[Tensor]) -> None:
        """Give the parameters these values."""
        with torch.no_grad():
            for param, value in zip(self.params, values, strict=True):
                param.copy_(value)

    def rounds(self, optimizer: LocalOptimizer) -> str:
        """Take rounds and return a fingerprint of the parameters."""
        for place, (tau, lr) in enumerate(ROUNDS):
            torch.manual_seed(place)  # as flexray does
            self.round(optimizer, tau, lr)
        return fingerprint(self.params)


def check_optimizer(checks: Checks, factory: partial[Any], words: Mapping[str, Any]) -> None:
    """Check a local optimizer on recorded gradients."""
    with borrowed_torch():
        with checks.promise("is made, and moves the parameters in place"):
            if not isinstance(made := factory(), LocalOptimizer):
                raise BrokenError(f"it made a {type(made).__name__}", "expected a flexray.optimizers.LocalOptimizer")
            _moves(factory)
        for check in (_repeats, _travels):
            if not checks.broke():
                check(checks, factory)
        if checks.broke():
            return
        for check in (_says_its_weights, _leaves_gradients, _starts_afresh):
            check(checks, factory)
        if not checks.broke(AFRESH):
            _goes_on(checks, factory)


def _moves(make: Make) -> None:
    for dtype in (torch.float32, torch.float64):
        course, optimizer = Course(dtype), make()
        before = [param.detach().clone() for param in course.params]
        step = optimizer.begin(course.params, 0.01)
        if fingerprint(before) != fingerprint(course.params):
            raise BrokenError("begin() changes them", "expected that the step function does")
        step(course.gradients())
        for param, old in zip(course.params, before, strict=True):
            if param.dtype != dtype or not torch.isfinite(param).all():
                raise BrokenError(f"a step makes them {param}", f"expected finite numbers of {dtype}")
            if torch.equal(param, old):
                raise BrokenError("a step leaves some where they are", "change the tensors of begin() in place")


def _says_its_weights(checks: Checks, make: Make) -> None:
    """theta^tau - theta^0 = -eta sum_t w_t g_t, for every round of several."""
    optimizer = make()
    if not optimizer.in_theory:
        checks.notes.append("weights: in_theory is False, so its w_bar counts as 1")
        with checks.promise("has w_bar 1, since it is outside the theory"):
            if (found := optimizer.max_weight(3, 0.1)) != 1.0:
                raise BrokenError(f"max_weight is {found}", "set in_theory = True, or leave max_weight as it is")
        return
    with checks.promise(WEIGHTS):
        course, l2 = Course(), getattr(optimizer, "l2", 0.0)
        for number, (tau, lr) in enumerate(ROUNDS, 1):
            start = [param.detach().clone() for param in course.params]
            recorded, weights = course.round(optimizer, tau, lr, l2), _weights(optimizer, tau, lr)
            for k, (old, new) in enumerate(zip(start, course.params, strict=True)):
                expected = -lr * sum(w * grads[k] for w, grads in zip(weights, recorded, strict=True))
                size = max(float(old.abs().max()), lr * sum(float(grads[k].abs().max()) for grads in recorded))
                if (off := float((new.detach() - old - expected).abs().max())) > PRECISION * size:
                    raise BrokenError(
                        f"in round {number}, of {tau} local iterations at rate {lr}, they are off by {off:.2g}",
                        "correct weights(), or set in_theory = False",
                    )
    if checks.broke(WEIGHTS):
        return
    with checks.promise("has the largest weight as w_bar, also at rate 0"):
        for tau, lr in ((0, 0.1), *ROUNDS, (4, 0.0)):
            found, largest = optimizer.max_weight(tau, lr), max(_weights(optimizer, tau, lr), default=1.0)
            if not math.isclose(found, largest, rel_tol=PRECISION):
                raise BrokenError(f"max_weight({tau}, {lr}) is {found}, the largest weight {largest}", "leave it out")


def _weights(optimizer: LocalOptimizer, tau: int, lr: float) -> tuple[float, ...]:
    weights = tuple(map(float, optimizer.weights(tau, lr)))
    if len(weights) != tau or not all(map(math.isfinite, weights)):
        raise BrokenError(f"weights({tau}, {lr}) are {weights}", f"expected {tau} finite numbers")
    return weights


def _leaves_gradients(checks: Checks, make: Make) -> None:
    with checks.promise("leaves the gradients as they are"):
        course = Course()
        step = make().begin(course.params, 0.05)
        for _ in range(3):
            grads = course.gradients()
            before = fingerprint(grads)
            step(grads)
            if fingerprint(grads) != before:
                raise BrokenError("a step edits them", "two parameters may share one; use grad.add, not grad.add_")


def _repeats(checks: Checks, make: Make) -> None:
    with checks.promise("takes the same steps for the same gradients"):
        with Watch(checks.target, 1, sees=False):
            expected = Course().rounds(make())
        with Watch(checks.target, 2) as watch:
            found = Course().rounds(make())
        same(found, expected, "they differ", UNSEEN, lambda: watch.causes)


def _travels(checks: Checks, make: Make) -> None:
    with checks.promise("takes the same steps in another process", "expected attributes that can be pickled"):
        same(checks.elsewhere(Course().rounds, make()), Course().rounds(make()), "they differ", ELSEWHERE)


def _starts_afresh(checks: Checks, make: Make) -> None:
    """What lasts from round to round is what it saves: without that, a used one steps as a new one."""
    used, course = make(), Course()
    start = [param.detach().clone() for param in course.params]
    course.rounds(used)
    if used.save() is not None:
        checks.notes.append("a fresh start in every round: its save() returns state that lasts")
        return
    with checks.promise(AFRESH):
        course.move_to(start)
        found, expected = course.rounds(used), Course().rounds(make())
        same(found, expected, "a second round differs from a first", UNSEEN, lambda: _lasting(used, make()))


def _lasting(used: LocalOptimizer, fresh: LocalOptimizer) -> list[Cause]:
    """Return attributes that a round begins with, but not the first one."""
    for optimizer in (used, fresh):
        optimizer.begin(Course().params, 0.05)
    mend = "reset it in begin(), or return it from save()"
    return [Cause(f"'self.{n}' lasts", mend) for n in changed(remembered(fresh), remembered(used))]


def _goes_on(checks: Checks, make: Make) -> None:
    mend = "save() returns None, or numbers, tensors and containers of them; load() takes them over"
    with checks.promise("goes on from a checkpoint with the same steps", mend):
        used, course = make(), Course()
        course.rounds(used)
        arrays: dict[str, Any] = {}
        saved = CODEC.encode(used.save(), arrays)
        again, resumed = Course(), make()
        again.move_to(course.params)
        resumed.load(again.params, CODEC.decode(saved, arrays))
        lost = Cause("it forgets", "return from save() all that lasts from round to round, and take it over in load()")
        same(again.rounds(resumed), course.rounds(used), "its steps differ", UNSEEN, lambda: [lost])
