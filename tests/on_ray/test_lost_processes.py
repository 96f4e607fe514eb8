"""Killed and hanging processes are replaced, and no number and no byte changes."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import ray._private.state

from flexray.config.job import Job
from flexray.core.errors import LostProcessError
from flexray.core.messages import Ended, Record, RoundRecord
from flexray.engine.hosts.ray import RayCluster
from flexray.run.execution import Execution
from flexray.run.watch.base import Observer, Observers
from flexray.run.watch.folder import TableObserver
from flexray.run.watch.timeline import TimelineObserver
from helpers.jobs import Compose, Run
from helpers.ray_runs import digests

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
    watching = Observers(lambda: [TableObserver(folder), TimelineObserver(folder, 1000), strikes])
    execution = Execution(job, cluster, watching, folder, {})
    try:
        execution.run(None)
    finally:
        watching.close()
    return execution


def write(records: list[Record], folder: Path) -> None:
    watching = Observers(lambda: [TableObserver(folder), TimelineObserver(folder, 1000)])
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
