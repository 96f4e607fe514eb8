"""Classes, functions and instances in place of import paths."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from torch import nn

import flexray
from flexray.algorithms.base import Moment, Plan, RoundAlgorithm
from flexray.core.errors import ConfigError, UserError
from flexray.data.digits import Digits
from flexray.models import Linear
from flexray.optimizers import LocalSGD

SHORT: dict[str, Any] = {"cluster": "inline", "progress": False, "rounds": 2}


class Wide(nn.Sequential):
    """A model of the user's."""

    def __init__(
        self, in_features: int, out_features: int, width: int = 5, activation: type[nn.Module] = nn.SiLU
    ) -> None:
        super().__init__(nn.Linear(in_features, width), activation(), nn.Linear(width, out_features))


class HalfTime(RoundAlgorithm):
    """Everybody stops after half the timeout."""

    def plan(self, now: Moment) -> Plan:
        tau = [max(1, t // 2) for t in self.iterations_by_timeout(now)]
        return self.make_plan(now, tau, computing_units=self.system.timeout_units / 2)


def made_here() -> Callable[..., nn.Module]:
    """Return a function that no other process can import."""

    def wide(in_features: int, out_features: int, width: int = 5) -> nn.Module:
        return Wide(in_features, out_features, width)

    return wide


def digests(**keys: Any) -> Any:
    return flexray.simulate(**{**SHORT, **keys}).summary["model_digest"]


EQUAL: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a class and its import path": ({"model": Wide}, {"model": {"_target_": f"{__name__}.Wide"}}),
    "arguments": ({"model": {"_target_": Wide, "width": 3}}, {"model": {"_target_": f"{__name__}.Wide", "width": 3}}),
    "a function": ({"model": made_here()}, {"model": Wide}),
    "a partial function": ({"model": functools.partial(Wide, width=3)}, {"model": {"_target_": Wide, "width": 3}}),
    "one party": (
        {"parties": {"lower_left": {"model": made_here()}, 2: {"model": "cnn"}}},
        {"parties": {"lower_left": {"model": Wide}, "upper_right": {"model": "cnn"}}},
    ),
    "the server": ({"server": Linear}, {"server": "linear"}),
    "an instance": ({"optimizer": LocalSGD(momentum=0.9)}, {"optimizer": "momentum"}),
    "an optimizer's class": ({"optimizer": LocalSGD}, {"optimizer": "sgd"}),
    "a dataset": (
        {"dataset": {"_target_": Digits(test_fraction=0.3, val_fraction=0.1), "batch_size": 64}},
        {"dataset": {"test_fraction": 0.3}},
    ),
    "a class among arguments": ({"model": {"_target_": Wide, "activation": nn.SiLU}}, {"model": Wide}),
}  # fmt: skip


@pytest.mark.parametrize(("given", "same"), EQUAL.values(), ids=EQUAL)
def test_an_object_gives_the_numbers_of_its_import_path(given: dict[str, Any], same: dict[str, Any]) -> None:
    assert digests(**given) == digests(**same)


def test_an_algorithm_has_its_own_name_and_plan() -> None:
    run = flexray.simulate(**SHORT, algo=HalfTime)
    assert run.summary["algo"] == "halftime"
    assert [*run.participants["local_iterations"][:5]] == [2, 5, 7, 10, 10]


def test_the_run_folder_has_the_import_path_or_the_name(tmp_path: Path) -> None:
    run = flexray.simulate(**SHORT, model=Wide, server=made_here(), folder=tmp_path)
    assert yaml.safe_load((run.folder / ".hydra" / "overrides.yaml").read_text())[-2:] == [
        f"++model._target_='{__name__}.Wide'", f"++server._target_='python:{__name__}.made_here.<locals>.wide'",
    ]  # fmt: skip


def test_who_has_the_run_resumes_and_predicts_and_others_give_the_object_again(tmp_path: Path) -> None:
    keys = {**SHORT, "model": made_here(), "checkpoint": {"every": 1}}
    run = flexray.simulate(**keys, folder=tmp_path / "run")
    table = run.predict()
    assert len(table) == 359
    again = flexray.read(tmp_path / "run", model=made_here())
    assert again.predict().equals(table)
    assert again.resume(rounds=3).summary["model_digest"] == digests(**{**keys, "rounds": 3})
    other = flexray.read(tmp_path / "run", trust=True)
    line = r"model: is the Python object .*made_here.<locals>.wide, which the run folder cannot hold; give it again: fl"
    for act in (other.predict, lambda: other.models, lambda: other.resume(rounds=4)):
        with pytest.raises(ConfigError, match=line):
            act()
    with pytest.raises(ConfigError, match=line):
        flexray.read(tmp_path / "run").predict()


def test_an_object_given_again_replaces_what_a_strangers_folder_names(tmp_path: Path) -> None:
    flexray.simulate(**SHORT, model=Wide, folder=tmp_path / "run")
    for name in (".hydra/config.yaml", ".hydra/overrides.yaml", "configuration.json"):
        path = tmp_path / "run" / name
        path.write_text(path.read_text().replace(f"{__name__}.Wide", "evil.Wide"))
    run = flexray.read(tmp_path / "run", model=Wide)
    assert len(run.predict()) == 359
    assert "evil" not in sys.modules


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "another kind": ({"model": int}, "model._target_: expected a subclass of torch.nn.modules.module.Module, got"),
    "a module itself": (
        {"model": nn.Linear(2, 3)},
        "model: expected a class or a function that makes one, got an inst",
    ),
    "an unknown argument": (
        {"model": {"_target_": Wide, "widht": 3}},
        "model.widht: unknown key of Wide; did you mean",
    ),
    "keys of an instance": (
        {"optimizer": {"_target_": LocalSGD(), "momentum": 0.9}},
        "optimizer.momentum: expected no keys beside an instance of 'flexray.optimizers.LocalSGD'",
    ),
    "an algorithm's instance": ({"algo": object()}, "algo._target_: expected a class, 'builtins.object' is a"),
    "where no class fits": ({"lr": Wide}, "lr: expected a number, a text, a list or a mapping, got a type"),
    "an unknown party": ({"parties": {"nobody": {"model": Wide}}}, "parties: unknown participant 'nobody'"),
}


@pytest.mark.parametrize(("keys", "line"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_one_line(keys: dict[str, Any], line: str) -> None:
    with pytest.raises(UserError) as caught:
        flexray.simulate(**SHORT, **keys)
    assert line in str(caught.value)


SCRIPT = """
import flexray
from torch import nn

class Mine(nn.Linear):
    pass

run = flexray.simulate(model=Mine, rounds=2, cluster="CLUSTER", progress=False, folder="run")
print(run.status, run.predict().shape, flexray.read("run", model=Mine, trust=True).models["upper_left"])
"""


def test_a_script_uses_its_own_class(tmp_path: Path) -> None:
    script = [sys.executable, "-c", SCRIPT.replace("CLUSTER", "inline")]
    done = subprocess.run(script, cwd=tmp_path, check=True, capture_output=True, text=True)
    assert done.stdout == "completed (359, 13) Mine(in_features=16, out_features=32, bias=True)\n"
    assert "python:__main__.Mine" in (tmp_path / "run" / ".hydra" / "overrides.yaml").read_text()
