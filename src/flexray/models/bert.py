"""A BERT encoder for text parties. The library transformers is imported only when one is made.

Shapes: b = samples of a batch, t = tokens of the longest text, h = BERT's hidden width, o = outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from flexray.core.checks import number, whole
from flexray.core.errors import ConfigError

BERT_EXPECTED = "expected a BERT's name on the hub, or a folder with config.json, weights and tokenizer"


class Bert(nn.Module):
    """BERT; the last hidden state of a text's first token, unchanged or mapped linearly to the outputs.

    Weights come from the Hugging Face hub or a local folder; without ``pretrained``, they are random in a small BERT of
    the widths given here. Random weights have variance 1 / width: with BERT's smaller default, the first token would
    hardly attend to the others.

    Args:
        in_shape: (t,): the largest number of tokens.
        out_features: o, outputs per sample with ``projection``.
        pretrained: Name on the hub, or a folder with ``config.json`` and weights; usually left to the dataset, which
            must use the same model's tokens.
        projection: Map the first token's state to o outputs; else the embedding has BERT's hidden width.
        frozen_layers: Number of lower layers that are not trained, with the embeddings; 0 trains all.
        dropout: Probability in all dropout layers; None: the pretrained model's own, 0.1 for a small one.
        vocab_size: Number of token IDs of a small one.
        hidden: h of a small one.
        layers: Layers of a small one.
        heads: Attention heads of a small one.
        intermediate: Width of the feed-forward part of a small one's layers.
    """

    def __init__(
        self,
        in_shape: Sequence[int],
        out_features: int,
        pretrained: str | None = None,
        projection: bool = False,
        frozen_layers: int = 0,
        dropout: float | None = None,
        vocab_size: int = 1000,
        hidden: int = 32,
        layers: int = 2,
        heads: int = 2,
        intermediate: int = 64,
    ) -> None:
        super().__init__()
        if len(in_shape) != 1:
            raise ConfigError(f"model: Bert expects token IDs, (tokens,), got samples of shape {tuple(in_shape)}")
        chances = {}
        if dropout is not None:
            number("model.dropout", dropout, low=0, below=1)
            chances = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
        if pretrained is None:
            sizes = {
                "max_position_embeddings": in_shape[0], "hidden_size": hidden, "num_hidden_layers": layers,
                "num_attention_heads": heads, "intermediate_size": intermediate, "vocab_size": vocab_size,
            }  # fmt: skip
            self.bert: Any = _small(sizes, chances)
        else:
            self.bert = _pretrained(pretrained, in_shape[0], chances)
        _freeze(self.bert, frozen_layers)
        width = self.bert.config.hidden_size
        self.output = nn.Linear(width, out_features) if projection else nn.Identity()

    def forward(self, tokens_bt: Tensor, mask_bt: Tensor | None = None) -> Tensor:
        """Return embeddings [b, o] of those token IDs [b, t] for which ``mask_bt`` is 1 (None: all)."""
        if tokens_bt.is_floating_point():
            raise ConfigError("model: Bert expects token IDs, got other numbers; such features want model=mlp or lstm")
        state_bth = self.bert(input_ids=tokens_bt, attention_mask=mask_bt).last_hidden_state
        embedding_bo: Tensor = self.output(state_bth[:, 0])
        return embedding_bo


def _small(sizes: dict[str, Any], chances: dict[str, Any]) -> Any:
    from transformers import BertConfig, BertModel

    for key, value in sizes.items():
        whole(f"model: Bert's {key}", value, low=1)
    width, heads = sizes["hidden_size"], sizes["num_attention_heads"]
    if width % heads:
        raise ConfigError(f"model.heads: expected a divisor of model.hidden, {width}, got {heads}")
    config = BertConfig(**sizes, **chances, initializer_range=width**-0.5)
    return BertModel(config, add_pooling_layer=False)


def _pretrained(name: str, tokens: int, chances: dict[str, float]) -> Any:
    from transformers import AutoModel
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    try:
        model, info = AutoModel.from_pretrained(
            name, trust_remote_code=False, output_loading_info=True, ignore_mismatched_sizes=True,
            dtype=torch.float32, **chances,
        )  # fmt: skip
    except Exception as error:  # of any library
        raise ConfigError(f"dataset.bert: cannot load '{name}': {first_line(error)}; {BERT_EXPECTED}") from error
    for key, found, expected in sorted(info["mismatched_keys"]):
        raise ConfigError(
            f"dataset.bert: the weights in '{name}' do not fit its config.json:"
            f" {key} has shape {tuple(found)}, expected {tuple(expected)}"
        )
    lacking = sorted(key for key in info["missing_keys"] if not key.startswith("pooler."))
    if lacking:
        raise ConfigError(f"dataset.bert: the weights in '{name}' lack {lacking[0]}; {BERT_EXPECTED}")
    if hasattr(model, "pooler"):
        model.pooler = None  # its output is not used
    limit = model.config.max_position_embeddings
    if tokens > limit:
        raise ConfigError(f"dataset.max_tokens: expected at most {limit}, what '{name}' can read, got {tokens}")
    return model


def first_line(error: BaseException) -> str:
    """Return the first line of a library's error."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")


def _freeze(bert: Any, layers: int) -> None:
    if not whole("model.frozen_layers", layers, low=0):
        return
    stack = getattr(getattr(bert, "encoder", None), "layer", None)
    if not isinstance(stack, nn.ModuleList) or layers > len(stack):
        there = len(stack) if isinstance(stack, nn.ModuleList) else "no list of"
        raise ConfigError(f"model.frozen_layers: the model has {there} layers, got {layers}")
    for module in (bert.embeddings, *list(stack)[:layers]):
        module.requires_grad_(False)
