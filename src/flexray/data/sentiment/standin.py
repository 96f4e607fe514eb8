"""A synthetic stand-in for MOSEI and MOSI: the same shapes, and a sentiment of which every party sees a part.

Each sample has an independent number per party, its mood there; the sentiment is their weighted sum plus noise. In
video and audio the mood shifts some features of every step, under noise; in text it sets the shares of words from a
positive and a negative list. So no party alone can predict the sentiment, and all together nearly can.

Shapes: n = samples of all splits, t = steps, d = features of a step.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from flexray.core.checks import FEW, MANY, whole
from flexray.core.seeds import generator
from flexray.data.base import SPLITS, Array, IdArray, Split
from flexray.data.sentiment.features import StepFeatures, TokenFeatures
from flexray.data.sentiment.samples import PARTIES

WEIGHTS = {"video": 0.7, "audio": 0.7, "text": 0.9}
"""Weights of the moods in the sentiment; text has most, as in the real data."""
NOISE = 0.15
LARGEST = 3.0
SHIFT = 1.0
VOCABULARY = 1000
FIRST, LAST = 1, 2
LISTED = 40
"""Words of the positive and of the negative list each; their IDs follow those of padding, first and last token."""
SHARE = 0.7
"""Part of a text's words that is from the lists."""


@dataclass(frozen=True)
class StandIn:
    """The stand-in's samples.

    Args:
        train: Training samples.
        val: Validation samples.
        test: Test samples.
        steps: Most steps of a sequence and most tokens of a text; the fewest are a fifth.
        video: Features of a step of video.
        audio: Features of a step of audio.
        seed: Draws all of it.
    """

    train: int = 800
    val: int = 0
    test: int = 400
    steps: int = 50
    video: int = 35
    audio: int = 74
    seed: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        for key, low in (("train", 2), ("val", 0), ("test", 2), ("steps", 5), ("video", 3), ("audio", 3)):
            whole(f"dataset.standin.{key}", getattr(self, key), low, MANY if key in SPLITS else FEW)

    @property
    def sizes(self) -> dict[Split, int]:
        """Samples of each split."""
        return {"train": self.train, "val": self.val, "test": self.test}

    def cut(self, array_n: Array) -> dict[Split, Array]:
        """Cut an array of all samples into the splits."""
        ends = np.cumsum(list(self.sizes.values()))
        return dict(zip(SPLITS, np.split(array_n, ends[:-1]), strict=True))

    def labels(self) -> dict[Split, Array]:
        """Return the sentiments: in [-3, 3], in thirds as in the real data."""
        noise_n = self._draw("noise").normal(size=sum(self.sizes.values())) * NOISE
        sum_n = sum((WEIGHTS[name] * self._mood(name) for name in PARTIES), start=noise_n)
        return self.cut(np.round(np.clip(sum_n, -LARGEST, LARGEST) * 3) / 3)

    def steps_of(self, name: str, dtype: torch.dtype) -> dict[Split, StepFeatures]:
        """Return the sequences of ``video`` or ``audio``."""
        width, draw = {"video": self.video, "audio": self.audio}[name], self._draw(name)
        lengths_n = self._lengths(draw)
        direction_d = SHIFT * draw.choice([-1.0, 1.0], size=width) * (np.arange(width) % 3 == 0)
        mood_s = np.repeat(self._mood(name), lengths_n)
        steps_sd = draw.standard_normal((len(mood_s), width), dtype=np.float32)
        steps_sd += (mood_s[:, None] * direction_d).astype(np.float32)
        split = self._split(steps_sd, lengths_n)
        return {name: StepFeatures(steps, lengths, self.steps, dtype) for name, (steps, lengths) in split.items()}

    def tokens(self) -> dict[Split, TokenFeatures]:
        """Return the texts as token IDs of a BERT with a vocabulary of :data:`VOCABULARY`."""
        draw = self._draw("text")
        lengths_n = self._lengths(draw)
        chance_s = np.repeat(1 / (1 + np.exp(-2.5 * self._mood("text"))), lengths_n)
        is_listed_s = draw.random(len(chance_s)) < SHARE
        is_negative_s = draw.random(len(chance_s)) >= chance_s
        start = LAST + 1
        listed_s = start + draw.integers(LISTED, size=len(chance_s)) + LISTED * is_negative_s
        tokens_s = np.where(is_listed_s, listed_s, draw.integers(start + 2 * LISTED, VOCABULARY, size=len(chance_s)))
        ends_n = np.cumsum(lengths_n)
        tokens_s[ends_n - lengths_n], tokens_s[ends_n - 1] = FIRST, LAST
        offers, split = {"vocab_size": VOCABULARY}, self._split(tokens_s, lengths_n)
        return {name: TokenFeatures(tokens, lengths, self.steps, offers) for name, (tokens, lengths) in split.items()}

    def _draw(self, *what: Any) -> np.random.Generator:
        return generator(self.seed, "sentiment stand-in", *what)

    def _mood(self, name: str) -> Array:
        return self._draw(name, "mood").normal(size=sum(self.sizes.values()))

    def _lengths(self, draw: np.random.Generator) -> IdArray:
        return draw.integers(max(3, self.steps // 5), self.steps, size=sum(self.sizes.values()), endpoint=True)

    def _split(self, steps_s: Array, lengths_n: IdArray) -> dict[Split, tuple[Array, IdArray]]:
        """Return the steps of every split, and the lengths of its samples."""
        lengths = self.cut(lengths_n)
        ends = np.cumsum([part.sum() for part in lengths.values()])
        return {s: (steps, lengths[s]) for s, steps in zip(SPLITS, np.split(steps_s, ends[:-1]), strict=True)}
