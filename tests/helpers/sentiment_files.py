"""Small pickles and folders in the exact layouts that MOSEI and MOSI come in."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np

SIZES = {"train": 6, "val": 2, "test": 3}
WIDTHS = {"video": 4, "audio": 3}
WORDS = ["good", "bad", "film", "very", "umm", "plot"]


def draw(split: str) -> np.random.Generator:
    return np.random.default_rng(len(split))


def samples(split: str) -> list[dict[str, Any]]:
    """Return plain samples of a split: lengths 2 to 5, every step with a number other than 0."""
    rng = draw(split)
    result = []
    for row in range(SIZES[split]):
        lengths = {name: int(rng.integers(2, 6)) for name in ("video", "audio", "text")}
        result.append({
            "id": f"{split}$_${row}",
            "label": float(rng.integers(-9, 10)) / 3,
            "words": list(rng.choice(WORDS, size=lengths["text"])),
            **{name: rng.normal(size=(lengths[name], width)) for name, width in WIDTHS.items()},
        })  # fmt: skip
    return result


def infomax(folder: Path, change: Any = None, aligned: bool = False, labels: int = 1) -> Path:
    """Write train.pkl, dev.pkl, test.pkl; ``change(split, samples)`` edits the plain samples first."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, name in (("train", "train"), ("val", "dev"), ("test", "test")):
        plain = samples(split)
        if change:
            change(split, plain)
        content = []
        for s in plain:
            words = [str(word) for word in s["words"]]
            lengths = () if aligned else (np.int64(len(s["video"])), np.int64(len(s["audio"])))
            label = np.full((1, labels), s["label"], dtype=np.float32)
            content.append(((words, s["video"], s["audio"], words, *lengths), label, s["id"]))
        (folder / f"{name}.pkl").write_bytes(pickle.dumps(content))
    return folder


def mmsa_content(steps: int = 6, aligned: bool = False) -> dict[str, Any]:
    content = {}
    for split, name in (("train", "train"), ("val", "valid"), ("test", "test")):
        plain = samples(split)
        arrays = {key: np.zeros((len(plain), steps, width)) for key, width in WIDTHS.items()}
        for row, s in enumerate(plain):
            for key in WIDTHS:
                arrays[key][row, : len(s[key])] = s[key]
        labels = np.array([s["label"] for s in plain], dtype=np.float32)
        content[name] = {
            "raw_text": np.array([" ".join(s["words"]) for s in plain]),
            "audio": arrays["audio"],
            "vision": arrays["video"],
            "id": [s["id"] for s in plain],
            "text": np.zeros((len(plain), steps, 768), dtype=np.float32),
            "text_bert": np.zeros((len(plain), 3, steps), dtype=np.int64),
            "annotations": ["Positive"] * len(plain),
            "classification_labels": np.zeros(len(plain)),
            "regression_labels": labels,
        }
        if not aligned:
            content[name]["audio_lengths"] = [len(s["audio"]) for s in plain]
            content[name]["vision_lengths"] = [len(s["video"]) for s in plain]
    return content


def mmsa(file: Path, content: Any = None, aligned: bool = False) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(pickle.dumps(mmsa_content(aligned=aligned) if content is None else content))
    return file


def arrays(folder: Path, splits: tuple[str, ...] = ("train", "val", "test"), steps: int = 6) -> Path:
    """Write the bundle layout: padded steps with lengths, sentences, IDs."""
    for split in splits:
        plain = samples(split)
        (folder / split).mkdir(parents=True)
        for name, width in WIDTHS.items():
            padded = np.full((len(plain), steps, width), 99.0)  # what follows the length does not count
            for row, s in enumerate(plain):
                padded[row, : len(s[name])] = s[name]
            np.save(folder / split / f"{name}.npy", padded)
            np.save(folder / split / f"{name}_lengths.npy", np.array([len(s[name]) for s in plain]))
        np.save(folder / split / "labels.npy", np.array([s["label"] for s in plain]))
        np.save(folder / split / "ids.npy", np.array([s["id"] for s in plain]))
        lines = ["row,sentence", *(f"{row},{' '.join(s['words'])}" for row, s in enumerate(plain))]
        (folder / split / "sentences.csv").write_text("\n".join(lines) + "\n")
    return folder


def bert(folder: Path, vocabulary: tuple[str, ...] = tuple(WORDS)) -> Path:
    """Write a tiny BERT with random weights and its tokenizer, as transformers saves them."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *vocabulary]
    tokenizer = Tokenizer(models.WordLevel({word: place for place, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(words), hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16,
        max_position_embeddings=12,
    )  # fmt: skip
    BertModel(config).save_pretrained(folder)
    return folder
