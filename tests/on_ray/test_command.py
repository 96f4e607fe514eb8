"""The command as users type it, with real Ray."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from flexray.run.command import run_command
from helpers.processes import wait_for_address
from helpers.typed import Typed, typed

pytestmark = pytest.mark.ray

FEW = ("cluster=packed", "cluster.parties_per_actor=4", "dataset.batch_size=256")


def flexray(*arguments: str, cwd: Path) -> tuple[int | None, str]:
    return typed(["-m", "flexray.run", *arguments], cwd)


def ray_processes() -> set[str]:
    """Return process IDs and names of all drivers and hosts on this machine."""
    listed = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True).stdout
    return {line.strip() for line in listed.splitlines() if " ray::Host" in line or " ray::Driver" in line}


@pytest.fixture
def _nothing_left() -> Iterator[None]:
    """Check that a test's commands leave no actor behind, beside those that other tests keep warm."""
    before = {line.split()[0] for line in ray_processes()}
    yield
    assert {line.split()[0] for line in ray_processes()} <= before


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """Return a folder with a short path: Ray puts sockets into it."""
    with tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.mark.usefixtures("_nothing_left")
def test_the_default_run(tmp_path: Path) -> None:
    status, said = flexray("hydra.run.dir=out", cwd=tmp_path)
    assert status == 0, said
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["final"]["test_top1"] >= 0.96
    assert summary["time_to_target"] is not None
    assert summary["cluster"]["kind"] == "local"
    assert len(summary["cluster"]["hosts"]) == 5
    assert "round 500" in said
    assert summary["wall_s"] < 120  # a generous multiple of what an idle machine needs


@pytest.mark.usefixtures("_nothing_left")
def test_a_failing_model_exits_with_1_and_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import torch\n\nclass Net(torch.nn.Linear):\n    def forward(self, x):\n        raise KeyError('lost')\n"
    )
    status, told = flexray("model._target_=mine.Net", "hydra.run.dir=out", *FEW, cwd=tmp_path)
    assert status == 1
    assert told.count("Traceback (most recent call last)") == 1, told
    assert "flexray: upper_left failed in a first forward pass: KeyError: 'lost'" in told


def test_a_running_cluster_is_joined_with_its_token_only(tmp_path: Path, short_folder: Path) -> None:
    ray = [str(Path(sys.executable).parent / "ray")]
    environment = {**os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "t" * 40, "RAY_USAGE_STATS_ENABLED": "0"}
    start = [*ray, "start", "--head", "--port=0", "--num-cpus=2", "--include-dashboard=false", "--block",
             f"--temp-dir={short_folder}"]  # fmt: skip
    head = subprocess.Popen(start, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True)
    try:
        address = wait_for_address(head, short_folder)
        command = ["-m", "flexray.run", "cluster=ray", f"cluster.address={address}", "rounds=3",
                   "cluster.parties_per_actor=4", "hydra.run.dir=out", "dataset.batch_size=256"]  # fmt: skip
        wrong = {**environment, "RAY_AUTH_TOKEN": "w" * 40}
        status, out, err = Typed(command, tmp_path, environment=wrong).end(60)
        assert status == 2
        assert err.startswith(f"flexray: cluster.address: cannot use Ray at '{address}': it does not take the")
        assert err.count("\n") == 1
        assert len(out.splitlines()) == 1  # what is run
        status, *said = Typed(command, tmp_path, environment=environment).end(120)
        assert status == 0, said
        inline = ["cluster=inline", "rounds=3", f"hydra.run.dir={tmp_path / 'inline'}", "dataset.batch_size=256"]
        assert run_command(inline) == 0
        digests = [json.loads((tmp_path / d / "summary.json").read_text())["model_digest"] for d in ("out", "inline")]
        assert digests[0] == digests[1]
    finally:
        head.terminate()
        head.wait(timeout=30)


def test_no_cluster_to_join_is_said_in_one_line(tmp_path: Path) -> None:
    status, said = flexray("cluster=ray", "cluster.address=127.0.0.1:1", "hydra.run.dir=out", cwd=tmp_path)
    assert status == 2
    assert "flexray: cluster.address: cannot use Ray at '127.0.0.1:1'" in said
