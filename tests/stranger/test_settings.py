"""What a run folder says its configuration was: keys, numbers, words; nothing that runs, sends or writes elsewhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flexray.config.trust import check_config, check_overrides
from flexray.core.errors import ConfigError
from flexray.run.hints import how_to_go_on
from helpers.strangers import Stranger

KEY = "stands in the run folder and is no key of a run"
CLASS = "the class is none of flexray.models"
OPTIMIZER = "the class is none of torch.optim"
READ = "an interpolation could read anything"
ADDRESS = "an address could lead anywhere"
CHOICE = "it is no choice of flexray's for"
CLUSTER = "joining a cluster lets it run code here"
WRITES = "files are written there"
EXPERIMENT = "../../../../../../../proc/self/cwd/run/evil"

OVERRIDES = {
    # classes
    "+parties.upper_left.optimizer.name=evil.Adam": OPTIMIZER,
    "+parties.upper_left.optimizer.name=run.evil.X": OPTIMIZER,
    "optimizer.name=evil.Adam": OPTIMIZER,
    "optimizer.name=torch.optim.adam.torch.hub.load": OPTIMIZER,
    "optimizer.name=torch.optim.lr_scheduler.StepLR": OPTIMIZER,
    "+parties.1.optimizer={_target_:flexray.optimizers.TorchOptimizer,name:evil.Adam}": OPTIMIZER,
    "+parties.upper_left.model._target_=evil.Net": CLASS,
    "+parties.upper_left.model={_target_:evil.Net}": CLASS,
    "++parties={upper_left:{model:{_target_:evil.Net}}}": CLASS,
    "+model.extra=[{_target_:evil.Net}]": CLASS,
    "+model.extra=[[{a:{_target_:evil.Net}}]]": CLASS,
    "+dataset.standin={_target_:evil.Net}": CLASS,
    "model._target_=subprocess.getoutput": CLASS,
    "model._target_=flexray.data.base.os.system": CLASS,
    "model._target_=flexray.data.evil.Net": CLASS,
    "model._target_=flexray.models..mlp.MLP": CLASS,
    "model._target_=flexray.models.mlp.nn.Linear": CLASS,
    "model._target_=torch.nn.modules.module.torch.load": CLASS,
    "model._target_=torch.nn.functional.linear": CLASS,
    "model._target_=torch.load": CLASS,
    "algo._target_=flexray.data.bundle.Path": CLASS,
    "server._target_=5": "it is no name of a class",
    "+model._recursive_=true": "it is no key of a class",
    "+model._args_=[1]": "it is no key of a class",
    # what Hydra does
    "hydra.job_logging.handlers.file.filename=PWNED": KEY,
    "hydra/job_logging=default": KEY,
    "hydra/launcher=joblib": KEY,
    "hydra.job.env_set.PYTHONSTARTUP=evil.py": KEY,
    "+hydra.callbacks.x._target_=evil.X": KEY,
    "++hydra.sweep.dir=elsewhere": KEY,
    "hydra.searchpath=[file:///tmp]": KEY,
    "hydra={job:{name:x}}": KEY,
    "algo@hydra=flex": KEY,
    "algo@hydra.job:=flex": KEY,
    "+experiment@hydra=mosi": KEY,
    "--config-dir=run": KEY,
    "-cd=run": KEY,
    "+hydra/callbacks@hydra.callbacks=x": KEY,
    # choices
    f"+experiment={EXPERIMENT}": CHOICE,
    f"+experiment=[mosi,{EXPERIMENT}]": CHOICE,
    "+experiment=[[mosi]]": CHOICE,
    "algo=../hydra/job_logging/flexray": CHOICE,
    "algo=/algo/flex": CHOICE,
    "algo={_target_:evil.X}": CHOICE,
    "dataset='run/evil'": CHOICE,
    # addresses and interpolations
    "checkpoint.dir=ftp://127.0.0.1:9/${oc.env:FLEXRAY_TEST_SECRET}": READ,
    "checkpoint.dir=ftp://127.0.0.1:9/x": ADDRESS,
    "checkpoint={dir:'ftp://127.0.0.1:9/x'}": ADDRESS,
    "checkpoint.dir=elsewhere": WRITES,
    "checkpoint.dir=../elsewhere": WRITES,
    "dataset.path=http://127.0.0.1:9/x": ADDRESS,
    "+dataset.files={a:'s3://b/x'}": ADDRESS,
    "+dataset.cache=elsewhere": WRITES,
    "logger.uri=http://127.0.0.1:9": ADDRESS,
    "logger.uri=elsewhere.db": "it says where a log is sent or written",
    "logger.project=${oc.env:FLEXRAY_TEST_SECRET}": READ,
    "lr=${oc.decode:${oc.env:FLEXRAY_TEST_SECRET}}": READ,
    "seed=${seed}": READ,
    "+model.extra=['${oc.env:FLEXRAY_TEST_SECRET}']": READ,
    "cluster=ray": CLUSTER,
    "cluster.kind=ray": CLUSTER,
    "cluster.address=127.0.0.1:9": CLUSTER,
    "cluster.address=ray://127.0.0.1:9": ADDRESS,
    # what no run is recorded with
    "seed=1,2": "it is no single plain value",
    "lr=range(1,3)": "it is no single plain value",
    f"lr={'[' * 500}{']' * 500}": "deeper than 60 brackets",
    f"speeds.machines=[{'a,' * 6_000}a]": "longer than 10000 characters",
    f"speeds.machines=[{'a,' * 60_000}a]": "the overrides are longer than 40000 characters",
    "lr={": "it cannot be read",
    "nosuch=1": KEY,
    "": "expected a list of overrides",
    "=5": KEY,
}  # fmt: skip


@pytest.mark.parametrize("line", OVERRIDES)
def test_what_no_run_folder_may_set_is_refused_before_anything_happens(line: str, stranger: Stranger) -> None:
    stranger.add(line)
    stranger.assert_refused(stranger.resume, OVERRIDES[line])


def test_an_experiment_outside_of_conf_is_not_read(stranger: Stranger) -> None:
    (stranger.folder / "evil.yaml").write_text(
        "# @package _global_\nhydra:\n  callbacks:\n    x:\n      _target_: evil.X\n", encoding="utf-8"
    )
    stranger.add(f"+experiment={EXPERIMENT}")
    stranger.assert_refused(stranger.resume, "type it again if you mean it, or trust=true")


NODES: dict[str, tuple[Any, str]] = {
    "model": ({"_target_": "evil.Net"}, CLASS),
    "parties": ({"upper_left": {"optimizer": {"name": "evil.Adam"}}}, OPTIMIZER),
    "server": ({"_target_": "torch.nn.Linear", "bias": [{"_target_": "os.system"}]}, CLASS),
    "dataset": ({"_target_": "flexray.data.digits.Digits", "path": "${oc.env:FLEXRAY_TEST_SECRET}"}, READ),
    "lr": ("${oc.decode:${oc.env:FLEXRAY_TEST_SECRET}}", READ),
    "speeds": ({"kind": "trace", "path": "http://127.0.0.1:9/x"}, ADDRESS),
    "hydra": ({"job": {"name": "x"}}, KEY),
    "nosuch": (1, KEY),
}


@pytest.mark.parametrize("key", NODES)
def test_predict_refuses_the_same(key: str, stranger: Stranger) -> None:
    path = stranger.folder / "configuration.json"
    node, words = NODES[key]
    path.write_text(json.dumps({**json.loads(path.read_text()), key: node}), encoding="utf-8")
    stranger.assert_refused(stranger.predict, words)


def test_predict_reads_no_configuration_that_is_to_be_resolved(stranger: Stranger) -> None:
    config = stranger.folder / ".hydra" / "config.yaml"
    config.write_text("model: {_target_: evil.Net}\nlr: ${oc.env:FLEXRAY_TEST_SECRET}\n", encoding="utf-8")
    assert stranger.predict() == 0
    assert not (stranger.here / "PWNED").exists()


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("parties", ["../../evil", "b", "c", "d"], "expected the run's parties ../../evil, b, c"),
        ("parties", "x", "expected the run's parties 'x'"),
        ("num_outputs", "ten", "num_outputs: expected a whole number"),
        ("classes", [["a"]], "classes: expected a list of names"),
        ("classes", 5, "classes: expected a list of names"),
    ],
)
def test_a_summary_that_makes_no_sense_is_refused(key: str, value: Any, words: str, stranger: Stranger) -> None:
    path = stranger.folder / "summary.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}), encoding="utf-8")
    stranger.assert_refused(stranger.predict, words)


def test_the_hint_of_an_interrupted_run_says_what_has_to_be_typed_again(tmp_path: Path) -> None:
    (tmp_path / ".hydra").mkdir()
    lines = ["rounds=3", "cluster=ray", "cluster.address=head:6379", "checkpoint.dir=s3://b", "model._target_=mine.Net"]
    (tmp_path / ".hydra" / "overrides.yaml").write_text(json.dumps(lines), encoding="utf-8")
    again = "cluster=ray cluster.address=head:6379 checkpoint.dir=s3://b trust=true"
    assert how_to_go_on(tmp_path) == f"python -m flexray.run resume={tmp_path} {again}"


HONEST = (
    "algo=vafl", "+experiment=mosi", "+experiment=[mosi,five_seeds]", "lr={default:0.1,server:1e-3}",
    "~optimizer.momentum",
    "cluster=packed", "cluster.kind=inline", "cluster.address=auto", "cluster.labels={zone:'in(a,b)'}",
    "frozen=[server]",
    "optimizer.name=torch.optim.Adam", "optimizer.name=SGD", "model._target_=torch.nn.Linear", "dataset.cache=null",
    "model._target_=flexray.models.MLP", "model._target_=flexray.models.resnet.ResNet", "dataset.path=/data/x y.csv",
    "algo._target_=flexray.algorithms.flex.FlexVFL", "dataset._target_=flexray.data.table.Table", "logger=tensorboard",
    "optimizer._target_=flexray.optimizers.LocalSGD", "dataset.bert=org/name", "speeds.machines=[a,b]", "lr=null",
    "dataset.parties={left:['a b',c],right:[d]}", "parties.1.resources.robot=1", "checkpoint.dir=null",
)  # fmt: skip


@pytest.mark.parametrize("line", HONEST)
def test_what_a_run_of_ones_own_records_may_be_set(line: str) -> None:
    check_overrides([line])


def test_a_folder_where_the_run_has_written_before_may_be_set() -> None:
    check_overrides(["checkpoint.dir=/data/runs"], own_dir="/data/runs")
    with pytest.raises(ConfigError, match=WRITES):
        check_overrides(["checkpoint.dir=/data/others"], own_dir="/data/runs")


def test_trust_allows_all_but_what_hydra_does() -> None:
    check_overrides(["model._target_=mine.Net", "cluster=ray", "lr=${oc.env:RATE}"], trusted=True)
    with pytest.raises(ConfigError, match=KEY):
        check_overrides(["hydra/launcher=joblib"], trusted=True)


def test_a_configuration_deeper_than_any_is_refused() -> None:
    node: Any = 1
    for _ in range(200):
        node = {"a": node}
    with pytest.raises(ConfigError, match="deeper than 60"):
        check_config({"dataset": node})


def test_a_value_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="neither number, word, list nor mapping"):
        check_config({"dataset": {"path": tmp_path}})
