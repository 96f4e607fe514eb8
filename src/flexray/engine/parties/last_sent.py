"""What stands in for a party that misses rounds.

Shapes: b = samples of a batch, n = training samples, o = embedding width of a party.
"""

from __future__ import annotations

import numpy as np

from flexray.core.messages import FloatArray
from flexray.data.base import IdArray


class LastSent:
    """The last embeddings of every training sample that one party sent.

    The process of the party keeps them in the server's place: the numbers are the same, and what stands in for a
    message goes the way that messages go.

    Args:
        embeddings_no: Those of all training samples, before the first round.
    """

    def __init__(self, embeddings_no: FloatArray) -> None:
        self.embeddings_no = np.array(embeddings_no)

    def note(self, ids_b: IdArray, sent_bo: FloatArray) -> None:
        """Take what was sent of samples ``ids_b``; of a sample that is in the batch twice, the last."""
        self.embeddings_no[ids_b] = sent_bo

    def of(self, ids_b: IdArray) -> FloatArray:
        """Return what was last sent of samples ``ids_b``."""
        block_bo: FloatArray = self.embeddings_no[ids_b]
        return block_bo
