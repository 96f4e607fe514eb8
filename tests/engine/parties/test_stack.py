"""Parties that share operations compute what each computes alone, bit for bit; what would not is left alone."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from flexray.core.errors import ConfigError
from flexray.core.messages import Ended, EvalRecord, Record, RoundRecord, Started
from flexray.engine.parties import kernels, layers, splits
from flexray.engine.parties.layers import layers_of
from flexray.engine.parties.networks import LossGradient, Networks, Rows
from flexray.engine.parties.stack import Stack
from flexray.optimizers import LocalSGD
from flexray.run.command import run_command
from flexray.run.resume import SINCE, changed_keys
from flexray.tasks import Task
from helpers.jobs import Compose, Run, save_bundle

WIDE = {"a": (4, 4), "b": (16,), "c": (16,), "d": (16,), "e": (32,)}
WORDS = (
    "model.hidden=[16]",
    "embedding=16",
    "dataset.batch_size=16",
    "rounds=6",
    "eval_every=3",
    "timeout=6",
    "lr=0.1",
)
Both = Callable[..., tuple[list[Record], list[Record]]]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return data of five parties, with classes and with numbers as labels; the last batch of an epoch is short."""
    home = tmp_path_factory.mktemp("wide")
    return {
        "classes": save_bundle(home / "classes", WIDE, train=40, classes=10),
        "numbers": save_bundle(home / "numbers", WIDE, train=40, classes=None),
    }


@pytest.fixture
def both(compose_job: Compose, run_inline: Run, folders: dict[str, Path]) -> Both:
    """Return a function that runs a job with and without stacks and returns the records of both."""

    def run(*words: str, labels: str = "classes", **keys: Any) -> tuple[list[Record], list[Record]]:
        path = f"dataset.path={folders[labels]}"
        jobs = [compose_job("dataset=bundle", path, *WORDS, f"stack={how}", *words, **keys) for how in ("exact", "off")]
        one, other = (run_inline(job) for job in jobs)
        return one, other

    return run


def stacked(records: list[Record]) -> int:
    return next(record.stacked for record in records if isinstance(record, Started))


def assert_equal(one: list[Record], other: list[Record]) -> None:
    assert one[:-1] == other[:-1]
    assert isinstance(one[-1], Ended)
    assert isinstance(other[-1], Ended)
    assert one[-1].digests == other[-1].digests


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("dtype=float32",),
        ("model.activation=tanh", "optimizer=momentum"),
        ("model.activation=gelu", "optimizer=proximal"),
        ("model.hidden=[]", "server=tanh3", "server.dropout=0"),
        ("model.hidden=[16,32]", "optimizer.l2=0.01", "optimizer=variable"),
        ("server=mlp", "optimizer=momentum_proximal", "optimizer.momentum=0.5"),
        ("algo=adaptive", "speeds.utilization={a:0.7,c:0.2,server:0.5}"),
        ("algo=sync_max",),
        ("algo=pbcd", "dataset.replacement=true"),
        ("lr={a:0.3,default:0.1,server:0.05}",),
        ("labels_at=server",),
        ("network.bits=8", "network.clip=1", "network.noise=0.1"),
        ("absence.probability=0.4", "labels_at=server"),
        ("absence.probability=0.4", "dataset.batch_size=20"),
        ("dataset.batch_size=40",),
    ],
    ids=lambda words: " ".join(words) or "defaults",
)
def test_all_bits_are_those_of_parties_alone(both: Both, words: tuple[str, ...]) -> None:
    one, other = both(*words)
    assert_equal(one, other)
    assert stacked(one) == 4
    assert stacked(other) == 0


def normed(in_features: int, out_features: int) -> nn.Module:
    """Return a network with a layer norm."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(in_features, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, out_features)
    )


def test_networks_with_a_layer_norm_are_stacked(both: Both) -> None:
    one, other = both("algo=adaptive", "speeds.utilization={a:0.7,c:0.2,server:0.5}", model={"_target_": normed})
    assert_equal(one, other)
    assert (stacked(one), stacked(other)) == (4, 0)


@pytest.mark.parametrize("loss", ["l1", "mse"])
def test_with_numbers_as_labels(both: Both, loss: str) -> None:
    one, other = both(f"dataset.loss={loss}", "server=mlp", labels="numbers")
    assert_equal(one, other)


@pytest.mark.parametrize(
    ("words", "left"),
    [
        (("clip_norm=1",), 0),
        (("optimizer=adam",), 0),
        (("model.dropout=0.1",), 0),
        (("clock=virtual", "algo=vafl"), 0),
        (("frozen=[b]",), 3),
        (("server=tanh3", "server.dropout=0.1"), 0),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, tuple) else None,
)
def test_what_cannot_be_stacked_runs_alone(both: Both, words: tuple[str, ...], left: int) -> None:
    one, other = both(*words)
    assert_equal(one, other)
    assert stacked(one) == left


@pytest.mark.parametrize(
    ("parties", "left"),
    [
        ({"b": {"optimizer": {"momentum": 0.5}}}, 3),
        ({"c": {"model": {"hidden": [32]}}, "d": {"model": {"hidden": [32]}}}, 4),
    ],
    ids=["one apart", "two pairs"],
)
def test_each_kind_has_a_stack_of_its_own(both: Both, parties: dict[str, Any], left: int) -> None:
    one, other = both(parties=parties)
    assert_equal(one, other)
    assert stacked(one) == left


def test_a_kernel_of_other_bits_is_found_in_the_rehearsal(both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    forward = layers.Affine.forward

    def other(self: layers.Affine, x: Tensor) -> Tensor:
        result = forward(self, x)
        return torch.nextafter(result, result + 1) if len(x) == 2 else result

    monkeypatch.setattr(layers.Affine, "forward", other)
    monkeypatch.setattr(kernels, "_known", functools.cache(dict))  # else what is known of these shapes counts
    one, alone = both()
    assert_equal(one, alone)
    assert stacked(one) == 0


def test_always_stacks_what_the_rehearsal_would_not(
    compose_job: Compose, run_inline: Run, folders: dict[str, Path]
) -> None:
    path = f"dataset.path={folders['classes']}"
    odd = ("model.hidden=[3]", "embedding=2", "dataset.batch_size=5")
    jobs = [compose_job("dataset=bundle", path, *WORDS, *odd, f"stack={how}") for how in ("always", "off")]
    one, other = (run_inline(job) for job in jobs)
    assert stacked(one) == 4
    assert [r.train_loss for r in one if isinstance(r, RoundRecord)] == pytest.approx(
        [r.train_loss for r in other if isinstance(r, RoundRecord)], rel=1e-12
    )


def test_a_mistyped_choice_is_refused(compose_job: Compose) -> None:
    with pytest.raises(ConfigError, match="stack: unknown value 'yes'; expected one of: always, exact, off"):
        compose_job("stack=yes")


def test_records_of_older_versions_can_go_on() -> None:
    assert changed_keys({"lr": 1}, {"lr": 1, **SINCE}, ()) == []
    assert changed_keys({"lr": 1}, {"lr": 1, **SINCE, "stack": "always"}, ()) == ["stack"]


def test_summary_and_log_say_it(folders: dict[str, Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words = (
        "cluster=inline",
        "dataset=bundle",
        f"dataset.path={folders['classes']}",
        f"hydra.run.dir={tmp_path / 'run'}",
    )
    assert run_command([*words, *WORDS]) == 0
    assert "4 of 5 parties are stacked" in "".join(capfd.readouterr())
    cluster = json.loads((tmp_path / "run" / "summary.json").read_text(encoding="utf-8"))["cluster"]
    assert (cluster["stack"], cluster["stacked_parties"]) == ("exact", 4)


# Below a run ----------------------------------------------------------------------------------------------------------

KINDS: dict[str, Callable[[], list[nn.Module]]] = {
    "relu": lambda: [nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16)],
    "tanh": lambda: [nn.Linear(16, 16, bias=False), nn.Tanh()],
    "sigmoid": lambda: [nn.Linear(16, 16), nn.Sigmoid(), nn.Identity()],
    "gelu": lambda: [nn.GELU(), nn.Linear(16, 16)],
    "gelu by tanh": lambda: [nn.Linear(16, 16), nn.GELU(approximate="tanh")],
    "layer norm": lambda: [nn.LayerNorm(16), nn.Linear(16, 32), nn.LayerNorm(32, bias=False), nn.ReLU()],
    "plain layer norm": lambda: [nn.Linear(16, 32), nn.LayerNorm(32, elementwise_affine=False, eps=0.1)],
    "nested": lambda: [nn.Sequential(nn.Linear(16, 16), nn.ReLU(inplace=True)), nn.Linear(16, 32)],
}


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_autograd(kind: str) -> None:
    models = [nn.Sequential(nn.Flatten(), *KINDS[kind]()) for _ in range(3)]
    x = torch.randn(3, 64, 2, 8, requires_grad=True)
    outputs = [model(one) for model, one in zip(models, x, strict=True)]
    above = torch.randn(3, *outputs[0].shape)
    expected = [
        torch.autograd.grad(out, [x, *model.parameters()], grad)
        for model, out, grad in zip(models, outputs, above, strict=True)
    ]
    rows = Rows([list(model.parameters()) for model in models])
    grads_mp = torch.zeros_like(rows.values_mp)
    own = rows.views(grads_mp)
    with torch.no_grad():
        net = Networks(layers_of(models[0]) or [], rows.views(rows.values_mp), own)
        values = net.forward(x.detach())
        inward = net.backward(above, values, inward=True)
    assert torch.equal(values[-1], torch.stack(outputs))
    for k, (into, *of_params) in enumerate(expected):
        assert torch.equal(inward[k], into[k])
        assert all(torch.equal(part[k], one) for part, one in zip(own, of_params, strict=True))


@pytest.mark.parametrize("module", [nn.Conv2d(1, 1, 3), nn.Dropout(), nn.Flatten(0), nn.BatchNorm1d(2), nn.LSTM(1, 1)])
def test_other_layers_are_left_to_autograd(module: nn.Module) -> None:
    assert layers_of(nn.Sequential(nn.Linear(4, 4), module)) is None


def test_a_layer_with_a_hook_or_a_forward_of_its_own_is_left_to_autograd() -> None:
    hooked, own = nn.Linear(2, 2), nn.Linear(2, 2)
    hooked.register_forward_hook(lambda *args: None)
    own.forward = lambda x: x  # type: ignore[method-assign]
    assert (
        layers_of(hooked) is layers_of(own) is layers_of(nn.utils.parametrizations.weight_norm(nn.Linear(2, 2))) is None
    )


@pytest.mark.parametrize(("loss", "classes", "samples"), [
    ("cross_entropy", 10, 256), ("cross_entropy", 10, 64), ("cross_entropy", 3, 7), ("l1", 1, 31), ("mse", 1, 64),
])  # fmt: skip
def test_the_gradient_of_the_loss_is_that_of_autograd(loss: Any, classes: int, samples: int) -> None:
    task = Task(loss, classes)
    labels_b = torch.randint(0, classes, (samples,)) if task.is_classification else torch.randn(samples)
    prediction_mbc = torch.randn(3, samples, classes, requires_grad=True)
    losses = [task.loss_fn(one, labels_b) for one in prediction_mbc]
    expected = torch.autograd.grad(torch.stack(losses).sum(), prediction_mbc)[0]
    gradient = LossGradient(task, labels_b, 3)
    with torch.no_grad():
        found, losses_mb = gradient(prediction_mbc)
        again, _ = gradient(prediction_mbc[:2])
    assert torch.equal(found, expected)
    assert torch.equal(again, expected[:2])
    assert losses_mb.mean(1).abs().tolist() == pytest.approx([float(one.detach()) for one in losses], rel=1e-5)


@pytest.mark.parametrize("same", [True, False], ids=["one rate", "rates of their own"])
@pytest.mark.parametrize("options", [
    {}, {"momentum": 0.9}, {"proximal": 0.3, "l2": 0.1}, {"momentum": 0.5, "proximal": 0.2, "local_rates": [1.0, 0.5]},
], ids=str)  # fmt: skip
def test_a_step_of_rows_is_a_step_of_each(options: dict[str, Any], same: bool) -> None:
    optimizer = LocalSGD(**options)
    rows_mp, grads = torch.randn(4, 48), torch.randn(5, 4, 48)
    rates = [0.3] * 4 if same else [0.3, 0.1, 0.7, 0.2]
    alone = [row.clone() for row in rows_mp]
    step = optimizer.begin_rows(rows_mp, rates)
    steps = [optimizer.begin([row], rate) for row, rate in zip(alone, rates, strict=True)]
    for t, many in enumerate((4, 4, 3, 1, 1)):
        step(grads[t, :many])
        for k in range(many):
            steps[k]([grads[t, k]])
    assert torch.equal(rows_mp, torch.stack(alone))


def test_parameters_become_views_of_their_row() -> None:
    models = [nn.Linear(3, 5) for _ in range(2)]
    before = [model.weight.clone() for model in models]
    rows = Rows([list(model.parameters()) for model in models])
    assert all(torch.equal(model.weight, weight) for model, weight in zip(models, before, strict=True))
    rows.values_mp.zero_()
    assert not any(model.weight.any() or model.bias.any() for model in models)


@pytest.fixture
def together(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Have stacks of any size try to embed splits together; return the number of parties, for each part."""
    counts: list[int] = []
    evaluate = Stack.evaluate

    def noted(stack: Stack, x_mb: Tensor, at_once: int) -> Tensor:
        counts.append(len(x_mb))
        return evaluate(stack, x_mb, at_once)

    monkeypatch.setattr(splits, "MANY", 2)
    monkeypatch.setattr(splits, "AT_ONCE", 2)
    monkeypatch.setattr(Stack, "evaluate", noted)
    return counts


def evaluations(records: list[Record]) -> list[EvalRecord]:
    return [record for record in records if isinstance(record, EvalRecord)]


def assert_evaluations_equal(compose_job: Compose, run_inline: Run, *words: str) -> None:
    """Run digits, which are in memory, with and without stacks."""
    fixed = ("rounds=4", "eval_every=2", "model.hidden=[8]", "dataset.batch_size=300", *words)
    found = [run_inline(compose_job(*fixed, f"stack={how}")) for how in ("exact", "off")]
    stacked, alone = ([record for record in records if isinstance(record, EvalRecord)] for records in found)
    assert stacked == alone


@pytest.mark.parametrize("words", ["network.bits=4", "labels_at=server absence.probability=0.4"])
def test_splits_embedded_together_have_all_bits(
    words: str, compose_job: Compose, run_inline: Run, together: list[int]
) -> None:
    assert_evaluations_equal(compose_job, run_inline, *words.split())
    assert set(together) == {4}


def test_splits_whose_bits_would_differ_are_embedded_one_by_one(
    compose_job: Compose, run_inline: Run, together: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(splits, "remembered", lambda key, find: find())
    noted = Stack.evaluate
    monkeypatch.setattr(Stack, "evaluate", lambda *args: noted(*args) * (1 + 1e-6))
    assert_evaluations_equal(compose_job, run_inline)
    assert set(together) == {4}
