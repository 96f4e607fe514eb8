"""Twelve ResNet50 parties on one GPU: seconds, memory, and whether its losses are those of the CPU.

``python experiments/gpu_check.py`` prints, for fp32, tf32 and bf16, the seconds of a round and the peak memory, after a
round that warms up, and how far the losses of a tiny case are from the CPU's in fp32; it exits with 1 if any is farther
than its tolerance. Without a GPU only the tiny case is run, in bf16 on the CPU; ``--device cpu`` runs all of it there.
All parties live in this process and take turns on the card; the pictures are random.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from flexray.algorithms.base import System
from flexray.algorithms.flex import FlexVFL
from flexray.core.messages import SERVER, RoundRecord
from flexray.core.speeds import FixedSpeeds
from flexray.data.base import ArrayFeatures, Dataset, Features, Outline, Split
from flexray.engine.driver.experiment import Evaluations, Experiment, LearningRateDecay, Limits, Target
from flexray.engine.driver.make import make_driver
from flexray.engine.hosts.inline import InProcess, borrowed_torch
from flexray.engine.hosts.plan import together
from flexray.engine.parties.devices import Compute
from flexray.engine.parties.spec import ParticipantSpec, Shared
from flexray.models import Linear
from flexray.optimizers import LocalSGD
from flexray.tasks import LabelArray, Task

CLASSES, WIDTH, RHO, LR = 40, 128, 0.9, 0.005
PRECISIONS = ("fp32", "tf32", "bf16")
TOLERANCES = {"fp32": 1e-3, "tf32": 1e-2, "bf16": 5e-2}
"""Largest relative difference of a round's loss from the CPU's in fp32: formats of 24, 11 and 8 bits."""
NEVER = 1 << 40


@dataclass(frozen=True)
class Case:
    """What is run: K parties with a ResNet each, B pictures a batch, Q local iterations."""

    parties: int = 12
    depth: int = 50
    batch: int = 64
    size: int = 224
    rounds: int = 3
    local_iterations: int = 1


TINY = Case(parties=2, depth=18, batch=8, size=48, rounds=3, local_iterations=2)


@dataclass(frozen=True)
class Outcome:
    """Loss and seconds of every round, and the most bytes that tensors took on the card."""

    losses: list[float]
    seconds: list[float]
    peak_bytes: int


class ResNet(nn.Module):
    """A torchvision ResNet of any depth that ends in an embedding [b, out_features]."""

    def __init__(self, out_features: int, depth: int) -> None:
        super().__init__()
        from torchvision import models

        self.net = getattr(models, f"resnet{depth}")(weights=None, num_classes=out_features)

    def forward(self, x: Tensor) -> Tensor:
        """Return embeddings of pictures [b, 3, h, w]."""
        embedding_bo: Tensor = self.net(x)
        return embedding_bo


class Pictures(Dataset):
    """Two batches of random pictures per party, and random labels."""

    def __init__(self, case: Case) -> None:
        self.case = case

    def outline(self) -> Outline:
        """Return K parties; a few test samples, since every run evaluates some."""
        sizes: dict[Split, int] = {"train": 2 * self.case.batch, "val": 0, "test": 4}
        names = tuple(f"view_{k:02d}" for k in range(self.case.parties))
        return Outline(names, sizes, Task("cross_entropy", CLASSES), "synthetic")

    def features(self, party: int, dtype: torch.dtype) -> Mapping[Split, Features]:
        """Draw one party's pictures."""
        draw, size = np.random.default_rng(party), self.case.size
        sizes = self.outline().sizes
        return {s: ArrayFeatures(draw.random((n, 3, size, size), np.float32), dtype) for s, n in sizes.items()}

    def labels(self) -> Mapping[Split, LabelArray]:
        """Draw the labels."""
        draw = np.random.default_rng(10**6)
        return {s: draw.integers(0, CLASSES, n) for s, n in self.outline().sizes.items()}


class ReadAtOnce(FlexVFL):
    """Flex-VFL whose rounds are read one by one, so that each can be timed."""

    needs_reports = True


def experiment(case: Case, compute: Compute) -> Experiment:
    """Return flexray's description of the case."""
    data, optimizer = Pictures(case), LocalSGD(momentum=RHO)
    server = ParticipantSpec(SERVER, 0, Linear, optimizer, compute=compute)
    shared = Shared(data, data.outline(), server, seed=0, batch_size=case.batch, embedding_width=WIDTH)
    shared = replace(shared, threads=torch.get_num_threads())
    names = (*data.outline().parties, SERVER)
    many = len(names)
    model = partial(ResNet, depth=case.depth)
    parties = tuple(ParticipantSpec(n, k + 1, model, optimizer, compute=compute) for k, n in enumerate(names[:-1]))
    system = System(
        names=names, base_units=(1.0,) * many, timeout_units=float(case.local_iterations),
        party_comm_units=(1.0,) * case.parties, lr=(LR,) * many, base_rates=(LR,) * many,
        optimizers=(optimizer,) * many, frozen=(False,) * many,
    )  # fmt: skip
    return Experiment(
        shared, parties, ReadAtOnce(system), FixedSpeeds(system.base_units, (0.0,) * many),
        (LearningRateDecay(),) * many, Limits(rounds=case.rounds + 1), Target("test_top1"),
        Evaluations(NEVER, train=False),
    )  # fmt: skip


def run(case: Case, compute: Compute) -> Outcome:
    """Run a case; the first round warms up and is not timed."""
    on_gpu = compute.device == "cuda"
    if on_gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    losses, ends = [], []
    with borrowed_torch():
        driver = make_driver(experiment(case, compute), InProcess(), together(case.parties))
        for record in driver.run():
            if isinstance(record, RoundRecord):
                losses.append(record.train_loss)
                if on_gpu:
                    torch.cuda.synchronize()
                ends.append(time.perf_counter())
    seconds = [end - start for start, end in pairwise(ends)]
    return Outcome(losses, seconds, torch.cuda.max_memory_allocated() if on_gpu else 0)


def difference(reference: Outcome, other: Outcome) -> float:
    """Return the largest relative difference of two runs' losses."""
    return max(abs(a - b) / abs(a) for a, b in zip(reference.losses, other.losses, strict=True))


def check_losses(device: str, case: Case = TINY) -> bool:
    """Compare a case with the CPU in fp32; print and return whether every precision is within its tolerance."""
    reference = run(case, Compute("cpu", "fp32"))
    agree = True
    for precision in PRECISIONS if device == "cuda" else ("bf16",):
        found = difference(reference, run(case, Compute(device, precision)))
        within = found <= TOLERANCES[precision]
        agree &= within
        verdict = "within" if within else "NOT within"
        print(f"losses {device} {precision}: {found:.2e} from cpu fp32, {verdict} {TOLERANCES[precision]:g}")
    return agree


def measure(device: str, case: Case) -> None:
    """Print seconds of a round and memory."""
    for precision in PRECISIONS if device == "cuda" else ("fp32", "bf16"):
        outcome = run(case, Compute(device, precision))
        each = ", ".join(f"{s:.2f}" for s in outcome.seconds)
        memory = f"; peak {outcome.peak_bytes / 2**30:.1f} GiB" if device == "cuda" else ""
        print(f"{device} {precision}: {each} s a round{memory}; losses {', '.join(f'{x:.4f}' for x in outcome.losses)}")


def main() -> int:
    """Run both parts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--device", choices=["cpu", "cuda"], help="default: cuda if there is a GPU, else tiny case only"
    )
    for name, value in vars(Case()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=value)
    args = vars(parser.parse_args())
    device = args.pop("device")
    there = torch.cuda.is_available()
    card = torch.cuda.get_device_name() if there else "no GPU here"
    print(f"{Case(**args)}, torch {torch.__version__}, {card}")
    agree = check_losses(device or ("cuda" if there else "cpu"))
    if device or there:
        measure(device or "cuda", Case(**args))
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
