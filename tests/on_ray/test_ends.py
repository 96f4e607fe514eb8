"""A command's Ray listens on loopback only, and nothing of it is left however the command ends.

A run of which everything was killed goes on exactly.
"""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterable
from pathlib import Path

import psutil
import pytest

from flexray.run.command import run_command
from helpers.processes import descendants, is_alive, within
from helpers.typed import Typed, typed

pytestmark = pytest.mark.ray

COMMAND = ("-m", "flexray.run", "progress=false", "cluster=packed", "cluster.parties_per_actor=4")
LONG = ("hydra.run.dir=out", "epochs=1000", "stop_at_target=false", "checkpoint.every=10")
FILES = ("rounds.csv", "evals.csv", "timeline.json")


def start(folder: Path, *arguments: str) -> Typed:
    """Start a command, wait until it has written two checkpoints."""
    process = Typed([*COMMAND, *arguments], folder, own_group=True, said=folder / "said.txt")
    saved = folder / "out" / "checkpoints"
    assert within(100, lambda: process.poll() is not None or len(list(saved.glob("*.json"))) > 1)
    return process


def home_of(family: dict[int, str]) -> str:
    """Return the folder of a command's Ray."""
    (home,) = {found[0] for args in family.values() if (found := re.search(r"/\S*?/flexray-\w{8}(?=/)", args))}
    return home


def heard(family: Iterable[int]) -> list[str]:
    """Return the addresses on which these processes listen."""
    found = [c for pid in filter(is_alive, family) for c in psutil.Process(pid).net_connections("inet")]
    return [c.laddr.ip.removeprefix("::ffff:") for c in found if c.status == psutil.CONN_LISTEN]


@pytest.mark.parametrize("ends", ["interrupt", "twice", "kill"])
def test_a_command_listens_on_loopback_only_and_leaves_no_process_and_no_folder(
    ends: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    process, output, saved = start(tmp_path, *LONG), tmp_path / "said.txt", tmp_path / "out" / "checkpoints"
    family = descendants(process.pid)
    home = home_of(family)
    assert sum("HostActor" in args or "DriverActor" in args for args in family.values()) == 3
    assert sum("Agent" in args for args in family.values()) == 2
    addresses = heard([process.pid, *family])
    assert len(addresses) > 5
    assert set(addresses) == {"127.0.0.1"}
    if ends == "twice":  # or it might end before it is asked once more
        os.kill(next(pid for pid, args in family.items() if "DriverActor" in args), signal.SIGSTOP)
    if ends == "kill":
        process.send_signal(signal.SIGKILL)
    elif ends == "interrupt":
        os.killpg(process.pid, signal.SIGINT)
    else:
        process.send_signal(signal.SIGTERM)
        assert within(30, lambda: "once more ends at once" in output.read_text())
        os.killpg(process.pid, signal.SIGINT)
    status, *_ = process.end(90)
    said = output.read_text()
    assert status == {"interrupt": 1, "twice": 130, "kill": -signal.SIGKILL}[ends], said
    assert within(10, lambda: not any(map(is_alive, family)) and not Path(home).exists())
    if ends == "interrupt":
        assert "interrupted; go on with: python -m flexray.run resume=" in said
    assert list(saved.glob("*.json"))
    assert run_command([f"resume={tmp_path / 'out'}", "cluster=inline", "rounds=1", "epochs=null"]) == 2
    assert "it has" in capsys.readouterr().err


def test_after_sigkill_of_everything_nothing_is_left_and_the_run_goes_on_exactly(tmp_path: Path) -> None:
    process = start(tmp_path, *LONG)
    family = {process.pid: "", **descendants(process.pid)}
    home = home_of(family)
    assert sum("gcs_server" in args or "raylet/raylet" in args for args in family.values()) == 2
    for pid in family:
        os.kill(pid, signal.SIGKILL)
    process.end()
    assert within(10, lambda: not any(map(is_alive, family)) and not Path(home).exists())
    last = max(int(path.stem.removeprefix("round-")) for path in (tmp_path / "out" / "checkpoints").glob("*.json"))
    limits = (f"rounds={last + 15}", "epochs=null")
    status, told = typed([*COMMAND, "resume=out", *limits], tmp_path)
    assert status == 0, told
    undisturbed = (*LONG[2:], "cluster=inline", f"hydra.run.dir={tmp_path / 'undisturbed'}")
    assert run_command(["progress=false", *undisturbed, *limits]) == 0
    summaries = [json.loads((tmp_path / d / "summary.json").read_text()) for d in ("out", "undisturbed")]
    assert summaries[0]["resumed_from"] == last
    assert summaries[0]["model_digest"] == summaries[1]["model_digest"]
    for name in FILES:
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "undisturbed" / name).read_bytes()
