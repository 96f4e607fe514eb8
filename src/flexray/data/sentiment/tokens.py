"""Words to token IDs of the text party's BERT. The library transformers is imported only when needed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from flexray.core.errors import ConfigError, DataError
from flexray.data.base import Array, IdArray
from flexray.models.bert import BERT_EXPECTED, first_line

WEIGHTS = ("model.safetensors", "pytorch_model.bin", "model.safetensors.index.json", "pytorch_model.bin.index.json")
VOCABULARY = ("tokenizer.json", "vocab.txt", "vocab.json")
PARTS = {"config.json": ("config.json",), "weights": WEIGHTS, "tokenizer": VOCABULARY}
HUB_TIMEOUT_S = 5.0


def check_bert(name: str) -> None:
    """Refuse a folder that lacks part of a model, and a name that is neither cached nor to be had from the hub.

    Raises:
        ConfigError: The part is named, or the places that were tried.
    """
    folder = Path(name)
    if not folder.is_dir():
        if folder.is_absolute() or name.startswith((".", "~")) or name.count("/") > 1:
            raise ConfigError(f"dataset.bert: {name}: no such folder; {BERT_EXPECTED}")
        _check_hub(name)
        return
    for part, names in PARTS.items():
        if not any((folder / file).is_file() for file in names):
            raise ConfigError(f"dataset.bert: {name} has no {part} ({', '.join(names)}); {BERT_EXPECTED}")


def _check_hub(name: str) -> None:
    """Ask the hub once for a name that is not cached; the loader alone would try for half a minute."""
    from huggingface_hub import constants, get_hf_file_metadata, hf_hub_url, try_to_load_from_cache
    from huggingface_hub.errors import HfHubHTTPError

    try:
        if all(any(isinstance(try_to_load_from_cache(name, f), str) for f in files) for files in PARTS.values()):
            return
        reason = "which HF_HUB_OFFLINE=1 forbids to ask"
        if not constants.HF_HUB_OFFLINE:
            get_hf_file_metadata(hf_hub_url(name, "config.json", endpoint=constants.ENDPOINT), timeout=HUB_TIMEOUT_S)
            return
    except (HfHubHTTPError, ValueError):
        return  # it answered, or this is not a name: the loader names the fault
    except Exception as error:  # noqa: BLE001 - of any HTTP library
        reason = f"which does not answer ({' '.join(str(error).split()) or type(error).__name__})"
    raise ConfigError(
        f"dataset.bert: looked for '{name}' in the cache {constants.HF_HUB_CACHE} and on the hub {constants.ENDPOINT},"
        f" {reason}; expected a folder with config.json, weights and tokenizer,"
        " or HF_HUB_OFFLINE=1 and a cache that has it"
    )


def tokenize(sentences: Sequence[str], bert: str, limit: int) -> tuple[list[IdArray], int]:
    """Return the first ``limit`` token IDs of every sentence, special tokens included, and the padding token's ID.

    Raises:
        ConfigError: There is no tokenizer of ``bert``, a name on the hub or a folder.
    """
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(bert, trust_remote_code=False)
    except Exception as error:  # of any library
        raise _not_loaded("tokenizer", bert, error) from error
    if not sentences:
        return [], 0
    found = tokenizer(list(sentences), truncation=True, max_length=limit)["input_ids"]
    return [np.array(ids, dtype=np.int64) for ids in found], int(tokenizer.pad_token_id or 0)


def check_tokens(tokens_s: Array, lengths_n: IdArray, ids: Sequence[str], bert: str, where: str) -> None:
    """Refuse token IDs, of samples one after the other, beyond a BERT's vocabulary.

    Raises:
        ConfigError: The size of its vocabulary cannot be read.
        DataError: File and sample are named.
    """
    from transformers import AutoConfig

    try:
        known = int(AutoConfig.from_pretrained(bert, trust_remote_code=False).vocab_size)
    except Exception as error:  # of any library
        raise _not_loaded("config.json", bert, error) from error
    bad = np.flatnonzero((tokens_s < 0) | (tokens_s >= known))
    if bad.size:
        sample = ids[int(np.searchsorted(np.cumsum(lengths_n), bad[0], side="right"))]
        raise DataError(
            f"{where}: sample '{sample}': token ID {tokens_s[bad[0]]}; expected 0 to {known - 1}, what '{bert}' knows"
        )


def _not_loaded(part: str, bert: str, error: Exception) -> ConfigError:
    return ConfigError(f"dataset.bert: cannot load the {part} of '{bert}': {first_line(error)}; {BERT_EXPECTED}")
