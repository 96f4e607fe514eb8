"""CMU-MOSEI and CMU-MOSI: sentiment of spoken sentences from video, audio and text.

Shapes: n = samples of a split, s = steps of all samples together.
"""

from __future__ import annotations

import logging
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from dataclasses import field as field_
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from flexray.core.checks import listed, whole, yes_or_no
from flexray.core.errors import ConfigError, near_match
from flexray.data.alignment import Alignment, check_alignment
from flexray.data.base import SPLITS, Array, ArrayFeatures, Features, FittedDataset, Outline, Presence, Split
from flexray.data.checks import check_path, check_split, check_task
from flexray.data.rows import make_task, numbered, scaled
from flexray.data.sentiment.features import StepFeatures, TokenFeatures
from flexray.data.sentiment.layouts import find_layout
from flexray.data.sentiment.samples import PARTIES
from flexray.data.sentiment.standin import StandIn
from flexray.data.sentiment.store import Store, open_store
from flexray.data.sentiment.tokens import check_bert, check_tokens, tokenize
from flexray.tasks import LabelArray, Loss, Task

log = logging.getLogger("flexray")

TEXTS = ("auto", "sentences", "features")
CACHE = "~/.cache/flexray"


@dataclass
class Sentiment(FittedDataset):
    """Three parties, video, audio and text, on the real data or, without a path, on a synthetic stand-in.

    On first use the data is cleaned and stored under ``cache``: samples that miss a modality are dropped by ID, NaN and
    infinity become 0, both are counted and logged. A party then maps its own files.

    Args:
        path: Folder or pickle; None: the stand-in.
        cache: Folder for cleaned data; None: ``~/.cache/flexray``.
        text: ``sentences`` or ``features``, for a bundle that has both.
        bert: Name or folder of the text party's pretrained BERT, whose tokenizer cuts the sentences. The stand-in
            ignores it.
        loss: ``l1``, ``mse``, or ``cross_entropy`` where the labels are class numbers.
        num_outputs: Number of classes; by default the number of different labels.
        max_steps: Most steps of video and audio; the rest is ignored.
        max_tokens: Most tokens of a text; the rest is ignored.
        standardize: Scale video, audio and text features to mean 0 and variance 1 over the training samples.
        alignment: ``union``: samples that miss a modality are kept, and that party does not have them. None or
            ``intersection``: they are dropped.
        split_seed: Draws the stand-in.
        standin: Arguments of :class:`flexray.data.sentiment.standin.StandIn`.
    """

    path: str | Path | None = None
    cache: str | Path | None = None
    text: str = "auto"
    bert: str = "bert-base-uncased"
    loss: Loss = "l1"
    num_outputs: int | None = None
    max_steps: int = 500
    max_tokens: int = 50
    standardize: bool = True
    split_seed: int = 0
    standin: Mapping[str, Any] = field_(default_factory=dict)
    alignment: Alignment | None = None

    def __post_init__(self) -> None:
        check_alignment(self.alignment)
        for key in ("path", "cache"):
            check_path(f"dataset.{key}", getattr(self, key))
        check_task(self.loss, self.num_outputs)
        check_split(0.0, self.split_seed)
        yes_or_no("dataset.standardize", self.standardize)
        for key in ("max_steps", "max_tokens"):
            whole(f"dataset.{key}", getattr(self, key), 3)
        if self.text not in TEXTS:
            raise ConfigError(f"dataset.text: unknown '{self.text}'{near_match(str(self.text), TEXTS)}")
        if not isinstance(self.bert, str) or not self.bert:
            raise ConfigError(f"dataset.bert: expected a model's name or folder, got {self.bert!r}")
        if self.path is None and self.loss == "cross_entropy":
            raise ConfigError("dataset.loss: the stand-in's labels are numbers; expected l1 or mse, got cross_entropy")
        try:
            self._standin = StandIn(**self.standin, seed=self.split_seed)
        except TypeError as error:
            expected = "expected train, val, test, steps, video, audio"
            raise ConfigError(f"dataset.standin: {expected}, got {reprlib.repr(self.standin)}") from error

    def outline(self) -> Outline:
        """Return names, sizes and task; the first use cleans and stores the data."""
        if self.path is None:
            return Outline(PARTIES, self._standin.sizes, self._task(), "synthetic")
        report = self._store.report
        if report["kinds"]["text"] in ("sentences", "tokens"):
            check_bert(self.bert)
        self._log(report)
        sizes: dict[Split, int] = {split: report["sizes"].get(split, 0) for split in SPLITS}
        task = self._task(*self._stored_labels().values())
        return Outline(PARTIES, sizes, task, "files", present=self._present(sizes))

    def _present(self, sizes: Mapping[Split, int]) -> Presence | None:
        """Return which modality has which sample of every split; None if each has all."""
        if self.alignment != "union":
            return None
        found: Presence = {
            split: np.array(self._store.array(split, "present")) if size else np.ones((0, len(PARTIES)), np.bool_)
            for split, size in sizes.items()
        }
        return None if all(here_nk.all() for here_nk in found.values()) else found

    def features(self, party: int, dtype: torch.dtype) -> Mapping[Split, Features]:
        """Map the features of one party; the text party's process alone cuts text into tokens."""
        name = PARTIES[party]
        if self.path is None:
            return self._standin.tokens() if name == "text" else self._standin.steps_of(name, dtype)
        kind = self._store.report["kinds"][name]
        if kind in ("sentences", "tokens"):
            return {split: self._tokens(split, kind) for split in self._splits}
        fitted = (self._fitted.get(name) or self._store.scaling(name)) if self.standardize else {}
        arrays = {split: self._store.array(split, name) for split in self._splits}
        if kind == "steps":
            return {
                split: StepFeatures(array, self._lengths(split, name), self.max_steps, dtype, fitted)
                for split, array in arrays.items()
            }
        return {
            split: ArrayFeatures(scaled(array, fitted) if fitted else array, dtype, fitted=fitted)
            for split, array in arrays.items()
        }

    def labels(self) -> Mapping[Split, LabelArray]:
        """Load the labels."""
        if self.path is None:
            return self._standin.labels()
        stored = self._stored_labels()
        task = self._task(*stored.values())
        labels: dict[Split, LabelArray] = {}
        for split, labels_n in stored.items():
            where = self._store.report["where"][split]["labels"]
            labels[split] = task.check_labels(numbered(labels_n, task, where), where, list(self.sample_ids(split)))
        return labels

    def sample_ids(self, split: Split) -> npt.NDArray[Any]:
        """Return the IDs of the samples: those of the data, or numbers for the stand-in."""
        if self.path is None or split not in self._splits:
            return np.arange(self._standin.sizes[split] if self.path is None else 0)
        return np.array(self._store.array(split, "ids"))

    @cached_property
    def _store(self) -> Store:
        cache = Path(self.cache or CACHE).expanduser()
        return open_store(find_layout(Path(str(self.path)), self.text), cache, self.text, self.alignment == "union")

    @property
    def _splits(self) -> list[Split]:
        return [split for split in SPLITS if split in self._store.report["sizes"]]

    def _task(self, *labels: Array) -> Task:
        task = make_task(
            self.loss, self.num_outputs, *labels, where=f"dataset.path: {self.path}", classes=self._classes
        )
        return replace(task, sentiment=not task.is_classification)

    def _stored_labels(self) -> dict[Split, Array]:
        return {split: np.array(self._store.array(split, "labels")) for split in self._splits}

    def _lengths(self, split: Split, name: str) -> npt.NDArray[np.int64]:
        return np.array(self._store.array(split, f"{name}_lengths"))

    def _tokens(self, split: Split, kind: str) -> TokenFeatures:
        offers, padding = {"pretrained": self.bert}, 0
        if kind == "tokens":
            tokens_s, lengths_n = self._store.array(split, "text"), self._lengths(split, "text")
        else:
            texts, padding = tokenize(self._store.sentences(split), self.bert, self.max_tokens)
            tokens_s, lengths_n = np.concatenate(texts), np.array([len(ids) for ids in texts])
        where = self._store.report["where"][split]["text"]
        check_tokens(tokens_s, lengths_n, list(self.sample_ids(split)), self.bert, where)
        return TokenFeatures(tokens_s, lengths_n, self.max_tokens, offers, padding)

    def _log(self, report: Mapping[str, Any]) -> None:
        """Log what was dropped and replaced."""
        for split, dropped in report["dropped"].items():
            for name, ids in dropped.items():
                known = listed(ids, 3)
                told = "samples have no" if self.alignment == "union" else "samples dropped that have no"
                log.warning("%s: %s: %d %s %s: %s", self.path, split, len(ids), told, name, known)
        for name, count in report["replaced"].items():
            if count:
                log.warning("%s: %s: %d values were NaN or infinite, now 0", self.path, name, count)
