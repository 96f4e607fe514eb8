"""The sorts of class that can be checked."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

from torch import nn
from torch.optim import Optimizer

from flexray.algorithms.base import EventAlgorithm, RoundAlgorithm
from flexray.check.algorithms import check_algorithm
from flexray.check.causes import borrowed_generators
from flexray.check.datasets import check_dataset
from flexray.check.elsewhere import Elsewhere
from flexray.check.models import check_model
from flexray.check.optimizers import check_optimizer
from flexray.check.promises import Checks, Report
from flexray.check.traces import check_format
from flexray.config.components import Kind, component
from flexray.core.errors import ConfigError, blame
from flexray.data.base import Dataset
from flexray.models import OFFERS
from flexray.optimizers import LocalOptimizer
from flexray.traces.formats.base import Format

MANY = 5
"""Most classes of a module that a message lists."""


@dataclass(frozen=True)
class Sort:
    """A sort of class, and how it is checked.

    Args:
        name: In words.
        kind: Its base classes.
        check: Checks it.
        words: Names of arguments that are the check's own, unless the constructor has them.
        given: Names of constructor parameters that flexray fills in.
        positional: Number of those that it fills in by position.
    """

    name: str
    kind: Kind
    check: Callable[[Checks, partial[Any], Mapping[str, Any]], None]
    words: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    positional: int = 0


MODEL = Sort("a model", nn.Module, check_model, ("role", "in_shape"), OFFERS)
SORTS = (
    MODEL,
    Sort("a dataset", Dataset, check_dataset),
    Sort("an algorithm", (RoundAlgorithm, EventAlgorithm), check_algorithm, positional=1),
    Sort("a local optimizer", LocalOptimizer, check_optimizer),
    Sort("a trace format", Format, check_format, ("files", "machine_events", "step", "unit")),
)


def run_checks(target: Any, arguments: Mapping[str, Any], elsewhere: Elsewhere[Any]) -> Report:
    """Check a target; see :func:`flexray.check.check`.

    Args:
        target: A class, an object, a function or a module.
        arguments: Those of the constructor, and the check's own.
        elsewhere: Applies a function to an object as another process gets it.
    """
    if isinstance(target, ModuleType):
        target = getattr(target, "FORMAT", target)
    sort = _sort_of(target, arguments)
    kind = target if isinstance(target, type) or inspect.isroutine(target) else type(target)
    subject = f"{kind.__module__}.{kind.__qualname__}"
    words: dict[str, Any] = {}
    own = dict(arguments)
    for name in sort.words:
        if name in own and (name in sort.given or name not in inspect.signature(kind).parameters):
            words[name] = own.pop(name)
    if kind is target:
        factory = component(kind.__name__, {**own, "_target_": kind}, sort.kind, sort.given, sort.positional)
    elif own:
        raise ConfigError(f"{kind.__name__}.{next(iter(own))}: the object is made already; expected a class")
    elif sort.positional:
        factory = partial(copy.deepcopy(target).for_system)
    else:
        factory = partial(copy.deepcopy, target)
    checks = Checks(subject, sort.name, kind, elsewhere)
    with borrowed_generators():
        sort.check(checks, factory, words)
    return checks.report()


def _sort_of(target: Any, arguments: Mapping[str, Any]) -> Sort:
    """Return the sort of a class or an object, or of what a function makes of its arguments."""
    for sort in SORTS:
        if issubclass(target, sort.kind) if isinstance(target, type) else isinstance(target, sort.kind):
            return sort
    if inspect.isroutine(target):
        if set(OFFERS) & set(inspect.signature(target).parameters):  # what flexray fills in for models
            return MODEL
        with blame("check", "construction"):
            return _sort_of(target(**{key: arguments[key] for key in arguments if key not in MODEL.words}), {})
    if isinstance(target, Optimizer) or (isinstance(target, type) and issubclass(target, Optimizer)):
        raise ConfigError(
            "check: a torch.optim class is used by flexray.optimizers.TorchOptimizer; check that with name=..."
        )
    expected = ", ".join(sort.name for sort in SORTS)
    if isinstance(target, ModuleType):
        kinds = [kind for sort in SORTS for kind in (sort.kind if isinstance(sort.kind, tuple) else (sort.kind,))]
        classes = {name: thing for name, thing in vars(target).items() if isinstance(thing, type)}
        own = [n for n, c in classes.items() if issubclass(c, tuple(kinds)) and c.__module__ == target.__name__]
        hint = f"; it has {', '.join(own[:MANY])}" if own else ""
        raise ConfigError(f"check: expected a class, got the module {target.__name__}{hint}")
    raise ConfigError(f"check: expected {expected} or a class of one, got {target!r}")
