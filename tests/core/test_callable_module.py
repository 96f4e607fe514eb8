"""A package that is called as its own function of the same name."""

from __future__ import annotations

import inspect
import sys
from types import ModuleType

import pytest

from flexray.core.callable_module import make_callable


@pytest.fixture
def twice(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return a package ``made.twice`` with a function ``twice``."""
    module = ModuleType("made.twice")
    exec("def twice(number: int) -> int:\n    return 2 * number", vars(module))
    monkeypatch.setitem(sys.modules, "made.twice", module)
    make_callable("made.twice")
    return module


def test_a_module_is_called_as_its_function(twice: ModuleType) -> None:
    assert twice(21) == 42
    assert twice.twice(21) == 42


def test_an_editor_sees_the_functions_own_arguments(twice: ModuleType) -> None:
    assert list(inspect.signature(twice).parameters) == ["number"]


def test_it_still_is_a_module(twice: ModuleType) -> None:
    assert inspect.ismodule(twice)
