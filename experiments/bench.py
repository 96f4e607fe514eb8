"""Speed of flexray beside a plain PyTorch loop and an obvious Ray version, measured in the same run.

``python experiments/bench.py`` prints ratios and appends a JSON line per figure to ``build/bench.jsonl``;
``python experiments/bench.py --compare OLD NEW`` compares two such files. One round is a Flex-VFL round with equal
local iterations Q at all participants: K parties with an MLP of three widths, a linear server with 10 outputs, batches
of B, SGD with momentum, random data, one thread each. Two things are measured by turns, in short slices, so that what
else the machine does meets both; figures of one process count its CPU seconds.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from bench_baselines import BATCHES, CLASSES, LR, RHO, NaiveRay, Plain, Setting
from bench_ledger import Figure, append, compare

from flexray.algorithms.base import System
from flexray.algorithms.flex import FlexVFL
from flexray.core.messages import SERVER, Record, RoundRecord
from flexray.core.speeds import FixedSpeeds
from flexray.data.base import ArrayFeatures, Dataset, Features, Outline, Split
from flexray.engine.driver.experiment import Evaluations, Experiment, LearningRateDecay, Limits, Target
from flexray.engine.driver.make import make_driver
from flexray.engine.driver.seam import Placement
from flexray.engine.hosts.inline import InProcess, borrowed_torch
from flexray.engine.hosts.plan import ClusterPlan, HostSpec, host_name, place, together
from flexray.engine.parties.spec import ParticipantSpec, Shared
from flexray.models import MLP, Linear
from flexray.optimizers import LocalSGD
from flexray.tasks import LabelArray, Task

NEVER = 1 << 40
WARM_UP = 20
"""Rounds that are not counted."""
INLINE = (Setting(q=1), Setting(q=10), Setting(12, 64, 32, 32, 64, 10), Setting(100, 8, 16, 16, 64, 10))
"""What is measured in one process."""


class RandomData(Dataset):
    """Random features, for speed only: 20 batches of training samples."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting

    def outline(self) -> Outline:
        """Return K parties with 20 batches."""
        names = tuple(f"p{k + 1}" for k in range(self.setting.parties))
        sizes: dict[Split, int] = {"train": BATCHES * self.setting.batch, "val": 0, "test": 2}
        return Outline(names, sizes, Task("cross_entropy", CLASSES), "synthetic")

    def features(self, party: int, dtype: torch.dtype) -> Mapping[Split, Features]:
        """Draw one party's features."""
        draw, width = np.random.default_rng(party), self.setting.width
        sizes = self.outline().sizes
        return {s: ArrayFeatures(draw.standard_normal((n, width), np.float32), dtype) for s, n in sizes.items()}

    def labels(self) -> Mapping[Split, LabelArray]:
        """Draw the labels."""
        draw = np.random.default_rng(10**6)
        return {s: draw.integers(0, CLASSES, n) for s, n in self.outline().sizes.items()}


def experiment(setting: Setting, rounds: int = NEVER) -> Experiment:
    """Return flexray's version of the round."""
    data, parties, optimizer = RandomData(setting), setting.parties, LocalSGD(momentum=RHO)
    server = ParticipantSpec(SERVER, 0, Linear, optimizer)
    shared = Shared(data, data.outline(), server, seed=0, batch_size=setting.batch, embedding_width=setting.out)
    names = (*data.outline().parties, SERVER)
    many = len(names)
    model = partial(MLP, hidden=(setting.hidden,))
    specs = tuple(ParticipantSpec(name, k + 1, model, optimizer) for k, name in enumerate(names[:-1]))
    system = System(
        names=names, base_units=(1.0,) * many, timeout_units=float(setting.q), party_comm_units=(1.0,) * parties,
        lr=(LR,) * many, base_rates=(LR,) * many, optimizers=(optimizer,) * many, frozen=(False,) * many,
    )  # fmt: skip
    return Experiment(
        shared, specs, FlexVFL(system), FixedSpeeds(system.base_units, (0.0,) * many), (LearningRateDecay(),) * many,
        Limits(rounds=rounds), Target("test_top1"), Evaluations(NEVER, train=False),
    )  # fmt: skip


# Measuring ------------------------------------------------------------------------------------------------------------


def plain_rounds(setting: Setting) -> Iterator[int]:
    """Run rounds of the plain loop, one each time that the next is asked for."""
    plain = Plain(setting)
    for index in itertools.count():
        plain.round(index)
        yield index


def inline_rounds(setting: Setting, planted: float = 0.0) -> Iterator[int]:
    """Run rounds of ``cluster=inline``, one each time that the next is asked for.

    Args:
        setting: The size.
        planted: Share of its time by which each round is slowed down.
    """
    records = make_driver(experiment(setting), InProcess(), together(setting.parties)).run()
    start = time.process_time()
    for record in records:
        if isinstance(record, RoundRecord):
            end = time.process_time() + planted * (time.process_time() - start)
            while time.process_time() < end:
                pass
            yield record.round
            start = time.process_time()


def rate(rounds: Iterator[int], seconds: float, clock: Callable[[], float] = time.process_time) -> float:
    """Return rounds per second."""
    start, count = clock(), 0
    while (spent := clock() - start) < seconds:
        next(rounds)
        count += 1
    return count / spent


def by_turns(setting: Setting, pairs: int, slice_s: float, planted: float = 0.0) -> list[float]:
    """Return flexray's rounds per second in one process over the plain loop's, slice by slice."""
    both = inline_rounds(setting, planted), plain_rounds(setting)
    for rounds in both:
        for _ in range(WARM_UP):
            next(rounds)
    found = []
    for _ in range(pairs):
        inline, plain = (rate(rounds, slice_s) for rounds in both)
        found.append(inline / plain)
    return found


def record_rate(records: Iterator[Record], seconds: float) -> float:
    """Return rounds per second of a stream of records, after the first few."""
    start, first, last = 0.0, 0, 0
    for record in records:
        if not isinstance(record, RoundRecord):
            continue
        last = record.round
        if start == 0.0 and last >= WARM_UP:
            start, first = time.perf_counter(), last
        elif start and time.perf_counter() - start > seconds:
            break
    return (last - first) / (time.perf_counter() - start)


def ray_plan(parties: int, per_actor: int) -> ClusterPlan:
    """Return the plan of ``cluster=local`` or ``packed``."""
    names = tuple(f"p{k + 1}" for k in range(parties))
    placement: Placement = place(parties, per_actor)
    hosts = [HostSpec(host_name("bench", group, names)) for group in placement.groups]
    return ClusterPlan("local", placement, (*hosts, HostSpec("flexray-bench-server")), HostSpec("flexray-bench-driver"))


def ray_rate(setting: Setting, seconds: float) -> float:
    """Return rounds per second of ``cluster=local``."""
    from flexray.engine.hosts.ray import RayCluster

    cluster = RayCluster()
    try:
        return record_rate(cluster.run(ray_plan(setting.parties, 1), experiment(setting)), seconds)
    finally:
        cluster.close()


def naive_rate(setting: Setting, seconds: float) -> float:
    """Return rounds per second of the obvious Ray version."""
    naive = NaiveRay(setting)
    try:
        rounds = (naive.round(index) or index for index in itertools.count())
        for _ in range(WARM_UP):
            next(rounds)
        return rate(rounds, seconds, time.perf_counter)
    finally:
        naive.close()


def packed_ms(setting: Setting, rounds: int) -> float:
    """Return milliseconds per party and round of ``cluster=packed``, over the rounds after the first two."""
    from flexray.engine.hosts.ray import RayCluster

    cluster = RayCluster()
    per_actor = -(-setting.parties // (os.cpu_count() or 1))
    try:
        times = [
            time.perf_counter()
            for record in cluster.run(ray_plan(setting.parties, per_actor), experiment(setting, rounds))
            if isinstance(record, RoundRecord)
        ]
    finally:
        cluster.close()
    return (times[-1] - times[1]) / (len(times) - 2) / setting.parties * 1e3


def figures(args: argparse.Namespace) -> Iterator[Figure]:
    """Measure one figure after another."""
    for setting in INLINE:
        yield Figure(f"inline / plain, {setting}", "ratio", by_turns(setting, args.pairs, args.slice, args.planted))
    if args.inline_only:
        return
    for baseline, setting in (("plain", Setting(q=10)), ("naive Ray", Setting(q=1))):
        ratios = []
        for _ in range(args.repeats):
            other = (
                rate(plain_rounds(setting), args.seconds, time.perf_counter)
                if baseline == "plain"
                else (naive_rate(setting, args.seconds))
            )
            ratios.append(ray_rate(setting, args.seconds) / other)
        yield Figure(f"local / {baseline}, {setting}", "ratio", ratios)
    for parties, rounds in ((100, 60), (args.many, 20)):
        if parties:
            setting = Setting(parties)
            yield Figure(f"packed, {setting}", "ms per party and round", [packed_ms(setting, rounds)])


def main() -> int:
    """Measure, or compare two ledgers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--compare", nargs=2, type=Path, metavar=("OLD", "NEW"), help="two ledgers; exit 1 if NEW lost")
    parser.add_argument("--ledger", type=Path, default=Path("build/bench.jsonl"), help="where a line per figure goes")
    parser.add_argument("--pairs", type=int, default=160, help="slices of both, in one process")
    parser.add_argument("--slice", type=float, default=0.05, help="CPU seconds of a slice")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of a measurement with Ray")
    parser.add_argument("--repeats", type=int, default=5, help="measurements with Ray")
    parser.add_argument("--inline-only", action="store_true", help="without Ray")
    parser.add_argument("--planted", type=float, default=0.0, help="slow inline down by this share, to test --compare")
    parser.add_argument("--many", type=int, default=1000, help="parties of the packed run; 0 leaves it out")
    args = parser.parse_args()
    if args.compare:
        return compare(*args.compare)
    torch.set_num_threads(1)
    with borrowed_torch():
        for figure in figures(args):
            print(f"{figure.name}: {statistics.median(figure.values):.2f} {figure.unit}", flush=True)
            append(args.ledger, figure)
    return 0


if __name__ == "__main__":
    sys.exit(main())
