"""Live figures of a run at a node's Prometheus endpoint."""

from __future__ import annotations

import os
import re
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from flexray.messages import Ended
from flexray.run import run_command

pytestmark = pytest.mark.ray


def test_rounds_tau_waiting_and_bytes_are_at_the_prometheus_endpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    from flexray.observers import cluster_metrics

    page = ""

    class Watched(cluster_metrics.ClusterMetrics):
        """Reads the endpoint when the run has ended, while its cluster is still there."""

        def on(self, record: Any) -> None:
            nonlocal page
            super().on(record)
            if isinstance(record, Ended):
                url = f"http://127.0.0.1:{ray.nodes()[0]['MetricsExportPort']}/metrics"
                for _ in range(4000):
                    with urllib.request.urlopen(url, timeout=60) as answer:
                        page = answer.read().decode()
                    if "ray_flexray_sent_bytes" in page:
                        break

    monkeypatch.setattr(cluster_metrics, "ClusterMetrics", Watched)
    monkeypatch.setitem(os.environ, "RAY_metrics_report_interval_ms", "200")
    status = run_command([
        "cluster=packed", "cluster.parties_per_actor=4", "rounds=3", "progress=false", "eval_train=false",
        f"hydra.run.dir={tmp_path}",
    ])  # fmt: skip
    assert status == 0
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
