"""Synthetic pictures of the shape of the real ones, for runs without data.

A picture has P parts, a quadrant or a view each. Of C classes every part shows one of M patterns, M the smallest prime
with M^2 >= C: of class a + M b part k shows pattern (a + k b) mod M. So a part leaves about one class in M, and two
parts (with different numbers modulo M) determine the class. In three of ten parts the pattern is random.

Shapes: h and w = height and width of a picture; every part has its own.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from flexray.core.seeds import generator

if TYPE_CHECKING:
    from PIL.Image import Image

COARSE = 4
"""A pattern is a random picture of 4x4 pixels, enlarged."""
WRONG = 0.3
NOISE = 48.0
Pixels = npt.NDArray[np.float32]


def pattern_count(classes: int) -> int:
    """Return the smallest prime M with M^2 >= ``classes``."""
    count = 2
    while count * count < classes or any(count % d == 0 for d in range(2, count)):
        count += 1
    return count


def pattern_of(label: int, part: int, count: int) -> int:
    """Return the pattern, 0 .. ``count`` - 1, that a part shows of a class."""
    b, a = divmod(label, count)
    return (a + part * b) % count


@dataclass(frozen=True)
class StandIn:
    """Synthetic pictures of one split. Sample i is of class i mod ``classes``.

    Args:
        split: Name of the split; each has its own samples.
        samples: Number of samples.
        classes: Number of classes.
        size: (h, w) of a picture.
        grid: Rows and columns of a picture's parts.
        first: Number of its first part (0-based), for pictures that are one part of several.
        channels: 1 or 3.
    """

    split: str
    samples: int
    classes: int
    size: tuple[int, int]
    grid: tuple[int, int] = (1, 1)
    first: int = 0
    channels: int = 3

    def __len__(self) -> int:
        return self.samples

    def open(self, sample: int) -> Image:
        """Draw the picture of a sample: the same in every process and every run."""
        from PIL import Image

        draw = generator(0, "stand-in", self.split, sample, self.first)
        height, width = self.size
        rows, columns = self.grid
        count = pattern_count(self.classes)
        pixels = draw.standard_normal((height, width, self.channels), dtype=np.float32) * NOISE
        for place in range(rows * columns):
            shown = pattern_of(sample % self.classes, self.first + place, count)
            shown = int(draw.integers(count)) if draw.random() < WRONG else shown
            row, column = divmod(place, columns)
            part = (height // rows, width // columns)
            top, left = row * part[0], column * part[1]
            pixels[top : top + part[0], left : left + part[1]] += _pattern(
                self.first + place, shown, part, self.channels
            )
        picture = np.clip(pixels, 0, 255).astype(np.uint8)
        shade: Any = picture[:, :, 0] if self.channels == 1 else picture
        return Image.fromarray(shade)


@functools.lru_cache(maxsize=256)
def _pattern(part: int, number: int, size: tuple[int, int], channels: int) -> Pixels:
    """Return one pattern of a part, [h, w, channels] with values from 0 to 255."""
    from PIL import Image

    coarse = generator(0, "pattern", part, number).integers(256, size=(COARSE, COARSE, 3), dtype=np.uint8)
    enlarged = Image.fromarray(coarse).resize(size[::-1], Image.Resampling.BICUBIC)
    return np.asarray(enlarged, dtype=np.float32)[:, :, :channels]
