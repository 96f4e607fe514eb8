"""An LSTM encoder for sequences of different lengths.

Shapes: b = samples of a batch, t = steps of the longest sequence, d = features of a step, o = outputs.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from flexray.core.checks import number, whole
from flexray.core.errors import ConfigError


class LSTM(nn.Module):
    """LSTM over packed sequences; its last hidden state, mapped linearly to the outputs.

    Args:
        in_shape: (t, d): steps and features of a step.
        out_features: o, outputs per sample.
        hidden: Width of the hidden state.
        layers: Number of stacked LSTMs.
        bidirectional: Read the sequences in both directions and join the last states.
        dropout: Probability in [0, 1) that an entry of the last hidden state is dropped.
    """

    def __init__(
        self,
        in_shape: Sequence[int],
        out_features: int,
        hidden: int = 16,
        layers: int = 1,
        bidirectional: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if len(in_shape) != 2:
            raise ConfigError(
                f"model: LSTM expects sequences, (steps, features), got samples of shape {tuple(in_shape)};"
                " flat features want model=mlp"
            )
        for key, value in (("hidden", hidden), ("layers", layers)):
            whole(f"model.{key}", value, low=1)
        number("model.dropout", dropout, low=0, below=1)
        self.rnn = nn.LSTM(in_shape[1], hidden, layers, batch_first=True, bidirectional=bidirectional)
        self.dropout = nn.Dropout(dropout) if dropout else nn.Identity()
        self.output = nn.Linear(hidden * (2 if bidirectional else 1), out_features)

    def forward(self, x_btd: Tensor, lengths_b: Tensor | None = None) -> Tensor:
        """Return embeddings [b, o] of the first ``lengths_b`` (None: all) steps of sequences [b, t, d]."""
        if lengths_b is None:
            _, (state, _) = self.rnn(x_btd)
        else:
            packed = pack_padded_sequence(x_btd, lengths_b.cpu(), batch_first=True, enforce_sorted=False)
            _, (state, _) = self.rnn(packed)
        directions = 2 if self.rnn.bidirectional else 1
        last_bh = state[-directions:].transpose(0, 1).flatten(1)
        embedding_bo: Tensor = self.output(self.dropout(last_bh))
        return embedding_bo
