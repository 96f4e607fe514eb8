"""When a run ends, is evaluated and is saved, what it aims at, and how learning rates decay."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from flexray.algorithms.base import EventAlgorithm, RoundAlgorithm
from flexray.algorithms.vafl import VAFL
from flexray.config.by_participant import count, optional
from flexray.config.recording import Recording
from flexray.core.checks import number, one_of, positive, shown, whole
from flexray.core.errors import ConfigError, near_match
from flexray.core.runfolder import ADDRESS_FILE, CHECKPOINT_FOLDER, own_folder, read_text
from flexray.core.scores import lower_is_better
from flexray.data.base import Outline
from flexray.engine.driver.experiment import Evaluations, LearningRateDecay, Limits, Target, WallClock
from flexray.engine.driver.snapshots import Saves

CLOCKS = VIRTUAL, WALL = "virtual", "wall"
DECAY_BY: tuple[Literal["iterations", "epochs"], ...] = ("iterations", "epochs")

DEFAULT_EVERY = 100
"""Rounds (VAFL: updates of each party) between checkpoints, and between copies for lost processes."""
MAX_NAME = 1024
"""Bytes of the file with the name under which checkpoints are elsewhere."""

Config = Mapping[str, Any]


def build_decays(config: Config, names: Sequence[str], own: Mapping[int, Config]) -> tuple[LearningRateDecay, ...]:
    """Return everybody's decay; ``own`` has keys of single participants, by place."""
    usual = build_decay(config, {}, "")
    return tuple(build_decay(config, own[k], name) if k in own else usual for k, name in enumerate(names))


def build_decay(config: Config, own: Config, name: str) -> LearningRateDecay:
    """Return a participant's decay: its own keys over those of all; none with ``speeds=replay``."""
    given = own.get("lr_decay") or {}
    key = f"parties.{name}.lr_decay" if given else "lr_decay"
    node = {**config["lr_decay"], **given} if isinstance(given, Mapping) else given
    if not isinstance(node, Mapping) or set(node) != {"milestones", "factor", "by"}:
        raise ConfigError(f"{key}: expected the keys milestones, factor and by, got {given!r}")
    if not isinstance(node["milestones"], Sequence) or isinstance(node["milestones"], str):
        raise ConfigError(f"{key}.milestones: expected a list of whole numbers, got {node['milestones']!r}")
    milestones = tuple(whole(f"{key}.milestones", m, low=1) for m in node["milestones"])
    factor = number(f"{key}.factor", node["factor"], above=0, high=1)
    decay = LearningRateDecay(milestones, factor, one_of(f"{key}.by", node["by"], DECAY_BY))
    return LearningRateDecay() if config["speeds"]["kind"] == "replay" else decay  # recorded rates are decayed already


def build_wall(config: Config) -> WallClock | None:
    """Return how real seconds are counted, which really wait for overruns; None on the virtual clock."""
    kind, overrun = config["clock"]["kind"], config["speeds"]["overrun"]
    if kind not in CLOCKS:
        raise ConfigError(f"clock.kind: unknown '{kind}'{near_match(str(kind), CLOCKS)}")
    if kind == VIRTUAL:
        return None
    if not config["learn"]:
        raise ConfigError("learn: clock=wall measures the seconds of training; expected true, or clock=virtual")
    if config["speeds"]["kind"] == "replay":
        raise ConfigError("clock: speeds=replay repeats a run on the virtual clock; expected clock=virtual")
    if overrun != "wait":
        raise ConfigError(f"speeds.overrun: clock=wall really waits; expected wait, got {shown(overrun)}")
    return WallClock(config["rates"] == "static")


def check_turns(algorithm: RoundAlgorithm | EventAlgorithm, wall: bool) -> None:
    """Refuse a bound on turns that is no number, and in real seconds what is on the virtual clock alone.

    Raises:
        ConfigError: It names the key.
    """
    if not isinstance(algorithm, EventAlgorithm):
        return
    most = optional("algo.max_ahead", algorithm.max_ahead, partial(whole, low=0))
    if wall and isinstance(algorithm, VAFL) and algorithm.server != "queue":
        raise ConfigError(f"algo.server: clock=wall really waits; expected queue, got {shown(algorithm.server)}")
    if wall and most is not None:
        raise ConfigError(f"algo.max_ahead: parties wait on the virtual clock alone; expected null, got {most}")


def build_evaluations(config: Config) -> Evaluations:
    """Return when a run is evaluated."""
    if config["eval_every_units"] is not None and config["eval_every"] is not None:
        raise ConfigError("eval_every_units: given together with eval_every; expected one of them")
    return Evaluations(
        every=optional("eval_every", config["eval_every"], count),
        every_units=optional("eval_every_units", config["eval_every_units"], positive),
        train=config["eval_train"],
        as_sent=config["eval_as_sent"],
    )


def build_limits(config: Config, recording: Recording | None) -> Limits:
    """Return when a run ends: at least one key says so, or the run that is repeated has an end."""
    limits = Limits(
        rounds=optional("rounds", config["rounds"], count),
        epochs=optional("epochs", config["epochs"], positive),
        max_time=optional("max_time", config["max_time"], positive),
    )
    if limits == Limits():
        raise ConfigError("rounds: none of rounds, epochs and max_time is given; expected at least one")
    return limits if recording is None else replace(limits, rounds=recording.limit(limits.rounds))


def build_target(config: Config, outline: Outline) -> Target:
    """Return the value of a metric that a run aims at."""
    metric = config["target_metric"] or f"test_{outline.task.metrics[1]}"
    splits = ["test", *(["val"] if outline.sizes["val"] else []), *(["train"] if config["eval_train"] else [])]
    known = [f"{split}_{name}" for split in splits for name in outline.task.metrics]
    if metric not in known:
        few = "; there is no top5 of five classes or fewer" if metric.endswith("_top5") else ""
        raise ConfigError(f"target_metric: unknown metric '{metric}'; expected one of: {', '.join(known)}{few}")
    value = optional("target", config["target"], number)
    least = -1 if metric.endswith("_corr") else 0
    if value is not None and not least <= value <= 1 and not lower_is_better(metric):
        expected = "at most 1, which is all of" if value > 1 else f"at least {least}, the least of"
        raise ConfigError(f"target: expected {expected} {metric}, got {value:g}")
    if config["stop_at_target"] and value is None:
        raise ConfigError("stop_at_target: there is no target to stop at; expected one, as in target=0.9")
    if not config["learn"]:
        if config["stop_at_target"]:
            raise ConfigError(
                "stop_at_target: nothing is learned with learn=false; expected rounds, epochs or max_time"
            )
        return Target(metric)
    return Target(metric, value, config["stop_at_target"])


@dataclass(frozen=True)
class Safety:
    """How a run is saved, and what happens when processes are lost.

    Args:
        saves: After which rounds; None: this run cannot go on from a snapshot (``clock=wall``, ``learn=false``).
        keep: Number of checkpoints to keep.
        dir: fsspec address or folder of the checkpoints; None: in the run folder.
        max_failures: Number of times that lost processes are replaced.
        stall_timeout_s: Seconds without progress that count as a failure; None: no limit.
    """

    saves: Saves | None = None
    keep: int = 2
    dir: str | None = None
    max_failures: int = 0
    stall_timeout_s: float | None = None

    def address(self, folder: Path) -> str:
        """Return where the checkpoints of the run in ``folder`` are; outside of it, in a folder named after it."""
        if self.dir is None:
            return os.fspath(folder / CHECKPOINT_FOLDER)
        known = folder / ADDRESS_FILE
        if known.exists():
            name = read_text(known, MAX_NAME).strip()
        else:
            name = own_folder(folder)
            known.parent.mkdir(parents=True, exist_ok=True)
            known.write_text(f"{name}\n", encoding="utf-8")
        if not re.fullmatch(r"[^/\\:.][^/\\:]*", name) or not name.isprintable():
            raise ConfigError(f"{known}: expected the name of a folder, got {name[:60]!r}")
        return f"{self.dir.rstrip('/')}/{name}"


def build_safety(config: Config, turns: int, base_dir: Path) -> Safety:
    """Return how a run is saved.

    Args:
        config: The composed configuration.
        turns: Updates that make one of each party: K for VAFL, else 1.
        base_dir: Folder that a relative ``checkpoint.dir`` starts from.
    """
    node, alone = config["checkpoint"], config["cluster"]["kind"] == "inline" or not config["learn"]
    every, recover = (
        DEFAULT_EVERY * turns if node[key] is None else whole(f"checkpoint.{key}", node[key], low=0)
        for key in ("every", "recover_every")
    )
    failures = whole("max_failures", config["max_failures"], low=0)
    safety = Safety(
        saves=Saves(every, None if alone else recover, at_end=True),
        keep=whole("checkpoint.keep", node["keep"], low=1),
        dir=_directory(node["dir"], base_dir),
        max_failures=0 if alone else failures,
        stall_timeout_s=optional("stall_timeout", config["stall_timeout"], positive),
    )
    if config["clock"]["kind"] == WALL or not config["learn"]:  # seconds do not come again; or there is no model
        return replace(safety, saves=None, max_failures=0)
    return safety


def _directory(value: Any, base_dir: Path) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not value:
        raise ConfigError(f"checkpoint.dir: expected a folder or an address such as s3://runs, got {shown(value)}")
    return value if "://" in value else os.fspath(base_dir / Path(value).expanduser())
