"""What a party learns alone, without labels: to represent its samples (Bojanowski and Joulin, 2017, as in FedOnce).

Shapes: b = samples of a batch, n = training samples, o = the party's embedding width.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from typing_extensions import override

from flexray.core.errors import blame
from flexray.core.messages import FloatArray, Order, Report, Saved, State
from flexray.core.seeds import generator
from flexray.data.base import IdArray
from flexray.data.batches import Batch
from flexray.engine.parties.devices import seed_torch
from flexray.engine.parties.party import Party
from flexray.engine.parties.spec import ParticipantSpec, Shared
from flexray.engine.parties.state import with_more

TARGETS = "targets"
"""Their name in what is saved of a party."""


def first_targets(seed: int, party: int, samples: int, width: int) -> FloatArray:
    """Return a random point of the unit sphere for every training sample [n, o] of a party (1..K)."""
    points_no = generator(seed, party, "targets").standard_normal((samples, width))
    targets_no: FloatArray = points_no / np.linalg.norm(points_no, axis=1, keepdims=True)
    return targets_no


def dealt_anew(embeddings_bo: Tensor, targets_bo: FloatArray) -> FloatArray:
    """Return the targets of a batch in the order in which they are nearest to its embeddings, all together."""
    from scipy.optimize import linear_sum_assignment  # takes longer to import than a round; others do without

    own_bo = embeddings_bo.detach().cpu().double().numpy()
    finite_bo = np.nan_to_num(own_bo, nan=0.0, posinf=0.0, neginf=0.0)  # one that diverged is found by its loss
    far_bb = np.square(finite_bo[:, None, :] - targets_bo[None, :, :]).sum(axis=2)
    dealt_bo: FloatArray = targets_bo[linear_sum_assignment(far_bb)[1]]
    return dealt_bo


class Targets:
    """The targets of a party's training samples [n, o], once it has needed them.

    Args:
        seed: The run's seed.
        party: The party, 1..K.
        samples: How many samples there are.
        width: The party's embedding width.
    """

    def __init__(self, seed: int, party: int, samples: int, width: int) -> None:
        self._seed, self._party, self._shape = seed, party, (samples, width)
        self._targets_no: FloatArray | None = None

    def loss(self, ids_b: IdArray, embeddings_bo: Tensor) -> Tensor:
        """Deal the targets of samples ``ids_b`` anew, and return their mean squared distance from the embeddings."""
        if self._targets_no is None:
            self._targets_no = first_targets(self._seed, self._party, *self._shape)
        dealt_bo = dealt_anew(embeddings_bo, self._targets_no[ids_b])
        self._targets_no[ids_b] = dealt_bo
        return (embeddings_bo - torch.from_numpy(dealt_bo).to(embeddings_bo)).square().sum(dim=1).mean()

    def save(self) -> State:
        """Return the targets, if it has any."""
        return {} if self._targets_no is None else {TARGETS: self._targets_no.copy()}

    def load(self, state: State) -> None:
        """Load what :meth:`save` returned.

        Raises:
            ValueError: They are not so many of this width.
        """
        targets_no = state.get(TARGETS)
        if targets_no is not None and (targets_no.shape != self._shape or targets_no.dtype != np.float64):
            raise ValueError(f"{TARGETS}: expected {self._shape} numbers, got shape {targets_no.shape}")
        self._targets_no = None if targets_no is None else np.array(targets_no)


class ApartParty(Party):
    """A party that can also learn alone, and then hand its embeddings over."""

    def __init__(self, spec: ParticipantSpec, shared: Shared) -> None:
        super().__init__(spec, shared)
        self._targets = Targets(shared.seed, self.index, shared.outline.sizes["train"], self.width)

    def learn(self, batch: Batch, order: Order, index: int, hands_over: bool) -> Report:
        """Take the local iterations of a round without others and labels: towards targets of a batch's samples.

        It may then send its embeddings of all training samples, which are stored.
        """
        self.take(batch)
        report = self._idle(order) if self._has_none else self._learned(self._own(batch)[0].ids_b, order, index)
        return report._replace(up_bytes=self._hand_over()) if hands_over else report

    def _learned(self, ids_b: IdArray, order: Order, index: int) -> Report:
        with blame(self.name, f"round {index + 1}"):
            seed_torch(self._seed, self.index, "train", index)
            own = self.trainer.descent(lambda: self._targets.loss(ids_b, self._embedding()))
            return self._run(own, order)._replace(loss=None)

    def _hand_over(self) -> int:
        """Send the embeddings of all training samples; return the message's bytes."""
        self.stand_in.load({})  # until now, nothing has arrived
        arrived_no = self.embed_split("train", self._shared.eval_batch, as_sent=True)
        self.store_last(arrived_no)
        every = np.arange(len(arrived_no))
        self.stand_in.note(arrived_no[self._own(Batch(every, 0))[0].ids_b])
        return self._shared.block_bytes(self.index - 1, arrived_no, every)

    @override
    def save(self) -> Saved:
        return with_more(super().save(), self._targets.save())

    @override
    def load(self, saved: Saved) -> None:
        super().load(saved)
        self._targets.load(saved.arrays)
