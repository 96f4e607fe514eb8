"""Words into the token IDs of the text party's own BERT. The library transformers is imported when it is needed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from flexray.data.base import IdArray
from flexray.errors import ConfigError
from flexray.models.bert import BERT_EXPECTED

WEIGHTS = ("model.safetensors", "pytorch_model.bin", "model.safetensors.index.json", "pytorch_model.bin.index.json")
VOCABULARY = ("tokenizer.json", "vocab.txt", "vocab.json")


def check_bert(name: str) -> None:
    """Refuse a folder that lacks a part of a model; what is no folder is a name on the hub.

    Raises:
        ConfigError: It names the part.
    """
    folder = Path(name)
    if not folder.is_dir():
        if folder.is_absolute() or name.startswith((".", "~")) or name.count("/") > 1:
            raise ConfigError(f"dataset.bert: {name}: no such folder; {BERT_EXPECTED}")
        return
    for part, names in (("config.json", ("config.json",)), ("weights", WEIGHTS), ("tokenizer", VOCABULARY)):
        if not any((folder / file).is_file() for file in names):
            raise ConfigError(f"dataset.bert: {name} has no {part} ({', '.join(names)}); {BERT_EXPECTED}")


def tokenize(sentences: Sequence[str], bert: str, limit: int) -> tuple[list[IdArray], int]:
    """Return the token IDs of every sentence, special tokens included, and the ID of the padding token.

    Args:
        sentences: One text per sample.
        bert: Name on the hub, or a folder.
        limit: Largest number of tokens; longer texts are cut.

    Raises:
        ConfigError: There is no such tokenizer.
    """
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(bert)
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0].rstrip(".")
        raise ConfigError(f"dataset.bert: cannot load the tokenizer of '{bert}': {reason}; {BERT_EXPECTED}") from error
    if not sentences:
        return [], 0
    found = tokenizer(list(sentences), truncation=True, max_length=limit)["input_ids"]
    return [np.array(ids, dtype=np.int64) for ids in found], int(tokenizer.pad_token_id or 0)
