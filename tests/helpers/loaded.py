"""What commands import and compose before they do anything, in a process whose children they are.

Not Ray, which reads its environment when it is imported, nor transformers, which few commands need.
"""

from __future__ import annotations

import gc
import sys
from contextlib import redirect_stdout
from importlib import import_module
from io import StringIO

import pytest
import torch

from flexray.run.command import run_command
from helpers.fast_hydra import remember

MODULES = (
    "torch._dynamo", "pandas", "matplotlib.pyplot", "plotly.graph_objects", "sklearn.datasets", "sklearn.utils",
    "pyarrow.parquet", "psutil", "xml.etree.ElementTree",
    "flexray.config.job", "flexray.run.execution", "flexray.run.watch.chosen", "flexray.predict", "flexray.report.cli",
    "flexray.data.digits", "flexray.engine.hosts.inline", "flexray.cluster.cli", "flexray.traces.cli", "helpers.typed",
)  # fmt: skip

for name in MODULES:
    import_module(name)
torch.set_num_threads(1)
remember(pytest.MonkeyPatch())
with redirect_stdout(StringIO()):
    for algo in ("flex", "adaptive", "vafl"):
        assert run_command(["--cfg", "job", "cluster=inline", f"algo={algo}"]) == 0
assert not {"ray", "transformers"} & set(sys.modules)
gc.collect()
gc.freeze()
