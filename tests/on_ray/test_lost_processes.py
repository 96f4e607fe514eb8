"""Killed and hanging processes are replaced, and no number and no byte changes; a killed command leaves nothing."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import ray._private.state

from conftest import Compose, Run
from flexray.build import Job
from flexray.errors import LostProcessError
from flexray.messages import Ended, Record, RoundRecord
from flexray.observers.base import Observer, Observers
from flexray.observers.folder import TableObserver
from flexray.observers.timeline import TimelineObserver
from flexray.running import Execution
from flexray.runtime.ray_runtime import RayCluster

from .conftest import digests

pytestmark = pytest.mark.ray

SMALL = ("rounds=60", "dataset.batch_size=128", "eval_every=25", "model.hidden=[16]", "checkpoint.recover_every=10")


class Strikes(Observer):
    """Calls a function at a round, once; keeps the end."""

    def __init__(self, number: int, strike: Callable[[], None]) -> None:
        self._number, self._strike = number, strike
        self.ended: list[Record] = []

    def on(self, record: Record) -> None:
        if isinstance(record, RoundRecord) and record.round == self._number:
            self._number = 0
            self._strike()
        elif isinstance(record, Ended):
            self.ended.append(record)


def kill(name: str, number: int = signal.SIGKILL) -> None:
    actors = ray._private.state.actors().values()
    (found,) = [a["Pid"] for a in actors if a["State"] == "ALIVE" and name in a["Name"]]
    os.kill(found, number)


def execute(job: Job, cluster: RayCluster, folder: Path, strikes: Strikes) -> Execution:
    watching = Observers([TableObserver(folder), TimelineObserver(folder, 1000), strikes])
    execution = Execution(job, cluster, watching, folder, {})
    try:
        execution.run(None)
    finally:
        watching.close()
    return execution


def write(records: list[Record], folder: Path) -> None:
    watching = Observers([TableObserver(folder), TimelineObserver(folder, 1000)])
    for record in records:
        watching.on(record)
    watching.close()


@pytest.mark.parametrize(
    ("words", "victim", "number", "at"),
    [
        ("algo=flex", "party-2", signal.SIGKILL, 37),
        ("algo=vafl", "-server", signal.SIGKILL, 45),
        ("algo=adaptive", "-driver", signal.SIGKILL, 8),
        ("algo=flex", "party-3", signal.SIGSTOP, 22),
        ("algo=flex absence.probability=0.4 labels_at=server lr=0.005", "party-2", signal.SIGKILL, 37),
    ],
)
def test_a_lost_process_is_replaced(
    words: str, victim: str, number: int, at: int, cluster: RayCluster, compose_job: Compose, run_inline: Run,
    tmp_path: Path,
) -> None:  # fmt: skip
    expected = run_inline(compose_job(*words.split(), "cluster=inline", *SMALL))
    write(expected, tmp_path / "undisturbed")
    job = compose_job(*words.split(), "cluster=local", "stall_timeout=5", *SMALL)
    strikes = Strikes(at, lambda: kill(victim, number))
    done = execute(job, cluster, tmp_path / "run", strikes)
    assert digests(strikes.ended) == digests(expected)
    for name in ("rounds.csv", "evals.csv", "timeline.json"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "undisturbed" / name).read_bytes()
    (failure,) = done.failures
    assert failure.from_round % 10 == 0
    assert failure.lost_s is not None


def test_after_too_many_failures_the_run_ends_with_what_there_is(
    cluster: RayCluster, compose_job: Compose, tmp_path: Path
) -> None:
    job = compose_job("cluster=local", "max_failures=0", *SMALL)
    strikes = Strikes(25, lambda: kill("party-1"))
    execute(job, cluster, tmp_path, strikes)
    (ended,) = strikes.ended
    assert isinstance(ended, Ended)
    assert ended.status == "failed"
    assert ended.rounds % 10 == 0
    assert (tmp_path / "rounds.csv").read_text().count("\n") == ended.rounds + 1
    assert (tmp_path / "checkpoints" / f"round-{ended.rounds}.json").exists()


def test_with_nothing_saved_the_loss_is_told(cluster: RayCluster, compose_job: Compose, tmp_path: Path) -> None:
    job = compose_job("cluster=local", "max_failures=0", *SMALL[:-1], "checkpoint.recover_every=0")
    with pytest.raises(LostProcessError, match=r"party-1-upper_left failed in its process: died"):
        execute(job, cluster, tmp_path, Strikes(25, lambda: kill("party-1")))


def descendants(pid: int) -> dict[int, str]:
    listed = subprocess.run(["ps", "-ww", "-eo", "pid,ppid,args"], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in listed.splitlines()[1:]]
    found: dict[int, str] = {}
    todo = [pid]
    while todo:
        parent = todo.pop()
        for own, above, args in rows:
            if int(above) == parent:
                found[int(own)] = args
                todo.append(int(own))
    return found


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def within(seconds: float, condition: Callable[[], Any]) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return bool(condition())


@pytest.mark.parametrize("ends", ["interrupt", "twice", "kill"])
def test_an_ended_command_leaves_no_actor_and_no_folder(ends: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "flexray.run", "hydra.run.dir=out", "progress=false", "epochs=1000",
               "stop_at_target=false", "checkpoint.every=10"]  # fmt: skip
    output = tmp_path / "said.txt"
    with output.open("w") as file:
        process = subprocess.Popen(command, cwd=tmp_path, stdout=file, stderr=file, start_new_session=True)
    saved = tmp_path / "out" / "checkpoints"
    assert within(100, lambda: process.poll() is not None or len(list(saved.glob("*.json"))) > 1)
    family = descendants(process.pid)
    actors = [pid for pid, args in family.items() if "HostActor" in args or "DriverActor" in args]
    (home,) = {found[0] for args in family.values() if (found := re.search(r"/\S*?/flexray-\w{8}(?=/)", args))}
    assert len(actors) == 6
    if ends == "twice":  # or it might end before it is asked once more
        os.kill(next(pid for pid, args in family.items() if "DriverActor" in args), signal.SIGSTOP)
    if ends == "kill":
        process.kill()
    else:
        os.killpg(process.pid, signal.SIGINT)
    if ends == "twice":
        assert within(30, lambda: "once more ends at once" in output.read_text())
        os.killpg(process.pid, signal.SIGINT)
    process.wait(timeout=90)
    said = output.read_text()
    assert process.returncode == {"interrupt": 1, "twice": 130, "kill": -signal.SIGKILL}[ends], said
    assert within(10, lambda: not any(map(is_alive, actors)) and not Path(home).exists())
    if ends == "interrupt":
        assert "interrupted; go on with: python -m flexray.run resume=" in said
    assert list(saved.glob("*.json"))
    resumed = [sys.executable, "-m", "flexray.run", "resume=out", "cluster=inline", "rounds=1", "epochs=null"]
    refused = subprocess.run(resumed, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "it has" in refused.stderr
