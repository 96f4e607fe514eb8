"""From ``device`` and ``precision`` of the configuration to where each participant computes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from flexray.core.errors import ConfigError, ResourceError, near_match
from flexray.engine.driver.experiment import Experiment
from flexray.engine.hosts.plan import ClusterPlan
from flexray.engine.parties.devices import AUTO, CPU, CUDA, DEVICES, FP32, PRECISIONS, TF32, Compute


def with_devices(config: Mapping[str, Any], x: Experiment, cluster: ClusterPlan) -> Experiment:
    """Return the experiment with every participant on its device.

    A process that has a GPU share computes on the GPU, unless told otherwise.

    Args:
        config: The composed configuration.
        x: The experiment, all on the CPU.
        cluster: Who lives where, with which shares.

    Raises:
        UserError: ``cuda`` is asked for where there is no GPU or no share of one, or the precision does not fit.
    """
    device, precision = config["device"], config["precision"]
    for key, value, known in (("device", device, DEVICES), ("precision", precision, PRECISIONS)):
        if value not in known:
            raise ConfigError(f"{key}: unknown '{value}'{near_match(str(value), known)}")
    if precision != FP32 and x.shared.dtype != "float32":
        raise ConfigError(f"precision: {precision} works on dtype=float32, got dtype={x.shared.dtype}")
    kinds = _by_participant(device, cluster, len(x.parties))
    if precision == TF32 and CUDA not in kinds:
        raise ConfigError("precision: tf32 is a format of GPUs, and nobody computes on one; expected fp32 or bf16")
    computes = [Compute(kind, FP32 if kind == CPU and precision == TF32 else precision) for kind in kinds]
    parties = tuple(replace(p, compute=c) for p, c in zip(x.parties, computes, strict=False))
    return replace(x, parties=parties, shared=replace(x.shared, server=replace(x.shared.server, compute=computes[-1])))


def _by_participant(device: str, cluster: ClusterPlan, count: int) -> list[str]:
    """Return ``cpu`` or ``cuda`` for each of ``count`` parties, and the server last."""
    if device == CPU:
        return [CPU] * (count + 1)
    inline = not cluster.hosts
    shares = [cluster.gpus] if inline else [host.gpus for host in cluster.hosts]
    if device == AUTO:
        there = any(shares) and (cluster.kind == "ray" or torch.cuda.is_available())
        kinds = [CUDA if share and there else CPU for share in shares]
    else:
        _require_cuda(cluster, inline)
        kinds = [CUDA] * len(shares)
    if inline:
        return kinds * (count + 1)
    by_party = {k: kind for group, kind in zip(cluster.placement.groups, kinds, strict=False) for k in group}
    return [*(by_party[k] for k in range(count)), kinds[-1]]


def _require_cuda(cluster: ClusterPlan, inline: bool) -> None:
    """Refuse ``device=cuda`` without a GPU, or without a share of it for each process."""
    if cluster.kind != "ray" and not torch.cuda.is_available():
        raise ResourceError(f"device: cuda is asked for, but torch {torch.__version__} sees no GPU here; expected cpu")
    lacking = [] if inline else [host for host in cluster.hosts if not host.gpus]
    if lacking:
        key = "cluster.gpus_server" if lacking[0] is cluster.hosts[-1] else "cluster.gpus_per_party"
        raise ResourceError(
            f"device: cuda is asked for, but {lacking[0].name} has no share of a GPU; expected {key} above 0, such as"
            f" 0.05, or device=auto"
        )


def described(x: Experiment) -> dict[str, Any]:
    """Return ``device`` and ``precision`` of a run, by participant where they differ."""
    computes = {spec.name: spec.compute for spec in (*x.parties, x.shared.server)}
    result: dict[str, Any] = {}
    for key in ("device", "precision"):
        values = {name: getattr(compute, key) for name, compute in computes.items()}
        result[key] = next(iter(values.values())) if len(set(values.values())) == 1 else values
    return result
