"""Speed of flexray beside a plain PyTorch loop and an obvious Ray version, measured in the same run.

``python experiments/bench.py`` prints rounds per second and ratios. One round is a Flex-VFL round with equal local
iterations Q at all participants: K parties with an MLP of 784/K -> 32 -> 32, a linear server 32 K -> 10, batches of B,
SGD with momentum, random data, one thread each.
"""

from __future__ import annotations

import argparse
import copy
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

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

BATCHES, HIDDEN, CLASSES, LR, RHO = 20, 32, 10, 0.01, 0.9
NEVER = 1 << 40
PAIRS = (("inline", "plain"), ("local", "plain"), ("local", "naive_ray"))
"""Whose rounds per second are divided by whose."""


class RandomData(Dataset):
    """Random features, for speed only: ``width`` features per party, 20 batches of training samples."""

    def __init__(self, parties: int, batch: int, width: int) -> None:
        self.parties, self.batch, self.width = parties, batch, width

    def outline(self) -> Outline:
        """Return K parties with 20 batches."""
        names = tuple(f"p{k + 1}" for k in range(self.parties))
        return Outline(
            names, {"train": BATCHES * self.batch, "val": 0, "test": 2}, Task("cross_entropy", CLASSES), "synthetic"
        )

    def features(self, party: int, dtype: torch.dtype) -> Mapping[Split, Features]:
        """Draw one party's features."""
        draw = np.random.default_rng(party)
        sizes = self.outline().sizes
        return {s: ArrayFeatures(draw.standard_normal((n, self.width), np.float32), dtype) for s, n in sizes.items()}

    def labels(self) -> Mapping[Split, LabelArray]:
        """Draw the labels."""
        draw = np.random.default_rng(10**6)
        return {s: draw.integers(0, CLASSES, n) for s, n in self.outline().sizes.items()}


def experiment(parties: int, batch: int, q: int, rounds: int, width: int) -> Experiment:
    """Return flexray's version of the round."""
    data = RandomData(parties, batch, width)
    optimizer = LocalSGD(momentum=RHO)
    server = ParticipantSpec(SERVER, 0, Linear, optimizer)
    shared = Shared(data, data.outline(), server, seed=0, batch_size=batch, embedding_width=HIDDEN)
    names = (*data.outline().parties, SERVER)
    many = len(names)
    specs = tuple(
        ParticipantSpec(name, k + 1, partial(MLP, hidden=(HIDDEN,)), optimizer) for k, name in enumerate(names[:-1])
    )
    system = System(
        names=names, base_units=(1.0,) * many, timeout_units=float(q), party_comm_units=(1.0,) * parties,
        lr=(LR,) * many, base_rates=(LR,) * many, optimizers=(optimizer,) * many, frozen=(False,) * many,
    )  # fmt: skip
    return Experiment(
        shared, specs, FlexVFL(system), FixedSpeeds(system.base_units, (0.0,) * many), (LearningRateDecay(),) * many,
        Limits(rounds=rounds), Target("test_top1"), Evaluations(NEVER, train=False),
    )  # fmt: skip


# Baselines ------------------------------------------------------------------------------------------------------------


class Plain:
    """The same arithmetic as one loop in one process, with torch.optim."""

    def __init__(self, parties: int, batch: int, q: int) -> None:
        torch.manual_seed(0)
        width = 784 // parties
        self.parties, self.batch, self.q = parties, batch, q
        self.bottoms = [
            torch.nn.Sequential(torch.nn.Linear(width, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, HIDDEN))
            for _ in range(parties)
        ]
        self.top = torch.nn.Linear(HIDDEN * parties, CLASSES)
        self.loss = torch.nn.CrossEntropyLoss()
        self.x = [torch.randn(batch * BATCHES, width) for _ in range(parties)]
        self.y = torch.randint(0, CLASSES, (batch * BATCHES,))
        self.steps = [torch.optim.SGD(m.parameters(), LR, momentum=RHO) for m in [*self.bottoms, self.top]]

    def round(self, index: int) -> None:
        """Run one round."""
        rows = slice((index % BATCHES) * self.batch, (index % BATCHES + 1) * self.batch)
        xs, y = [x[rows] for x in self.x], self.y[rows]
        with torch.no_grad():
            sent = [bottom(x) for bottom, x in zip(self.bottoms, xs, strict=True)]
        frozen = copy.deepcopy(self.top).requires_grad_(False)
        for k, bottom in enumerate(self.bottoms):
            for _ in range(self.q):
                embeddings = [*sent[:k], bottom(xs[k]), *sent[k + 1 :]]
                self._step(k, self.loss(frozen(torch.cat(embeddings, 1)), y))
        for _ in range(self.q):
            self._step(-1, self.loss(self.top(torch.cat(sent, 1)), y))

    def _step(self, k: int, loss: torch.Tensor) -> None:
        self.steps[k].zero_grad()
        loss.backward()
        self.steps[k].step()


class NaiveRay:
    """The obvious Ray version: one actor per party, two barriers a round, the server in the driver."""

    def __init__(self, parties: int, batch: int, q: int) -> None:
        import ray

        ray.init(address="local", num_cpus=os.cpu_count(), include_dashboard=False, log_to_driver=False)
        self.ray, self.batch, self.q = ray, batch, q
        actor = ray.remote(num_cpus=0)(NaiveParty)
        self.actors = [actor.remote(k, parties, batch) for k in range(parties)]
        self.plain = Plain(parties, batch, q)
        ray.get([a.embed.remote(0) for a in self.actors])

    def round(self, index: int) -> None:
        """Run one round."""
        ray, plain = self.ray, self.plain
        sent = ray.get([a.embed.remote(index) for a in self.actors])
        top = plain.top
        message = ray.put([top.weight.detach().numpy(), top.bias.detach().numpy(), *sent])
        running = [a.local.remote(index, message, self.q) for a in self.actors]
        blocks = [torch.from_numpy(np.array(block)) for block in sent]
        rows = slice((index % BATCHES) * self.batch, (index % BATCHES + 1) * self.batch)
        for _ in range(self.q):
            plain._step(-1, plain.loss(top(torch.cat(blocks, 1)), plain.y[rows]))
        ray.get(running)

    def close(self) -> None:
        """End Ray."""
        self.ray.shutdown()


class NaiveParty:
    """A party of :class:`NaiveRay`."""

    def __init__(self, k: int, parties: int, batch: int) -> None:
        torch.set_num_threads(1)
        self.k, self.plain = k, Plain(parties, batch, 1)

    def _rows(self, index: int) -> slice:
        return slice((index % BATCHES) * self.plain.batch, (index % BATCHES + 1) * self.plain.batch)

    def embed(self, index: int) -> Any:
        """Return the embeddings of a batch."""
        with torch.no_grad():
            return self.plain.bottoms[self.k](self.plain.x[self.k][self._rows(index)]).numpy()

    def local(self, index: int, message: list[Any], q: int) -> float:
        """Run the local iterations of a round."""
        plain, k = self.plain, self.k
        weight, bias, *sent = (torch.from_numpy(np.array(part)) for part in message)
        plain.top.requires_grad_(False)
        plain.top.weight.copy_(weight)
        plain.top.bias.copy_(bias)
        for _ in range(q):
            own = plain.bottoms[k](plain.x[k][self._rows(index)])
            loss = plain.loss(plain.top(torch.cat([*sent[:k], own, *sent[k + 1 :]], 1)), plain.y[self._rows(index)])
            plain._step(k, loss)
        return float(loss)


# Measuring ------------------------------------------------------------------------------------------------------------


def rate(run_round: Callable[[int], None], seconds: float) -> float:
    """Return rounds per second of a baseline."""
    for i in range(10):
        run_round(i)
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        run_round(count)
        count += 1
    return count / (time.perf_counter() - start)


def record_rate(records: Iterator[Record], seconds: float) -> float:
    """Return rounds per second of a stream of records, after the first few."""
    start, first, last = 0.0, 0, 0
    for record in records:
        if not isinstance(record, RoundRecord):
            continue
        last = record.round
        if start == 0.0 and last >= 20:
            start, first = time.perf_counter(), last
        elif start and time.perf_counter() - start > seconds:
            break
    return (last - first) / (time.perf_counter() - start)


def inline_rate(parties: int, batch: int, q: int, seconds: float) -> float:
    """Return rounds per second of ``cluster=inline``."""
    x = experiment(parties, batch, q, NEVER, 784 // parties)
    with borrowed_torch():
        return record_rate(make_driver(x, InProcess(), together(parties)).run(), seconds)


def ray_plan(parties: int, per_actor: int) -> ClusterPlan:
    """Return the plan of ``cluster=local`` or ``packed``."""
    names = tuple(f"p{k + 1}" for k in range(parties))
    placement: Placement = place(parties, per_actor)
    hosts = [HostSpec(host_name("bench", group, names)) for group in placement.groups]
    return ClusterPlan("local", placement, (*hosts, HostSpec("flexray-bench-server")), HostSpec("flexray-bench-driver"))


def ray_rate(parties: int, batch: int, q: int, seconds: float, per_actor: int = 1) -> float:
    """Return rounds per second of ``cluster=local``."""
    from flexray.engine.hosts.ray import RayCluster

    cluster = RayCluster()
    try:
        x = experiment(parties, batch, q, NEVER, 784 // parties)
        return record_rate(cluster.run(ray_plan(parties, per_actor), x), seconds)
    finally:
        cluster.close()


def packed_cost(parties: int, batch: int, rounds: int) -> float:
    """Return milliseconds per party and round of ``cluster=packed``, over the rounds after the first two."""
    from flexray.engine.hosts.ray import RayCluster

    cluster = RayCluster()
    per_actor = -(-parties // (os.cpu_count() or 1))
    try:
        times = [
            time.perf_counter()
            for record in cluster.run(ray_plan(parties, per_actor), experiment(parties, batch, 1, rounds, 196))
            if isinstance(record, RoundRecord)
        ]
    finally:
        cluster.close()
    return (times[-1] - times[1]) / (len(times) - 2) / parties * 1e3


def main() -> None:
    """Print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3.0, help="length of one measurement")
    parser.add_argument("--repeats", type=int, default=5, help="measurements, of which the median is taken")
    parser.add_argument("--inline-only", action="store_true", help="without Ray")
    parser.add_argument("--many", type=int, default=1000, help="parties of the packed run; 0 leaves it out")
    args = parser.parse_args()
    torch.set_num_threads(1)
    print(f"K=4 B=256, {os.cpu_count()} CPUs, torch {torch.__version__}, median of {args.repeats} x {args.seconds:g} s")
    for q in (1, 10):
        compare(q, args)
    if args.many and not args.inline_only:
        twelve, many = packed_cost(12, 256, 300), packed_cost(args.many, 256, 20)
        costs = f"{many:.2f} ms per party and round at K={args.many}, {twelve:.2f} at K=12"
        print(f"packed: {costs}, ratio {many / twelve:.2f}")


def compare(q: int, args: argparse.Namespace) -> None:
    """Measure everything at Q local iterations, the versions taking turns."""
    versions: dict[str, Callable[[], float]] = {
        "plain": lambda: rate(Plain(4, 256, q).round, args.seconds),
        "inline": lambda: inline_rate(4, 256, q, args.seconds),
    }
    if not args.inline_only:
        versions["naive_ray"] = lambda: _naive_rate(q, args.seconds)
        versions["local"] = lambda: ray_rate(4, 256, q, args.seconds)
    found: dict[str, list[float]] = {name: [] for name in versions}
    for _ in range(args.repeats):
        for name, measure in versions.items():
            found[name].append(measure())
    medians = {name: statistics.median(rates) for name, rates in found.items()}
    line = ", ".join(f"{name} {value:.1f}" for name, value in medians.items())
    print(f"Q={q:2d} rounds/s: {line}")
    ratios = [f"{one} / {other} {ratio(found, one, other):.2f}" for one, other in PAIRS if one in found]
    print(f"     ratios: {', '.join(ratios)}")


def ratio(found: Mapping[str, list[float]], one: str, other: str) -> float:
    """Return the median ratio of measurements taken soon after each other, when the host was equally busy."""
    return statistics.median(a / b for a, b in zip(found[one], found[other], strict=True))


def _naive_rate(q: int, seconds: float) -> float:
    naive = NaiveRay(4, 256, q)
    try:
        return rate(naive.round, seconds)
    finally:
        naive.close()


if __name__ == "__main__":
    main()
