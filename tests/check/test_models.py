"""Faults that were planted in models are found and said in a line that tells how to mend them."""

from __future__ import annotations

import cProfile
import pickle
import random
import sys
import threading
import time
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import flexray.check
from flexray.core.errors import CheckError, ConfigError

MADE: list[int] = []


class Net(nn.Module):
    """Keeps all promises; the others each break one."""

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.first = nn.Linear(in_features, 8)
        self.last = nn.Linear(8, out_features)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.tanh(self.first(x)))


class ListOfLayers(Net):
    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__(in_features, out_features)
        self.layers = [nn.Linear(8, 8)]

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.layers[0](torch.tanh(self.first(x))))


class PlainTensor(Net):
    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__(in_features, out_features)
        self.scale = torch.tensor(2.0)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x * self.scale)


class NumpyWeights(Net):
    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__(in_features, out_features)
        with torch.no_grad():
            self.last.bias.copy_(torch.from_numpy(np.random.normal(size=out_features)))


class PythonWeights(Net):
    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__(in_features, out_features)
        nn.init.constant_(self.last.bias, random.gauss(0, 1))


class ClockWeights(Net):
    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__(in_features, out_features)
        nn.init.constant_(self.last.bias, time.perf_counter() % 1)  # float32 holds microseconds of it


class CountsInItsModule(Net):
    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__(in_features, out_features)
        MADE.append(1)
        nn.init.constant_(self.last.bias, len(MADE))


class CountsInItsClass(Net):
    made: ClassVar[int] = 0

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__(in_features, out_features)
        CountsInItsClass.made += 1
        nn.init.constant_(self.last.bias, self.made)


class NoSeed(Net):
    def forward(self, x: Tensor) -> Tensor:
        noise = np.random.default_rng().normal(size=x.shape) if self.training else np.zeros(x.shape)
        return super().forward(x + torch.from_numpy(noise).to(x.dtype))


class OwnGenerator(Net):
    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__(in_features, out_features)
        self.draw = np.random.default_rng(1)

    def forward(self, x: Tensor) -> Tensor:
        noise = self.draw.normal(size=x.shape) if self.training else np.zeros(x.shape)
        return super().forward(x + torch.from_numpy(noise).to(x.dtype))


class CountsSteps(Net):
    steps = 0

    def forward(self, x: Tensor) -> Tensor:
        self.steps += self.training
        return super().forward(x) / (1 + self.steps)


class DropsInEvaluation(Net):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(functional.dropout(x, 0.5))


class CentersTheBatch(Net):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x - x.mean(dim=0))


class Squeezes(Net):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).squeeze()


class UnusedLayer(Net):
    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__(in_features, out_features)
        self.more = nn.Linear(3, 3)


class Detaches(Net):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).detach()


class Unset(Net):
    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__(in_features, out_features)
        self.shift = nn.Parameter(torch.empty(out_features))

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + self.shift


class OnlyFloat32(Net):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x @ torch.eye(x.shape[1]))


class OneNumberPerSample(Net):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x)[:, 0]


class NothingToTrain(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1)


class TurnsItselfToEval(Net):
    def forward(self, x: Tensor) -> Tensor:
        self.first.eval()
        return super().forward(x)


class Explodes(Net):
    def forward(self, x: Tensor) -> Tensor:
        return torch.exp(1e4 * super().forward(x).abs()) - 1


class Holds(Net):
    def __init__(self, in_features: int, out_features: int, held: Any) -> None:
        super().__init__(in_features, out_features)


class EditsItsArgument(Net):
    def __init__(self, in_features: int, out_features: int, shift: Any) -> None:
        super().__init__(in_features, out_features)
        shift -= shift.mean()
        nn.init.constant_(self.last.bias, float(shift[0]))


class Raises(Net):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x[:, :, :, 7])


FAULTS: list[tuple[type[nn.Module], dict[str, Any], str]] = [
    (ListOfLayers, {}, "'layers[0]' is a Linear that torch does not see; expected nn.ModuleList"),
    (PlainTensor, {}, "'scale' is a Tensor that torch does not see; expected self.register_buffer"),
    (NumpyWeights, {}, "a second model differs: draws from NumPy's global generator; draw with torch's functions"),
    (PythonWeights, {}, "draws from Python's global random module (FILE, line "),
    (ClockWeights, {}, "a second model differs: reads the clock (FILE, line "),
    (CountsInItsModule, {}, f"a second model differs: '{__name__}.MADE' outlives an object and changes; keep it in"),
    (CountsInItsClass, {}, "a second model differs: 'CountsInItsClass.made' outlives an object and changes"),
    (NoSeed, {}, "losses of round 1 differ: makes a generator without a seed (FILE, line "),
    (OwnGenerator, {}, "losses of round 3 differ: 'draw' changes and is not saved; hold it in a tensor"),
    (CountsSteps, {}, "losses of round 3 differ: 'steps' changes and is not saved"),
    (DropsInEvaluation, {}, "draws nothing in evaluation: two passes differ; switch dropout"),
    (CentersTheBatch, {}, "in smaller batches samples have other results; compute nothing over the samples"),
    (Squeezes, {}, "it returned shape (6,), expected (1, 6); name the dimension in squeeze()"),
    (UnusedLayer, {}, "'more.weight' gets none, nor do 1 more; use it in forward"),
    (Detaches, {}, "none gets one; expected a forward without detach(), no_grad() and NumPy"),
    (Unset, {}, "'shift' is not; torch.empty leaves what was in memory"),
    (OnlyFloat32, {}, "computes in float64, too: RuntimeError: expected m1 and m2 to have the same"),
    (OneNumberPerSample, {}, "its model returned (2,), expected a tensor of shape (2, width)"),
    (NothingToTrain, {}, "party: its model has no trainable parameters; expected nn.Module attributes"),
    (TurnsItselfToEval, {}, "a pass in train mode changes it; expected no train() or eval() within forward"),
    (Explodes, {}, "trains, with finite losses: by round 0 the loss is infinite"),
    (Holds, {"held": threading.Lock()}, "TypeError: cannot pickle '_thread.lock' object; pickle has to take its"),
    (
        EditsItsArgument,
        {"shift": np.arange(3.0)},
        "in processes of their own: ValueError: output array is read-only",
    ),
    (Raises, {}, "IndexError: too many indices for tensor of dimension 2 in a first forward pass (FILE, line "),
]


@pytest.mark.parametrize(("model", "arguments", "said"), FAULTS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_fault_is_found_and_named(model: type[nn.Module], arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(CheckError) as caught:
        flexray.check(model, role="party", **arguments)
    assert len(caught.value.failures) == 1, str(caught.value)
    assert said.replace("FILE", __file__) in caught.value.failures[0]


class EditsItsInput(Net):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.mul_(2).add_(1))


class Frozen(Net):
    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__(in_features, out_features)
        self.requires_grad_(False)


@pytest.mark.parametrize("model", [EditsItsInput, Frozen])
def test_what_a_model_may_do(model: type[nn.Module]) -> None:
    report = flexray.check(model)
    assert report.notes == (("gradients: none of its parameters wants one",) * (model is Frozen))


def test_what_fails_in_both_places_is_said_once() -> None:
    with pytest.raises(CheckError) as caught:
        flexray.check(DropsInEvaluation)
    (failure,) = caught.value.failures
    assert failure.startswith("draws nothing in evaluation (as a party): two passes differ; ")


def make_net(out_features: int) -> nn.Module:
    return Net(12, out_features)


def make_sized_net(width: int) -> nn.Module:
    return Net(12, width)


def test_objects_and_functions_are_checked_like_classes() -> None:
    promises = flexray.check(Net).promises
    assert flexray.check(Net(12, 6), in_shape=[12]).promises == promises
    assert flexray.check(make_net, in_shape=[12]).promises == promises
    assert flexray.check(make_sized_net, width=5, in_shape=[12]).promises == promises
    assert flexray.check(Net, in_features=30).kind == "a model as a party"


@pytest.mark.parametrize(
    ("target", "arguments", "line"),
    [
        (Net, {"role": "head"}, "role: expected party or server, got 'head'"),
        (Net, {"in_shape": [0, 3]}, "in_shape: expected a list of positive whole numbers, got [0, 3]"),
        (Net, {"widht": 3}, "Net.widht: unknown key of Net; expected one of: in_features, out_features"),
        (Holds, {}, "Holds.held: Holds needs a value for it"),
        (Net(2, 3), {"width": 3}, "Net.width: the object is made already; expected a class"),
        (torch.optim.SGD, {}, "check: a torch.optim class is used by flexray.optimizers.TorchOptimizer; check that"),
        (12, {}, "check: expected a model, a dataset, an algorithm, a local optimizer, a trace format or a class of"),
    ],
)
def test_a_mistake_is_refused_in_one_line(target: Any, arguments: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        flexray.check(target, **arguments)
    assert str(caught.value).startswith(line)


def test_the_process_is_as_it_was() -> None:
    def state() -> tuple[Any, ...]:
        return random.getstate(), str(np.random.get_state()), torch.get_num_threads(), sys.getprofile()

    before, own = state(), torch.get_rng_state()
    flexray.check(Net)
    with pytest.raises(CheckError):
        flexray.check(NumpyWeights)
    assert state() == before
    assert torch.equal(torch.get_rng_state(), own)


def test_a_profiler_goes_on() -> None:
    profiler = cProfile.Profile()
    with profiler, pytest.raises(CheckError, match="draws nothing in evaluation"):
        flexray.check(DropsInEvaluation, role="party")
    assert profiler.getstats()


def test_a_report_lists_its_promises() -> None:
    report = flexray.check(Net, role="server")
    assert repr(report).startswith(
        f"{__name__}.Net, a model as the server, keeps 14 promises:\n  can be made and used\n"
    )
    assert len(repr(report).splitlines()) == 1 + len(report.promises)


def test_the_error_survives_pickling() -> None:
    error = CheckError("mine.Net", ["a promise: broken\nin two lines"], 3)
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error) == "mine.Net breaks 1 of 4 promises:\n  a promise: broken\\nin two lines"
    assert (again.exit_status, again.failures) == (2, error.failures)
