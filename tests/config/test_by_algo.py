"""Values that an experiment gives by algorithm: the right one is taken, recorded as a number, and may be typed over."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from flexray.config.overrides import chosen_name
from flexray.config.schema import register, settle
from flexray.run.command import run_command
from helpers.jobs import Compose, save_bundle

VIEWS = "+experiment=modelnet10_views"
FEW = ("dataset.scale=none", "dataset.batch_size=12", "model=mlp", "model.hidden=[4]")
OWN, SERVER = 0.001, 0.0003


@pytest.fixture(scope="module")
def views(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a bundle of two views of 8 x 8."""
    return save_bundle(tmp_path_factory.mktemp("views") / "v", {"view_00": (8, 8), "view_01": (8, 8)})


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", (OWN, OWN, SERVER)),
        ("algo=adaptive", (OWN, OWN, SERVER)),
        ("algo=sync_max", (OWN, OWN, SERVER)),
        ("algo=sync_min", (0.003, 0.003, 0.003)),
        ("algo=pbcd", (0.05, 0.05, 0.05)),
        ("algo=vafl", (0.05, 0.05, 0.05)),
        ("algo=pbcd lr=0.2", (0.2, 0.2, 0.2)),
        ("algo=pbcd lr.server=0.2", (0.05, 0.05, 0.2)),
    ],
)
def test_the_views_of_modelnet10_have_rates_for_every_algorithm(
    words: str, expected: tuple[float, ...], views: Path, compose_job: Compose
) -> None:
    job = compose_job(VIEWS, f"dataset.path={views}", *FEW, *words.split())
    assert job.experiment.algorithm.system.lr == expected


def run(folder: Path, views: Path, *words: str) -> dict[str, object]:
    common = ["cluster=inline", "progress=false", f"dataset.path={views}", *FEW]
    assert run_command([VIEWS, *common, "algo=pbcd", "rounds=2", *words, f"hydra.run.dir={folder}"]) == 0
    recorded: dict[str, object] = yaml.safe_load((folder / ".hydra" / "config.yaml").read_text())
    return recorded


def test_the_run_folder_tells_the_number_and_a_run_goes_on_with_it(views: Path, tmp_path: Path) -> None:
    recorded = run(tmp_path / "run", views)
    assert recorded["lr"] == {"default": 0.05, "server": 0.05}
    typed = yaml.safe_load((tmp_path / "run" / ".hydra" / "overrides.yaml").read_text())
    assert "algo=pbcd" in typed
    assert run_command([f"resume={tmp_path / 'run'}", "rounds=3"]) == 0
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["rounds"] == 3
    assert yaml.safe_load((tmp_path / "run" / ".hydra" / "config.yaml").read_text())["lr"] == recorded["lr"]


def test_a_rate_for_one_participant_goes_over_it(views: Path, tmp_path: Path) -> None:
    assert run(tmp_path / "run", views, "lr={view_01:0.5}")["lr"] == {"default": 0.05, "server": 0.05, "view_01": 0.5}


def test_a_class_of_the_users_takes_the_first_value_and_a_mistyped_name_is_told() -> None:
    register()
    node = OmegaConf.create(
        {"algo": {"_target_": "my.Own"}, "a": {"b": "${by_algo:1,{pbcd:2}}", "c": "${a.b}", "d": None}}
    )
    settle(node)
    assert OmegaConf.to_container(node["a"], resolve=False) == {"b": 1, "c": "${a.b}", "d": None}
    wrong = OmegaConf.create({"algo": {"_target_": "my.Own"}, "a": "${by_algo:1,{pbdc:2}}"})
    with pytest.raises(OmegaConfBaseException, match=r"by_algo: unknown algorithm 'pbdc'.*pbcd"):
        settle(wrong)


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("flexray.algorithms.flex.FlexVFL", "flex"),
        ("flexray.algorithms.sync.SyncMaxVFL", "sync_max"),
        ("flexray.algorithms.vafl.VAFL", "vafl"),
        ("my_package.MyOwn", "myown"),
    ],
)
def test_an_algorithm_named_by_its_class_has_the_name_of_its_choice(target: str, name: str) -> None:
    """So that a sweep over own and other algorithms is compared with sweeps of those alone."""
    config = {"algo": {"_target_": target}}
    assert chosen_name(config, {"algo": "flex"}, "algo", [f"algo._target_={target}"]) == name
    assert chosen_name(config, {"algo": "pbcd"}, "algo", []) == "pbcd"
