"""Sums up what was measured: medians, and what is left when their sum is taken from whole rounds and turns."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import flexray
from flexray.calibrate.calibration import Calibration
from flexray.config.measured import SECONDS
from flexray.core.measured import NO_WAIT, Measured
from flexray.core.timings import Samples, Timings

DIGITS = 4
NOTICEABLE = 1.1
"""Computing together that takes so many times as long as alone is waiting for a core."""
CLEAR = 1.05
"""A message with content that takes so many times as long as one without tells the bandwidth."""


def summed(found: Mapping[int, Timings], words: Sequence[str], path: Path) -> Calibration:
    """Return what was measured with one or several batch sizes.

    Args:
        found: What was measured, by batch size.
        words: The words that were measured.
        path: The file to write.
    """
    parts = {size: _Sums(timings) for size, timings in sorted(found.items())}
    last = list(parts.values())[-1]
    names = last.timings.names
    participants = {name: _participant(parts, k) for k, name in enumerate(names)}
    load = f"{os.getloadavg()[0]:.1f} of {os.cpu_count()} cores at the end"
    return Calibration(
        path=path,
        about={
            "when": time.strftime("%Y-%m-%d %H:%M"), "words": list(words), "batch_sizes": list(parts), "load": load,
            "flexray": flexray.__version__,
        },
        participants=participants,
        machines={last.timings.machine[k]: {"cores": _rounded(cores)} for k, cores in last.crowded.items()},
        round_s=_rounded(_median([part.round_s for part in parts.values()])),
        network=last.network,
        evaluation_s=_rounded(min(last.timings.evaluation)),
        driver_s=_rounded(_median([part.measured.driver_s for part in parts.values()])),
    )  # fmt: skip


def _participant(parts: Mapping[int, _Sums], k: int) -> dict[str, Any]:
    """Return the keys of a participant."""
    last = list(parts.values())[-1]
    timings, measured = last.timings, {size: part.measured for size, part in parts.items()}
    is_server = k == len(timings.names) - 1
    node: dict[str, Any] = {}
    for key in SECONDS:
        values = {size: _rounded(getattr(own, key)[k]) for size, own in measured.items()}
        if key != "embedding_s" or not is_server:
            node[key] = values if len(values) > 1 else next(iter(values.values()))
    if not all(own.together_s[k] for own in measured.values()):  # one process, or frozen
        del node["together_s"]
    if timings.alone[k]:
        node["spread"] = round(_spread(timings.alone[k]), 3)
    shares = timings.process.count(timings.process[k]) > 1
    if shares:
        node["process"] = timings.process[k] + 1
    if _machine_number(timings, k) in {_machine_number(timings, j) for j in last.crowded}:
        node["machine"] = timings.machine[k]
    return node


class _Sums:
    """Medians of one calibration.

    Args:
        timings: What was measured.
    """

    def __init__(self, timings: Timings) -> None:
        self.timings = timings
        self.network, links, turn_links = _links(timings)
        self.crowded = _crowded(timings)
        self.measured = _measured(timings, turn_links, self.crowded)
        computes = [int(bool(samples)) for samples in timings.alone]
        alone_s = self.measured.round_seconds(computes, [1.0] * len(computes), 0.0)
        self.round_s = max(0.0, _median(timings.rounds) - alone_s - max(links))


def _measured(timings: Timings, turn_links: Sequence[float], crowded: Mapping[int, float]) -> Measured:
    slowest = max((_median(samples) for samples in timings.alone if samples), default=1.0)
    iteration = [_median(samples) if samples else slowest for samples in timings.alone]
    first = [_median(f) if f else s for f, s in zip(timings.first, iteration, strict=True)]
    answer = _median(timings.answer) + (_median(timings.between) if timings.between else 0.0)
    driver = _median(timings.driver) if timings.driver else 0.0
    apart = len(set(timings.process)) > 1
    together = tuple(_median(samples) if samples and apart else 0.0 for samples in timings.together)
    embedding = [_median(samples) for samples in timings.embedding[:-1]]
    turns = [  # which end with the embeddings of the next, however little is left
        max(own, _median(samples) - answer - driver - link)
        for own, samples, link in zip(embedding, timings.turn[:-1], turn_links, strict=True)
    ]
    machine = tuple(_machine_number(timings, k) for k in range(len(timings.names)))
    cores = {machine[k]: cores for k, cores in crowded.items()}
    return Measured(
        iteration_s=tuple(iteration),
        first_s=tuple(first),
        together_s=together,
        embedding_s=(*embedding, 0.0),
        turn_s=(*turns, answer),
        round_s=0.0,
        process=timings.process,
        machine=machine,
        cores=tuple(cores.get(m, NO_WAIT) for m in range(max(machine) + 1)),
        driver_s=driver,
    )


def _machine_number(timings: Timings, k: int) -> int:
    return list(dict.fromkeys(timings.machine)).index(timings.machine[k])


def _crowded(timings: Timings) -> dict[int, float]:
    """Return the cores of machines on which participants wait for one another, by the place of the first on each."""
    found = {}
    for machine in dict.fromkeys(timings.machine):
        there = [k for k, name in enumerate(timings.machine) if name == machine and timings.alone[k]]
        processes = len({timings.process[k] for k in there})
        slower = [_median(timings.together[k]) / _median(timings.alone[k]) for k in there if timings.together[k]]
        factor = _median(slower) if slower else 1.0
        if processes > 1 and factor > NOTICEABLE:
            found[there[0]] = max(1.0, processes / factor)
    return found


def _links(timings: Timings) -> tuple[dict[str, Any], list[float], list[float]]:
    """Return keys of ``network``, and the seconds of everybody's messages in a round and in a turn."""
    latency: dict[str, float] = {}
    bandwidth: dict[str, float] = {}
    in_round, in_turn = [], []
    for k, name in enumerate(timings.names[:-1]):
        if timings.process[k] == timings.process[-1]:  # nothing travels
            latency[name] = 0.0
        else:
            small, full = min(timings.small[k]), min(timings.round_message[k])  # nothing else was in the way
            latency[name] = _rounded(small if full > CLEAR * small else full)
            if full > CLEAR * small:
                bandwidth[name] = _rounded(timings.round_bytes[k] / (full - small))
        in_round.append(latency[name] + timings.round_bytes[k] / bandwidth.get(name, math.inf))
        in_turn.append(latency[name] + timings.turn_bytes[k] / bandwidth.get(name, math.inf))
    return {"t_comm": latency, **({"bandwidth": bandwidth} if bandwidth else {})}, in_round, in_turn


def _median(samples: Sequence[float]) -> float:
    return float(np.median(samples))


def _spread(samples: Samples) -> float:
    """Return the distance between the quartiles as a share of the median."""
    low, middle, high = np.percentile(samples, (25, 50, 75))
    return float((high - low) / middle)


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
