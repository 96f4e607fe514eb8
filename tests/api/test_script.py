"""A script of the user's in a folder of its own: on Ray, with warm processes, and with a class that only it has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import logging, os, signal, sys
import flexray
from torch import nn

class Mine(nn.Linear):
    pass

class Bad(nn.Linear):
    def forward(self, x):
        raise KeyError("a bug")

def state():
    return dict(os.environ), list(sys.path), [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]

keys = {"model": Mine, "rounds": 2, "progress": False}
before = state()
with flexray.cluster(kind="packed", parties_per_actor=2, num_cpus=2):
    first, second = (flexray.simulate(seed=seed, **keys) for seed in (1, 2))
    third = flexray.simulate(cluster="inline", seed=2, **keys)
    try:
        flexray.simulate(**{**keys, "model": Bad})
    except flexray.FlexrayError as error:
        assert "in forward" in error.__notes__[0], error.__notes__
        print(error)
assert state() == before
assert second.summary["cluster"]["kind"] == "packed"
assert second.summary["model_digest"] == third.summary["model_digest"] != first.summary["model_digest"]
assert second.summary["setup_s"] < first.summary["setup_s"] / 2
import ray
assert not ray.is_initialized()
ray.is_initialized = lambda: True  # as after a ray.init of one's own
try:
    flexray.simulate(**keys)
except flexray.UserError as error:
    print(error)
"""


@pytest.mark.ray
def test_a_script_keeps_processes_warm_and_gives_everything_back(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=tmp_path, capture_output=True, text=True, timeout=170)
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.splitlines() == [
        "upper_left failed in a first forward pass: KeyError: 'a bug'",
        "cluster: this process uses Ray already; expected ray.shutdown() before, or cluster=inline",
    ]
    assert [*tmp_path.iterdir()] == []
