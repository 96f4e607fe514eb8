"""Faults that were planted in local optimizers are found and said in a line that tells how to mend them."""

from __future__ import annotations

import random
import threading
import time
from typing import Any, ClassVar

import pytest
import torch

import flexray.check
from flexray.core.errors import CheckError
from flexray.optimizers import LocalOptimizer, LocalSGD


class Steps(LocalOptimizer):
    """SGD, which the others change in one way that breaks a promise."""

    in_theory = True

    def begin(self, params, lr):
        self.rate = lr

        def step(grads):
            with torch.no_grad():
                for place, (param, grad) in enumerate(zip(params, grads, strict=True)):
                    self.move(param, grad, place)

        return step

    def move(self, param, grad, place):
        param -= self.rate * grad


class Momentum(Steps):
    """Keeps its momentum from round to round."""

    in_theory = False

    def __init__(self):
        self.velocity: dict[int, Any] = {}

    def move(self, param, grad, place):
        self.velocity[place] = 0.9 * self.velocity.get(place, 0) + grad
        param -= self.rate * self.velocity[place]


class SavesMomentum(Momentum):
    def save(self):
        return self.velocity

    def load(self, params, saved):
        self.velocity = dict(saved)


class LoadsNothing(SavesMomentum):
    def load(self, params, saved):
        pass


class SavesNothingPlain(Momentum):
    def save(self):
        return self


class SharesMomentum(Momentum):
    velocity: ClassVar[dict[int, Any]] = {}  # type: ignore[misc]

    def __init__(self):
        pass


class Doubles(Steps):
    def move(self, param, grad, place):
        param -= 2 * self.rate * grad


class DividesByTheRate(Steps):
    def weights(self, tau, lr):
        return (lr / lr,) * tau


class OneWeight(Steps):
    def weights(self, tau, lr):
        return (1.0,)


class OwnLargest(Steps):
    def max_weight(self, tau, lr):
        return 2.0


class OutsideWithLargest(Steps):
    in_theory = False

    def max_weight(self, tau, lr):
        return 2.0


class EditsGradients(Steps):
    def move(self, param, grad, place):
        param -= grad.mul_(self.rate)


class LeavesOne(Steps):
    in_theory = False

    def move(self, param, grad, place):
        if place:
            param -= self.rate * grad


class MovesCopies(Steps):
    def begin(self, params, lr):
        return super().begin([param.clone() for param in params], lr)


class MovesAtOnce(Steps):
    def begin(self, params, lr):
        with torch.no_grad():
            params[0].mul_(0.9)
        return super().begin(params, lr)


class WithoutNoGrad(Steps):
    def begin(self, params, lr):
        def step(grads):
            for param, grad in zip(params, grads, strict=True):
                param -= lr * grad

        return step


class Draws(Steps):
    in_theory = False

    def move(self, param, grad, place):
        param -= self.rate * grad * random.random()


class ByTheClock(Steps):
    in_theory = False

    def move(self, param, grad, place):
        param -= self.rate * grad * (1 + time.perf_counter())


class HoldsALock(Steps):
    def __init__(self):
        self.lock = threading.Lock()


class TorchDraws(Steps):
    """Which flexray seeds."""

    in_theory = False

    def move(self, param, grad, place):
        param -= self.rate * grad * torch.rand(())


FAULTS: list[tuple[type[LocalOptimizer], str]] = [
    (Momentum, "a second round differs from a first: 'self.velocity' lasts; reset it in begin(), or return it"),
    (LoadsNothing, "its steps differ: it forgets; return from save() all that lasts from round to round"),
    (SavesNothingPlain, "TypeError: SavesNothingPlain cannot be saved; expected numbers, text, tensors or lists of"),
    (SharesMomentum, "they differ: 'SharesMomentum.velocity' outlives an object and changes; keep it in the object"),
    (Doubles, "in round 1, of 3 local iterations at rate 0.05, they are off by "),
    (DividesByTheRate, "also at rate 0: ZeroDivisionError: float division by zero (FILE, line "),
    (OneWeight, "weights(3, 0.05) are (1.0,); expected 3 finite numbers"),
    (OwnLargest, "max_weight(0, 0.1) is 2.0, the largest weight 1.0; leave it out"),
    (OutsideWithLargest, "has w_bar 1, since it is outside the theory: max_weight is 2.0"),
    (EditsGradients, "leaves the gradients as they are: a step edits them; two parameters may share one"),
    (LeavesOne, "a step leaves some where they are; change the tensors of begin() in place"),
    (MovesCopies, "a step leaves some where they are; change the tensors of begin() in place"),
    (MovesAtOnce, "begin() changes them; expected that the step function does"),
    (WithoutNoGrad, "RuntimeError: a leaf Variable that requires grad is being used in an in-place operation. (FILE, "),
    (Draws, "they differ: draws from Python's global random module (FILE, line "),
    (ByTheClock, "they differ: reads the clock (FILE, line "),
    (HoldsALock, "TypeError: cannot pickle '_thread.lock' object"),
]


@pytest.mark.parametrize(("optimizer", "said"), FAULTS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_fault_is_found_and_named(optimizer: type[LocalOptimizer], said: str) -> None:
    with pytest.raises(CheckError) as caught:
        flexray.check(optimizer)
    assert len(caught.value.failures) == 1, str(caught.value)
    assert said.replace("FILE", __file__) in caught.value.failures[0]


@pytest.mark.parametrize("optimizer", [Steps, SavesMomentum, TorchDraws, LocalSGD(momentum=0.3, l2=0.1, proximal=0.2)])
def test_what_keeps_its_promises_passes(optimizer: Any) -> None:
    assert flexray.check(optimizer).promises
