"""What stands in for a party that misses rounds, and what its messages are added to.

Shapes: b = samples of a batch, n = training samples, o = embedding width of a party.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from flexray.core.messages import FloatArray
from flexray.data.base import IdArray


class LastSent:
    """The last embeddings of every training sample that arrived from one party.

    The process of the party keeps them in the server's place: the numbers are the same, and what stands in for a
    message goes the way that messages go. With error feedback sender and receivers keep them alike.

    Args:
        embeddings_no: Those of all training samples, before the first round.
        feedback: A message is the change since then; what the wire loses of it is part of the next change.
    """

    def __init__(self, embeddings_no: FloatArray, feedback: bool = False) -> None:
        self.embeddings_no: FloatArray = np.array(embeddings_no)
        self._feedback = feedback

    def send(self, ids_b: IdArray, block_bo: FloatArray, wire: Callable[[FloatArray], FloatArray]) -> FloatArray:
        """Send ``block_bo``, the embeddings of samples ``ids_b``, or their change; return what arrived of them."""
        before_bo = self.of(ids_b)
        arrived_bo: FloatArray = before_bo + wire(block_bo - before_bo) if self._feedback else wire(block_bo)
        self.note(ids_b, arrived_bo)
        return arrived_bo

    def note(self, ids_b: IdArray, sent_bo: FloatArray) -> None:
        """Take what arrived of samples ``ids_b``; of a sample that is in the batch twice, the last."""
        self.embeddings_no[ids_b] = sent_bo

    def of(self, ids_b: IdArray) -> FloatArray:
        """Return what arrived last of samples ``ids_b``."""
        block_bo: FloatArray = self.embeddings_no[ids_b]
        return block_bo
