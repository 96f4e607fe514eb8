"""Runs one job: feeds its observers, writes checkpoints, replaces lost processes, and ends on a signal."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from flexray.config.job import Job
from flexray.core.errors import ConfigError, LostProcessError, ResourceError, RunFolderError
from flexray.core.messages import Ended, Record, RoundRecord, Snapshot, Started
from flexray.core.runfolder import EVALS_FILE, ROUNDS_FILE, SUMMARY_FILE, TIMELINE_FILE
from flexray.engine.driver.experiment import Experiment
from flexray.engine.driver.snapshots import Saves, check_not_passed
from flexray.engine.hosts.plan import ClusterPlan
from flexray.engine.parties.party import FITTED
from flexray.engine.parties.state import digest_of_saved, model_state
from flexray.run.interrupts import Interrupts
from flexray.run.resume import check_unchanged
from flexray.run.save.checkpoint import Checkpoint, CheckpointStore
from flexray.run.save.storage import open_storage
from flexray.run.watch.base import Observer, ObserverState

log = logging.getLogger("flexray")


class Place(Protocol):
    """A place for a run's processes."""

    def run(
        self, plan: ClusterPlan, experiment: Experiment, saves: Saves | None, since: Snapshot | None,
        stall_timeout_s: float | None,
    ) -> Iterator[Record]:  # fmt: skip
        """Run an experiment and yield its records.

        Raises:
            flexray.core.errors.LostProcessError: A process died or hangs; nothing of the run is left there.
        """

    def stop(self) -> None:
        """End the run after its current round; may be called from another thread."""


@dataclass
class Failure:
    """Processes that were lost and replaced.

    Args:
        round: Rounds that were done by then.
        from_round: The round after which the run went on.
        cause: The process and the reason.
        lost_s: Seconds until those rounds were done again.
    """

    round: int
    from_round: int
    cause: str
    lost_s: float | None = None


@dataclass
class Execution:
    """One job under way.

    Args:
        job: The job.
        place: The place where it runs.
        watching: Gets its records.
        folder: The run folder.
        config: The configuration, for checkpoints.
    """

    job: Job
    place: Place
    watching: Observer
    folder: Path
    config: Mapping[str, Any]
    failures: list[Failure] = field(default_factory=list)
    interrupted: bool = False

    def __post_init__(self) -> None:
        self._store = checkpoint_store(self.job, self.folder)
        self._written: Future[None] = Future()
        self._written.set_result(None)
        self._latest: tuple[Snapshot | None, ObserverState] = (None, {})
        self._round = 0
        self._last_s = time.monotonic()

    def run(self, since: Checkpoint | None) -> None:
        """Run the job to its end, from a checkpoint or from the beginning."""
        with ThreadPoolExecutor(1) as self._writer, Interrupts() as interrupts:
            if since:
                self._latest = (since.snapshot, since.observers)
            try:
                for record in self._records():
                    if isinstance(record, Started):
                        interrupts.arm(self.place.stop)
                    self._note(record)
                    if isinstance(record, Started) and self._store is not None and self._latest[0] is None:
                        self._store.clear()  # what an earlier run left in this folder
                self._written.result()
            finally:
                self.interrupted = interrupts.seen

    def _records(self) -> Iterator[Record]:
        """Yield the records of the run, once more from the last snapshot whenever processes were lost."""
        safety = self.job.safety
        while True:
            snapshot, state = self._latest
            try:
                yield from self.place.run(
                    self.job.cluster, self.job.experiment, safety.saves, snapshot, safety.stall_timeout_s
                )
                return
            except LostProcessError as error:
                snapshot, state = self._latest
                if snapshot is None and len(self.failures) >= safety.max_failures:
                    raise
                self.watching.load(state)
                done = snapshot.round if snapshot else 0
                self.failures.append(Failure(self._round, done, str(error)))
                log.warning("%s", error)
                if snapshot is not None and len(self.failures) > safety.max_failures:
                    yield self._give_up(snapshot, state, f"max_failures is {safety.max_failures}")
                    return
                log.warning("lost in round %d; all processes start again after round %d", self._round + 1, done)
            except ResourceError as error:  # a node was lost and what is left of the cluster is too small
                if snapshot is None or not self.failures:
                    raise
                yield self._give_up(snapshot, state, str(error))
                return

    def _give_up(self, snapshot: Snapshot, state: ObserverState, why: str) -> Ended:
        """Write the last snapshot and return the end of the run."""
        log.error("given up: %s; the run ends after round %d", why, snapshot.round)
        self._write(snapshot, state)
        return _what_is_left(snapshot)

    def _write(self, snapshot: Snapshot, state: ObserverState) -> None:
        """Write a checkpoint in a thread, one at a time; the run does not wait for the disk."""
        if self._store is not None:
            self._written.result()  # raises what failed there
            checkpoint = Checkpoint(snapshot, state, self.config)
            self._written = self._writer.submit(_store, self._store, checkpoint, self.folder)

    def _note(self, record: Record) -> None:
        self.watching.on(record)
        if isinstance(record, Snapshot):
            state = self.watching.save()
            self._latest = (record, state)
            if record.durable:
                self._write(record, state)
        elif isinstance(record, RoundRecord):
            if self._is_catching_up and record.round <= self.failures[-1].round:
                return
            self._caught_up(record.round)
            self._round, self._last_s = record.round, time.monotonic()
        elif isinstance(record, Ended) and record.status != "failed":
            self._caught_up(record.rounds)  # the last round may have been done when a process was lost

    @property
    def _is_catching_up(self) -> bool:
        return bool(self.failures) and self.failures[-1].lost_s is None

    def _caught_up(self, at: int) -> None:
        """Note the seconds that the last failure cost, once its rounds are done again."""
        if self._is_catching_up:
            lost_s = self.failures[-1].lost_s = round(time.monotonic() - self._last_s, 3)
            log.warning("back at round %d, %.1f s lost", at, lost_s)


def checkpoint_store(job: Job, folder: Path) -> CheckpointStore | None:
    """Return the checkpoints of the run in ``folder``; None if it can have none."""
    safety = job.safety
    return None if safety.saves is None else CheckpointStore(open_storage(safety.address(folder)), safety.keep)


def _store(store: CheckpointStore, checkpoint: Checkpoint, folder: Path) -> None:
    """Bring the files of the run folder to disk, then the checkpoint, which depends on them.

    If a checkpoint cannot be written, as on a full disk, the run goes on without it.
    """
    for path in (folder / name for name in (ROUNDS_FILE, EVALS_FILE, TIMELINE_FILE)):
        if path.exists():
            with path.open("rb") as file:
                os.fsync(file.fileno())
    try:
        store.write(checkpoint)
    except RunFolderError as error:
        log.warning("%s; there is no checkpoint of round %d", error, checkpoint.snapshot.round)


def _what_is_left(snapshot: Snapshot) -> Ended:
    digests = {name: digest_of_saved(saved) for name, saved in snapshot.participants.items()}
    states = {
        name: {**model_state(saved), **{k: v for k, v in saved.arrays.items() if k.startswith(FITTED)}}
        for name, saved in snapshot.participants.items()
    }
    return Ended(snapshot.round, snapshot.sim_time, None, digests, states, "failed")


def last_checkpoint(job: Job, folder: Path, config: Mapping[str, Any]) -> Checkpoint | None:
    """Return the checkpoint from which the run in ``folder`` goes on; None if it ended before its first.

    Raises:
        flexray.core.errors.UserError: It cannot go on, or not with this configuration.
    """
    store = checkpoint_store(job, folder)
    if store is None:
        if not job.experiment.shared.learns:
            raise ConfigError("resume: a run with learn=false has nothing to go on from; expected a new one")
        raise ConfigError("resume: a run on clock=wall cannot be resumed: its seconds do not come again")
    found = store.newest()
    if found is None:
        if (folder / SUMMARY_FILE).exists():
            raise RunFolderError(f"{folder}: it has no checkpoint to go on from")
        log.warning("there is no checkpoint yet: the run begins again")
        return None
    x = job.experiment
    if set(found.snapshot.participants) != set(x.names):
        others = ", ".join(sorted(found.snapshot.participants))
        raise RunFolderError(
            f"the checkpoint of round {found.snapshot.round} is of {others}; expected {', '.join(x.names)}"
        )
    check_unchanged(found.config, config)
    check_not_passed(found.snapshot, x.limits.in_rounds(x.steps_per_epoch), x.limits.max_time)
    log.info("going on after round %d, simulated time %g", found.snapshot.round, found.snapshot.sim_time)
    return found
