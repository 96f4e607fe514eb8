"""The sample for Kubernetes: its command composes and fits the cluster that it asks for."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from flexray.cluster.cli import check, read_plan
from flexray.engine.hosts.fit import Node

SAMPLE = Path(__file__).parents[2] / "experiments" / "kuberay-job.yaml"


def node(name: str, group: Any) -> Node:
    cpus = {"CPU": float(group["template"]["spec"]["containers"][0]["resources"]["limits"]["cpu"])}
    return Node(name, cpus, cpus, group.get("labels", {}))


def test_the_sample_fits_its_own_cluster() -> None:
    spec: Any = OmegaConf.to_container(OmegaConf.load(SAMPLE))["spec"]
    words = shlex.split(spec["entrypoint"])
    assert words[:3] == ["python", "-m", "flexray.run"]
    plan = read_plan([word for word in words[3:] if not word.startswith("hydra.")])
    cluster = spec["rayClusterSpec"]
    assert cluster["authOptions"]["mode"] == "token"
    nodes = [node("head", cluster["headGroupSpec"])]
    for group in cluster["workerGroupSpecs"]:
        nodes += [node(f"{group['groupName']}-{i}", group) for i in range(group["replicas"])]
    assert check(plan, nodes).startswith("fits: 6 processes on ")
