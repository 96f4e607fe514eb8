"""Live figures of a run at a node's Prometheus endpoint."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.ray


WATCHED = """
import re, sys, urllib.request
import ray
from flexray.core.messages import Ended
from flexray.run.watch import tracking
from flexray.run.command import run_command

class Watched(tracking.ClusterMetrics):
    def on(self, record):
        super().on(record)
        if isinstance(record, Ended):  # its cluster is still there
            url = f"http://127.0.0.1:{ray.nodes()[0]['MetricsExportPort']}/metrics"
            for _ in range(4000):
                page = urllib.request.urlopen(url, timeout=60).read().decode()
                if re.search(r"^ray_flexray_rounds\\{.*\\} 3", page, flags=re.MULTILINE):
                    break
            print(page)

tracking.ClusterMetrics = Watched
sys.exit(run_command(sys.argv[1:]))
"""
"""A run that prints what stands at the endpoint when it has ended, in a process without another test's cluster."""


def test_rounds_tau_waiting_and_bytes_are_at_the_prometheus_endpoint(tmp_path: Path) -> None:
    command = [
        sys.executable, "-c", WATCHED, "cluster=packed", "cluster.parties_per_actor=4", "rounds=3", "progress=false",
        "eval_train=false", f"hydra.run.dir={tmp_path}",
    ]  # fmt: skip
    ray_variables = {"RAY_enable_metrics_collection": "1", "RAY_metrics_report_interval_ms": "200"}
    done = subprocess.run(
        command, env={**os.environ, **ray_variables}, capture_output=True, text=True, timeout=170, check=False
    )
    assert done.returncode == 0, done.stderr
    page = done.stdout
    values = {}
    for name, tags, value in re.findall(r"^ray_flexray_(\w+)\{(.*)\} (\S+)$", page, flags=re.MULTILINE):
        own = dict(re.findall(r'(run|party|direction)="([^"]*)"', tags))
        values[name, own.get("party", ""), own.get("direction", "")] = float(value)
        assert own["run"] == "flex-digits-0"
    assert values["rounds", "", ""] == 3
    assert [values["tau", p, ""] for p in ("upper_left", "upper_right", "server")] == [5, 10, 20]
    assert values["waiting_share", "upper_left", ""] == 0
    assert values["sent_bytes_total", "upper_left", "up"] > 0
    assert values["sent_bytes_total", "lower_right", "down"] > values["sent_bytes_total", "lower_right", "up"]
