"""Devices and precisions: what is refused, what is moved, what is rounded. No GPU is needed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from flexray.config.hosts import described_computes
from flexray.config.job import Job
from flexray.core.errors import UserError
from flexray.core.messages import Ended, EvalRecord, RoundRecord
from flexray.engine.hosts.inline import borrowed_torch
from flexray.engine.parties import devices
from flexray.engine.parties.devices import Compute, borrowed_flags, get_flags, reproducible, set_flags
from flexray.run.command import run_command
from helpers.jobs import Compose, Run

ELSEWHERE = "lazy"
"""A device that torch knows, for tensors without content: it tells when an operation mixes two devices."""


class Net(nn.Module):
    """Convolution, batch norm and dropout; keeps the layouts of what it was called with."""

    seen: list[tuple[str, bool]] = []  # noqa: RUF012 - gathered over all instances

    def __init__(self, out_features: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.2), nn.Flatten())
        self.last = nn.Linear(4 * 16, out_features)

    def forward(self, x: Tensor) -> Tensor:
        weight = self.layers[0].weight
        is_last = [t.is_contiguous(memory_format=torch.channels_last) for t in (x, weight)]
        self.seen.append((x.device.type, all(is_last)))
        return self.last(self.layers(x))


def with_compute(job: Job, compute: Compute) -> Job:
    x = job.experiment
    shared = replace(x.shared, server=replace(x.shared.server, compute=compute))
    parties = tuple(replace(party, compute=compute) for party in x.parties)
    return replace(job, experiment=replace(x, shared=shared, parties=parties))


@contextmanager
def contentless(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Tensors without content, which can be read in the CPU's memory only, as zeros."""

    def read(tensor: Tensor) -> np.ndarray:
        assert tensor.device.type == "cpu", "not fetched from its device"
        return np.zeros(tuple(tensor.shape), dtype=str(tensor.dtype).removeprefix("torch."))

    for name, value in {
        "numpy": read, "tolist": lambda t: np.zeros(tuple(t.shape)).tolist(), "__float__": lambda t: 0.0,
        "__bool__": lambda t: True, "item": lambda t: 0.0,
    }.items():  # fmt: skip
        patch.setattr(FakeTensor, name, value, raising=False)
    patch.setattr(nn.Module, "to", move)
    with FakeTensorMode(allow_non_fake_inputs=True):
        yield


def move(module: nn.Module, where: Any, **layout: Any) -> nn.Module:
    """Stand in for Module.to, which cannot swap such tensors twice; ``layout`` is for four dimensions."""
    for part in module.modules():
        for held in (part._parameters, part._buffers):
            for key, value in held.items():
                moved = value.detach().to(where, **(layout if value.ndim == 4 else {}))
                held[key] = nn.Parameter(moved) if held is part._parameters else moved
    return module


@pytest.mark.parametrize("algo", ["flex", "adaptive", "vafl"])
def test_a_whole_run_on_another_device_mixes_none(
    compose_job: Compose, run_inline: Run, write_bundle: Callable[..., Path], algo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_bundle({"a": (3, 6, 6), "b": (3, 6, 6)}, classes=7)
    job = compose_job(
        f"algo={algo}", "dataset=bundle", f"dataset.path={path}", "dtype=float32", "rounds=4", "clip_norm=1",
        "dataset.batch_size=8", "timeout=4", model={"_target_": f"{__name__}.Net"},
    )  # fmt: skip
    monkeypatch.setattr(Net, "seen", [])
    with contentless(monkeypatch):
        records = run_inline(with_compute(job, Compute(ELSEWHERE)))
    assert len([r for r in records if isinstance(r, RoundRecord)]) == 4
    evaluated = [r for r in records if isinstance(r, EvalRecord)]
    assert {"test_loss", "test_top5"} <= set(evaluated[-1].metrics)
    assert isinstance(records[-1], Ended)
    assert sorted(records[-1].states) == ["a", "b", "server"]
    assert set(Net.seen) == {(ELSEWHERE, True)}


def test_on_the_cpu_in_fp32_nothing_is_touched() -> None:
    compute, model, x = Compute(), nn.Conv2d(3, 4, 3), torch.zeros(2, 3, 8, 8)
    assert compute.place(model, pictures=True) is model
    assert compute.put(x) is x
    assert compute.forward(model) is model
    before = get_flags()
    compute.prepare("a")
    assert get_flags() == before


def test_several_tensors_are_moved_and_pictures_are_laid_out_channels_last() -> None:
    pictures, lengths = Compute("meta").put((torch.zeros(2, 3, 8, 8), torch.zeros(2, dtype=torch.int64)))
    assert pictures.is_meta
    assert lengths.is_meta
    assert pictures.is_contiguous(memory_format=torch.channels_last)


def test_bf16_is_close_to_fp32_and_not_the_same(compose_job: Compose, run_inline: Run, bundle: Path) -> None:
    def losses(*overrides: str) -> list[float]:
        job = compose_job(
            "dataset=bundle", f"dataset.path={bundle}", "dtype=float32", "dataset.batch_size=8", "rounds=5", *overrides
        )
        records = run_inline(job)
        for state in records[-1].states.values():
            assert all(array.dtype == np.float32 for array in state.values())
        return [r.train_loss for r in records if isinstance(r, RoundRecord)]

    exact, rounded = losses(), losses("precision=bf16")
    assert rounded == pytest.approx(exact, rel=0.02)
    assert rounded != exact
    assert rounded == losses("precision=bf16", "device=cpu")
    vafl = losses("precision=bf16", "algo=vafl")
    assert vafl == pytest.approx(losses("algo=vafl"), rel=0.02)


def test_bf16_rounds_the_forward_pass_only() -> None:
    layer, x = nn.Linear(3, 2), torch.randn(4, 3)
    out = Compute(precision="bf16").forward(layer)(x)
    assert out.dtype == torch.float32
    assert torch.equal(out, layer.bfloat16()(x.bfloat16()).float())


def test_flags_are_set_both_ways_and_given_back() -> None:
    before = get_flags()
    with borrowed_torch():
        for tf32 in (True, False):
            set_flags(reproducible(tf32))
            assert torch.backends.cuda.matmul.allow_tf32 is tf32
            assert torch.backends.cudnn.allow_tf32 is tf32
            assert torch.are_deterministic_algorithms_enabled()
    assert get_flags() == before
    with pytest.raises(AttributeError), borrowed_flags():
        set_flags(None)  # type: ignore[arg-type]
    assert get_flags() == before


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Torch believes that there is a GPU; nothing is computed on it."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    return monkeypatch


SHARES = ["cluster.gpus_per_party=0.2", "cluster.gpus_server=0.1"]
HALF = "cluster.gpus_per_party=[0.5,0.5,0,0]"


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["cluster=local"], "cpu"),
        (["cluster=local", *SHARES], "cuda"),
        (["cluster=local", *SHARES, "device=cpu"], "cpu"),
        (["cluster=local", *SHARES, "device=cuda"], "cuda"),
        (["cluster=inline"], "cpu"),
        (["cluster=inline", *SHARES], "cuda"),
        (["cluster=inline", "device=cuda"], "cuda"),
        (["cluster=ray", *SHARES], "cuda"),
        (["cluster=packed", "cluster.parties_per_actor=2", "cluster.gpus_server=0.1", HALF], None),
    ],
)
@pytest.mark.usefixtures("gpu")
def test_who_has_a_share_computes_on_the_gpu(compose_job: Compose, overrides: list[str], expected: str | None) -> None:
    found = described_computes(compose_job("dtype=float32", *overrides).experiment)
    names = ("upper_left", "upper_right", "lower_left", "lower_right", "server")
    mixed = dict(zip(names, ("cuda", "cuda", "cpu", "cpu", "cuda"), strict=True))
    assert found == {"device": expected or mixed, "precision": "fp32"}


def test_auto_without_a_gpu_is_the_cpu_and_tf32_is_for_gpus(compose_job: Compose, gpu: pytest.MonkeyPatch) -> None:
    on_gpu = compose_job("dtype=float32", "cluster=local", "cluster.gpus_per_party=0.2", "precision=tf32").experiment
    tf32 = dict.fromkeys(on_gpu.names, "tf32")
    assert described_computes(on_gpu)["precision"] == {**tf32, "server": "fp32"}
    gpu.setattr(torch.cuda, "is_available", lambda: False)
    assert described_computes(compose_job("cluster=local", *SHARES).experiment)["device"] == "cpu"


@pytest.mark.parametrize(
    ("there", "overrides", "expected"),
    [
        (False, ["device=cuda"], "device: cuda is asked for, but torch "),
        (False, ["device=cuda", "cluster=local", *SHARES], "device: cuda is asked for, but torch "),
        (
            True,
            ["device=cuda", "cluster=local"],
            "device: cuda is asked for, but flexray-digits-party-1-upper_left has",
        ),
        (
            True,
            ["device=cuda", "cluster=packed", SHARES[0]],
            "device: cuda is asked for, but flexray-digits-server has",
        ),
        (
            True,
            ["device=cuda", "cluster=ray", HALF],
            "device: cuda is asked for, but flexray-digits-party-3-lower_left",
        ),
        (True, ["device=gpu"], "device: unknown 'gpu'; "),
        (True, ["precision=fp16"], "precision: unknown 'fp16'; did you mean 'bf16'?"),
        (True, ["precision=tf32"], "precision: tf32 is a format of GPUs, and nobody computes on one"),
        (True, ["precision=bf16", "dtype=float64"], "precision: bf16 works on dtype=float32, got dtype=float64"),
        (True, ["cluster.gpus_server=-1"], "cluster.gpus_server: expected a number of at least 0, got -1"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_starts(
    compose_job: Compose, gpu: pytest.MonkeyPatch, there: bool, overrides: list[str], expected: str
) -> None:
    gpu.setattr(torch.cuda, "is_available", lambda: there)
    with pytest.raises(UserError) as caught:
        compose_job("dtype=float32", *overrides)
    assert str(caught.value).startswith(expected)
    assert "\n" not in str(caught.value)


def test_a_process_whose_torch_sees_no_gpu_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UserError, match="device: a has a GPU share, but torch sees no GPU in its process"):
        Compute("cuda").prepare("a")


def test_real_seconds_wait_for_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    from flexray.engine.parties.pace import Clock

    waited: list[Any] = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: waited.append(1))
    Clock().now()
    assert not waited
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    Clock().now()
    assert waited == [1]
    assert devices.synchronize.__module__ == "flexray.engine.parties.devices"


def test_the_command_says_where_it_computed(tmp_path: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    small = ["cluster=inline", "progress=false", "dataset=bundle", f"dataset.path={bundle}", "dataset.batch_size=8"]
    run = [*small, "rounds=1", f"hydra.run.dir={tmp_path}", "precision=bf16"]
    assert run_command([*run, "device=cuda"]) == 2
    assert not (tmp_path / "summary.json").exists()
    assert run_command(run) == 0
    summary = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))
    assert (summary["device"], summary["precision"]) == ("cpu", "bf16")
