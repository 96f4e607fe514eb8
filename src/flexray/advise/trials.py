"""Short runs in this process, and what they took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rich.console import Console
from rich.progress import track

from flexray.advise import ROUNDS
from flexray.advise.advice import Advice, Trial
from flexray.advise.variants import Variant, variants
from flexray.algorithms.replay import ReplayRounds, ReplayTurns
from flexray.config.compose import build_typed
from flexray.config.given import read_keys
from flexray.config.job import Job
from flexray.config.typed import key_of
from flexray.core.checks import positive, whole
from flexray.core.errors import ConfigError
from flexray.core.messages import EvalRecord, RoundRecord
from flexray.engine.driver.experiment import Experiment, Limits
from flexray.engine.hosts.inline import InlinePlace
from flexray.run.borrowed import borrowed_process
from flexray.run.hints import WITHOUT_TIMEOUT

LIMITS = ("rounds", "epochs", "max_time")
EVALUATIONS = 40
OWN = ("cluster=inline", "progress=false", "target=null", "stop_at_target=false", "eval_train=false", "eval_every=null")
"""Words of all runs."""
MOST_SEEDS = 100


def advised(overrides: Sequence[str], keys: Mapping[str, Any], timeouts: Sequence[float], seeds: int) -> Advice:
    """Return what :func:`flexray.advise` says."""
    timeouts = [positive("timeouts", timeout) for timeout in timeouts]
    whole("seeds", seeds, low=1, high=MOST_SEEDS)
    given = read_keys(keys)
    if given.data:
        raise ConfigError(f"{next(iter(given.data))}: got data; flexray.advise expects a file or folder")
    words = [*overrides, *given.words]
    for word in words:
        if not isinstance(word, str) or word.startswith("-") or key_of(word).partition(".")[0] in ("hydra", "resume"):
            raise ConfigError(f"{word}: expected keys of a single run such as algo=adaptive")
    with borrowed_process():
        own = build_typed([*words, *OWN], given.objects)
        x = own.experiment
        if x.wall is not None or isinstance(x.algorithm, ReplayRounds | ReplayTurns):
            raise ConfigError(
                "flexray.advise: runs of virtual time are compared; expected clock=virtual, and no speeds=replay"
                " (speeds=measured predicts seconds)"
            )
        untrained = replace(x, shared=replace(x.shared, learns=False))
        if not any(key_of(word) in LIMITS for word in words):
            untrained = replace(untrained, limits=Limits(ROUNDS * x.steps_per_batch))
        horizon, auto, system = _run(own, untrained).time, _auto_timeout(words, given.objects), x.algorithm.system
        if system.chooses_timeout and auto is not None:
            system = replace(system, timeout_units=auto)
        tried = variants(system, x.speeds.utilization(0, 0.0), timeouts, own.algo not in WITHOUT_TIMEOUT)
        ends = ["rounds=null", "epochs=null", f"max_time={horizon!r}", f"eval_every_units={horizon / EVALUATIONS!r}"]
        found = _tried([*words, *OWN, *ends], given.objects, tried, range(x.shared.seed, x.shared.seed + seeds))
    return Advice(own.algo, own.dataset, x, horizon, found, auto)


def _auto_timeout(words: Sequence[str], objects: Mapping[str, Any]) -> float | None:
    """Return what ``timeout=auto`` gives the first round; None where that is refused."""
    try:
        job = build_typed([*words, *OWN, "timeout=auto"], objects)
    except ConfigError:
        return None
    x = job.experiment
    return _run(job, replace(x, shared=replace(x.shared, learns=False), limits=Limits(1))).timeout


def _tried(
    words: Sequence[str], objects: Mapping[str, Any], tried: Sequence[Variant], seeds: Sequence[int]
) -> dict[Variant, list[Trial]]:
    """Return the trials of every variant, one per seed."""
    found: dict[Variant, list[Trial]] = {variant: [] for variant in tried}
    runs = [(variant, seed) for variant in tried for seed in seeds]
    for variant, seed in track(runs, "runs", console=Console(stderr=True), transient=True):
        job = build_typed([*words, *variant.words, f"seed={seed}"], objects)
        found[variant].append(_run(job, job.experiment))
    return found


def _run(job: Job, experiment: Experiment) -> Trial:
    """Run an experiment in this process."""
    count = len(experiment.names)
    trial = Trial([0.0] * count, [0.0] * count)
    for record in InlinePlace().run(job.cluster, experiment):
        if isinstance(record, RoundRecord):
            trial.note(record)
        elif isinstance(record, EvalRecord):
            trial.curve.append((record.sim_time, record.metrics["test_loss"]))
    return trial
