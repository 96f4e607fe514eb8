"""Short runs with the user's model in them, in this process and on made-up samples."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch.overrides import TorchFunctionMode
from typing_extensions import override

from flexray.algorithms.base import System
from flexray.algorithms.flex import FlexVFL
from flexray.check.causes import fingerprint
from flexray.core.messages import SERVER, SERVER_INDEX, Ended, EvalRecord, Record, RoundRecord, Snapshot
from flexray.core.speeds import FixedSpeeds
from flexray.data.base import Dataset
from flexray.engine.driver.experiment import Experiment, LearningRateDecay, Limits, Target
from flexray.engine.driver.make import make_driver
from flexray.engine.driver.snapshots import Saves
from flexray.engine.hosts.inline import InProcess, borrowed_torch
from flexray.engine.hosts.plan import place, together
from flexray.engine.hosts.ray.travel import travelled
from flexray.engine.parties.spec import ParticipantSpec, Shared
from flexray.models import Linear, ModuleFactory, sees_missing
from flexray.optimizers import LocalSGD

SEED, WIDTH, BATCH = 7, 6, 4
ROUNDS, SAVED_AFTER, TAU = 3, 1, 2
LR = 0.01
UNSET = (torch.empty, torch.empty_like, torch.empty_strided, torch.Tensor.new_empty)
Dtype = Literal["float32", "float64"]
Numbers = dict[str, str]
"""What came out of a run, by round or participant, as fingerprints."""


@dataclass
class Trial:
    """A run of a few rounds in which the first party's or the server's model is the user's.

    Args:
        dataset: The samples.
        party: The first party's model.
        server: The server's model.
        dtype: Of features, parameters and embeddings.
    """

    dataset: Dataset
    party: ModuleFactory = Linear
    server: ModuleFactory = Linear
    dtype: Dtype = "float32"

    def specs(self) -> list[ParticipantSpec]:
        """Return the parties, then the server."""
        names = self.dataset.outline().parties
        models = [self.party, *[Linear] * (len(names) - 1), self.server]
        optimizer = LocalSGD(momentum=0.5)
        return [
            ParticipantSpec(name, SERVER_INDEX if name == SERVER else place + 1, models[place], optimizer)
            for place, name in enumerate((*names, SERVER))
        ]

    def shared(self) -> Shared:
        """Return what all participants know."""
        return Shared(
            self.dataset, self.dataset.outline(), self.specs()[-1], SEED, BATCH, embedding_width=WIDTH,
            dtype=self.dtype, labels_at=SERVER if sees_missing(self.server) else "all",
        )  # fmt: skip

    def experiment(self) -> Experiment:
        """Return the run: everybody takes :data:`TAU` local iterations a round."""
        *parties, server = self.specs()
        names = tuple(spec.name for spec in (*parties, server))
        count = len(names)
        system = System(
            names, (1.0,) * count, float(TAU), (1.0,) * (count - 1), (LR,) * count, (LR,) * count,
            tuple(spec.optimizer for spec in (*parties, server)), (False,) * count,
        )  # fmt: skip
        return Experiment(
            self.shared(), tuple(parties), FlexVFL(system), FixedSpeeds((1.0,) * count, (0.0,) * count),
            (LearningRateDecay(),) * count, Limits(rounds=ROUNDS), Target("test_loss"),
        )  # fmt: skip

    def run(self, saves: bool = False, since: Snapshot | None = None, apart: bool = False) -> list[Record]:
        """Run it, or the rest of it, and return its records.

        Args:
            saves: Take snapshots, too.
            since: Go on from there.
            apart: Give every participant a host of its own that shares nothing with others, as actors are: what goes
                between them is pickled, and arrays arrive read-only. Else all share one.
        """
        x = self.experiment()
        count = len(x.parties)
        runtime, placement = (InProcess(travelled), place(count, 1)) if apart else (InProcess(), together(count))
        with borrowed_torch():
            driver = make_driver(x, runtime, placement)
            return list(driver.run(Saves(every=SAVED_AFTER) if saves else None, since))


def numbers(records: list[Record], after: int = 0) -> Numbers:
    """Return what came out of a run after some rounds: losses, metrics, and every participant's final state."""
    found: Numbers = {}
    for record in records:
        if isinstance(record, RoundRecord) and record.round > after:
            found[f"losses of round {record.round}"] = repr(record.train_loss)
        elif isinstance(record, EvalRecord) and record.round > after:
            found[f"metrics after round {record.round}"] = repr(record.metrics)
        elif isinstance(record, Ended):
            for name, state in record.states.items():
                found |= {f"values of '{key}' of {name} at the end": fingerprint(value) for key, value in state.items()}
    return found


def first_difference(found: Numbers, expected: Numbers) -> str:
    """Return the name of the first number that differs, empty if none does."""
    return next((name for name in expected if found.get(name) != expected[name]), "")


class UnsetIsNan(TorchFunctionMode):
    """Within it, memory that a new tensor was given without values holds NaN, on purpose and not by chance."""

    @override
    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        return made.fill_(math.nan) if func in UNSET and made.is_floating_point() else made


def seeded(number: int) -> torch.Generator:
    """Return a generator for what a check itself draws."""
    return torch.Generator().manual_seed(number)
