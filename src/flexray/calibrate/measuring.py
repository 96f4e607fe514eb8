"""Measures on the processes of a run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from flexray.calibrate.calibration import Calibration
from flexray.calibrate.summing import summed
from flexray.cluster.warm import CURRENT
from flexray.config.compose import build_typed, compose
from flexray.config.explain import explained
from flexray.config.given import read_keys
from flexray.config.typed import key_of
from flexray.core.checks import number, whole
from flexray.core.errors import ConfigError, ParticipantError
from flexray.core.neutral import is_under
from flexray.core.timings import Timings
from flexray.run.borrowed import borrowed_process
from flexray.run.places import Places

LEAST_S, MOST_S = 0.01, 60.0
OF_THE_RUN = (
    "algo", "speeds", "clock", "absence", "rounds", "epochs", "max_time", "timeout", "stop_at_target", "target",
    "eval_every", "eval_every_units", "resume", "checkpoint", "logger", "network.t_comm", "network.bandwidth",
    "network.latency", "network.up", "network.down", "network.shared", "network.jitter", "network.loss",
    "network.trace", "rates", "learn", "hydra",
)  # fmt: skip
"""Keys of a run that change nothing of what is measured."""
NEUTRAL = (
    "algo=flex", "speeds=uniform", "clock=virtual", "absence.probability=0", "absence.above=null", "rounds=1",
    "epochs=null", "max_time=null", "target=null", "stop_at_target=false", "network.t_comm=0",
    "network.bandwidth=null", "learn=true",
)  # fmt: skip


def calibrated(
    overrides: Sequence[str],
    keys: Mapping[str, Any],
    file: str | os.PathLike[str],
    seconds: float,
    batch_sizes: Sequence[int],
) -> Calibration:
    """Measure what :func:`flexray.calibrate` says, write it, and return it."""
    seconds = number("seconds", seconds, low=LEAST_S, high=MOST_S)
    sizes = [whole("batch_sizes", size, low=1) for size in batch_sizes]
    given = read_keys(keys)
    if given.data:
        raise ConfigError(f"{next(iter(given.data))}: got data; flexray.calibrate expects a file or folder")
    block = CURRENT.get()
    words = [*overrides, *given.words]
    words = block.words_before(words) if block else words
    _check(words)
    found: dict[int, Timings] = {}
    places = block.places if block else Places()
    with borrowed_process():
        try:
            for size in sizes or [0]:
                timings, batch_size = _timed(words, given.objects, places, seconds / max(1, len(sizes)), size)
                found[batch_size] = timings
        finally:
            if block is None:
                places.close()
    calibration = summed(found, words, Path(file))
    calibration.write()
    return calibration


def _check(words: Sequence[str]) -> None:
    for word in words:
        if not isinstance(word, str) or word.startswith("-"):
            raise ConfigError(f"{word}: expected keys of a single run such as cluster=ray")
    with explained():
        compose(words)


def _timed(
    words: Sequence[str], objects: Mapping[str, Any], places: Places, seconds: float, size: int
) -> tuple[Timings, int]:
    """Return what was measured, and with which batch size."""
    from flexray.engine.driver.experiment import WallClock  # imports torch: mistyped keys are reported sooner without

    kept = [word for word in words if not is_under(key_of(word), OF_THE_RUN)]
    kept += [*NEUTRAL, *([f"dataset.batch_size={size}"] if size else [])]
    job = build_typed(kept, objects)
    if job.experiment.shared.label_party is not None:
        raise ConfigError("labels_at: seconds of labels at one party are not measured; expected all or server")
    experiment = replace(job.experiment, wall=WallClock(calibrates_s=seconds))
    for record in places.place_of(job).run(job.cluster, experiment, None, None, None):
        if isinstance(record, Timings):
            return record, job.experiment.shared.batch_size
    raise ParticipantError("flexray", "a calibration", "nothing was measured")
