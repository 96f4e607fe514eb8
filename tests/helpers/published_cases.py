"""Fifty rounds of an algorithm, and what a plain loop needs to do the same from equal weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from flexray.config.job import Job
from flexray.core.messages import Record
from flexray.data.batches import BatchStream
from helpers import reference_cases as cases
from helpers.jobs import Compose
from helpers.published import Split
from helpers.reference import Pace, Rates, Rule
from helpers.small import ended, rounds_of

ROUNDS = 50


@dataclass(frozen=True)
class Case:
    """A run and its loop.

    Args:
        job: The run.
        model: Its models, data and rates, for the loop.
        batches: The samples of every round.
        models: The models that the loop trains, the server's last.
        starts: Their parameters before.
    """

    job: Job
    model: Split
    batches: list[Tensor]
    models: list[nn.Module]
    starts: list[dict[str, Tensor]]

    def assert_same(self, records: Sequence[Record], losses: Sequence[float]) -> None:
        """Compare a run with what the loop came to."""
        assert [record.train_loss for record in rounds_of(records)] == pytest.approx(losses, rel=1e-10)
        cases.assert_same_parameters(ended(records), self.models, self.starts)


def case_of(
    compose_job: Compose, bundle: Path, words: Sequence[str], server: str = "mlp", pace: Pace = cases.PACE
) -> Case:
    """Return a case of an algorithm, the first of ``words``."""
    rules = [Rule()] * 4
    given = cases.overrides(bundle, words[0], pace, Rates(cases.LR))
    own = {"server": cases.SERVERS[server], "parties": cases.participants(rules)}
    job = compose_job(*given, f"rounds={ROUNDS}", *words[1:], **own)
    world = cases.world_of(job.experiment, bundle, rules, cross_entropy)
    ids = cases.ids_of(BatchStream(len(world.labels), cases.BATCH, cases.SEED))
    model = Split(world.parties, world.server, world.features, world.labels, cases.LR)
    return Case(job, model, [ids(r) for r in range(ROUNDS)], world.models(), cases.copies(world))
