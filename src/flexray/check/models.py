"""What flexray relies on in a model, as a party's encoder and as the server's head."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from flexray.check.causes import Cause, Watch, changed, remembered
from flexray.check.promises import ELSEWHERE, BrokenError, Checks, same
from flexray.check.roles import Role, roles_of
from flexray.check.trial import LR, SAVED_AFTER, Numbers, Trial, UnsetIsNan, first_difference, numbers
from flexray.core.messages import Ended, Snapshot
from flexray.engine.hosts.inline import borrowed_torch
from flexray.engine.parties.state import digest
from flexray.engine.parties.trainer import trainable

DRAWS = "draws nothing in evaluation"
BEGINS = "has the same first parameters for the same seed"
USES = "can be made and used"
DOUBLE = "computes in float64, too"
REGISTERS = "registers all layers, parameters and tensors"
FINITE = "trains, with finite losses"
SETS = "sets every parameter and buffer to a finite number"
TRAINS = "trains with the same numbers for the same seed"
UNSEEN = Cause(
    "with nothing seen that may be why",
    "compute from arguments, samples and torch's own random functions alone",
)


def check_model(checks: Checks, factory: partial[Any], words: Mapping[str, Any]) -> None:
    """Check a model in the places that it can take; see :func:`flexray.check.roles.roles_of` for the words."""
    roles = roles_of(factory, words)
    checks.kind += f" {' and '.join(role.words for role in roles)}"
    for role in roles:
        checks.place = role.words if len(roles) > 1 else ""
        with borrowed_torch():
            torch.set_num_threads(1)
            _check_role(checks, role)


def _check_role(checks: Checks, role: Role) -> None:
    mend = f"the samples had the shape {list(role.sample_shape)}; in_shape=[...] gives them another"
    with checks.promise(USES, "" if role.suits else mend):
        role.construct(role.trial)
    if checks.broke(USES):
        return
    first = _starts(checks, role)
    if checks.broke(SETS):
        return
    _registers(checks, first)
    if not checks.broke(REGISTERS):
        with checks.promise(DOUBLE, "make constants with self.register_buffer, or in the input's dtype"):
            role.construct(replace(role.trial, dtype="float64"))
    _evaluates(checks, role, role.build())
    for check in (_takes_one, _keeps_its_mode, _has_gradients):
        check(checks, role, first)
    _repeats(checks, role, first)


def _starts(checks: Checks, role: Role) -> nn.Module:
    """Return a model that was checked as it is before its first use."""
    with Watch(checks.target, 1, sees=False), UnsetIsNan():
        first = role.build()
    with checks.promise(SETS):
        for name, value in first.state_dict().items():
            if not torch.isfinite(value).all():
                raise BrokenError(f"'{name}' is not", "torch.empty leaves what was in memory; expected torch.nn.init")
    if checks.broke(SETS):
        return first
    with checks.promise(BEGINS):
        with Watch(checks.target, 2) as watch:
            second = role.build()
        same(digest(second), digest(first), "a second model differs", UNSEEN, lambda: watch.causes)
    return first


def _registers(checks: Checks, model: nn.Module) -> None:
    with checks.promise(REGISTERS):
        known = {id(part) for part in (*model.modules(), *model.parameters(), *model.buffers())}
        for path, part in _attributes(model):
            if id(part) in known:
                continue
            kind = "nn.ModuleList or nn.ModuleDict" if isinstance(part, nn.Module) else "nn.ParameterList"
            if isinstance(part, Tensor) and not part.requires_grad:
                kind = "self.register_buffer, so that it moves with the model and is saved"
            raise BrokenError(f"'{path}' is a {type(part).__name__} that torch does not see", f"expected {kind}")


def _attributes(model: nn.Module) -> Iterator[tuple[str, Any]]:
    """Yield layers and tensors in plain attributes, also in containers, of all modules that torch sees."""
    own = set(nn.Module().__dict__)
    for path, module in model.named_modules():
        for name, value in vars(module).items():
            if name not in own:
                yield from _within(f"{path}.{name}".lstrip("."), value)


def _within(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, nn.Module | Tensor):
        yield path, value
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from _within(f"{path}[{key!r}]", part)
    elif isinstance(value, list | tuple | set):
        for place, part in enumerate(value):
            yield from _within(f"{path}[{place}]", part)


def _evaluates(checks: Checks, role: Role, model: nn.Module) -> None:
    """In evaluation nothing is drawn, and samples come in batches of any size."""
    model.eval()
    with checks.promise(DRAWS), torch.no_grad():
        found = []
        for state in (1, 2):
            torch.manual_seed(state)
            found.append(model(*role.inputs()))
        if not torch.equal(*found):
            mend = "switch dropout and noise off in evaluation: nn.Dropout, or if self.training"
            raise BrokenError("two passes differ", mend)
    if checks.broke(DRAWS, DOUBLE, REGISTERS):
        return
    with checks.promise("evaluates each sample by itself"), torch.no_grad():
        model, x = model.double(), role.inputs(torch.float64)
        halves = [model(*(part[rows].clone() for part in x)) for rows in (slice(0, 2), slice(2, 4))]
        if not torch.allclose(torch.cat(halves), model(*x), rtol=1e-6, atol=1e-8):
            mend = "compute nothing over the samples of a batch, except in train mode"
            raise BrokenError("in smaller batches samples have other results", mend)


def _takes_one(checks: Checks, role: Role, model: nn.Module) -> None:
    with checks.promise("takes a batch of one sample", "name the dimension in squeeze() and the like"):
        expected = (1, *model.eval()(*role.inputs(size=2)).shape[1:])
        normalizes = any(isinstance(part, nn.modules.batchnorm._BatchNorm) for part in model.modules())
        for mode in (False,) if normalizes else (False, True):
            found = tuple(model.train(mode)(*role.inputs(size=1)).shape)
            if found != expected:
                raise ValueError(f"it returned shape {found}, expected {expected}")


def _keeps_its_mode(checks: Checks, role: Role, model: nn.Module) -> None:
    with checks.promise("leaves train and eval mode as they are"):
        for mode in (True, False):
            model.train(mode)(*role.inputs())
            if any(part.training is not mode for part in model.modules()):
                seen = f"a pass in {'train' if mode else 'eval'} mode changes it"
                raise BrokenError(seen, "expected no train() or eval() within forward")


def _has_gradients(checks: Checks, role: Role, model: nn.Module) -> None:
    if not trainable(model):
        checks.notes.append("gradients: none of its parameters wants one")
        return
    with checks.promise("passes a gradient to every parameter that wants one"):
        loss = model.train()(*role.inputs()).square().sum()
        if not loss.requires_grad:
            raise BrokenError("none gets one", "expected a forward without detach(), no_grad() and NumPy")
        grads = torch.autograd.grad(loss, trainable(model), allow_unused=True)
        named = [name for name, param in model.named_parameters() if param.requires_grad]
        without = [name for name, grad in zip(named, grads, strict=True) if grad is None]
        if without:
            others = f", nor do {len(without) - 1} more" if without[1:] else ""
            mend = "use it in forward, leave it out, or freeze it with requires_grad_(False)"
            raise BrokenError(f"'{without[0]}' gets none{others}", mend)


def _repeats(checks: Checks, role: Role, first: nn.Module) -> None:
    """Run rounds twice, in another process, and once more from a snapshot."""
    target, trial = checks.target, role.trial
    if checks.broke(BEGINS):
        return
    with checks.promise(FINITE), Watch(target, 1, sees=False):
        records = trial.run()
        diverged = next(record.divergence for record in records if isinstance(record, Ended))
        if diverged is not None:
            seen = f"by round {diverged.round} the loss is infinite, NaN or a million times the first"
            raise BrokenError(seen, f"expected outputs near 1 for samples near 1, at a rate of {LR}")
    if checks.broke(FINITE):
        return
    expected = numbers(records)
    with checks.promise(TRAINS):
        with Watch(target, 2) as watch:
            saved = trial.run(saves=True)
        found = numbers(saved)
        same(found, expected, f"{first_difference(found, expected)} differ", UNSEEN, lambda: watch.causes)
    if checks.broke(TRAINS):
        return
    mend = "pickle has to take its arguments; copy arrays to edit them"
    with checks.promise("trains with the same numbers in processes of their own", mend):
        found = checks.elsewhere(_numbers, trial)
        same(found, expected, f"{first_difference(found, expected)} differ", ELSEWHERE)
    with checks.promise("goes on from a checkpoint with the same numbers"):
        with Watch(target, 3, sees=False):
            found = numbers(trial.run(since=next(r for r in saved if isinstance(r, Snapshot))), SAVED_AFTER)
        expected = {name: text for name, text in expected.items() if name in found}
        what = f"{first_difference(found, expected)} differ"
        same(found, expected, what, UNSEEN, lambda: _forgotten(role, first))


def _numbers(trial: Trial) -> Numbers:
    return numbers(trial.run(apart=True))


def _forgotten(role: Role, model: nn.Module) -> list[Cause]:
    """Return attributes that change while the model is used, though no checkpoint holds them."""
    before = remembered(model)
    for _ in range(2):
        model(*role.inputs())
    mend = "hold it in a tensor, with self.register_buffer, or compute it from the input"
    return [Cause(f"'{name}' changes and is not saved", mend) for name in changed(before, remembered(model))]
